"""Whether records are of the same questions, read alike and drawn separately; each refusal is one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from keff.errors import LogError, UsageError
from keff.log import Question
from keff.reading.ballot import Ballot
from keff.stats.votes import IntArray

SHOWN = 5
"""So many ids are named in a message."""


def check_spaces(ballots: Sequence[tuple[str, str | None, Ballot]]) -> None:
    """Raise UsageError unless all ballots are read in one space and hold answers and gold."""
    spaces = {ballot.reading.space: name for name, _, ballot in ballots}
    if len(spaces) > 1:
        told = ", ".join(f"{name} as {space}" for space, name in spaces.items())
        raise UsageError(f"answers are read in different spaces ({told}): name one with --answer-space")
    for name, _, ballot in ballots:
        if ballot.votes.answers is None:
            raise UsageError(f"{name} holds correctness only: branches are combined by their answers")
        if ballot.votes.correct is None:
            raise UsageError(f"{name} has no gold answers: what a branch is worth needs them")


def by_id(name: str, ballot: Ballot) -> dict[str, int]:
    """Return the row of each question; raises LogError for duplicate ids."""
    ids = [question.id for question in ballot.questions]
    repeated = [key for key, count in Counter(ids).items() if count > 1]
    if repeated:
        raise LogError(f"{name}: {_some(repeated, 'duplicate id', 'duplicate ids')}: keep one of each")
    return {key: row for row, key in enumerate(ids)}


def shared(names: Sequence[str], rows: Sequence[dict[str, int]]) -> list[str]:
    """Return the ids that all branches have, in the order of the first.

    Raises UsageError where there is none.
    """
    common = [key for key in rows[0] if all(key in row for row in rows[1:])]
    if common:
        return common
    for (a, left), (b, right) in combinations(zip(names, rows, strict=True), 2):
        if not left.keys() & right.keys():
            example = f"{next(iter(left))!r} in {a}, {next(iter(right))!r} in {b}"
            raise UsageError(f"{a} and {b} share no question id: are they of the same task? ({example})")
    raise UsageError(
        f"no question is in all {len(rows)} branches: leave out the branch that has other questions"
    )


def check_gold(names: Sequence[str], ids: Sequence[str], questions: Sequence[Sequence[Question]]) -> None:
    """Raise UsageError where gold answers differ between branches."""
    first = next((row for row in questions if all(q.gold is not None for q in row)), None)
    if first is None:
        return
    for name, row in zip(names, questions, strict=True):
        differ = [
            key
            for key, mine, other in zip(ids, first, row, strict=True)
            if other.gold is not None and str(mine.gold).strip() != str(other.gold).strip()
        ]
        if differ:
            raise UsageError(
                f"{name}: gold answers differ from those of the other branches on {len(differ)} of "
                f"{len(ids)} questions ({_some(differ, 'id', 'ids')}): are they of the same task?"
            )


def _some(ids: Sequence[str], singular: str, plural: str) -> str:
    shown = ", ".join(repr(key) for key in ids[:SHOWN])
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"{singular if len(ids) == 1 else plural} {shown}{more}"


def check_separate(names: Sequence[str], ballots: Sequence[Ballot], codes: Sequence[IntArray]) -> None:
    """Refuse two branches that hold the very same paths: they say nothing of how branches correlate."""
    for a, b in combinations(range(len(names)), 2):
        mine, other = ballots[a].votes.tokens, ballots[b].votes.tokens
        if mine is None or other is None:
            continue
        if np.array_equal(codes[a], codes[b]) and np.array_equal(mine, other):
            raise UsageError(
                f"{names[a]} and {names[b]} hold the same paths, to the token: branches are drawn separately "
                "(with seeds of their own)"
            )
