"""A record with its answers judged: clusters as keys, written as a log that every command reads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from keff.engine import Engine
from keff.errors import UsageError
from keff.log import Question
from keff.narrow import is_array, items
from keff.reading.judge.jury import MAX_TOKENS, JudgeCost, Jury, Pair, Reliability, cluster, reliability
from keff.reading.open import Record
from keff.reading.transfer import write_questions
from keff.records import Result
from keff.sampling import RUN_FILE

# Answers with a recorded score that are compared with their gold answer, to measure the judge.
MOST_LABELLED = 200


@dataclass(frozen=True, slots=True)
class JudgedRecord(Result):
    """What a judge made of a record.

    ``distinct`` answers became ``clusters``; ``agreement`` is how often two answers of a question have one
    key, before and after. ``flips`` of ``pairs`` were judged otherwise in the other order, and count as
    different; ``unread`` replies said neither. ``reliability`` is the judge's error on labelled pairs, and
    ``labels`` says whose: those given, or recorded scores against gold answers (None: there are none).
    """

    questions: int
    distinct: int
    clusters: int
    agreement: tuple[float | None, float | None]
    pairs: int
    flips: int
    unread: int
    spent: JudgeCost
    reliability: Reliability | None
    labels: str


def cache_of(path: Path) -> Path:
    """Return where the verdicts on a run or log are kept: in the run folder, or hidden beside the log."""
    return (
        path / "judge.jsonl" if (path / RUN_FILE).is_file() else path.with_name(f".{path.name}.judge.jsonl")
    )


def judge_record(
    record: Record,
    engine: Engine,
    cache: Path,
    *,
    pairs: Sequence[Pair] | None = None,
    out: Path | None = None,
    most_calls: int = 10_000,
    max_tokens: int = MAX_TOKENS,
) -> JudgedRecord:
    """Let an engine join the answers of each question that mean the same, and measure its error.

    Answers that the record's reading already calls equal are shown once. The error is measured on ``pairs``,
    else on recorded scores: an answer scored right means the same as the gold answer. ``out`` gets the
    questions with their clusters as keys, as JSONL. Raises UsageError past ``most_calls`` requests.
    """
    return asyncio.run(_judged(record, engine, cache, pairs, out, (most_calls, max_tokens)))


async def _judged(
    record: Record,
    engine: Engine,
    cache: Path,
    pairs: Sequence[Pair] | None,
    out: Path | None,
    limits: tuple[int, int],
) -> JudgedRecord:
    try:
        await engine.start()
        jury = Jury(engine, cache, most_calls=limits[0], max_tokens=limits[1])
        labelled = _labelled(record) if pairs is None else list(pairs)
        measured = await reliability(jury, labelled) if labelled else None
        asked = (jury.pairs, jury.flips, jury.unread)
        rows = zip(record.ballot.questions, record.ballot.keys, strict=True)
        judged = await asyncio.gather(*(_question(jury, question, keys) for question, keys in rows))
    finally:
        await engine.close()
    if out is not None:
        write_questions(judged, record.info, record.ballot.reading, out)
    keys = [question.keys or () for question in judged]
    recorded = "recorded scores against gold answers" if measured else "none"
    return JudgedRecord(
        questions=len(judged),
        distinct=sum(_distinct(row) for row in record.ballot.keys),
        clusters=sum(map(_distinct, keys)),
        agreement=(_agreement(record.ballot.keys), _agreement(keys)),
        pairs=jury.pairs - asked[0],
        flips=jury.flips - asked[1],
        unread=jury.unread - asked[2],
        spent=jury.spent,
        reliability=measured,
        labels=recorded if pairs is None else "the pairs given",
    )


async def _question(jury: Jury, question: Question, keys: Sequence[str | None]) -> Question:
    """Return a question whose keys are the representatives of its clusters."""
    shown: dict[str, str] = {}
    for answer, key in zip(question.answers, keys, strict=False):
        if answer is not None and key is not None:
            shown.setdefault(key, answer)
    golds = _golds(question.gold) if question.correct is None else []
    joined = (await cluster(jury, question.question or "", [*golds, *shown.values()])).representative
    read = tuple(None if key is None else joined[shown[key]] for key in keys)
    right = {joined[gold] for gold in golds}
    correct = tuple(int(key in right) for key in read) if golds else question.correct
    return replace(question, keys=read, correct=correct)


def _golds(gold: object) -> list[str]:
    if gold is None:
        return []
    return list(map(str, items(gold))) if is_array(gold) else [str(gold)]


def _labelled(record: Record) -> list[Pair]:
    """Return gold answers with answers that the record itself scored, a sample of them."""
    known = [
        Pair(gold, answer, bool(right), question.question or "")
        for question in record.ballot.questions
        for gold in _golds(question.gold)[:1]
        for answer, right in dict(zip(question.answers, question.correct or (), strict=False)).items()
        if answer is not None
    ]
    chosen = np.random.default_rng(0).permutation(len(known))[:MOST_LABELLED]
    return [known[place] for place in sorted(chosen)]


def _distinct(keys: Sequence[str | None]) -> int:
    return len({key for key in keys if key is not None})


def _agreement(rows: Sequence[Sequence[str | None]]) -> float | None:
    shares: list[float] = []
    for row in rows:
        counts = Counter(key for key in row if key is not None)
        if (cast := counts.total()) > 1:
            shares.append(sum(votes * (votes - 1) for votes in counts.values()) / (cast * (cast - 1)))
    return float(np.mean(shares)) if shares else None


def refuse_scores(record: Record) -> None:
    """Raise UsageError where a record holds no answers."""
    if record.ballot.votes.answers is None:
        raise UsageError(f"{record.path}: it holds correctness only, and no answers to judge")
