"""Whether branches were drawn separately: copied paths say nothing of how branches go together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from keff.errors import UsageError
from keff.records import Note
from keff.stats.votes import FloatArray, IntArray

# Branches are copies where chance makes a pair of them as equal as they are less than once in a million.
COINCIDENCE = math.log(1e-6)

# So many questions are compared: copies are equal on all, and further ones only cost time.
COMPARED = 2_000

# On fewer questions equal answers are no news.
FEWEST = 10


def check_separate(
    names: Sequence[str], codes: Sequence[IntArray], tokens: Sequence[FloatArray | None]
) -> list[Note]:
    """Refuse branches that share paths, and name those that give the same answers for want of any chance.

    ``codes`` are the answers [n, K_a] of each branch, equal codes equal answers, and ``tokens`` [n, K_a] what
    they took, where that is recorded. Equal answers of equal lengths are copies. A column of one branch that
    equals one of another on every question is a copy where the chance of that, were the paths of a question
    exchangeable between the two, is below ``COINCIDENCE`` for any pair of columns. So are two branches that
    hold the same answers on every question in whatever order, by the hypergeometric chance of equal halves.
    Raises UsageError that names both.
    """
    notes: list[Note] = []
    seen = [code[:COMPARED] for code in codes]
    for a, b in combinations(range(len(names)), 2):
        paths = len(_copied_columns(seen[a], seen[b]))
        equal = np.array_equal(seen[a], seen[b])
        timed = equal and _equal(tokens[a], tokens[b])
        if timed or paths or _same_multisets(seen[a], seen[b]):
            what = f"{paths} of {seen[b].shape[1]} paths" if paths else "all" if timed else "in another order"
            raise UsageError(
                f"{names[a]} and {names[b]} hold the same paths ({what}, equal on every question): branches "
                "are drawn separately, with seeds of their own; leave one of them out"
            )
        if equal and len(seen[a]) >= FEWEST:
            text = f"{names[a]} and {names[b]} give the same answers: one of them is enough, or one is a copy"
            notes.append(Note("same_answers", text))
    return notes


def _copied_columns(left: IntArray, right: IntArray) -> list[int]:
    """Return the columns of ``right`` that equal a column of ``left`` beyond chance."""
    pairs = [
        (i, j)
        for i in range(left.shape[1])
        for j in range(right.shape[1])
        if np.array_equal(left[:, i], right[:, j])
    ]
    if not pairs or _chance_of_equal_columns(left, right) > COINCIDENCE - math.log(
        left.shape[1] * right.shape[1]
    ):
        return []
    return sorted({j for _, j in pairs})


def _chance_of_equal_columns(left: IntArray, right: IntArray) -> float:
    """Return the log of the chance that one path of each agree on every question.

    By the answers of both on a question, [n, K_a + K_b]; those that are equal add to it, which errs on the
    side of letting branches pass.
    """
    rows: list[list[int]] = np.concatenate([left, right], axis=1).tolist()
    agree = (sum(count**2 for count in Counter(row).values()) / len(row) ** 2 for row in rows)
    return math.fsum(map(math.log, agree))


def _same_multisets(left: IntArray, right: IntArray) -> bool:
    """Return whether both hold the same answers on every question, in whatever order, beyond chance."""
    if left.shape != right.shape or not np.array_equal(np.sort(left, axis=1), np.sort(right, axis=1)):
        return False
    rows: list[list[int]] = left.tolist()
    # C(2c, c) of each answer over C(2K, K): the chance that halves of 2c equal answers are equal.
    chance = (math.prod(math.comb(2 * c, c) for c in Counter(row).values()) for row in rows)
    every = math.log(math.comb(2 * left.shape[1], left.shape[1]))
    return math.fsum(math.log(ways) - every for ways in chance) < COINCIDENCE


def _equal(left: FloatArray | None, right: FloatArray | None) -> bool:
    return left is not None and right is not None and np.array_equal(left, right)
