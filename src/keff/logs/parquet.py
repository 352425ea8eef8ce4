"""Parquet: one row per question with lists as in the JSONL, or a table with the columns of the CSV."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from keff.errors import LogError
from keff.files import first_bytes
from keff.log import LogInfo, NoteSink, Question, address, ignore, path_text
from keff.logs.parts.batches import Batching, ColumnBatch
from keff.logs.parts.columns import Layout, lay_out
from keff.logs.parts.tabled import (
    Row,
    TableLog,
    first_of,
    model_of,
    once_each,
    question_of,
    said_by,
    unpacked,
)
from keff.plugins import import_extra


def matching(path: Path) -> list[Path]:
    """Return a file, or all files that match a pattern."""
    return [path] if path.exists() else list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))


def is_parquet(path: Path) -> bool:
    """Return whether a file begins with Parquet's magic bytes; patterns and URLs are assumed to."""
    if not path.exists():
        return address(path) is not None or bool(matching(path))
    return first_bytes(path).startswith(b"PAR1")


def columns_of(path: Path) -> list[str]:
    """Return the names of the columns; raises LogError for a damaged file."""
    with _reading(path) as arrow:
        return arrow.columns(path)


def rows_of(path: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (place, row) with the named columns; raises LogError for damage or a decompression bomb."""
    with _reading(path) as arrow:
        arrow.row_groups(path)  # for what it refuses
        yield from arrow.stream(path, list(names))


@contextmanager
def _reading(path: Path) -> Generator[ModuleType]:
    """Return the module that reads Parquet, in a context that turns its errors into LogError."""
    arrow = _arrow()
    try:
        yield arrow
    except arrow.FAILURES as error:
        raise LogError(
            f"{path_text(path)}: damaged or cut off ({reason_of(error)}): write the file again"
        ) from None


def reason_of(error: Exception) -> str:
    """Return the first line of Arrow's error message, or the error's name."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _arrow() -> ModuleType:
    return import_extra("keff.logs.parts.pyarrow", "a Parquet file")


# Columns that may be large and that no vote needs: read only when texts are asked for.
TEXTS = ("text", "all_texts")


class ParquetLog(TableLog):
    """Reader of Parquet files, in batches of rows."""

    name = "parquet"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not is_parquet(path):
            return "not a Parquet file" if path.exists() else "no such file"
        return None if self._has_lists(path) else super().refuses(path)

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        if self._has_lists(path):
            return said_by(first_of(_rows(path, TEXTS)))
        return super().info(path)

    def questions(self, path: Path, *, texts: bool = False, tell: NoteSink = ignore) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        if not self._has_lists(path):
            return super().questions(path, texts=texts, tell=tell)
        return once_each(
            (where, question_of(where, unpacked(row), texts=texts, part=model_of(row)))
            for where, row in _rows(path, () if texts else TEXTS)
        )

    def batches(self, path: Path, how: Batching, tell: NoteSink) -> Iterator[ColumnBatch | Question]:
        """Yield questions by columns where they hold plain values; see ``BatchedLog``."""
        if not self._has_lists(path):
            yield from self.questions(path, texts=how.again, tell=tell)
            return
        with _reading(path) as arrow:
            yield from arrow.questions(path, how)

    def row_groups(self, path: Path) -> int:
        """Return how many parts of a file can be read in parallel by columns; 0: it must be read whole."""
        return len(_arrow().row_groups(path)) if self._has_lists(path) else 0

    def layout(self, path: Path) -> Layout | str:
        """Return the columns by meaning, or why the file is no table of answers."""
        return lay_out(columns_of(path), self.columns)

    def rows(self, path: Path, layout: Layout, tell: NoteSink, *, texts: bool) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every row."""
        del tell
        columns = layout.single.get("text", "text"), *layout.numbered.get("text", ())
        return _rows(path, () if texts else (*TEXTS, *columns))

    def _has_lists(self, path: Path) -> bool:
        """Return whether the file has one row per question with lists, as the JSONL."""
        return self.columns is None and {"id", "all_answers"} <= set(columns_of(path))


def _rows(path: Path, without: Sequence[str]) -> Iterator[tuple[str, dict[str, object]]]:
    return rows_of(path, [name for name in columns_of(path) if name not in without])


log = ParquetLog
