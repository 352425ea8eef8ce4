"""One JSON line a question: {"id", "gold_answer", "all_answers": [...], "all_correct": [...] (optional), ...}."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from keff.errors import LogError
from keff.log import LogInfo, Question

LISTS = ("all_answers", "all_correct", "all_tokens", "all_confidences", "slots")
KNOWN = {"id", "question", "gold_answer", "cluster", *LISTS}


def _line(path: Path, number: int, text: str) -> dict[str, Any]:
    where = f"{path}:{number}"
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise LogError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
    if not isinstance(row, dict):
        raise LogError(f"{where}: a JSON object is wanted, not {type(row).__name__}")
    row = cast("dict[str, Any]", row)
    missing = [name for name in ("id", "all_answers") if name not in row]
    if missing:
        raise LogError(f"{where}: lacks {' and '.join(missing)} (it has {', '.join(row)})")
    return row


def _lists(where: str, row: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for name in LISTS:
        if row.get(name) is None:
            continue
        if not isinstance(row[name], list):
            raise LogError(f"{where}: {name} must be a list")
        found[name] = tuple(row[name])
        if len(found[name]) != len(found["all_answers"]):
            raise LogError(
                f"{where}: {name} has {len(found[name])} entries for {len(found['all_answers'])} answers"
            )
    return found


def _question(path: Path, number: int, row: Mapping[str, Any]) -> Question:
    where = f"{path}:{number}"
    lists = _lists(where, row)
    correct = lists.get("all_correct")
    if correct is not None and any(value not in (0, 1) for value in correct):
        raise LogError(f"{where}: all_correct must hold 0 and 1 only")
    try:
        return Question(
            id=str(row["id"]),
            answers=tuple(None if answer in (None, "") else str(answer) for answer in lists["all_answers"]),
            gold=row.get("gold_answer"),
            correct=None if correct is None else tuple(int(value) for value in correct),
            tokens=_numbers(lists.get("all_tokens")),
            confidences=_numbers(lists.get("all_confidences")),
            slots=tuple(int(slot) for slot in lists["slots"]) if "slots" in lists else None,
            cluster=str(row.get("cluster") or ""),
            question=row.get("question"),
            meta={name: value for name, value in row.items() if name not in KNOWN},
        )
    except (TypeError, ValueError) as error:
        raise LogError(f"{where}: {error}") from None


def _numbers(values: tuple[Any, ...] | None) -> tuple[float, ...] | None:
    return (
        None if values is None else tuple(float("nan") if value is None else float(value) for value in values)
    )


class KeffJsonl:
    """Reader of the one-line-per-question JSONL."""

    name = "keff_jsonl"

    def refuses(self, path: Path) -> str | None:
        if not path.is_file():
            return "not a file"
        with path.open(encoding="utf-8", errors="replace") as file:
            head = next((line for line in file if line.strip()), "")
        if not head:
            return "the file is empty"
        if not head.lstrip().startswith("{"):
            return "the first line is not a JSON object"
        try:
            row = json.loads(head)
        except json.JSONDecodeError:
            return None if '"all_answers"' in head else "the first line is not JSON"
        return None if "all_answers" in row else 'the first line has no "all_answers"'

    def info(self, path: Path) -> LogInfo:
        row = next(self._rows(path))[1]
        return LogInfo(task=row.get("task"), space=row.get("answer_space"), model=row.get("model"))

    def questions(self, path: Path, *, texts: bool = False) -> Iterator[Question]:
        del texts
        seen: set[str] = set()
        for number, row in self._rows(path):
            question = _question(path, number, row)
            if question.id in seen:
                raise LogError(f"{path}:{number}: the id {question.id!r} occurs twice")
            seen.add(question.id)
            yield question

    def _rows(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            with path.open(encoding="utf-8") as file:
                for number, text in enumerate(file, 1):
                    if text.strip():
                        yield number, _line(path, number, text)
        except UnicodeDecodeError:
            raise LogError(f"{path}: not UTF-8 text") from None


def log() -> KeffJsonl:
    """Make the reader."""
    return KeffJsonl()
