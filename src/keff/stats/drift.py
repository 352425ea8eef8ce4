"""What shows a drift without labels: patterns of a request's first answers, and when its rule stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache

import numpy as np

from keff.stats.votes import IntArray, Votes

Pattern = tuple[int, ...]


@cache
def patterns(m: int) -> tuple[Pattern, ...]:
    """Return the partitions of m paths, most agreement first: (4,) (3,1) (2,2) (2,1,1) (1,1,1,1) for m = 4.

    The code of a pattern is its place in this list.
    """
    return tuple(_partitions(m, m))


def pattern_code(keys: Sequence[Hashable | None], m: int) -> int:
    """Return the code of the first m answer keys of a request; None abstains and agrees with nothing.

    m must be fixed before looking: the least number of paths that the policy draws, alike in the pilot.
    """
    first = keys[:m]
    sizes = [*Counter(key for key in first if key is not None).values(), *[1] * first.count(None)]
    return _codes(m)[tuple(sorted(sizes, reverse=True))]


def pattern_codes(votes: Votes, m: int) -> IntArray:
    """Return the pattern codes [n] of the first m answers of every item; needs no gold labels."""
    head = votes.answered()[:, :m].tolist()
    return np.array([pattern_code([None if code < 0 else code for code in row], m) for row in head])


def pattern_table(codes: IntArray, m: int) -> IntArray:
    """Return how many requests show each pattern, [patterns]: the profile that a plan keeps of its pilot."""
    return np.bincount(codes, minlength=len(patterns(m))).astype(np.int64)


@cache
def _codes(m: int) -> dict[Pattern, int]:
    return {pattern: code for code, pattern in enumerate(patterns(m))}


def agreeing_pairs(m: int) -> IntArray:
    """Return the number of agreeing pairs of paths in each pattern, [patterns]; m(m-1)/2 when unanimous."""
    return np.array([sum(size * (size - 1) // 2 for size in pattern) for pattern in patterns(m)], np.int64)


def _partitions(total: int, largest: int) -> list[Pattern]:
    if total == 0:
        return [()]
    return [
        (size, *rest)
        for size in range(min(total, largest), 0, -1)
        for rest in _partitions(total - size, size)
    ]


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
