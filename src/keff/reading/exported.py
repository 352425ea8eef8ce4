"""The rows that are written of a run or a log: of each question whole, or of its vote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from keff.log import LogInfo, Question
from keff.logs._rows import KNOWN
from keff.reading.ballot import Reading, correct_of, keys_of
from keff.task import ScoredText


def question_rows(
    questions: Iterable[Question], info: LogInfo, how: Reading, counts: list[int], *, packed: bool
) -> Iterator[dict[str, object]]:
    """Yield the row of each question, which keff reads back the same, and count questions and paths."""
    about = {"task": info.task, "answer_space": how.space, "model": info.model}
    for question in questions:
        counts[0] += 1
        counts[1] += len(question.answers)
        judged = list(judged_paths(question, how))
        unscored = judged and judged[0].correct is None
        lists = {
            "all_answers": list(question.answers),
            "all_keys": [path.key for path in judged],
            "all_correct": None if unscored else [path.correct for path in judged],
            "all_tokens": numbers(question.tokens),
            "all_prompt_tokens": numbers(question.prompt_tokens),
            "all_cached_tokens": numbers(question.cached_tokens),
            "all_seconds": numbers(question.seconds),
            "all_confidences": numbers(question.confidences),
            "all_rules": [path.rule for path in judged],
            "all_texts": question.texts and list(question.texts),
            "all_truncated": question.truncated and list(question.truncated),
            "slots": question.slots and list(question.slots),
            "branches": question.branches and list(question.branches),
        }
        row = {
            "id": question.id,
            "question": question.question,
            "gold_answer": question.gold,
            "cluster": question.cluster or None,
            **{name: values for name, values in lists.items() if values is not None},
            **about,
        }
        meta = {name: value for name, value in question.meta.items() if name not in KNOWN}
        yield _packed(row, meta) if packed else row | meta


def numbers(values: tuple[float, ...] | None) -> list[float | None] | None:
    """Return numbers as JSON has them: null for NaN."""
    return None if values is None else [value if value == value else None for value in values]


def _packed(row: dict[str, object], meta: dict[str, object]) -> dict[str, object]:
    """Put what has no column of one type into one column of JSON."""
    if not isinstance(row["gold_answer"], str | None):
        meta = meta | {"gold_answer": row["gold_answer"]}
        row = row | {"gold_answer": None}
    return row | {"meta": json.dumps(meta, ensure_ascii=False, default=str)}


def voted_rows(
    questions: Iterable[Question], how: Reading, counts: list[int], *, packed: bool
) -> Iterator[dict[str, object]]:
    """Yield the row of each question's vote, and count questions and paths."""
    for question in questions:
        judged = list(judged_paths(question, how))
        counts[0] += 1
        counts[1] += len(judged)
        row = voted(question, judged)
        gold = row["gold_answer"]
        if packed and not isinstance(gold, str | None):
            row["gold_answer"] = json.dumps(gold, ensure_ascii=False, default=str)
        yield row


def voted(question: Question, judged: Sequence[ScoredText]) -> dict[str, object]:
    """Return the row of one question's vote."""
    # A Counter keeps the order of the paths, so the first key wins among equals.
    votes = Counter(path.key for path in judged if path.key is not None)
    key, most = max(votes.items(), key=lambda pair: pair[1], default=(None, 0))
    winners = [path for path in judged if key is not None and path.key == key]
    scored = [path.correct for path in winners if path.correct is not None]
    unscored = not judged or judged[0].correct is None
    return {
        "id": question.id,
        "answer": winners[0].answer if winners else None,
        "key": key,
        "votes": most,
        "paths": len(judged),
        "share": most / len(judged) if judged else None,
        "tied": sum(count == most for count in votes.values()) > 1,
        "gold_answer": question.gold,
        "correct": None if unscored else sum(scored) / len(scored) if scored else 0.0,
    }


def judged_paths(question: Question, how: Reading) -> Iterator[ScoredText]:
    """Yield what is known of each path: answer, key, correctness, and the rule that read it."""
    k = len(question.answers)
    keys = keys_of(question, k, how.key)
    labelled = question.correct is not None or question.gold is not None
    correct = correct_of(question, k, how) if labelled else [None] * k
    for place, (answer, key) in enumerate(zip(question.answers, keys, strict=True)):
        rule = question.rules[place] if question.rules else "recorded" if key is not None else "no answer"
        right = correct[place]
        yield ScoredText(answer, key, 0 if right and key is None else right, rule)
