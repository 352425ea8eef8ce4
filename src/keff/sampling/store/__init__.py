"""Run: a folder with ``manifest.json`` and ``paths.sqlite`` that loses nothing and repeats nothing.

Every finished path is committed at once, so a killed process loses nothing that it had received. A commit
reaches the operating system but not yet the disk; the log is forced to disk once a batch, so a power cut
loses at most the last batch. Committed paths never change: triggers in the database forbid it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path as File
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from keff.errors import StoreError
from keff.records import Item, Path
from keff.sampling.integrity import LONG, Integrity
from keff.sampling.manifest import Config, Manifest
from keff.sampling.store._database import DATABASE, clear_errors, connect, take_lock
from keff.sampling.store._rows import Scored, item_of, path_row, scored, storable
from keff.stats.votes import FloatArray
from keff.task import Judged
from keff.usercode import UNSAFE, stamps, without_code

__all__ = ["DATABASE", "Run", "Scored", "Span"]

Float16Array = npt.NDArray[np.float16]

BATCH = 64
"""Paths between two forced writes to disk."""


@dataclass(frozen=True, slots=True)
class Span:
    """Paths ``start`` to ``start + count - 1`` of one item and slot that are still to be drawn.

    ``attempt`` is the number of this try, the same for all of them.
    """

    item: str
    slot: int
    start: int
    count: int
    attempt: int = 0


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
        self._unsynced = 0
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._syncing: Future[None] = Future()
        self._syncing.set_result(None)

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
        self._syncer.shutdown()
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
                row = (_dump(item.messages), _dump(item.gold), item.space, item.cluster, _dump(item.meta))
                new = self._database.execute(
                    "insert into items select ?, (select coalesce(max(rowid), 0) from items), ?, ?, ?, ?, ? "
                    "where true on conflict do nothing",
                    (item.id, *row),
                )
                if not new.rowcount:
                    self._refuse_changed(item.id, row)

    def _refuse_changed(self, item: str, row: tuple[str, ...]) -> None:
        columns = "messages, gold, space, cluster, meta"
        (old,) = self._database.execute(f"select {columns} from items where item = ?", (item,))
        if tuple(old) != row:
            raise StoreError(
                f"{self.folder}: item {item} is not the item that this run holds under that id; "
                "the data changed: use another --run folder"
            )

    def items(self) -> Iterator[Item]:
        """Yield the items in the order in which they were put."""
        for row in self._rows("select * from items order by position", ()):
            try:
                yield item_of(row)
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
        self._unsynced += len(paths)
        if self._unsynced >= BATCH:
            self._sync_soon()

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

    def owed(self, item: str, wanted: Sequence[tuple[int, int]]) -> list[Span]:
        """Return wanted minus kept for one item, as spans of neighbouring paths with the same attempt.

        ``wanted`` lists (slot, number of paths).
        """
        rows = self._rows(
            "select slot, path, max(attempt) as attempt, min(error is not null) as failed "
            "from paths where item = ? group by slot, path",
            (item,),
        )
        seen = {(row["slot"], row["path"]): (row["attempt"], row["failed"]) for row in rows}
        spans: list[Span] = []
        for slot, count in wanted:
            for index in range(count):
                attempt, failed = seen.get((slot, index), (-1, 1))
                if not failed:
                    continue
                last = spans[-1] if spans else None
                if last and (last.slot, last.start + last.count, last.attempt) == (slot, index, attempt + 1):
                    spans[-1] = Span(item, slot, last.start, last.count + 1, attempt + 1)
                else:
                    spans.append(Span(item, slot, index, 1, attempt + 1))
        return spans

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

    def embeddings(self) -> FloatArray | None:
        """Return the hidden states of the paths [items, K, D], items and paths in order; None without any.

        Items that lack some of their paths or vectors are left out, as they are from a vote.
        """
        items = self.embedded()
        return np.stack([self.vectors(item) for item in items]).astype(np.float64) if items else None

    def embedded(self) -> list[str]:
        """Return the ids of the items that have a hidden state for each of their K paths, in order."""
        complete = self._rows(
            "select item from embeddings join items using (item) "
            "group by item having count(*) = ? order by position",
            (self.manifest.k,),
        )
        return [row["item"] for row in complete]

    def vectors(self, item: str) -> Float16Array:
        """Return the hidden states of one item's paths [K, D], float16, in launch order."""
        order = {slot: place for place, slot in enumerate(self.manifest.config.templates)}
        rows = self._rows("select slot, path, vector from embeddings where item = ?", (item,))
        found = sorted(rows, key=lambda row: (row["path"], order.get(row["slot"], 0)))
        return np.stack([np.frombuffer(row["vector"], "<f2") for row in found])

    def count(self) -> dict[str, int]:
        """Return how many items, completed paths, failed attempts and generated tokens the run holds."""
        (row,) = self._rows(
            "select (select count(*) from items) as items, "
            "count(*) filter (where error is null) as paths, "
            "count(*) filter (where error is not null) as errors, "
            "coalesce(sum(tokens), 0) as tokens, coalesce(sum(prompt_tokens), 0) as prompt_tokens, "
            "coalesce(sum(cached_tokens), 0) as cached_tokens from paths",
            (),
        )
        return dict(row)

    def integrity(self) -> Integrity:
        """Count copies, truncations, unread answers and failures, in one pass over the paths."""
        (pairs,) = self._rows(
            "select coalesce(sum(same * (same - 1) / 2), 0) as identical, "
            "(select coalesce(sum(m * (m - 1) / 2), 0) from (select count(*) as m from paths "
            f"where error is null and tokens >= {LONG} group by item, slot)) as pairs from "
            f"(select count(*) as same from paths where error is null and tokens >= {LONG} "
            "group by item, slot, text)",
            (),
        )
        (paths,) = self._rows(
            "select count(*) filter (where error is null) as paths, "
            "count(*) filter (where finish = 'length') as truncated, "
            "count(*) filter (where error is not null) as failed, "
            "(select count(*) from scores where key is null) as unread from paths",
            (),
        )
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

    def _sync_soon(self) -> None:
        """Start to force the log to disk, unless that is still under way; the requests go on meanwhile."""
        if not self._syncing.done():
            return
        with clear_errors(self.folder):
            self._syncing.result()
            self._syncing = self._syncer.submit(_force, self.folder / f"{DATABASE}-wal")
        self._unsynced = 0


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


def _force(file: File) -> None:
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=dict)


def _refuse_other(folder: File, old: Config, new: Config) -> None:
    changed = old.differences(new)
    if changed:
        raise StoreError(
            f"{folder} was sampled under another configuration ({'; '.join(changed)}): "
            "use another --run folder, or the old settings"
        )
