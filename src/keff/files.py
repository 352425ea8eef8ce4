"""Atomic file writing (temporary file, sync, rename), reading of TOML and of what many look at."""

from __future__ import annotations

import codecs
import io
import itertools
import os
import platform
import re
import stat
import time
import warnings
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import lru_cache, wraps
from pathlib import Path
from typing import BinaryIO, TypeVar

from keff.errors import UsageError

_COUNT = itertools.count()
# Drafts of this process that are being written.
_OPEN: set[Path] = set()
# A process id means something on its own machine only.
_HOST = f"{zlib.crc32(platform.node().encode()):08x}"
# Host, process and number: the one form of a draft's name.
_DRAFT = re.compile(r"\.keff\.([0-9a-f]{8})\.(\d{1,10})\.\d{1,10}(?:\..{0,20})?", re.DOTALL)


@contextmanager
def draft_of(file: Path) -> Generator[Path]:
    """Return a context with a draft path, which replaces the file at its end.

    An error or a kill leaves the file as it was. The draft stands in the same folder with the same ending:
    a rename is one step within a file system. Drafts that ended processes left in the folder are removed
    first; one that cannot be removed is warned of by name. A link is followed, and the rights of an older
    file stay. What is no plain file (a pipe, a terminal) is written in place. Raises OSError that names the
    file.
    """
    try:
        target = file.resolve()
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            yield file
            return
        _remove_left(target.parent)
        draft = target.with_name(f".keff.{_HOST}.{os.getpid()}.{next(_COUNT)}{target.suffix[:20]}")
        _OPEN.add(draft)
        try:
            yield draft
            if mode is not None:
                draft.chmod(stat.S_IMODE(mode))
            force(draft)
            draft.replace(target)
        finally:
            _OPEN.discard(draft)
            _remove(draft)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from None


def _remove_left(folder: Path) -> None:
    """Remove the drafts in a folder whose process is gone."""
    with suppress(OSError):  # a folder that cannot be listed is said by the write itself
        for draft in folder.glob(".keff.*"):
            named = _DRAFT.fullmatch(draft.name)
            if named is not None and named[1] == _HOST and draft not in _OPEN and _is_gone(int(named[2])):
                _remove(draft)


def _remove(draft: Path) -> None:
    try:
        draft.unlink(missing_ok=True)
    except OSError as error:
        if draft.exists():  # on a read-only file system there never was one
            warnings.warn(f"the draft {draft} could not be removed: {error.strerror}", stacklevel=3)


def _is_gone(process: int) -> bool:
    """Return whether no other process of this machine has a number."""
    if process == os.getpid():
        return True  # a draft of this process that is being written is known as such
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # it belongs to somebody else
    return False


def write_text(file: Path, text: str) -> None:
    """Write a UTF-8 file atomically; lone surrogates become ``?``."""
    with draft_of(file) as draft:
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


def is_utf16(path: Path) -> bool:
    """Return whether a file begins with the byte order mark of UTF-16."""
    return first_bytes(path)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


T = TypeVar("T")

# Nanoseconds that two changes may be apart and have the same time, on the coarsest file systems.
TICK = 2 * 10**9


def held_while_unchanged(read: Callable[[Path], T]) -> Callable[[Path], T]:
    """Return a function that reads a file once, though every reader of logs looks at it.

    It holds what it returned last, which nobody may change, until the file changes. A file that was written
    just now is read each time: what is written next may have the same size and the same time.
    """

    @lru_cache(maxsize=1)
    def held(path: Path, stamp: tuple[int, ...]) -> T:  # noqa: ARG001
        return read(path)

    @wraps(read)
    def look(path: Path) -> T:
        if not path.exists():
            return read(path)
        state = path.stat()
        if time.time_ns() - state.st_mtime_ns < TICK:
            return read(path)
        return held(path, (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size))

    return look


# So much of a file is read to see what it is.
HEAD = 2**22
# Bytes read at a time: a line with 32 long texts is put together from as many reads as it needs.
READ = 2**20


@held_while_unchanged
def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, up to 4 MiB; b"" where it is none."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(HEAD)


def open_bytes(path: Path) -> BinaryIO:
    """Return a file's bytes as a stream; a file that is no larger than its head is read once for all."""
    head = first_bytes(path)
    return io.BytesIO(head) if 0 < len(head) < HEAD else path.open("rb", READ)


# How a compressed file begins, and what unpacks it beside itself.
PACKED = {
    b"\x1f\x8b": "gunzip -k",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"BZh": "bunzip2 -k",
    b"\xfd7zXZ": "unxz -k",
    b"PK\x03\x04": "unzip",
}


def no_log(path: Path, head: bytes) -> str | None:
    """Return what a file is instead of a log, and what to do; None where its head does not say."""
    if command := next((command for mark, command in PACKED.items() if head.startswith(mark)), None):
        return f"{path} is compressed: {command} {path}, and read what that leaves"
    if head.startswith(b"version https://git-lfs"):
        return f"{path} is a pointer of Git LFS, not the file: git lfs pull fetches it"
    if re.match(rb"(?i)\s*<(?:!doctype|\?xml|html)", head):
        return f"{path} is a web page, not a log: download the file itself, not the page that shows it"
    return None
