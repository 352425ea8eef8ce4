"""SQLite database of a run: tables, lock, and errors as one clear line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path as File

from keff.errors import StoreError

DATABASE = "paths.sqlite"
APPLICATION_ID = 0x6B656666  # "keff"

# Runs of older versions have no such table.
CONFIDENCES = """create table if not exists confidences (
  item text not null, slot integer not null, path integer not null, attempt integer not null,
  version text not null, value real not null, seconds real not null,
  primary key (item, slot, path, attempt, version)
) strict;"""
TABLES = f"""
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
create table if not exists embeddings (
  item text not null, slot integer not null, path integer not null, attempt integer not null,
  vector blob not null,
  primary key (item, slot, path, attempt)
) strict;
{CONFIDENCES}
create index if not exists paths_failed on paths (item) where error is not null;
create trigger if not exists paths_keep before update on paths
begin select raise(abort, 'committed paths never change'); end;
create trigger if not exists paths_stay before delete on paths
begin select raise(abort, 'committed paths never change'); end;
"""


# Paths with their scores. The log-probability of an answer is known only when the path is kept, and that is
# never changed: it is a confidence beside the verifier's, and its name stands where their version does.
ANSWER = "logprob_answer"
JUDGED = (
    "(select *, (select value from confidences where (item, slot, path, attempt, version) = "
    f"(paths.item, paths.slot, paths.path, paths.attempt, '{ANSWER}')) as {ANSWER} "
    "from paths left join scores using (item, slot, path, attempt))"
)


@contextmanager
def clear_errors(folder: File) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:  # where not even the log's index fits, SQLite names no cause
            hint = (
                "the disk is full: free some space and run the same command again; all "
                "committed paths are kept"
            )
        elif "unable to open" in text or "readonly" in text:
            hint = (
                "its log of committed paths cannot be opened there: copy the folder to a disk that "
                "can be written"
            )
        elif "locked" in text:
            hint = "another process is writing to it: wait for it, or use another folder"
        else:
            hint = f"{' '.join(text.split())} (is it a run of keff? if so, restore the folder from a copy)"
        raise StoreError(f"{folder / DATABASE}: {hint}") from error
    except UnicodeDecodeError as error:  # SQLite's own message, with bytes of a damaged page
        raise damaged(folder, error) from error
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}; all committed paths are kept") from error


def damaged(folder: File, why: object) -> StoreError:
    """Return the error for what no run of keff holds."""
    return StoreError(f"{folder / DATABASE} is damaged ({why}): restore the folder from a copy")


def connect(folder: File, *, readonly: bool) -> sqlite3.Connection:
    file = folder.resolve() / DATABASE
    database, tables = _open(file, "ro") if readonly else _open(file, "rwc")
    (owner,) = database.execute("pragma application_id").fetchone()
    if tables and owner != APPLICATION_ID:
        database.close()
        raise StoreError(f"{file} is an SQLite file of another program: use another folder")
    if readonly:
        # What a run of an older version lacks; or all, where a full disk left a file without a table.
        dated = tables and not database.execute("pragma table_info(confidences)").fetchone()
        lacking = CONFIDENCES if dated else "" if tables else TABLES
        database.executescript(lacking.replace("create table if not exists ", "create temp table "))
    else:
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        database.execute(f"pragma application_id = {APPLICATION_ID}")
        database.executescript(f"begin; {TABLES} commit;")
    return database


def _open(file: File, mode: str) -> tuple[sqlite3.Connection, int]:
    """Open the file and check its tables; immutable on read-only media, where no log can be made.

    A log that is there may hold committed paths: with it the file is never taken as immutable.
    """
    log = file.with_name(f"{DATABASE}-wal")
    try:
        return _connect(file, f"mode={mode}")
    except sqlite3.OperationalError:
        if mode != "ro" or (log.exists() and log.stat().st_size):
            raise
        return _connect(file, "mode=ro&immutable=1")


def _connect(file: File, how: str) -> tuple[sqlite3.Connection, int]:
    # Another process may hold the lock while it commits thousands of paths to a slow disk.
    # What reads may be closed by another thread: the one that collects a record, long after its last text.
    own = "mode=ro" not in how
    database = sqlite3.connect(f"{file.as_uri()}?{how}", uri=True, timeout=30, check_same_thread=own)
    database.row_factory = sqlite3.Row
    try:
        (tables,) = database.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.Error:
        database.close()
        raise
    return database, tables


def take_lock(folder: File) -> int:
    try:
        import fcntl
    except ImportError:
        line = (
            "paths are drawn on Linux or macOS, whose locks keep a run whole; what is there can be read here"
        )
        raise StoreError(f"{folder}: {line}") from None
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise StoreError(
            f"{folder}: another process is writing to this run: wait for it, or use another --run"
        ) from None
    return handle
