"""Questions that stand in a record several times: found by text, or by equal answers path by path."""

from __future__ import annotations

from collections import Counter
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
    cells = answer_cells(ballot, np.arange(ballot.votes.n, dtype=np.int64))
    n, k = cells.shape
    own, ordered = np.arange(n, dtype=np.int64), np.sort(cells, axis=1)
    # A row of one answer, or of sorted paths, changes as often as it must.
    apart = _changes(cells) > _changes(ordered)
    rows = [row.tobytes() for row in cells]
    orders: dict[bytes, Counter[bytes]] = {}
    for place in np.flatnonzero(apart).tolist():
        orders.setdefault(ordered[place].tobytes(), Counter())[rows[place]] += 1
    seen = possible = 0
    for answers, found in orders.items():
        if (times := found.total()) > 1:
            seen += len(found)
            counts = np.unique(np.frombuffer(answers, cells.dtype), return_counts=True)[1].tolist()
            every = factorial(k) // prod(map(factorial, counts))
            possible += min(times, every - factorial(len(counts)))  # less those with equal answers together
    if seen > FEW_ORDERS * possible or possible - seen < FEWEST:
        return own
    first: dict[bytes, int] = {}
    return np.array(
        [first.setdefault(rows[place], place) if apart[place] else place for place in range(n)], np.int64
    )


def answer_cells(ballot: Ballot, rows: IntArray) -> IntArray:
    """Return a number for what each path of some questions says [rows, K].

    Equal ones have one answer and are right alike. Without answers only the latter is known.
    """
    votes = ballot.votes
    if votes.answers is None:
        return votes.scored()[rows].astype(np.int64)
    if ballot.held is not None:
        codes = ballot.held.keys.codes[rows].astype(np.int64)
    else:
        numbers: dict[str | None, int] = {}
        chosen: list[int] = rows.tolist()
        codes = np.array(
            [[numbers.setdefault(key, len(numbers)) for key in ballot.keys[row]] for row in chosen], np.int64
        )
    return codes if votes.correct is None else 2 * codes + votes.correct[rows]


def _changes(cells: IntArray) -> IntArray:
    """Return how often neighbours differ in each row of ``cells`` [n, K]."""
    return np.count_nonzero(cells[:, 1:] != cells[:, :-1], axis=1).astype(np.int64)


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
