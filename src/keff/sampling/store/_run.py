"""A run folder, open for reading or writing.

Every finished path is committed at once, so a killed process loses nothing that it had received. A commit
reaches the operating system but not yet the disk; the log is forced to disk once a batch, so a power cut
loses at most the last batch. Committed paths never change: triggers in the database forbid it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path as File
from types import TracebackType
from typing import Self

from keff.errors import StoreError
from keff.files import force
from keff.policy import Policy, calibrated
from keff.protocol.server import Parameters
from keff.records import Item, Path
from keff.sampling import RUN_FILE
from keff.sampling.manifest import Config, Manifest
from keff.sampling.store._database import DATABASE, clear_errors, connect, take_lock
from keff.sampling.store._reads import Reads
from keff.sampling.store._seal import check_seal, seal
from keff.sampling.store.rows import ItemRow, item_row, path_row, storable
from keff.task import ScoredText
from keff.usercode import UNSAFE, VERIFIER, Stamp, stamps, without_code

# Paths between two forced writes to disk.
BATCH = 64


class Disk:
    """Syncs a run's write-ahead log to disk in a thread, once per batch."""

    def __init__(self, folder: File) -> None:
        self._folder = folder
        self._unsynced = 0
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._syncing: Future[None] = Future()
        self._syncing.set_result(None)

    def committed(self, paths: int) -> None:
        """Count committed paths, and start a sync after each batch unless one is running."""
        self._unsynced += paths
        if self._unsynced < BATCH or not self._syncing.done():
            return
        with clear_errors(self._folder):
            self._syncing.result()
            self._syncing = self._syncer.submit(force, self._folder / f"{DATABASE}-wal")
        self._unsynced = 0

    def close(self) -> None:
        """Wait for a running sync; safe to call twice."""
        self._syncer.shutdown()


class Run(Reads):
    """One run folder, open for reading or for writing. A context manager.

    Use ``Run.open`` to read and ``Run.write`` to create or resume. One process may write at a time.
    """

    def __init__(
        self, folder: File, manifest: Manifest, database: sqlite3.Connection, lock: int | None
    ) -> None:
        super().__init__(folder, manifest, database)
        self._lock = lock
        self._disk = Disk(folder)
        self._pending: int | None = None
        self._begun: list[ItemRow] = []

    @classmethod
    def open(cls, folder: str | File) -> Run:
        """Open an existing run for reading; raises StoreError when it is not one."""
        folder = File(folder)
        manifest = Manifest.read(folder)
        if not (folder / DATABASE).is_file():
            raise StoreError(f"{folder} has no {DATABASE}: nothing was sampled into it yet")
        with clear_errors(folder):
            check_seal(folder)
            database = connect(folder, readonly=True)
        return cls(folder, manifest, database, None)

    @classmethod
    def write(
        cls,
        folder: str | File,
        config: Config,
        *,
        n: int,
        k: int,
        policy: Policy | None = None,
        options: dict[str, object] | None = None,
        verifier: Stamp | None = None,
    ) -> Run:
        """Create a run, or resume one under an equal configuration (n, K and policy may change).

        ``verifier`` names what rates its paths, where something does.
        Raises StoreError that shows the differing fields when the configurations differ, when the policy is
        the same with the calibration of another plan, when the folder holds something else, or when another
        process is writing to it.
        """
        options = options or {}
        reader = None if policy is None else calibrated(policy)
        manifest = Manifest(
            config=config,
            n=n,
            k=k,
            policy=None if policy is None else policy.spec,
            calibration=None if reader is None else reader.digest,
            task_options=without_code(options),
            code=stamps(options) | ({} if verifier is None else {VERIFIER: verifier}),
            unsafe_exec=bool(options.get(UNSAFE)),
        )
        return cls._lock_and_open(File(folder), manifest)

    @classmethod
    def edit(cls, folder: str | File) -> Run:
        """Open an existing run for writing under its own configuration, to score it again.

        Its options name no code, and none is loaded.
        """
        folder = File(folder)
        return cls._lock_and_open(folder, Manifest.read(folder))

    @classmethod
    def _lock_and_open(cls, folder: File, manifest: Manifest) -> Run:
        with clear_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = take_lock(folder)
        try:
            if (folder / RUN_FILE).exists():
                old = Manifest.read(folder)
                _refuse_other(folder, old, manifest)
                with clear_errors(folder):
                    check_seal(folder)
                manifest = manifest.with_code_of(old)
            elif (folder / DATABASE).exists():
                raise StoreError(f"{folder} has a {DATABASE} but no {RUN_FILE}: use another folder")
            with clear_errors(folder):
                # First: it takes the seal away, and a kill before the next line leaves a folder to resume.
                manifest.write(folder)
                database = connect(folder, readonly=False)
        except BaseException:
            os.close(lock)
            raise
        return cls(folder, manifest, database, lock)

    def note_parameters(self, parameters: Parameters) -> None:
        """Record what the server taught about the fields of a request."""
        if parameters and self.manifest.parameters != parameters:
            self.replace_manifest(self.manifest.model_copy(update={"parameters": dict(parameters)}))

    def replace_manifest(self, manifest: Manifest) -> None:
        """Write another manifest of this run."""
        self.manifest = manifest
        with clear_errors(self.folder):
            manifest.write(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Force everything to disk, seal the run and release the folder; safe to call twice."""
        self._disk.close()
        lock, self._lock = self._lock, None
        with suppress(sqlite3.Error):
            if lock is not None:
                self._database.execute("pragma wal_checkpoint(truncate)")
        self._database.close()
        if lock is not None:
            with suppress(OSError):  # on a full disk the run stays unsealed, as a kill leaves it
                seal(self.folder, self.manifest)
            os.close(lock)

    @contextmanager
    def committed(self) -> Generator[None]:
        """Return a context whose inserts are committed together, or not at all."""
        if self._pending is not None:
            yield
            return
        self._pending = 0
        try:
            with clear_errors(self.folder), self._database:
                yield
                for row in self._begun:
                    self._put(row)
            self._begun.clear()
            self._disk.committed(self._pending)
        finally:
            self._pending = None

    def put_items(self, items: Sequence[Item]) -> None:
        """Store items in order; raises StoreError when an id is stored with another content."""
        with self.committed():
            for item in items:
                self._put(item_row(item))

    def begin(self, row: ItemRow) -> None:
        """Store an item with the next commit."""
        self._begun.append(row)

    def _put(self, row: ItemRow) -> None:
        new = self._database.execute(
            "insert into items select ?, (select coalesce(max(rowid), 0) from items), ?, ?, ?, ?, ? "
            "where true on conflict do nothing",
            row,
        )
        if not new.rowcount:
            self._refuse_changed([row])

    def add(self, paths: Sequence[Path]) -> None:
        """Commit paths; stored ones stay as they are."""
        embedded = [
            (path.item, path.slot, path.index, path.attempt, path.completion.embedding)
            for path in paths
            if path.completion is not None and path.completion.embedding is not None
        ]
        self.insert({"paths": [path_row(path) for path in paths], "embeddings": embedded})

    def insert(self, tables: Mapping[str, Sequence[tuple[object, ...]]]) -> None:
        """Insert rows of another run with the same configuration; stored ones stay."""
        with self.committed():
            for name, rows in tables.items():
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    sql = f"insert into {name} values ({marks}) on conflict do nothing"
                    self._database.executemany(sql, rows)
            self._pending = (self._pending or 0) + len(tables.get("paths", ()))

    def add_ratings(self, ratings: Sequence[tuple[Path, float, float]], version: str) -> None:
        """Store confidences in paths with rating seconds, under the verifier's version."""
        rows = [(p.item, p.slot, p.index, p.attempt, version, *rating) for p, *rating in ratings]
        self.insert({"confidences": rows})

    def add_scores(self, scores: Sequence[tuple[Path, ScoredText]], version: str) -> None:
        """Store extracted answers and scores under a task version; newer ones replace older."""
        rows = [
            (
                *(p.item, p.slot, p.index, p.attempt, version),
                *(storable(j.answer), storable(j.key), j.correct, j.rule),
            )
            for p, j in scores
        ]
        with self.committed():
            self._database.executemany(
                "insert or replace into scores values (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )


def _refuse_other(folder: File, old: Manifest, new: Manifest) -> None:
    changed = old.config.differences(new.config)
    if changed:
        raise StoreError(
            f"{folder} was sampled under another configuration ({'; '.join(changed)}): "
            "use another --run folder, or the old settings"
        )
    both = old.calibration and new.calibration
    if both and old.policy == new.policy and old.calibration != new.calibration:
        raise StoreError(
            f"{folder} was sampled by {old.policy} with the calibration of another plan: "
            "use that plan, or another --run folder"
        )
