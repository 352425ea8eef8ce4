"""JSON lines, array or table with names of your own: one row per path, or question with lists (--columns)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path

from keff.errors import LogError
from keff.log import NoColumns, NoteSink
from keff.logs.parts.attempts import tells_error
from keff.logs.parts.columns import OBVIOUS, Layout, hold_paths, lay_out
from keff.logs.parts.lines import NO_OBJECT, first_object, first_row, head_of, objects, whole_json
from keff.logs.parts.tabled import Row, TableLog
from keff.logs.parts.values import at, is_structured
from keff.narrow import Object, entries, fields, is_array, items

# Of a list of lists, and of rows below a name.
NO_ROWS = NoColumns(
    "no id column found, because its entries are not rows. Write an object for each question, one per line: "
    '{"id": "q1", "answers": ["4", "5"], "gold_answer": "4"}'
)

# So many rows that ended in an error may come before the first that says which columns there are.
MOST_FAILED = 1000


class JsonTable(TableLog):
    """Reader of JSON objects, one per line or in one array, whose fields are the columns of a table.

    The first says which fields there are. One object may be the whole table: a list for each column or an
    object, as pandas writes it, rows below the names of columns, or each question or its answers by its id.
    """

    name = "jsonl"
    # The file that was read last, and its rows where it is one value: several passes parse it once.
    _held: tuple[Path | None, Sequence[Row] | None] = None, None

    def layout(self, path: Path) -> Layout | str:
        """Return the columns by meaning, or why the file is no table of answers."""
        row = next(iter(self._table(path) or ()), first_object(path))
        if isinstance(row, str):
            return NO_ROWS if row == NO_OBJECT or head_of(path).startswith(b"{\n") else row
        if _ended_in_error(row):
            rows = (row for _, row in islice(objects(path), MOST_FAILED) if not _ended_in_error(row))
            row = next(rows, row)
        layout = self._laid_out(row)
        nested = all(map(is_structured, row.values())) or any(
            is_structured(next(iter(fields(value).values()), 0)) for value in row.values()
        )
        return NO_ROWS if isinstance(layout, str) and nested else layout

    def _laid_out(self, row: Row) -> Layout | str:
        return lay_out(list(_paths(row)[0]), self.columns)

    def _table(self, path: Path) -> Sequence[Row] | None:
        """Return the rows of a file that is one array or object; None for another one."""
        if self._held[0] != path:
            self._held = path, self._whole(path)
        return self._held[1]

    def _whole(self, path: Path) -> Sequence[Row] | None:
        head = fields(first_row(path))
        alone = "columns" in head or all(map(is_structured, head.values()))
        if not alone or head_of(path)[:1] not in (b"{", b"["):
            return None
        try:
            whole = whole_json(path)
        except LogError:  # several objects
            return None
        if is_array(whole):
            return rows if all(rows := entries(whole)) else None
        table = fields(whole)
        names, cells = list(table), list(map(items, table.values()))
        columns = entries(list(table.values()))
        if columns and all(columns):
            if not isinstance(lay_out(names, self.columns), Layout):
                rows = [{"id": name} | row for name, row in zip(names, columns, strict=True)]
                return rows if isinstance(self._laid_out(rows[0]), Layout) else None
            keys = dict.fromkeys(chain(*columns))
            cells = [[column.get(key) for key in keys] for column in columns]
        if "columns" in table:
            names, cells = list(map(str, items(table["columns"]))), list(map(items, items(table.get("data"))))
        elif not all(cells):
            return None
        elif isinstance(lay_out(names, self.columns), Layout):
            cells = list(zip_longest(*cells))
        elif not any(map(is_structured, chain(*cells))):
            return [{"id": name, "answers": answers} for name, answers in zip(names, cells, strict=True)]
        else:
            return None
        return [dict(zip(names, row, strict=False)) for row in cells]

    def rows(self, path: Path, layout: Layout, tell: NoteSink, *, texts: bool) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every row."""
        del texts
        table = self._table(path)
        held = (
            objects(path, tell)
            if table is None
            else ((f"{path}: row {n}", row) for n, row in enumerate(table, 1))
        )
        for where, whole in held:
            for row in _paths(whole):
                lacking = sorted(layout.needed - row.keys())
                if lacking and not _ended_in_error(row):
                    raise LogError(f"{where}: lacks {', '.join(lacking)} (it has {', '.join(row)})")
                yield where, row


def _ended_in_error(row: Row) -> bool:
    """Return whether a row ended in an error: then it may lack what others have."""
    return any(tells_error(name, value) for name, value in row.items())


def _paths(row: Row) -> Sequence[Row]:
    """Return a row for each path where one field lists them as objects, else the row itself.

    What is beside the list belongs to the question: an ``answer`` there is the gold one.
    """
    lists = {
        name: paths for name, value in row.items() if (paths := _entries(value)) and all(map(_is_path, paths))
    }
    about = {name: value for name, value in row.items() if name != "answer" and name not in lists}
    if len(lists) != 1 or hold_paths(about):
        return [row]
    (paths,) = lists.values()
    # Texts beside an answer may be its sources, where they are not called its outputs.
    if "answer" in row and not (
        "message" in paths[0] or hold_paths(lists) or hold_paths(paths[0], ("answer", "correct"))
    ):
        return [row]
    if "answer" in row and about.keys().isdisjoint(OBVIOUS["gold_answer"]):
        about["gold_answer"] = row["answer"]
    ids = {name: about[name] for name in OBVIOUS["id"] if name in about}
    return [about | path | ids for path in paths]


def _entries(value: object) -> list[Object]:
    """Return the objects of a list; of a chat server's choices the text is what the message says."""
    said = ((entry, at(entry, "message/content")) for entry in entries(value))
    return [entry | {"text": text} if text else entry for entry, text in said]


def _is_path(entry: Row) -> bool:
    return {"role", "label", "title"}.isdisjoint(entry) and hold_paths(entry)


log = JsonTable
