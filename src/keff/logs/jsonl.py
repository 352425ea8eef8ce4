"""JSON lines or array with names of your own: one row per path, or question with lists (--columns)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import Tell
from keff.logs.parts.columns import Layout, lay_out
from keff.logs.parts.lines import first_object, objects
from keff.logs.parts.tabled import Row, TableLog


class JsonTable(TableLog):
    """Reader of JSON objects, one per line or in one array, whose fields are the columns of a table.

    The first says which fields there are.
    """

    name = "jsonl"

    def layout(self, path: Path) -> Layout | str:
        """Return where the words stand, or why the file is no table of answers."""
        row = first_object(path)
        return row if isinstance(row, str) else lay_out(list(row), self.columns)

    def rows(self, path: Path, layout: Layout, tell: Tell, *, texts: bool) -> Iterator[tuple[str, Row]]:
        """Read the rows, each with its place."""
        del texts
        for where, row in objects(path, tell):
            lacking = sorted(layout.needed - row.keys())
            if lacking:
                raise LogError(f"{where}: lacks {', '.join(lacking)} (it has {', '.join(row)})")
            yield where, row


log = JsonTable
