"""Ballot -> Matching: whether answers match often enough for a vote, and what was not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.results.matching import Matching, SplitAnswers
from keff.analysis.results.recommendation import Recommendation
from keff.log import Question
from keff.reading.ballot import Ballot
from keff.records import Note
from keff.stats.meeting import MEETS
from keff.stats.votes import Votes

FLOOR = 0.1
"""Answers that match less often than this are as good as never equal: a second vote takes ten paths."""


LEAST_QUESTIONS = 5
"""With fewer questions that have two answers (or two right ones), nothing is said about their reading."""

EXAMPLES, LONGEST_KEY = 5, 200

RARE = "answers are rarely equal as written: votes mean little here"
"""The first line of the output where it is so."""

REMEDY = (
    "settle how they are read before you vote (keff read shows it): another --answer-space, json:fields=..., "
    "or your own --answer-key FILE.py:function"
)


def matching(ballot: Ballot) -> Matching | None:
    """Return how often answers match; None where a record holds correctness only, or one path."""
    votes = ballot.votes
    if votes.answers is None or votes.k < 2:
        return None
    counts = [Counter(key for key in keys if key is not None) for keys in ballot.keys]
    several = [count for count in counts if count.total() > 1]
    agreement = float(np.mean([_meeting(count) for count in several])) if several else None
    right = [(question.id, count) for question, count in _right(ballot) if count.total() > 1]
    met = _pooled([count for _, count in right])
    chance = _chance(votes)
    return Matching(
        questions=len(several),
        agreement=agreement,
        chance=chance,
        singles=sum(max(count.values()) == 1 for count in several),
        right_questions=len(right),
        right_agreement=met,
        split=sum(len(count) > 1 for _, count in right),
        examples=_examples(right),
        abstentions=_abstentions(ballot),
        rare=_rare(agreement, max(chance or 0.0, FLOOR), len(several)) or _rare(met, MEETS, len(right)),
    )


def notes(found: Matching | None) -> Iterator[Note]:
    """Yield what must be said about the reading of answers."""
    if found is None:
        return
    if found.rare:
        yield Note("answers_rarely_equal", f"{RARE} ({_numbers(found)}); {REMEDY}")
    if found.split and found.examples:
        first = found.examples[0]
        shown = " and ".join(repr(key) for key in first.keys[:2])
        yield Note(
            "right_answers_split",
            f"answers marked right have different keys in {found.split} of {found.right_questions} questions,"
            f" such as {shown} in {first.id}: they do not vote together",
        )


def told(found: Matching | None) -> Iterator[str]:
    """Yield the lines that every analysis says about its answers."""
    if found is None:
        return
    if found.agreement is not None:
        yield (
            f"two answers to a question are equal {found.agreement:.0%} of the time; "
            f"in {found.singles} of {found.questions} questions no answer has a second vote"
        )
    if found.right_agreement is not None:
        yield (
            f"two right answers are equal {found.right_agreement:.0%} of the time; "
            f"they differ in {found.split} of {found.right_questions} questions"
        )
    if found.abstentions:
        reasons = ", ".join(f"{reason} {count}" for reason, count in list(found.abstentions.items())[:5])
        yield f"paths that abstained: {reasons}"


def cautious(advice: Recommendation, found: Matching | None) -> Recommendation:
    """Return the recommendation; where answers are rarely equal, it is not to vote."""
    if found is None or not found.rare or advice.verdict != "do not vote":
        return advice
    return replace(advice, because=f"{RARE} ({_numbers(found)})")


def _numbers(found: Matching) -> str:
    parts = [f"two answers to a question agree {found.agreement or 0:.0%} of the time"]
    if found.singles:
        parts.append(f"in {found.singles} of {found.questions} questions no two do")
    if found.right_agreement is not None:
        parts.append(f"two right ones {found.right_agreement:.0%} of the time")
    return ", ".join(parts)


def _rare(value: float | None, least: float, questions: int) -> bool:
    return value is not None and questions >= LEAST_QUESTIONS and value < least


def _meeting(count: Counter[str]) -> float:
    """Return the share of pairs that have one key."""
    total = count.total()
    return sum(votes * (votes - 1) for votes in count.values()) / (total * (total - 1))


def _pooled(counts: Sequence[Counter[str]]) -> float | None:
    """Return the share of all pairs that have one key."""
    pairs = sum(count.total() * (count.total() - 1) for count in counts)
    same = sum(votes * (votes - 1) for count in counts for votes in count.values())
    return same / pairs if pairs else None


def _chance(votes: Votes) -> float | None:
    """Return the sum of squared shares of the pooled answers, where codes mean the same in every question."""
    if votes.answers is None or not votes.closed:
        return None
    counts = np.unique(votes.answers[votes.answers >= 0], return_counts=True)[1]
    return float(np.sum((counts / counts.sum()) ** 2)) if counts.size else None


def _right(ballot: Ballot) -> Iterator[tuple[Question, Counter[str]]]:
    """Yield each question with the keys of its right paths."""
    correct = ballot.votes.correct
    if correct is None:
        return
    for question, keys, right in zip(ballot.questions, ballot.keys, correct, strict=True):
        yield question, Counter(key for key, y in zip(keys, right, strict=True) if key is not None and y > 0)


def _examples(right: Sequence[tuple[str, Counter[str]]]) -> tuple[SplitAnswers, ...]:
    split = [(name, count) for name, count in right if len(count) > 1][:EXAMPLES]
    return tuple(
        SplitAnswers(name, tuple(key[:LONGEST_KEY] for key, _ in count.most_common(3)))
        for name, count in split
    )


def _abstentions(ballot: Ballot) -> dict[str, int]:
    """Count abstaining paths by the reason that was recorded; those without one are ``no answer``."""
    counts: Counter[str] = Counter()
    for question, keys in zip(ballot.questions, ballot.keys, strict=True):
        rules = question.rules or ("no answer",) * len(keys)
        counts.update(rule for key, rule in zip(keys, rules, strict=False) if key is None)
    return dict(counts.most_common())
