"""The items of a job in little memory: in the form in which a run keeps them, objects only when asked."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Sequence
from typing import cast, overload

from keff.records import Item
from keff.sampling.store.rows import ItemRow, item_of, item_row
from keff.task import Task, ranked


class Selection(Sequence[Item]):
    """Items in order, each a few hundred bytes; what it gives is as it comes back from a run.

    So a tuple in ``gold`` or ``meta`` is a list.
    """

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._packed = packed

    @classmethod
    def of(cls, items: Iterable[Item]) -> Selection:
        """Pack items."""
        return items if isinstance(items, cls) else cls([_pack(item) for item in items])

    @classmethod
    def drawn(cls, task: Task, n: int | None, seed: int) -> Selection:
        """Draw items as ``keff.task.select`` does, without holding all of them."""
        return cls(ranked(task, n, seed, _pack, _unpack))

    def __len__(self) -> int:
        """Return how many items there are."""
        return len(self._packed)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Selection: ...

    def __getitem__(self, index: int | slice) -> Item | Selection:
        """Return one item, or a part of them."""
        if isinstance(index, slice):
            return Selection(self._packed[index])
        return _unpack(self._packed[index])

    def parts(self, size: int) -> Iterator[list[ItemRow]]:
        """Yield the items as rows, ``size`` at a time."""
        for start in range(0, len(self), size):
            yield [_row(packed) for packed in self._packed[start : start + size]]


def _pack(item: Item) -> bytes:
    # Marshal, for it takes a third of the time of JSON or pickle; what it wrote never leaves the process.
    return marshal.dumps(item_row(item))


def _row(packed: bytes) -> ItemRow:
    return cast("ItemRow", marshal.loads(packed))


def _unpack(packed: bytes) -> Item:
    return item_of(_row(packed))
