"""Label-free drift of a deployment against its pilot, by the partition pattern of a request's first answers.

Batch tests, and accuracy if patterns keep theirs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keff.stats.resampling import load_rng, save_rng
from keff.stats.votes import IntArray, Votes

Pattern = tuple[int, ...]


@cache
def patterns(m: int) -> tuple[Pattern, ...]:
    """Return the partitions of m paths, most agreement first: (4,) (3,1) (2,2) (2,1,1) (1,1,1,1) for m = 4.

    The code of a pattern is its place in this list. Raises ValueError for m < 2: one path shows no agreement.
    """
    if m < 2:
        raise ValueError("agreement needs at least two paths per request")
    return tuple(_partitions(m, m))


def pattern_of(keys: Sequence[Hashable | None], m: int) -> Pattern:
    """Return the pattern of the first m answer keys of a request; None abstains and agrees with nothing.

    m must be fixed before looking: the least number of paths that the policy draws, alike in the pilot.
    Raises ValueError when fewer than m keys are given.
    """
    if len(keys) < m:
        raise ValueError(f"a request drew {len(keys)} paths, fewer than the {m} that its pattern needs")
    first = keys[:m]
    alone = [1] * sum(key is None for key in first)
    return tuple(sorted([*Counter(key for key in first if key is not None).values(), *alone], reverse=True))


def pattern_code(keys: Sequence[Hashable | None], m: int) -> int:
    """Return the code of ``pattern_of`` in ``patterns(m)``."""
    return _codes(m)[pattern_of(keys, m)]


def pattern_codes(votes: Votes, m: int) -> IntArray:
    """Return the pattern codes [n] of the first m answers of every item; needs no gold labels."""
    if votes.k < m:
        raise ValueError(f"votes of {votes.k} paths are fewer than the {m} that a pattern needs")
    head = votes.answered()[:, :m].tolist()
    return np.array([pattern_code([None if code < 0 else code for code in row], m) for row in head])


def pattern_table(codes: IntArray, m: int) -> IntArray:
    """Return how many requests show each pattern, [patterns]: the profile that a plan keeps of its pilot."""
    return np.bincount(codes, minlength=len(patterns(m))).astype(np.int64)


@cache
def _codes(m: int) -> dict[Pattern, int]:
    return {pattern: code for code, pattern in enumerate(patterns(m))}


@cache
def _agreeing(m: int) -> tuple[int, ...]:
    return tuple(sum(size * (size - 1) // 2 for size in pattern) for pattern in patterns(m))


def agreeing_pairs(m: int) -> IntArray:
    """Return the number of agreeing pairs of paths in each pattern, [patterns]; m(m-1)/2 when unanimous."""
    return np.array(_agreeing(m), np.int64)


def mean_agreement(table: IntArray, m: int) -> float:
    """Return the mean pairwise agreement of a pattern table: the share of agreeing pairs of paths."""
    return float(table @ agreeing_pairs(m)) / (float(table.sum()) * m * (m - 1) / 2)


def _partitions(total: int, largest: int) -> list[Pattern]:
    if total == 0:
        return [()]
    return [
        (size, *rest)
        for size in range(min(total, largest), 0, -1)
        for rest in _partitions(total - size, size)
    ]


# Draws at a time: few first, for most batches end early; not more than memory holds lightly.
FIRST_CHUNK, LARGEST_CHUNK = 500, 50_000
# Hits at which a p-value is known to a seventh of itself (1/sqrt(50)).
ENOUGH = 50
# At the level itself so many draws are beyond what was seen.
DRAWS_PER_LEVEL = 20


@dataclass(frozen=True, slots=True)
class BatchTest:
    """The agreement of a batch against the pilot's, and the permutation p-value of their difference."""

    pilot: float
    batch: float
    p: float


@dataclass(frozen=True, slots=True)
class BatchState:
    """One batch of a monitored sequence: its number, test, share of alpha, and the alarm (which stays on)."""

    number: int
    test: BatchTest
    level: float
    alarm: bool


def agreement_test(
    pilot: ArrayLike, batch: ArrayLike, m: int, rng: np.random.Generator, draws: int = 9999
) -> BatchTest:
    """Test whether a batch of requests agrees with itself as much as the pilot did, two-sided.

    ``pilot`` and ``batch`` are pattern tables (``pattern_table``) at the same m. Permutes requests between
    the two by multivariate hypergeometric draws of the batch's table; the statistic is the distance of mean
    agreements, p = (1 + #)/(draws + 1). Stops early at the 50th draw that is as far (Besag and Clifford,
    1991), then p = 50/draws so far; both are valid p-values. Exchangeable units are requests (or items), so
    a pilot gives one row per item. Taking the pilot as known instead would alarm falsely in 34-83% of cases.
    """
    before, now = _table(pilot, m), _table(batch, m)
    pairs, total = agreeing_pairs(m), before + now
    size, whole = int(now.sum()), int(total.sum())
    # In integers: rounding must not split ties of the statistic.
    expected = size * int(total @ pairs)
    observed = abs(whole * int(now @ pairs) - expected)

    def as_far(count: int) -> NDArray[np.bool_]:
        tables = rng.multivariate_hypergeometric(total, size, count, method="marginals")
        return np.abs(whole * (tables @ pairs) - expected) >= observed

    return BatchTest(mean_agreement(before, m), mean_agreement(now, m), _sequential_p(as_far, draws))


def alpha_spent(number: int, alpha: float) -> float:
    """Return the level 6 alpha / (pi^2 j^2) of the j-th batch, j = 1, 2, ....

    Over all j they sum to alpha.
    """
    if number < 1 or not 0 < alpha < 1:
        raise ValueError("batches are numbered from 1 and alpha lies between 0 and 1")
    return 6.0 * alpha / (math.pi * number) ** 2


def stop_score(keys: Sequence[Hashable | None], stop: int | None, most: int) -> float:
    """Return a drift score of one request from when its rule stopped: more when its paths agree more.

    ``keys`` are the answer keys in launch order (None abstains), ``stop`` the paths at which the rule
    stops, None
    for not within ``most``, the paths that the pilot has of each question. The score is minus the stop, later
    than all of them for None, with the leader's share of those paths between 0 and 0.9 to tell equal stops
    apart. Exchangeable where requests are: the rule sees nothing but the votes.
    """
    n = most if stop is None else stop
    votes = Counter(key for key in keys[:n] if key is not None)
    share = max(votes.values(), default=0) / max(n, 1)
    # Below 1, so that no share makes up for a path.
    return 0.9 * share - (most + 1 if stop is None else stop)


class BatchMonitor:
    """Repeated ``agreement_test``s of batches against one pilot, with a false-alarm chance of alpha in all.

    The j-th batch is tested at ``alpha_spent(j)``, with 20 permutation draws to one expected at that level.
    The chance of any alarm ever is at most ``alpha`` while nothing changes (a union bound, so it holds
    although all batches share the pilot).
    """

    def __init__(self, pilot: ArrayLike, m: int, rng: np.random.Generator, alpha: float = 0.05) -> None:
        alpha_spent(1, alpha)
        self._pilot, self._m, self._rng, self._alpha = _table(pilot, m), m, rng, alpha
        self._number, self._alarm = 0, False

    @property
    def alarm(self) -> bool:
        """Whether any batch so far was rejected."""
        return self._alarm

    def update(self, batch: ArrayLike) -> BatchState:
        """Test the next batch, a pattern table at the pilot's m."""
        level = alpha_spent(self._number + 1, self._alpha)
        draws = math.ceil(DRAWS_PER_LEVEL / level)
        test = agreement_test(self._pilot, batch, self._m, self._rng, draws)
        self._number += 1
        self._alarm = self._alarm or test.p <= level
        return BatchState(self._number, test, level, self._alarm)

    def state(self) -> dict[str, object]:
        """Return everything as values that JSON can hold."""
        return {
            "pilot": self._pilot.tolist(),
            "m": self._m,
            "alpha": self._alpha,
            "number": self._number,
            "alarm": self._alarm,
            "rng": save_rng(self._rng),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> BatchMonitor:
        """Return a monitor that goes on exactly where ``state`` was taken."""
        monitor = cls(state["pilot"], state["m"], load_rng(state["rng"]), state["alpha"])
        monitor._number, monitor._alarm = state["number"], state["alarm"]
        return monitor


def _sequential_p(as_far: Callable[[int], NDArray[np.bool_]], draws: int) -> float:
    far, done, chunk = 0, 0, FIRST_CHUNK
    while done < draws:
        hits = as_far(min(chunk, draws - done))
        chunk = min(2 * chunk, LARGEST_CHUNK)
        reached = np.flatnonzero(np.cumsum(hits) >= ENOUGH - far)
        if reached.size:
            return ENOUGH / (done + int(reached[0]) + 1)
        far, done = far + int(hits.sum()), done + hits.size
    return (1 + far) / (draws + 1)


def _table(table: ArrayLike, m: int) -> IntArray:
    counts = np.asarray(table)
    if counts.shape != (len(patterns(m)),) or counts.dtype.kind not in "iu" or counts.min() < 0:
        raise ValueError(
            f"a pattern table of m={m} holds {len(patterns(m))} counts, in the order of patterns(m)"
        )
    if counts.sum() < 1:
        raise ValueError("a pattern table needs at least one request")
    return counts.astype(np.int64)
