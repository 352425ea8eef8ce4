"""Parquet files where they may be damaged, hostile, or unreadable for want of an extra."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from keff.errors import LogError
from keff.logs.parts.bulk import Bulk
from keff.logs.parts.coding import NotPlainError
from keff.plugins import missing_extra

MAGIC = b"PAR1"


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def columns_of(path: Path) -> list[str]:
    """Return the names of the columns; raises LogError for a damaged file."""
    arrow = _arrow()
    try:
        return arrow.columns(path)
    except arrow.FAILURES as error:
        raise _damaged(path, error) from None


def rows_of(path: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (place, row) with the named columns; raises LogError for a damaged file or a bomb."""
    arrow = _arrow()
    try:
        arrow.check(path)
        for number, row in enumerate(arrow.stream(path, list(names)), 1):
            yield f"{path}: row {number}", row
    except arrow.FAILURES as error:
        raise _damaged(path, error) from None


def parts_of(path: Path, most: int) -> Iterator[Bulk]:
    """Yield the columns of questions with lists part by part; see ``PartsLog``.

    Raises NotPlainError where rows must be read one by one, and LogError for a damaged file.
    """
    arrow = _arrow()
    try:
        arrow.check(path)
        yield from arrow.parts(path, most)
    except OSError as error:
        raise _damaged(path, error) from None
    except arrow.FAILURES:
        raise NotPlainError from None


def _damaged(path: Path, error: Exception) -> LogError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return LogError(f"{path}: damaged or cut off ({reason}): write the file again")


def _arrow() -> ModuleType:
    try:
        return importlib.import_module("keff.logs.parts.pyarrow")
    except ImportError as error:
        raise missing_extra(error, "a Parquet file") from error
