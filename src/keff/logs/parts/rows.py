"""Questions from rows of one question each, with lists of its paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from keff.errors import LogError
from keff.log import LogInfo, Question
from keff.logs.parts.columns import LISTS as LIST_OF
from keff.logs.parts.values import (
    converted,
    count,
    gold_of,
    is_missing,
    is_nan,
    is_structured,
    name_of,
    number,
    optional_text,
    rating,
    seconds,
    short,
    slot,
    truth,
    whole,
)

LISTS = tuple(LIST_OF.values())
KNOWN = {"id", "question", "gold_answer", "cluster", "task", "answer_space", "model", *LISTS}

T = TypeVar("T")
Row = Mapping[str, object]
# Reads the rows of a table, each with its place, from the start.
Rows = Callable[[], Iterable[tuple[str, Row]]]


def question_of(where: str, row: Row, *, texts: bool = False) -> Question:
    """Turn one row with lists into a Question; raises LogError that names ``where`` and the field."""
    graded = row.get("all_scores")
    if row.get("all_answers") is None and isinstance(graded, list):  # scores alone: nothing to vote on
        bare = {**row, "all_answers": [None] * len(cast("list[object]", graded))}
        return replace(question_of(where, bare, texts=texts), form="scores")
    missing = [name for name in ("id", "all_answers") if row.get(name) is None]
    if missing:
        raise LogError(f"{where}: lacks {' and '.join(missing)} (it has {', '.join(row)})")
    lists = _lists(where, row)
    answers = lists["all_answers"]
    return Question(
        id=name_at(where, "id", row["id"]),
        answers=converted(where, "all_answers", answers, optional_text),
        gold=gold_of(row.get("gold_answer")),
        keys=_each(where, lists, "all_keys", optional_text),
        correct=_each(where, lists, "all_correct", truth),
        tokens=_each(where, lists, "all_tokens", count),
        prompt_tokens=_each(where, lists, "all_prompt_tokens", count),
        cached_tokens=_each(where, lists, "all_cached_tokens", count),
        seconds=_each(where, lists, "all_seconds", seconds),
        confidences=_each(where, lists, "all_confidences", rating),
        slots=_each(where, lists, "slots", slot),
        branches=_each(where, lists, "branches", name_of),
        rules=_each(where, lists, "all_rules", str),
        truncated=_each(where, lists, "all_truncated", truth),
        cluster=_optional_name(where, "cluster", row.get("cluster")),
        question=optional_text(row.get("question")),
        texts=_each(where, lists, "all_texts", whole) if texts else None,
        meta={name: value for name, value in row.items() if name not in KNOWN},
        nan=sum(map(is_nan, answers)),
        structured=any(map(is_structured, answers)),
        scores=_each(where, lists, "all_scores", number),
    )


def by_model(question: Question, row: Row) -> Question:
    """Put a question into the part of its row's model: one question asked of two models is two records."""
    return replace(question, part=optional_text(row.get("model")) or "")


def unpacked(row: dict[str, object]) -> dict[str, object]:
    """Unpack what an export had to pack: other fields, and a gold answer that is no text.

    A column of the same name that others filled stays what it is.
    """
    try:
        packed: object = json.loads(str(row.get("meta") or "{}"))
    except (TypeError, ValueError):
        return row
    if not isinstance(packed, dict):
        return row
    rest = {name: value for name, value in row.items() if name != "meta"}
    return rest | cast("dict[str, object]", packed)


def question_or_scores(where: str, row: dict[str, object], *, texts: bool) -> Question:
    """Return a question whose answers may be missing: then texts are read, or scores are all there is."""
    if row.get("all_answers") is not None or row.get("all_scores") is not None:
        return question_of(where, row, texts=texts)
    if row.get("all_texts") is not None:
        complete = question_of(where, row | {"all_answers": row["all_texts"]}, texts=texts)
        return replace(complete, form="completions")
    right = row.get("all_correct")
    if not isinstance(right, list):
        raise LogError(f"{where}: lacks the answers (it has {', '.join(row)})")
    size = len(cast("list[object]", right))
    return replace(question_of(where, row | {"all_answers": [None] * size}, texts=texts), form="scores")


def once_each(questions: Iterable[tuple[str, Question]]) -> Iterator[Question]:
    """Yield questions whose ids must be unique within their part; raises LogError naming the line."""
    seen: set[tuple[str, str]] = set()
    for where, question in questions:
        if (question.part, question.id) in seen:
            raise LogError(f"{where}: duplicate id {question.id!r}")
        seen.add((question.part, question.id))
        yield question


def said_by(row: Row) -> LogInfo:
    """Return what a row says about the whole log."""
    space: object = optional_text(row.get("answer_space"))
    return LogInfo(optional_text(row.get("task")), space, optional_text(row.get("model")))


def _lists(where: str, row: Row) -> dict[str, tuple[object, ...]]:
    result: dict[str, tuple[object, ...]] = {}
    for name in ("all_answers", *LISTS):
        if row.get(name) is None or name in result:
            continue
        if not isinstance(row[name], list):
            raise LogError(f"{where}: {name} must be a list")
        values = tuple(cast("list[object]", row[name]))
        if result and len(values) != len(result["all_answers"]):
            raise LogError(
                f"{where}: {name} has {len(values)} entries for {len(result['all_answers'])} answers"
            )
        result[name] = values
    return result


def name_at(where: str, what: str, value: object) -> str:
    """Return a value as a question's name.

    Raises:
        LogError: it cannot be one; the sentence names where it stands.
    """
    try:
        return name_of(value)
    except ValueError:
        reason = (
            "a row has no id"
            if is_missing(value) and what == "id"
            else f"{what} is {short(value)}, not a name"
        )
        raise LogError(f"{where}: {reason}") from None


def _optional_name(where: str, what: str, value: object) -> str:
    return "" if is_missing(value) else name_at(where, what, value)


def _each(
    where: str, lists: Mapping[str, tuple[object, ...]], name: str, convert: Callable[[object], T]
) -> tuple[T, ...] | None:
    return converted(where, name, lists[name], convert) if name in lists else None
