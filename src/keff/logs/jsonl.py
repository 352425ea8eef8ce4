"""JSON lines or array with names of your own: one row per path, or question with lists (--columns)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import Tell
from keff.logs.parts.columns import Layout, lay_out
from keff.logs.parts.lines import NO_OBJECT, first_object, objects
from keff.logs.parts.tabled import Row, TableLog
from keff.logs.parts.values import is_structured

# Of a list of lists, of objects by id, and of rows below a name.
NO_ROWS = (
    "no column id, for its entries are no rows: write an object for each question, one per line, such as "
    '{"id": "q1", "answers": ["4", "5"], "gold_answer": "4"}'
)


class JsonTable(TableLog):
    """Reader of JSON objects, one per line or in one array, whose fields are the columns of a table.

    The first says which fields there are.
    """

    name = "jsonl"

    def layout(self, path: Path) -> Layout | str:
        """Return the columns by meaning, or why the file is no table of answers."""
        row = first_object(path)
        if isinstance(row, str):
            return NO_ROWS if row == NO_OBJECT else row
        layout = lay_out(list(row), self.columns)
        return NO_ROWS if isinstance(layout, str) and all(map(is_structured, row.values())) else layout

    def rows(self, path: Path, layout: Layout, tell: Tell, *, texts: bool) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every row."""
        del texts
        for where, row in objects(path, tell):
            lacking = sorted(layout.needed - row.keys())
            if lacking:
                raise LogError(f"{where}: lacks {', '.join(lacking)} (it has {', '.join(row)})")
            yield where, row


log = JsonTable
