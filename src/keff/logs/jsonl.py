"""JSON Lines with names of your own: one row per path, or per question with lists (--columns)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs._columns import Layout, lay_out, parse_columns
from keff.logs._lines import first_row, json_lines
from keff.logs._rows import Row, said_by, tabled
from keff.logs._values import optional_text
from keff.records import Note

OTHERS = (
    ("evaluation_id", "sample_id", "evaluation"),
    ("index", "sample_score"),
    ("all_answers",),
    ("doc_id", "resps"),
    ("task", "method", "instance_id", "K"),
)
"""First lines of formats that have readers of their own."""


class JsonTable:
    """Reader of JSON objects, one per line, whose fields are the columns of a table.

    Which field means what is in ``keff.logs._columns``: named by ``columns``, or known by an obvious name.
    The
    first line says which fields there are.
    """

    name = "jsonl"

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        self.columns = columns

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        layout = self._layout(path)
        return layout if isinstance(layout, str) else None

    def info(self, path: Path) -> LogInfo:
        """Return what the log says about itself."""
        row, layout = first_row(path), self._layout(path)
        if isinstance(row, str) or isinstance(layout, str):
            return LogInfo()
        return said_by(row | {"model": optional_text(row.get(layout.single.get("model", "model")))})

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        layout = self._layout(path)
        if isinstance(layout, str):
            raise LogError(f"{path}: {layout}")
        for note in layout.notes:
            tell(note)
        heard: list[Note] = []

        def rows() -> Iterator[tuple[str, Row]]:
            for where, row in json_lines(path, heard.append):
                lacking = sorted(layout.needed - row.keys())
                if lacking:
                    raise LogError(f"{where}: lacks {', '.join(lacking)} (it has {', '.join(row)})")
                yield where, row

        yield from tabled(rows, layout, texts=texts)
        for note in dict.fromkeys(heard):
            tell(note)

    def _layout(self, path: Path) -> Layout | str:
        row = first_row(path)
        if isinstance(row, str):
            return row
        if self.columns is None and any(set(names) <= row.keys() for names in OTHERS):
            return "it has a reader of its own"
        return lay_out(list(row), self.columns)


def log(columns: str | Mapping[str, str] | None = None) -> JsonTable:
    """Make the reader; ``columns`` maps words to fields, as in ``id=question_id,answer=prediction``."""
    return JsonTable(parse_columns(columns) if isinstance(columns, str) else columns)
