"""Questions from a table: one row per question with numbered columns or lists, or one row per path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from keff.errors import LogError
from keff.log import NAMED, Question, Tell, unheard
from keff.logs.parts.columns import LISTS as LIST_OF
from keff.logs.parts.columns import Layout
from keff.logs.parts.rows import KNOWN, Row, Rows, by_model, name_at, once_each, question_or_scores
from keff.logs.parts.values import is_missing, is_nan, real, short, slot
from keff.narrow import items
from keff.records import Note


class TableLog:
    """Reader of a table, read from the start as often as its rows are needed.

    Which column means what is in ``keff.logs.parts.columns``: named by ``columns``, or known by an
    obvious name.
    """

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        self.columns = columns

    def layout(self, path: Path) -> Layout | str:
        """Return where the words stand, or why the file is no table of answers."""
        raise NotImplementedError

    def rows(self, path: Path, layout: Layout, tell: Tell) -> Iterator[tuple[str, Row]]:
        """Read the rows, each with its place."""
        raise NotImplementedError

    def doubts(self, path: Path) -> list[Note]:
        """Return what is doubtful about a file of which no row was left out."""
        del path
        return []

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        layout = self.layout(path)
        return layout if isinstance(layout, str) else None

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Read question by question; see ``Log.questions``."""
        layout = self.layout(path)
        if isinstance(layout, str):
            raise LogError(f"{path}: {layout}")
        for note in layout.notes:
            tell(note)
        heard: list[Note] = []
        yield from tabled(lambda: self.rows(path, layout, heard.append), layout, texts=texts)
        # Passes over the file may be several: what they leave out is one thing.
        for note in dict.fromkeys(heard or self.doubts(path)):
            tell(note)


def tabled(rows: Rows, layout: Layout, *, texts: bool = False) -> Iterator[Question]:
    """Turn a table into Questions.

    One row per question where a word has numbered columns or lists, else one row per path.
    """
    empty: tuple[str, Row] = ("", {})
    first = next(iter(rows()), empty)[1]
    # Where a column numbers the paths, one list as an answer is a structured answer of one path.
    several = [] if "path" in layout.single else [word for word in layout.single if word in LIST_OF]
    listed = [word for word in several if isinstance(first.get(layout.single[word]), list)]
    if layout.numbered or {"answer", "correct", "text", "score"} & set(listed):
        return once_each(
            (where, by_model(question_or_scores(where, wide, texts=texts), wide))
            for where, row in rows()
            for wide in [_wide(row, layout, listed)]
        )
    return _grouped(rows, layout, texts=texts)


def _wide(row: Row, layout: Layout, listed: Iterable[str]) -> dict[str, object]:
    """Return a row of one question under the names of the JSONL."""
    lists = {LIST_OF[word]: [row.get(name) for name in names] for word, names in layout.numbered.items()}
    lists |= {LIST_OF[word]: row.get(layout.single[word]) for word in listed}
    single = {
        word: row.get(column)
        for word, column in layout.single.items()
        if word in ("id", "gold_answer", "cluster", "question", "model")
    }
    rest = {name: value for name, value in row.items() if name not in layout.used and name not in KNOWN}
    return rest | single | lists


def _grouped(rows: Rows, layout: Layout, *, texts: bool) -> Iterator[Question]:
    """Turn rows of one path each into Questions.

    The rows of one id must stand together, or columns must say which model, slot or path each is: then the
    table is gathered in memory.
    """
    column = layout.single["id"]
    apart = {word: layout.single[word] for word in ("model", "slot", "path") if word in layout.single}
    if apart and not _together(rows, column):
        groups: dict[str, list[tuple[str, Row]]] = {}
        for where, row in rows():
            groups.setdefault(name_at(where, "id", row.get(column)), []).append((where, row))
        yield from (_path_rows(members, layout, texts=texts) for members in groups.values())
        return
    seen: set[str] = set()
    for name, group in groupby(rows(), key=lambda pair: name_at(pair[0], "id", pair[1].get(column))):
        members = list(group)
        if name in seen:
            raise LogError(
                f"{members[0][0]}: the id {name!r} came before: the rows of one id must stand "
                "together, or a column must number its paths (--columns path=...)"
            )
        seen.add(name)
        yield _path_rows(members, layout, texts=texts)


def _together(rows: Rows, column: str) -> bool:
    seen: set[str] = set()
    for name, _ in groupby(rows(), key=lambda pair: str(pair[1].get(column))):
        if name in seen:
            return False
        seen.add(name)
    return True


def _path_rows(members: list[tuple[str, Row]], layout: Layout, *, texts: bool) -> Question:
    """Turn the rows of one id into its question; raises LogError where two rows are the same path."""
    where, first = members[0]
    single = layout.single
    apart = [word for word in ("model", "slot", "path") if word in single]
    if "path" in single:
        places: dict[tuple[str, ...], str] = {}
        for place, member in members:
            mark = tuple(str(member.get(single[word])) for word in apart)
            number = member.get(single["path"])
            if isinstance(number, float) and math.isinf(number):
                raise LogError(f"{place}: path is {number}, not a number of a path")
            if mark in places:
                named = ", ".join(f"{word} {value}" for word, value in zip(apart, mark, strict=True))
                raise LogError(
                    f"{place}: {named} of the id {first.get(single['id'])!r} came before ({places[mark]})"
                )
            places[mark] = place
        members = sorted(members, key=lambda pair: _order(pair[1].get(single["path"])))
    for word in ("gold_answer", "cluster"):
        _same(members, word, single.get(word))
    row: dict[str, object] = {
        name: value for name, value in first.items() if name not in layout.used and name not in KNOWN
    }
    row |= {
        word: first.get(single[word])
        for word in ("id", "gold_answer", "cluster", "question")
        if word in single
    }
    row |= {name: [member.get(name) for _, member in members] for name in row if name.startswith(NAMED)}
    for word, target in LIST_OF.items():
        if word not in single:
            continue
        values = [member.get(single[word]) for _, member in members]
        if word == "answer" or not all(map(is_missing, values)):
            row[target] = values
    return question_or_scores(where, _named_slots(row), texts=texts)


def _order(value: object) -> tuple[int, float, str]:
    try:
        return 0, real(value), ""
    except (TypeError, ValueError):
        return 1, 0.0, str(value)


def _same(members: list[tuple[str, Row]], word: str, column: str | None) -> None:
    """Raise LogError when a value that belongs to the question differs between its paths."""
    if column is None:
        return
    (_, first), *rest = members
    for where, row in rest:
        if row.get(column) != first.get(column) and not (
            is_nan(row.get(column)) and is_nan(first.get(column))
        ):
            raise LogError(
                f"{where}: {word} is {short(row.get(column))}, but {short(first.get(column))} in an "
                "earlier row of the same id"
            )


def _named_slots(row: dict[str, object]) -> dict[str, object]:
    """Make branches of slots that are names instead of numbers."""
    slots = items(row.get("slots"))
    if not slots:
        return row
    try:
        for value in slots:
            slot(value)
    except (TypeError, ValueError, OverflowError):
        models = items(row.get("branches")) or [None] * len(slots)
        names = [
            "/".join(str(part) for part in pair if not is_missing(part))
            for pair in zip(models, slots, strict=True)
        ]
        rest = {name: value for name, value in row.items() if name != "slots"}
        return rest | {"branches": names}
    return row
