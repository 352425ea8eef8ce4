"""Detection of copies: questions recorded several times, and branches that share paths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.errors import UsageError
from keff.reading.ballot import Ballot
from keff.records import Note
from keff.stats.votes import FloatArray, IntArray

# Rows of answers are compared in records of at most so many questions: beyond, that takes longer than the
# estimates.
LARGEST = 20_000

# Questions that draw the same answers do so in different orders. Random orders fill at least 1 - 1/e = .63 of
# what they could; rows that were copied at least once fill half.
FEW_ORDERS = 0.6

# Fewer copies change no interval visibly.
FEWEST = 5
# Copies are named from so many on, and from this share of the questions: a few coincide in any record.
SHARE = 0.05


def copies(ballot: Ballot) -> IntArray:
    """Return a number per question [n], the same for copies: equal texts, or copied answer rows.

    Rows count as copied where questions with the same answers have them in far fewer orders than chance
    gives. Rows that hold one answer, or all equal answers side by side (as where paths were sorted), say
    nothing about copies.
    """
    n = ballot.votes.n
    one = np.arange(n, dtype=np.int64)
    asked = ballot.questions.asked
    if asked is not None:
        known = np.flatnonzero(asked)
        _, first, back = np.unique(asked[known], return_index=True, return_inverse=True)
        one[known] = known[first][back]
    # Columns of different templates make few orders of their own.
    if bool(np.all(one == np.arange(n))) and n <= LARGEST and ballot.votes.slots is None:
        one = _copied_rows(ballot)
    if bool(np.all(one == np.arange(n))):
        return one
    return np.unique(one, return_inverse=True)[1].astype(np.int64)


def _copied_rows(ballot: Ballot) -> IntArray:
    """Return for each question [n] the first with the same answers, where rows are copied."""
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
    """Return an integer for each path's answer [rows, K].

    Equal ones have one answer and are right alike. Without answers only the latter is known.
    """
    votes = ballot.votes
    if votes.answers is None:
        return votes.scored()[rows].astype(np.int64)
    codes = ballot.keys.codes[rows].astype(np.int64)
    return codes if votes.correct is None else 2 * codes + votes.correct[rows]


def _changes(cells: IntArray) -> IntArray:
    """Return how often neighbouring paths differ in each row of ``cells`` [n, K]."""
    return np.count_nonzero(cells[:, 1:] != cells[:, :-1], axis=1).astype(np.int64)


def question_notes(names: Sequence[str], ballots: Sequence[Ballot]) -> Iterator[Note]:
    """Yield a note where an id has another question's text in a record than in the first that has one."""
    first = dict[str, tuple[int, str]]()
    for name, ballot in zip(names, ballots, strict=True):
        asked = ballot.questions.asked
        if asked is None:
            continue
        differ = Counter[str]()
        for own, text in zip(ballot.names, asked.tolist(), strict=True):
            if text and first.setdefault(own, (text, name))[0] != text:
                differ[first[own][1]] += 1
        for other, count in differ.items():
            text = f"{count} ids have another question text in {name} than in {other}: are they the same?"
            yield Note("other_questions", text)


# Branches are copies where chance makes a pair of them as equal as they are less than once in a million.
COINCIDENCE = math.log(1e-6)

# So many questions are compared: copies are equal on all, and further ones only cost time.
COMPARED = 2_000

# Answers; with their lengths, where these are known, as imaginary parts.
Cells = NDArray[np.complexfloating[Any, Any]]

# On fewer questions equal answers are no news.
FEWEST_COMPARED = 10


def check_separate(
    names: Sequence[str], codes: Sequence[IntArray], tokens: Sequence[FloatArray | None]
) -> list[Note]:
    """Raise UsageError for branches that share paths; note those whose answers are always equal.

    ``codes`` are the answers [n, K_a] of each branch, equal codes equal answers, and ``tokens`` [n, K_a] what
    they took, where that is recorded. A column of one branch that equals one of another on every question, by
    answers or by answers and tokens, is a copy where the chance of that, were the paths of a question
    exchangeable between the two, is below ``COINCIDENCE`` for any pair of columns. So are two branches that
    hold the same on every question in whatever order, by the hypergeometric chance of equal halves.
    """
    notes: list[Note] = []
    seen = [code[:COMPARED] for code in codes]
    for a, b in combinations(range(len(names)), 2):
        equal = np.array_equal(seen[a], seen[b])
        cells = [(seen[a] + 0j, seen[b] + 0j)]
        mine, other = tokens[a], tokens[b]
        timed = 0
        if mine is not None and other is not None:
            cells.append((seen[a] + 1j * mine[:COMPARED], seen[b] + 1j * other[:COMPARED]))
            timed = _timed_copies(*cells[1])
        paths, whole = max(_copied_columns(*pair) for pair in cells), timed == len(seen[a])
        if whole or paths or any(_same_multisets(*pair) for pair in cells):
            what = f"{paths} of {seen[b].shape[1]} paths" if paths else "all" if whole else "in another order"
            raise UsageError(
                f"{names[a]} and {names[b]} hold the same paths ({what}, equal on every question). Leave one "
                "of them out, or draw each branch separately, with seeds of its own"
            )
        if timed >= max(FEWEST_COMPARED, 2 * SHARE * len(seen[a])):
            text = (
                f"{names[a]} and {names[b]} have equal answers of equal lengths on {timed} of {len(seen[a])} "
                "questions. Draw each branch separately, with seeds of its own"
            )
            notes.append(Note("same_paths", text))
        if equal and len(seen[a]) >= FEWEST_COMPARED:
            text = f"{names[a]} and {names[b]} give the same answers. One of them is enough, or one is a copy"
            notes.append(Note("same_answers", text))
    return notes


def _timed_copies(left: Cells, right: Cells) -> int:
    """Return on how many questions all answers and lengths are equal; 0 where lengths follow from answers."""
    if left.shape != right.shape:
        return 0
    same = left[(left == right).all(axis=1)]
    return len(same) if len(np.unique(same.imag)) > len(same) / 2 else 0


def _copied_columns(left: Cells, right: Cells) -> int:
    """Return how many columns of ``right`` equal one of ``left`` beyond chance."""
    copied = sum(any(np.array_equal(own, other) for own in left.T) for other in right.T)
    if not copied:
        return 0
    # By the answers of both on a question; those that are equal add to it, which errs on the side of letting
    # branches pass.
    rows: list[list[complex]] = np.concatenate([left, right], axis=1).tolist()
    agree = (sum(count**2 for count in Counter(row).values()) / len(row) ** 2 for row in rows)
    least = COINCIDENCE - math.log(left.shape[1] * right.shape[1])
    return copied if math.fsum(map(math.log, agree)) <= least else 0


def _same_multisets(left: Cells, right: Cells) -> bool:
    """Return whether both have the same answers to every question in any order, beyond chance."""
    if left.shape != right.shape or not np.array_equal(np.sort(left, axis=1), np.sort(right, axis=1)):
        return False
    rows: list[list[complex]] = left.tolist()
    # C(2c, c) of each answer over C(2K, K): the chance that halves of 2c equal answers are equal.
    chance = (math.prod(math.comb(2 * c, c) for c in Counter(row).values()) for row in rows)
    every = math.log(math.comb(2 * left.shape[1], left.shape[1]))
    return math.fsum(math.log(ways) - every for ways in chance) < COINCIDENCE
