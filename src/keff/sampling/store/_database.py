"""The SQLite file of a run: its tables, its lock, and one clear line for whatever goes wrong with it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path as File

from keff.errors import StoreError

DATABASE = "paths.sqlite"
APPLICATION_ID = 0x6B656666  # "keff"

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
create table if not exists embeddings (
  item text not null, slot integer not null, path integer not null, attempt integer not null,
  vector blob not null,
  primary key (item, slot, path, attempt)
) strict;
create trigger if not exists paths_keep before update on paths
begin select raise(abort, 'committed paths never change'); end;
create trigger if not exists paths_stay before delete on paths
begin select raise(abort, 'committed paths never change'); end;
"""


@contextmanager
def clear_errors(folder: File) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "full" in text:
            hint = (
                "the disk is full: free some space and run the same command again; all "
                "committed paths are kept"
            )
        elif "locked" in text:
            hint = "another process is writing to it: wait for it, or use another --run folder"
        else:
            hint = f"{text} (is it a run of keff?)"
        raise StoreError(f"{folder / DATABASE}: {hint}") from error
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}; all committed paths are kept") from error


def connect(folder: File, *, readonly: bool) -> sqlite3.Connection:
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


def take_lock(folder: File) -> int:
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise StoreError(
            f"{folder}: another process is writing to this run: wait for it, or use another --run"
        ) from None
    return handle
