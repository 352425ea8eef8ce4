"""Questions that stand in a record several times: found by text, or by equal answers path by path."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import factorial, prod

import numpy as np

from keff.reading.ballot import Ballot
from keff.records import Note
from keff.stats.votes import IntArray

LARGEST = 20_000
"""Rows of answers are compared in records of at most so many questions: beyond, that takes longer than the
estimates."""

FEW_ORDERS = 0.6
"""Questions that draw the same answers do so in different orders. Random orders fill at least 1 - 1/e = .63
of what they could; rows that were copied at least once fill half."""

# Fewer copies change no interval visibly.
FEWEST = 5
SHARE = 0.05
"""Copies are named from so many on, and from this share of the questions: a few coincide in any record."""


def copies(ballot: Ballot) -> IntArray:
    """Return which questions are one question [n], numbered from 0: equal texts, or copied rows of answers.

    Rows count as copied where questions with the same answers have them in far fewer orders than chance
    gives. Rows that hold one answer, or all equal answers side by side (as where paths were sorted), say
    nothing about copies.
    """
    n = ballot.votes.n
    one = np.arange(n, dtype=np.int64)
    if ballot.asked is not None:
        known = np.flatnonzero(ballot.asked)
        _, first, back = np.unique(ballot.asked[known], return_index=True, return_inverse=True)
        one[known] = known[first][back]
    if bool(np.all(one == np.arange(n))) and n <= LARGEST:
        one = _copied_rows(ballot)
    if bool(np.all(one == np.arange(n))):
        return one
    return np.unique(one, return_inverse=True)[1].astype(np.int64)


def _copied_rows(ballot: Ballot) -> IntArray:
    """Return the first question with the same row of answers [n] where rows are copied, else the question."""
    rows = answer_rows(ballot)
    orders: dict[frozenset[tuple[object, int]], Counter[tuple[object, ...]]] = {}
    for row in rows:
        if not _side_by_side(row):
            orders.setdefault(frozenset(Counter(row).items()), Counter())[row] += 1
    seen = possible = 0
    for counts, found in orders.items():
        if (times := found.total()) > 1:
            seen += len(found)
            every = factorial(len(rows[0])) // prod(factorial(count) for _, count in counts)
            possible += min(times, every - factorial(len(counts)))  # less those with equal answers together
    own = np.arange(len(rows), dtype=np.int64)
    if seen > FEW_ORDERS * possible or possible - seen < FEWEST:
        return own
    first: dict[tuple[object, ...], int] = {}
    return np.array(
        [place if _side_by_side(row) else first.setdefault(row, place) for place, row in enumerate(rows)],
        np.int64,
    )


def answer_rows(ballot: Ballot) -> list[tuple[object, ...]]:
    """Return the answers of each question, and which are right: without answers the latter alone."""
    right = None if ballot.votes.correct is None else ballot.votes.correct.tolist()
    if ballot.votes.answers is None:
        return [tuple(row) for row in right or ()]
    if right is None:
        return list(ballot.keys)
    return [tuple(zip(keys, row, strict=True)) for keys, row in zip(ballot.keys, right, strict=True)]


def _side_by_side(row: tuple[object, ...]) -> bool:
    """Return whether equal answers stand together: a row of one answer, or of sorted paths."""
    changes = sum(first != second for first, second in pairwise(row))
    return changes == len(set(row)) - 1


def copy_notes(ballot: Ballot) -> tuple[Note, ...]:
    """Name copies of questions that no cluster of the record holds together."""
    votes = ballot.votes
    if votes.n_clusters < votes.n:
        return ()
    repeated = votes.n - int(copies(ballot).max()) - 1
    if repeated < max(FEWEST, SHARE * votes.n):
        return ()
    text = (
        f"{repeated} of {votes.n} questions repeat another (the same text, or the same answers path by "
        "path): copies are taken for one cluster, so intervals are those of different questions; say which "
        'questions belong together with "cluster"'
    )
    return (Note("copied_questions", text),)
