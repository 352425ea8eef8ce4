"""Atomic file writing (temporary file, sync, rename), and reading of TOML."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from keff.errors import UsageError

_COUNT = itertools.count()


@contextmanager
def whole(file: Path) -> Generator[Path]:
    """Return a context with a draft path, which replaces the file at its end.

    An error or a kill leaves the file as it was. The draft stands in the same folder with the same ending:
    a rename is one step within a file system. A link is followed, and the rights of an older file stay. What
    is no plain file (a pipe, a terminal) is written in place. Raises OSError that names the file.
    """
    try:
        target = file.resolve()
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            yield file
            return
        draft = target.with_name(f".keff.{os.getpid()}.{next(_COUNT)}{target.suffix[:20]}")
        try:
            yield draft
            if mode is not None:
                draft.chmod(stat.S_IMODE(mode))
            force(draft)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from None


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 file atomically; lone surrogates become ``?``."""
    with whole(file) as draft:
        draft.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def toml_of(file: Path) -> dict[str, object]:
    """Return a TOML file's content; raises UsageError that names the file."""
    import tomllib  # most commands read none

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None


def force(file: Path) -> None:
    """Sync a file to disk."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
