"""Questions from rows: one row a question with lists of paths, or one row a path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, cast

from keff.errors import LogError
from keff.log import Question

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
"""The column of a table with one row a path -> the list of a row with one question."""

TRUTHS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}

Row = Mapping[str, Any]


def question_of(where: str, row: Row, *, texts: bool = False) -> Question:
    """Turn one row with lists into a Question; raises LogError that names ``where`` and the field."""
    missing = [name for name in ("id", "all_answers") if row.get(name) is None]
    if missing:
        raise LogError(f"{where}: lacks {' and '.join(missing)} (it has {', '.join(row)})")
    lists = _lists(where, row)
    try:
        return Question(
            id=str(row["id"]),
            answers=tuple(map(optional_text, lists["all_answers"])),
            gold=row.get("gold_answer"),
            keys=_each(lists.get("all_keys"), optional_text),
            correct=_each(lists.get("all_correct"), _truth),
            tokens=_each(lists.get("all_tokens"), _number),
            confidences=_each(lists.get("all_confidences"), _number),
            slots=_each(lists.get("slots"), int),
            rules=_each(lists.get("all_rules"), str),
            truncated=_each(lists.get("all_truncated"), int),
            cluster=str(row.get("cluster") or ""),
            question=row.get("question"),
            texts=_each(lists.get("all_texts"), _whole) if texts else None,
            meta={name: value for name, value in row.items() if name not in KNOWN},
        )
    except (TypeError, ValueError) as error:
        raise LogError(f"{where}: {error}") from None


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


def _each(values: tuple[Any, ...] | None, convert: Any) -> Any:
    return None if values is None else tuple(convert(value) for value in values)


def _whole(text: Any) -> str:
    return "" if text is None else str(text)


def _truth(value: Any) -> int:
    if isinstance(value, str):
        value = TRUTHS.get(value.strip().lower(), value)
    if value not in (0, 1):
        raise ValueError("all_correct must hold 0 and 1 only")
    return int(value)


def _number(value: Any) -> float:
    return float("nan") if value is None or value == "" else float(value)
