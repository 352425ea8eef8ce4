"""The run folder: what was drawn into it, and what it still owes.

Every finished path is committed at once, so a killed process loses nothing that it had received. A commit
reaches the operating system but not yet the disk; the log is forced to disk once a batch, so a power cut
loses at most the last batch. Committed paths never change: triggers in the database forbid it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path as File
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from keff.errors import StoreError
from keff.records import Item, Path
from keff.sampling.integrity import Integrity
from keff.sampling.manifest import Config, Manifest
from keff.sampling.store import _counts
from keff.sampling.store._database import DATABASE, clear_errors, connect, take_lock
from keff.sampling.store._disk import Disk
from keff.sampling.store._spans import Span, Wanted, missing
from keff.sampling.store.rows import ITEM, ItemRow, Scored, item_of, item_row, path_row, scored, storable
from keff.task import Judged
from keff.usercode import UNSAFE, stamps, without_code

Float16Array = npt.NDArray[np.float16]

AMONG = "in (select value from json_each(?))"
"""One of a JSON list of ids: so many in one question, and one text of it for any number of them."""


class Run:
    """One run folder, open for reading or for writing. A context manager.

    Use ``Run.open`` to read and ``Run.write`` to create or resume. One process may write at a time.
    """

    def __init__(
        self, folder: File, manifest: Manifest, database: sqlite3.Connection, lock: int | None
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._database = database
        self._lock = lock
        self._disk = Disk(folder)

    @classmethod
    def open(cls, folder: File) -> Run:
        """Open an existing run for reading; raises StoreError when it is not one."""
        manifest = Manifest.read(folder)
        if not (folder / DATABASE).is_file():
            raise StoreError(f"{folder} has no {DATABASE}: nothing was sampled into it yet")
        with clear_errors(folder):
            database = connect(folder, readonly=True)
        return cls(folder, manifest, database, None)

    @classmethod
    def write(
        cls,
        folder: File,
        config: Config,
        *,
        n: int,
        k: int,
        policy: str | None = None,
        options: dict[str, object] | None = None,
    ) -> Run:
        """Create a run, or resume one under an equal configuration (n, K and policy may change).

        Raises StoreError that shows the differing fields when the configurations differ, when the folder
        holds something else, or when another process is writing to it.
        """
        with clear_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = take_lock(folder)
        try:
            manifest = _manifest(config, options or {}, n=n, k=k, policy=policy)
            if (folder / "manifest.json").exists():
                old = Manifest.read(folder)
                _refuse_other(folder, old.config, config)
                manifest = manifest.with_code_of(old)
            elif (folder / DATABASE).exists():
                raise StoreError(f"{folder} has a {DATABASE} but no manifest.json: use another --run folder")
            with clear_errors(folder):
                if not (folder / "manifest.json").exists():
                    # First, so that a kill before the next line leaves a folder that can be resumed.
                    manifest.write(folder)
                database = connect(folder, readonly=False)
                manifest.write(folder)
        except BaseException:
            os.close(lock)
            raise
        return cls(folder, manifest, database, lock)

    @classmethod
    def edit(cls, folder: File) -> Run:
        """Open an existing run for writing under its own configuration, to score it again.

        Its options name no code, and none is loaded.
        """
        manifest = Manifest.read(folder)
        return cls.write(
            folder,
            manifest.config,
            n=manifest.n,
            k=manifest.k,
            policy=manifest.policy,
            options=manifest.task_options,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Force everything to disk and release the folder; safe to call twice."""
        self._disk.close()
        with suppress(sqlite3.Error):
            if self._lock is not None:
                self._database.execute("pragma wal_checkpoint(truncate)")
        self._database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def put_items(self, items: Sequence[Item]) -> None:
        """Keep items in order; raises StoreError when an item of the same id holds something else."""
        with clear_errors(self.folder), self._database:
            for item in items:
                row = item_row(item)
                new = self._database.execute(
                    "insert into items select ?, (select coalesce(max(rowid), 0) from items), ?, ?, ?, ?, ? "
                    "where true on conflict do nothing",
                    row,
                )
                if not new.rowcount:
                    self._refuse_changed([row])

    def _refuse_changed(self, rows: Sequence[ItemRow]) -> None:
        """Raise StoreError when an item that the run holds is not one of ``rows``."""
        given = {row[0]: row for row in rows}
        for held in self._rows(f"select {ITEM} from items where item {AMONG}", (_names(given),)):
            if tuple(held) != given[held["item"]]:
                raise StoreError(
                    f"{self.folder}: item {held['item']} is not the item that this run holds under that id; "
                    "the data changed: use another --run folder"
                )

    def whole(self, rows: Sequence[ItemRow], wanted: Wanted) -> set[str]:
        """Return the ids of those items of which every wanted path was kept at the first attempt.

        In one question to the database for many items. Raises StoreError when one of them holds something
        else than the run does.
        """
        names = _names(row[0] for row in rows)
        share = " or ".join(f"slot = {slot} and path < {count}" for slot, count in wanted)
        complete = self._rows(
            f"select item from paths where item {AMONG} and attempt = 0 and ({share}) group by item "
            f"having count(*) = ? except select item from paths where item {AMONG} and error is not null",
            (names, sum(count for _, count in wanted), names),
        )
        ids = {row["item"] for row in complete}
        self._refuse_changed([row for row in rows if row[0] in ids])
        return ids

    def items(self) -> Iterator[Item]:
        """Yield the items in the order in which they were put."""
        for row in self._rows(f"select {ITEM} from items order by position", ()):
            try:
                yield item_of(tuple(row))
            except (ValueError, TypeError, RecursionError) as error:
                raise StoreError(
                    f"{self.folder}: item {row['item']!r} is damaged ({error}): restore the folder "
                    "from a copy"
                ) from None

    def add(self, paths: Sequence[Path]) -> None:
        """Commit paths; one that is already kept stays as it was."""
        with clear_errors(self.folder), self._database:
            self._database.executemany(
                f"insert into paths values ({', '.join('?' * 17)}) on conflict do nothing",
                [path_row(path) for path in paths],
            )
            self._database.executemany(
                "insert into embeddings values (?, ?, ?, ?, ?) on conflict do nothing",
                [
                    (path.item, path.slot, path.index, path.attempt, path.completion.embedding)
                    for path in paths
                    if path.completion is not None and path.completion.embedding is not None
                ],
            )
        self._disk.committed(len(paths))

    def add_scores(self, scores: Sequence[tuple[Path, Judged]], version: str) -> None:
        """Keep what was read from paths under a task version; newer readings replace older ones."""
        rows = [
            (
                *(p.item, p.slot, p.index, p.attempt, version),
                *(storable(j.answer), storable(j.key), j.correct, j.rule),
            )
            for p, j in scores
        ]
        with clear_errors(self.folder), self._database:
            self._database.executemany(
                "insert or replace into scores values (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )

    def stale(self, version: str) -> set[str]:
        """Return the ids of the items with a completed path that has no score under a task version."""
        (counts,) = self._rows(_counts.SCORED, (version,))
        if counts["kept"] == counts["scored"]:
            return set()
        return {row["item"] for row in self._rows(_counts.STALE, (version,))}

    def owed(self, item: str, wanted: Wanted) -> list[Span]:
        """Return wanted minus kept for one item, as spans of neighbouring paths with the same attempt.

        ``wanted`` lists (slot, number of paths).
        """
        rows = self._rows(
            "select slot, path, max(attempt) as attempt, min(error is not null) as failed "
            "from paths where item = ? group by slot, path",
            (item,),
        )
        seen = {(row["slot"], row["path"]): (row["attempt"], bool(row["failed"])) for row in rows}
        return missing(item, seen, wanted)

    def kept(self, item: str) -> list[Scored]:
        """Return the completed paths of one item, by slot and index."""
        rows = self._rows(
            "select paths.*, version, answer, key, correct, rule from paths "
            "left join scores using (item, slot, path, attempt) "
            "where item = ? and error is null order by slot, path",
            (item,),
        )
        try:
            return [scored(row) for row in rows]
        except ValueError as error:
            raise StoreError(
                f"{self.folder}: item {item!r} is damaged ({error}): restore the folder from a copy"
            ) from None

    def embeddings(self) -> Iterator[tuple[str, Float16Array]]:
        """Yield each item's id with the hidden states of its K paths [K, D], items in order; float16.

        One item is in memory at a time. K and the paths' order are those of launch; D is the engine's.
        Items that lack some of their paths or vectors are left out, as they are from a vote.
        """
        for item in self.embedded():
            yield item, self._vectors(item)

    def embedded(self) -> list[str]:
        """Return the ids of the items that have a hidden state for each of their K paths, in order."""
        complete = self._rows(
            "select item from (select item from embeddings group by item having count(*) = ?) "
            "join items using (item) order by position",
            (self.manifest.k,),
        )
        return [row["item"] for row in complete]

    def _vectors(self, item: str) -> Float16Array:
        order = {slot: place for place, slot in enumerate(self.manifest.config.templates)}
        rows = self._rows("select slot, path, vector from embeddings where item = ?", (item,))
        kept = sorted(rows, key=lambda row: (row["path"], order.get(row["slot"], 0)))
        return np.stack([np.frombuffer(row["vector"], "<f2") for row in kept])

    def has_paths(self) -> bool:
        """Return whether the run holds a completed path."""
        return next(self._rows("select 1 from paths where error is null limit 1", ()), None) is not None

    def count(self) -> dict[str, int]:
        """Return how many items, completed paths, failed attempts and generated tokens the run holds."""
        (row,) = self._rows(_counts.HELD, ())
        return dict(row)

    def integrity(self) -> Integrity:
        """Count copies, truncations, unread answers and failures, in one pass over the paths."""
        (pairs,) = self._rows(_counts.PAIRS, ())
        (paths,) = self._rows(_counts.SIGNS, ())
        return Integrity(
            paths["paths"],
            pairs["pairs"],
            pairs["identical"],
            paths["truncated"],
            paths["unread"],
            paths["failed"],
        )

    def _rows(self, sql: str, values: tuple[object, ...]) -> Iterator[sqlite3.Row]:
        with clear_errors(self.folder):
            # Not the cursor itself: a reader that stops early would close it after the database.
            yield from (row for row in self._database.execute(sql, values))


def _manifest(config: Config, options: dict[str, object], *, n: int, k: int, policy: str | None) -> Manifest:
    return Manifest(
        config=config,
        n=n,
        k=k,
        policy=policy,
        task_options=without_code(options),
        code=stamps(options),
        unsafe_exec=bool(options.get(UNSAFE)),
    )


def _names(ids: Iterable[str]) -> str:
    return json.dumps(list(ids), ensure_ascii=False)


def _refuse_other(folder: File, old: Config, new: Config) -> None:
    changed = old.differences(new)
    if changed:
        raise StoreError(
            f"{folder} was sampled under another configuration ({'; '.join(changed)}): "
            "use another --run folder, or the old settings"
        )
