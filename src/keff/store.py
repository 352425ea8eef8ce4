"""Run: a folder with ``manifest.json`` and ``paths.sqlite`` that loses nothing and repeats nothing.

Every finished path is committed at once, so a killed process loses nothing that it had received. A commit
reaches the operating system but not yet the disk; the log is forced to disk once a batch, so a power cut
loses at most the last batch. Committed paths never change: triggers in the database forbid it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path as File
from types import TracebackType
from typing import Any, Self

from keff.errors import StoreError
from keff.integrity import LONG, Integrity
from keff.manifest import Config, Manifest
from keff.records import Completion, Item, Logprobs, Path
from keff.task import Judged

DATABASE = "paths.sqlite"
APPLICATION_ID = 0x6B656666  # "keff"
BATCH = 64
"""Paths between two forced writes to disk."""

TABLES = """
create table if not exists items (
  item text primary key, position integer not null, messages text not null, gold text not null,
  space text not null, cluster text not null, meta text not null
) strict;
create table if not exists paths (
  item text not null, slot integer not null, path integer not null, attempt integer not null,
  seed integer not null, text text, reasoning text, refusal text, finish text,
  tokens integer not null, prompt_tokens integer not null, cached_tokens integer not null,
  logprob_mean real, logprob_bottom real, logprob_total real, seconds real not null, error text,
  primary key (item, slot, path, attempt)
) strict;
create table if not exists scores (
  item text not null, slot integer not null, path integer not null, attempt integer not null,
  version text not null, answer text, key text, correct integer, rule text not null,
  primary key (item, slot, path, attempt)
) strict;
create trigger if not exists paths_keep before update on paths
begin select raise(abort, 'committed paths never change'); end;
create trigger if not exists paths_stay before delete on paths
begin select raise(abort, 'committed paths never change'); end;
"""


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


@dataclass(frozen=True, slots=True)
class Scored:
    """One kept path with its score (None: not scored under any version yet)."""

    path: Path
    completion: Completion
    judged: Judged | None
    version: str | None


@contextmanager
def _clear_errors(folder: File) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text:
            hint = "the disk is full: free some space and run the same command again; all committed paths are kept"
        elif "locked" in text:
            hint = "another process is writing to it: wait for it, or use another --run folder"
        else:
            hint = f"{text} (is it a run of keff?)"
        raise StoreError(f"{folder / DATABASE}: {hint}") from error
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}; all committed paths are kept") from error


def _scored(row: sqlite3.Row) -> Scored:
    logprobs = None
    if row["logprob_mean"] is not None:
        logprobs = Logprobs(row["logprob_mean"], row["logprob_bottom"], row["logprob_total"])
    completion = Completion(
        text=row["text"],
        finish=row["finish"],
        tokens=row["tokens"],
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["cached_tokens"],
        reasoning=row["reasoning"],
        refusal=row["refusal"],
        logprobs=logprobs,
        seconds=row["seconds"],
    )
    path = Path(row["item"], row["slot"], row["path"], row["attempt"], row["seed"], completion)
    judged = None
    if row["rule"] is not None:
        judged = Judged(row["answer"], row["key"], row["correct"], row["rule"])
    return Scored(path, completion, judged, row["version"])


def _path_row(path: Path) -> tuple[Any, ...]:
    done = path.completion or Completion(text="")
    summary = done.logprobs
    return (
        path.item,
        path.slot,
        path.index,
        path.attempt,
        path.seed,
        None if path.completion is None else _storable(done.text),
        _storable(done.reasoning),
        _storable(done.refusal),
        None if path.completion is None else done.finish,
        done.tokens,
        done.prompt_tokens,
        done.cached_tokens,
        summary.mean if summary else None,
        summary.bottom if summary else None,
        summary.total if summary else None,
        done.seconds,
        path.error,
    )


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

    @classmethod
    def open(cls, folder: File) -> Run:
        """Open an existing run for reading; raises StoreError when it is not one."""
        manifest = Manifest.read(folder)
        if not (folder / DATABASE).is_file():
            raise StoreError(f"{folder} has no {DATABASE}: nothing was sampled into it yet")
        with _clear_errors(folder):
            database = _connect(folder, readonly=True)
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
        options: dict[str, Any] | None = None,
    ) -> Run:
        """Create a run, or resume one under an equal configuration (n, K and policy may change).

        Raises StoreError that shows the differing fields when the configurations differ, when the folder
        holds something else, or when another process is writing to it.
        """
        with _clear_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(folder)
        try:
            manifest = Manifest(config=config, n=n, k=k, policy=policy, task_options=options or {})
            if (folder / "manifest.json").exists():
                _refuse_other(folder, Manifest.read(folder).config, config)
            elif (folder / DATABASE).exists():
                raise StoreError(f"{folder} has a {DATABASE} but no manifest.json: use another --run folder")
            with _clear_errors(folder):
                database = _connect(folder, readonly=False)
                manifest.write(folder)
        except BaseException:
            os.close(lock)
            raise
        return cls(folder, manifest, database, lock)

    @classmethod
    def edit(cls, folder: File) -> Run:
        """Open an existing run for writing under its own configuration, to score it again."""
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
        with suppress(sqlite3.Error):
            if self._lock is not None:
                self._database.execute("pragma wal_checkpoint(truncate)")
        self._database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def put_items(self, items: Sequence[Item]) -> None:
        """Keep items in order; raises StoreError when an item of the same id holds something else."""
        with _clear_errors(self.folder), self._database:
            (start,) = self._database.execute("select coalesce(max(position) + 1, 0) from items").fetchone()
            for offset, item in enumerate(items):
                row = (_dump(item.messages), _dump(item.gold), item.space, item.cluster, _dump(item.meta))
                old = self._database.execute(
                    "select messages, gold, space, cluster, meta from items where item = ?", (item.id,)
                ).fetchone()
                if old is None:
                    self._database.execute(
                        "insert into items values (?, ?, ?, ?, ?, ?, ?)", (item.id, start + offset, *row)
                    )
                elif tuple(old) != row:
                    raise StoreError(
                        f"{self.folder}: item {item.id} is not the item that this run holds under that id; "
                        "the data changed: use another --run folder"
                    )

    def items(self) -> Iterator[Item]:
        """Yield the items in the order in which they were put."""
        for row in self._rows("select * from items order by position", ()):
            yield Item(
                row["item"],
                tuple(json.loads(row["messages"])),
                json.loads(row["gold"]),
                row["space"],
                row["cluster"],
                json.loads(row["meta"]),
            )

    def add(self, paths: Sequence[Path]) -> None:
        """Commit paths; one that is already kept stays as it was."""
        with _clear_errors(self.folder), self._database:
            self._database.executemany(
                f"insert into paths values ({', '.join('?' * 17)}) on conflict do nothing",
                [_path_row(path) for path in paths],
            )
        self._unsynced += len(paths)
        if self._unsynced >= BATCH:
            self._sync()

    def add_scores(self, scores: Sequence[tuple[Path, Judged]], version: str) -> None:
        """Keep what was read from paths under a task version; newer readings replace older ones."""
        rows = [
            (p.item, p.slot, p.index, p.attempt, version, j.answer, j.key, j.correct, j.rule)
            for p, j in scores
        ]
        with _clear_errors(self.folder), self._database:
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
        return [
            _scored(row)
            for row in self._rows(
                "select paths.*, version, answer, key, correct, rule from paths "
                "left join scores using (item, slot, path, attempt) "
                "where item = ? and error is null order by slot, path",
                (item,),
            )
        ]

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

    def _rows(self, sql: str, values: tuple[Any, ...]) -> Iterator[sqlite3.Row]:
        with _clear_errors(self.folder):
            yield from self._database.execute(sql, values)

    def _sync(self) -> None:
        with _clear_errors(self.folder):
            wal = os.open(self.folder / f"{DATABASE}-wal", os.O_RDONLY)
            try:
                os.fsync(wal)
            finally:
                os.close(wal)
        self._unsynced = 0


def _storable(text: str | None) -> str | None:
    # A server may send half a surrogate pair, which UTF-8 cannot hold.
    return None if text is None else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=dict)


def _connect(folder: File, *, readonly: bool) -> sqlite3.Connection:
    mode = "ro" if readonly else "rwc"
    file = folder.resolve() / DATABASE
    database = sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True, timeout=30)
    database.row_factory = sqlite3.Row
    (tables,) = database.execute("select count(*) from sqlite_master").fetchone()
    (owner,) = database.execute("pragma application_id").fetchone()
    if tables and owner != APPLICATION_ID:
        database.close()
        raise StoreError(f"{file} is an SQLite file of another program: use another --run folder")
    if not readonly:
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        database.execute(f"pragma application_id = {APPLICATION_ID}")
        database.executescript(TABLES)
    return database


def _take_lock(folder: File) -> int:
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise StoreError(
            f"{folder}: another process is writing to this run: wait for it, or use another --run"
        ) from None
    return handle


def _refuse_other(folder: File, old: Config, new: Config) -> None:
    changed = old.differences(new)
    if changed:
        raise StoreError(
            f"{folder} was sampled under another configuration ({'; '.join(changed)}): "
            "use another --run folder, or the old settings"
        )
