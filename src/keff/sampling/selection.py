"""Items of a job in compact form, decoded on demand."""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import cast, overload

from keff.errors import StoreError
from keff.files import write_text
from keff.narrow import fields
from keff.records import Item, stable_hash
from keff.sampling.store import Run
from keff.sampling.store.rows import ItemRow, item_of, item_row
from keff.task import Task, ranked

# What the items of a run were drawn from.
NOTE = "items.json"


class Selection(Sequence[Item]):
    """A sequence of items, stored compactly and decoded on access.

    So a tuple in ``gold`` or ``meta`` is a list. ``key`` names what they were drawn from, where known;
    ``folder`` is the run that they were read from, and ``is_of_the_run`` says that they are all of it.
    """

    is_of_the_run = False

    def __init__(self, packed: Sequence[bytes], key: str | None = None, folder: Path | None = None) -> None:
        self._packed_rows = packed
        self.key, self.folder = key, folder

    @classmethod
    def of(cls, items: Iterable[Item]) -> Selection:
        """Return a compact sequence of these items."""
        return items if isinstance(items, cls) else cls([_pack(item) for item in items])

    @classmethod
    def drawn(cls, task: Task, n: int | None, seed: int) -> Selection:
        """Return a compact sequence of items chosen as by ``keff.task.select``."""
        return cls(ranked(task, n, seed, _pack, _unpack))

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._packed_rows)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...

    def __getitem__(self, index: int | slice) -> Item | Selection:
        """Return one item, or a part of them."""
        if isinstance(index, slice):
            return Selection(self._packed_rows[index], folder=self.folder)
        return self.item(_row(self._packed_rows[index]))

    def item(self, row: ItemRow) -> Item:
        """Return the item of a row; raises StoreError for a damaged one."""
        return item_of(row, self.folder)

    def parts(self, size: int) -> Iterator[list[ItemRow]]:
        """Yield the items as rows, ``size`` at a time."""
        for start in range(0, len(self), size):
            yield [_row(packed) for packed in self._packed_rows[start : start + size]]


class StoredItems(Selection):
    """The items of an earlier run on the same data, read from the run on access."""

    is_of_the_run = True

    def __init__(self, folder: Path, size: int, key: str) -> None:
        self.folder, self._size, self.key = folder, size, key

    @cached_property
    def _packed_rows(self) -> Sequence[bytes]:  # pyright: ignore[reportIncompatibleVariableOverride]
        with Run.open(self.folder) as run:
            return [marshal.dumps(row) for row in run.item_rows()]

    def __len__(self) -> int:
        """Return the number of items."""
        return self._size


def choose(task: Task, n: int | None, seed: int, shard: tuple[int, int], folder: Path) -> Selection:
    """Return a job's items; from its run, without reading data, where that has the same ones."""
    key = _key(task, n, seed, shard)
    if key is not None and (size := _noted_size(folder, key)):
        return StoredItems(folder, size, key)
    number, of = shard
    chosen = Selection.drawn(task, n, seed)[number - 1 :: of]
    chosen.key = key
    return chosen


def remember(run: Run, items: Selection) -> None:
    """Store beside a run the hash of its items' source, if it holds exactly these items."""
    if items.key is None or items.is_of_the_run:
        return
    rows = run.item_rows()
    if all(mine == next(rows, None) for part in items.parts(1000) for mine in part) and not any(rows):
        write_text(run.folder / NOTE, json.dumps({"key": items.key, "items": len(items)}) + "\n")


def _noted_size(folder: Path, key: str) -> int:
    """Return the number of items of a run with the same source hash; else 0."""
    try:
        note = fields(json.loads((folder / NOTE).read_text("utf-8")))
        if note.get("key") != key:
            return 0
        with Run.open(folder) as run:
            size = run.count_items()
    except (OSError, ValueError, StoreError):
        return 0
    return size if note.get("items") == size else 0


def _key(task: Task, n: int | None, seed: int, shard: tuple[int, int]) -> str | None:
    """Return a hash of all that determines the items: version, task, options, file, draw.

    None for data that are no file, and for tasks of others, whose code may change under one version.
    """
    data = getattr(task, "data", None)
    if not isinstance(data, str) or not type(task).__module__.startswith("keff."):
        return None
    try:
        with Path(data).open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    options = repr(sorted(vars(task).items()))
    return stable_hash(version("keff"), type(task).__qualname__, options, content, n, seed, shard)


def _pack(item: Item) -> bytes:
    # Marshal, for it takes a third of the time of JSON or pickle; what it wrote never leaves the process.
    return marshal.dumps(item_row(item))


def _row(packed: bytes) -> ItemRow:
    return cast("ItemRow", marshal.loads(packed))


def _unpack(packed: bytes) -> Item:
    return item_of(_row(packed))
