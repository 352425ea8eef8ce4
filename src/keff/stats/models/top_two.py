"""The race of the two leading answers: whether the leader of n votes still leads at the cap."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.votes import FloatArray

# The prior (a, w) without a pilot: the pooled fit to recorded generations of 20 models on 15 tasks.
GENERIC = (0.564, 0.3)


def grid(cap: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return n, v1 and v2 of every cell of a table, as arrays that broadcast to [cap + 1] * 3."""
    line = np.arange(cap + 1, dtype=np.float64)
    return line[:, None, None], line[None, :, None], line[None, None, :]


def log_rising(a: ArrayLike, size: int) -> FloatArray:
    """Return the log of a (a + 1) ... (a + v - 1) for v = 0 to ``size`` [..., size + 1]."""
    steps: FloatArray = np.log(np.asarray(a, np.float64)[..., None] + np.arange(size))
    return np.concatenate([np.zeros((*steps.shape[:-1], 1)), np.cumsum(steps, axis=-1)], axis=-1)


def top_two_lead(cap: int, a: float, w: float) -> FloatArray:
    """Return P(the leader still leads after path ``cap`` | n, v1, v2) [cap + 1] * 3, by (n, v1, v2).

    The leader's share among the top two is 1 with probability w, else Beta(a, a). The (cap - n)(v1 + v2)/n
    votes of the top two that remain are beta-binomial; a fraction of a vote is interpolated, a tie counts
    one half. Cells before the first vote hold 0.
    """
    n, v1, v2 = grid(cap)
    rest = np.minimum((cap - n) * (v1 + v2) / np.maximum(n, 1), cap)
    whole = np.floor(rest).astype(int)
    ahead = _ahead_given_rest(cap, a)
    i, j = np.indices((cap + 1, cap + 1))
    low, high = ahead[i, j, whole], ahead[i, j, np.minimum(whole + 1, cap)]
    mixed = low + (rest - whole) * (high - low)
    together = 2 * np.exp(log_rising(a, cap) - log_rising(2 * a, cap))
    one_answer = w / (w + (1 - w) * np.minimum(together, 1))
    mixed[:, 1:, 0] = one_answer[None, 1:] + (1 - one_answer[None, 1:]) * mixed[:, 1:, 0]
    mixed[:, 0] = 0
    return mixed


@lru_cache(maxsize=64)
def _ahead_given_rest(cap: int, a: float) -> FloatArray:
    """P(v1 + Y > v2 + r - Y) + half P(tie), Y ~ BetaBin(r, a + v1, a + v2), by [v1, v2, r].

    By recursion over the next vote. Holds where v1 + v2 + r <= cap, the cells that occur.
    """
    v1, v2 = np.indices((cap + 1, cap + 1))
    to_leader = (a + v1) / (2 * a + v1 + v2)
    out = np.empty((cap + 1,) * 3)
    out[:, :, 0] = (1 + np.sign(v1 - v2)) / 2
    for r in range(1, cap + 1):
        later = np.pad(out[:, :, r - 1], (0, 1), mode="edge")
        out[:, :, r] = to_leader * later[1:, :-1] + (1 - to_leader) * later[:-1, 1:]
    return out
