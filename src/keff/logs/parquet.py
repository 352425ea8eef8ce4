"""Parquet: one row per question with lists as in the JSONL, or a table with the columns of the CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs.parts.bulk import PATHS_OF_A_PART, Bulk, only_part
from keff.logs.parts.coding import NotPlainError
from keff.logs.parts.columns import Layout, lay_out, parse_columns
from keff.logs.parts.parquet import columns_of, is_parquet, parts_of, rows_of
from keff.logs.parts.tabled import by_model, once_each, question_of, said_by, tabled, unpacked
from keff.logs.parts.values import optional_text

# Columns of frames that have readers of their own.
OTHERS = (
    ("sample_id", "id", "epoch", "target"),
    ("doc", "model_response"),
    ("predictions", "gold", "full_prompt"),
)
TEXTS = ("text", "all_texts")


class ParquetLog:
    """Reader of Parquet files, in batches of rows."""

    name = "parquet"

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        self.columns = columns

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if not is_parquet(path):
            return "not a Parquet file"
        layout = self._layout(path)
        return layout if isinstance(layout, str) else None

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        empty: tuple[str, dict[str, object]] = ("", {})
        row = next(_rows(path, texts=False), empty)[1]
        layout = self._layout(path)
        model = "model" if isinstance(layout, str | None) else layout.single.get("model", "model")
        return said_by(row | {"model": optional_text(row.get(model))})

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        layout = self._layout(path)
        if isinstance(layout, str):
            raise LogError(f"{path}: {layout}")
        if layout is None:
            rows = _rows(path, texts=texts)
            return once_each(
                (where, by_model(question_of(where, unpacked(row), texts=texts), row)) for where, row in rows
            )
        for note in layout.notes:
            tell(note)
        needed = texts or not {"answer", "correct"} & {*layout.single, *layout.numbered}
        return tabled(lambda: _rows(path, texts=needed, layout=layout), layout, texts=texts)

    def bulk(self, path: Path, *, texts: bool = False) -> Bulk | None:
        """Return the columns of a file with lists; None where it must be read question by question.

        So too where texts are wanted: single rows are slow to read again.
        """
        return only_part(self.parts(path, texts=texts, most=sys.maxsize))

    def parts(self, path: Path, *, texts: bool = False, most: int = PATHS_OF_A_PART) -> Iterator[Bulk]:
        """Yield the columns of a file with lists part by part; see ``PartsLog``."""
        if texts or self._layout(path) is not None:
            raise NotPlainError
        yield from parts_of(path, most)

    def _layout(self, path: Path) -> Layout | str | None:
        """Return where the words stand, why there is no answer in it, or None for the lists of the JSONL."""
        names = columns_of(path)
        if self.columns is None and {"id", "all_answers"} <= set(names):
            return None
        if self.columns is None and any(set(other) <= set(names) for other in OTHERS):
            return "it has a reader of its own"
        return lay_out(names, self.columns)


def _rows(
    path: Path, *, texts: bool, layout: Layout | None = None
) -> Iterator[tuple[str, dict[str, object]]]:
    long = {
        *TEXTS,
        *(() if layout is None else (layout.single.get("text"), *layout.numbered.get("text", ()))),
    }
    names = [name for name in columns_of(path) if texts or name not in long]
    return rows_of(path, names)


def log(columns: str | Mapping[str, str] | None = None) -> ParquetLog:
    """Make the reader; ``columns`` maps words to columns, as in ``id=question_id,answer=prediction``."""
    return ParquetLog(parse_columns(columns) if isinstance(columns, str) else columns)
