"""The seal of a closed run: a hash of its manifest and database, by which later damage is noticed."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path as File

from keff.errors import StoreError
from keff.sampling import RUN_FILE
from keff.sampling.manifest import Manifest, sealed
from keff.sampling.store._database import DATABASE


def seal(folder: File, manifest: Manifest) -> None:
    """Seal a run whose database is closed; not where a reader kept its log from being emptied."""
    if not _has_log(folder):
        manifest.write(folder, _hash_of(folder))


def check_seal(folder: File) -> None:
    """Raise StoreError where a closed run is no longer what keff closed.

    A writer takes the seal away before it changes anything: who reads beside it looks again, and finds none.
    """
    held = Manifest.read(folder).seal
    while held is not None:
        if not _has_log(folder) and _sealed_now(folder) == held:
            return
        last, held = held, Manifest.read(folder).seal
        if last == held:
            raise StoreError(
                f"{folder} was changed or damaged after keff closed it: {RUN_FILE} and {DATABASE} no longer "
                "match. Restore the folder from a copy, or sample into another folder. If you changed "
                f"it on purpose, remove the seal from {RUN_FILE}"
            )


def _sealed_now(folder: File) -> str | None:
    try:
        return sealed((folder / RUN_FILE).read_text("utf-8"), _hash_of(folder))
    except (ValueError, RecursionError):  # what pydantic reads and Python does not: keff wrote no such text
        return None


def _has_log(folder: File) -> bool:
    """Return whether commits stand in the log beside the database."""
    log = folder / f"{DATABASE}-wal"
    return log.exists() and log.stat().st_size > 0


def _hash_of(folder: File) -> str:
    file = (folder / DATABASE).resolve()
    if not file.is_file():
        return ""
    known = file.stat()
    return _hash(file, known.st_ino, known.st_size, known.st_mtime_ns)


# A command opens a run several times, and its database may have gigabytes.
@lru_cache(maxsize=256)
def _hash(file: File, *_: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
