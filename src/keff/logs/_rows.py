"""Questions from rows: one row per question with lists of paths, or one row per path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from keff.errors import LogError
from keff.log import LogInfo, Question

LISTS = (
    "all_answers",
    "all_correct",
    "all_tokens",
    "all_confidences",
    "all_keys",
    "all_rules",
    "all_texts",
    "all_truncated",
    "slots",
)
KNOWN = {"id", "question", "gold_answer", "cluster", "task", "answer_space", "model", *LISTS}
COLUMNS = {
    "answer": "all_answers",
    "correct": "all_correct",
    "tokens": "all_tokens",
    "confidence": "all_confidences",
    "text": "all_texts",
    "slot": "slots",
}
"""The column of a table with one row per path -> the list of a row with one question."""

TRUTHS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}

MOST_COUNT = 2**53
"""Larger counts are no longer exact, and stand for an error in the file."""

Row = Mapping[str, Any]
Convert = Callable[[Any], Any]


def question_of(where: str, row: Row, *, texts: bool = False) -> Question:
    """Turn one row with lists into a Question; raises LogError that names ``where`` and the field."""
    missing = [name for name in ("id", "all_answers") if row.get(name) is None]
    if missing:
        raise LogError(f"{where}: lacks {' and '.join(missing)} (it has {', '.join(row)})")
    lists = _lists(where, row)
    return Question(
        id=str(row["id"]),
        answers=tuple(map(optional_text, lists["all_answers"])),
        gold=row.get("gold_answer"),
        keys=_each(where, lists, "all_keys", optional_text),
        correct=_each(where, lists, "all_correct", truth),
        tokens=_each(where, lists, "all_tokens", count),
        confidences=_each(where, lists, "all_confidences", number),
        slots=_each(where, lists, "slots", _slot),
        rules=_each(where, lists, "all_rules", str),
        truncated=_each(where, lists, "all_truncated", truth),
        cluster=str(row.get("cluster") or ""),
        question=row.get("question"),
        texts=_each(where, lists, "all_texts", whole) if texts else None,
        meta={name: value for name, value in row.items() if name not in KNOWN},
    )


def grouped(rows: Iterable[tuple[str, Row]], *, texts: bool = False) -> Iterator[Question]:
    """Turn rows of one path each into Questions; the rows of one id must stand together."""
    seen: set[str] = set()
    for name, group in groupby(rows, key=lambda pair: _id(*pair)):
        members = list(group)
        where, first = members[0]
        if name in seen:
            raise LogError(f"{where}: the id {name!r} came before: the rows of one id must stand together")
        seen.add(name)
        row: dict[str, Any] = {column: value for column, value in first.items() if column not in COLUMNS}
        for column, target in COLUMNS.items():
            values = [member.get(column) for _, member in members]
            if column == "answer" or any(value not in (None, "") for value in values):
                row[target] = values
        row["gold_answer"] = optional_text(first.get("gold_answer"))
        yield question_of(where, row, texts=texts)


def once_each(questions: Iterable[tuple[str, Question]]) -> Iterator[Question]:
    """Yield questions whose ids must be unique within their part; raises LogError naming the line."""
    seen: set[tuple[str, str]] = set()
    for where, question in questions:
        if (question.part, question.id) in seen:
            raise LogError(f"{where}: the id {question.id!r} occurs twice")
        seen.add((question.part, question.id))
        yield question


def said_by(row: Row) -> LogInfo:
    """Return what a row says about the whole log."""
    space: Any = optional_text(row.get("answer_space"))
    return LogInfo(optional_text(row.get("task")), space, optional_text(row.get("model")))


def optional_text(value: Any) -> str | None:
    """Return an answer as text; None and "" abstain."""
    return None if value is None or value == "" else str(value)


def _lists(where: str, row: Row) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for name in LISTS:
        if row.get(name) is None:
            continue
        if not isinstance(row[name], list):
            raise LogError(f"{where}: {name} must be a list")
        values = tuple(cast("list[Any]", row[name]))
        if found and len(values) != len(found["all_answers"]):
            raise LogError(
                f"{where}: {name} has {len(values)} entries for {len(found['all_answers'])} answers"
            )
        found[name] = values
    return found


def _id(where: str, row: Row) -> str:
    name = row.get("id")
    if name is None or name == "":
        raise LogError(f"{where}: a row has no id")
    return str(name)


def _each(where: str, lists: Mapping[str, tuple[Any, ...]], name: str, convert: Convert) -> Any:
    return converted(where, name, lists[name], convert) if name in lists else None


def converted(where: str, name: str, values: Sequence[Any], convert: Convert) -> tuple[Any, ...]:
    """Convert each entry of a list; raises LogError that names ``where``, the list and the bad entry."""
    found: list[Any] = []
    for value in values:
        try:
            found.append(convert(value))
        except (TypeError, ValueError, OverflowError) as error:
            needs = NEEDS.get(convert, str(error))
            raise LogError(f"{where}: {name} must hold {needs} only, not {_short(value)}") from None
    return tuple(found)


def whole(text: Any) -> str:
    """Return a completion as text; None is an empty one."""
    return "" if text is None else str(text)


def truth(value: Any) -> int:
    """Return 0 or 1, which may be written as text."""
    if isinstance(value, str):
        value = TRUTHS.get(value.strip().lower(), value)
    if value not in (0, 1):
        raise ValueError
    return int(value)


def number(value: Any) -> float:
    """Return a finite number, or NaN for one that is not known."""
    found = float("nan") if value is None or value == "" else float(value)
    if math.isinf(found):
        raise ValueError
    return found


def count(value: Any) -> float:
    """Return a number of tokens, or NaN for one that is not known."""
    found = number(value)
    if not (math.isnan(found) or 0 <= found <= MOST_COUNT):
        raise ValueError
    return found


def _slot(value: Any) -> int:
    found = float(value)
    if not (found.is_integer() and 0 <= found <= MOST_COUNT):
        raise ValueError
    return int(found)


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) <= MOST_COUNT else "a huge number"
    return text if len(text) <= 40 else f"{text[:40]}..."


NEEDS: Mapping[Convert, str] = {
    truth: "0 and 1",
    number: "finite numbers",
    count: "counts",
    _slot: "integers",
}
