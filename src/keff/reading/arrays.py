"""Questions from arrays, nested lists and Votes in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from keff.errors import UsageError
from keff.log import NAMED, LogInfo, Question
from keff.logs.parts.columns import LISTS
from keff.logs.parts.tabled import question_of
from keff.narrow import Fields
from keff.reading.ballot import Ballot, Reading
from keff.reading.open import Record
from keff.reading.questions import Coded, RecordedQuestions
from keff.stats.votes import PER_PATH as MEASURED
from keff.stats.votes import Votes

PER_QUESTION = ("id", "gold_answer", "cluster")
# Words for data beside the answers -> lists of a line of JSONL with one question.
PER_PATH = {word: LISTS[word] for word in ("correct", "tokens", "seconds", "confidence", "text", "slot")}

NEEDS_GOLD = (
    "answers need gold answers: give gold_answer=[...], one per question, or correct=[[...]], one per path "
    "(gold_answer=None for an analysis without labels)"
)


def questions_of(source: object, data: Fields) -> list[Question]:
    """Return the questions of an array or of nested lists.

    Numbers without gold answers are correctness [n, K]: 0, 1, and NaN for a path that is missing. Anything
    else is answers, which need ``gold_answer`` [n] or ``correct`` [n][K] in ``data``; a ``gold_answer`` of
    None says that there are none. Raises UsageError with what was expected.
    """
    rows = _rows(source)
    if "gold_answer" not in data and "correct" not in data:
        if not _is_numeric(source, rows):
            raise UsageError(NEEDS_GOLD)
        return _questions_of_scores(rows, data)
    columns = _columns(data, len(rows))
    return [
        question_of(
            f"question {place}", _line(columns, place) | {"all_answers": [*map(_scalar, row)]}, texts=True
        )
        for place, row in enumerate(rows)
    ]


def numeric_rows(source: object) -> list[list[float | None]] | None:
    """Return an array or nested lists of numbers as rows, None or NaN where missing; None for others."""
    if not isinstance(source, np.ndarray | list | tuple):
        return None
    rows = _rows(cast("object", source))
    return cast("list[list[float | None]]", rows) if _is_numeric(cast("object", source), rows) else None


def _rows(source: object) -> list[list[object]]:
    if isinstance(source, np.ndarray) and source.ndim != 2:
        raise UsageError(f"an array must be [questions, paths], with 2 dimensions, not {source.ndim}")
    rows = list(cast("Iterable[object]", source))
    if not rows:
        raise UsageError("there are no questions in it")
    if not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        raise UsageError("a list must hold one list of paths per question: [[...], [...], ...]")
    return [_values(row) for row in rows]


def _values(row: object) -> list[object]:
    return row.tolist() if isinstance(row, np.ndarray) else list(cast("Sequence[object]", row))


def _is_numeric(source: object, rows: Sequence[Sequence[object]]) -> bool:
    if isinstance(source, np.ndarray):
        return cast("NDArray[np.generic]", source).dtype.kind in "biuf"
    return all(value is None or isinstance(value, int | float) for row in rows for value in row)


def _questions_of_scores(rows: Sequence[Sequence[object]], data: Fields) -> list[Question]:
    """Return questions from correctness alone; a missing path counts as not drawn."""
    kept = [[value for value in row if value is not None and value == value] for row in rows]
    wrong = next((value for row in kept for value in row if value not in (0, 1)), None)
    if wrong is not None:
        raise UsageError(
            f"an array of correctness holds 0, 1 and NaN (missing), not {wrong}; "
            "for answers give gold_answer=[...]"
        )
    beside = [word for word in data if word in PER_PATH]
    if beside and any(len(row) < len(whole) for row, whole in zip(kept, rows, strict=True)):
        raise UsageError(f"with missing paths (NaN) {', '.join(beside)} cannot be matched to the others")
    columns = _columns(data, len(rows))
    return [
        replace(
            question_of(
                f"question {place}",
                _line(columns, place) | {"all_answers": [None] * len(row), "all_correct": row},
            ),
            form="scores",
        )
        for place, row in enumerate(kept)
    ]


def _columns(data: Fields, n: int) -> dict[str, list[object]]:
    """Return the additional data by field, one value (or list of paths) per question."""
    given = [word for word in (*PER_QUESTION, *PER_PATH) if data.get(word) is not None]
    columns: dict[str, list[object]] = {"id": list(range(n))}
    columns |= {PER_PATH.get(word, word): _list_of(PER_PATH.get(word, word), data[word]) for word in given}
    slots = columns.get("slots")
    if slots and not isinstance(slots[0], list | tuple | np.ndarray):
        columns["slots"] = [slots] * n  # the same slots for all questions, given once
    for field, values in columns.items():
        if len(values) != n:
            raise UsageError(f"{field} has {len(values)} values for {n} questions")
    return columns


def _list_of(field: str, values: object) -> list[object]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"{field} must be a list with one value per question, not {values!r}")
    return list(cast("Iterable[object]", values))


def _line(columns: Mapping[str, list[object]], place: int) -> dict[str, object]:
    row = {field: values[place] for field, values in columns.items()}
    lists = PER_PATH.values()
    return {field: _values(value) if field in lists else _scalar(value) for field, value in row.items()}


def _scalar(value: object) -> object:
    """Return a scalar of NumPy as Python's own, and a float without a fraction as an integer.

    One missing value makes floats of a whole column.
    """
    value = cast("object", value.item()) if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _each(votes: Votes, place: int) -> dict[str, Any]:
    """Return a question's per-path values."""
    known = ((name, getattr(votes, name)) for name in MEASURED[1:])
    return {name: tuple(values[place].tolist()) for name, values in known if values is not None}


def record_of_votes(votes: Votes) -> Record:
    """Return a record of these votes: codes become keys, questions are numbered."""
    codes = np.full((votes.n, votes.k), -1) if votes.answers is None else votes.answers
    keys = Coded(codes, [str(code) for code in range(int(codes.max(initial=-1)) + 1)])
    questions = (
        Question(
            id=str(place),
            answers=row,
            keys=row,
            **_each(votes, place),
            slots=None if votes.slots is None else tuple(votes.slots.tolist()),
            cluster="" if votes.clusters is None else str(votes.clusters[place]),
            form="scores" if votes.answers is None else "answers",
            meta={NAMED + name: values[place].tolist() for name, values in votes.named.items()},
        )
        for place, row in enumerate(keys)
    )
    reading = Reading(lambda answer: answer, lambda answer, gold: answer == gold, closed=votes.closed)
    return Record("votes", LogInfo(), Ballot(votes, keys, RecordedQuestions(questions), reading, ()))
