"""Parquet: one row per question (list columns as in the JSONL) or one row per path (columns of the CSV)."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs._rows import grouped, once_each, question_of, said_by
from keff.plugins import missing_extra

MAGIC = b"PAR1"
TEXTS = ("text", "all_texts")


class ParquetLog:
    """Reader of Parquet files, in batches of rows."""

    name = "parquet"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not path.is_file():
            return "not a file"
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                return "not a Parquet file"
        names = _columns(path)
        if "id" not in names or not {"answer", "all_answers"} & set(names):
            return "it has no columns id and answer (or all_answers)"
        return None

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        empty: tuple[str, dict[str, Any]] = ("", {})
        row = next(_rows(path, texts=False), empty)[1]
        return said_by(row)

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        del tell
        rows = _rows(path, texts=texts)
        if "all_answers" in _columns(path):
            return once_each((where, question_of(where, _whole(row), texts=texts)) for where, row in rows)
        return grouped(rows, texts=texts)


def _columns(path: Path) -> list[str]:
    arrow = _arrow()
    try:
        return arrow.columns(path)
    except arrow.FAILURES as error:
        raise _damaged(path, error) from None


def _rows(path: Path, *, texts: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    arrow = _arrow()
    names = [name for name in _columns(path) if texts or name not in TEXTS]
    try:
        for number, row in enumerate(arrow.stream(path, names), 1):
            yield f"{path}: row {number}", row
    except arrow.FAILURES as error:
        raise _damaged(path, error) from None


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """Unpack what an export had to pack: other fields, and a gold answer that is no text.

    A column of the same name that others filled stays what it is.
    """
    try:
        packed: Any = json.loads(row.get("meta") or "{}")
    except (TypeError, ValueError):
        return row
    if not isinstance(packed, dict):
        return row
    rest = {name: value for name, value in row.items() if name != "meta"}
    return rest | cast("dict[str, Any]", packed)


def _damaged(path: Path, error: Exception) -> LogError:
    return LogError(f"{path}: damaged or cut off ({str(error).splitlines()[0]}): write the file again")


def _arrow() -> Any:
    try:
        return importlib.import_module("keff.logs._pyarrow")
    except ImportError as error:
        raise missing_extra(error, "a Parquet file") from error


def log() -> ParquetLog:
    """Make the reader."""
    return ParquetLog()
