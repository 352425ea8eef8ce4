"""One JSON line per question.

{"id", "gold_answer", "all_answers": [...], "all_correct": [...] (optional), ...}.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Question, Tell, unheard
from keff.logs.parts.bulk import Bulk, ColumnOptions, PartsLog, RowColumns
from keff.logs.parts.columns import OBVIOUS
from keff.logs.parts.lines import (
    MOST_BLANK,
    TOO_BLANK,
    Row,
    blocks_of,
    first_row,
    head_row,
    json_lines,
    parse,
    quick_rows,
)
from keff.logs.parts.tabled import by_model, once_each, question_of, said_by
from keff.logs.parts.values import is_structured


class KeffJsonl(PartsLog):
    """Reader of the one-line-per-question JSONL."""

    name = "keff_jsonl"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        row = first_row(path)
        if isinstance(row, str):
            return row
        if is_structured(row.get("id", [])):
            return 'the first line has no "id"'
        if "gold_answer" not in row and "all_correct" not in row and set(OBVIOUS["gold_answer"]) & set(row):
            return "the first line has a gold answer by another name"
        return None if {"all_answers", "all_scores"} & set(row) else 'the first line has no "all_answers"'

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return said_by(head_row(path))

    def questions(self, path: Path, *, texts: bool = False, tell: Tell = unheard) -> Iterator[Question]:
        """Yield the questions one by one; see ``Log.questions``."""
        return once_each(
            (where, by_model(question_of(where, row, texts=texts), row))
            for where, row in json_lines(path, tell)
        )

    def parts(self, path: Path, how: ColumnOptions) -> Iterator[Bulk]:
        """Yield the columns of a file part by part; see ``PartsLog``."""
        columns, places = RowColumns(how.read), array("q")

        def question(row: int) -> Question:
            return _question_at(path, places[row])

        for rows in _batches(path, places):
            if columns.enough(how.most):
                yield columns.part(question)
            columns.add(rows)
        yield columns.part(question, last=True)


def _batches(path: Path, places: array[int]) -> Iterator[list[Row]]:
    """Yield batches of some hundred rows, recording where each begins; raises LogError for a bad line."""
    start = blank = 0
    with path.open("rb") as file:
        for block in blocks_of(file):
            place, lines = start, list[bytes]()
            for line in block.removesuffix(b"\n").split(b"\n"):
                if line and not line.isspace():
                    lines.append(line)
                    places.append(place)
                else:
                    blank += 1
                place += len(line) + 1
            if blank > MOST_BLANK:
                raise LogError(TOO_BLANK)
            if lines:
                yield quick_rows(str(path), lines, first=start == 0)
            start += len(block)


def _question_at(path: Path, place: int) -> Question:
    with path.open("rb") as file:
        file.seek(place)
        row = parse(f"{path}: byte {place}", file.readline(), first=place == 0)
    return by_model(question_of(str(path), row, texts=True), row)


log = KeffJsonl
