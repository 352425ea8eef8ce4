"""How many paths to draw: the paper's K*, its honest versions, costs, and what can be said about voting."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from keff.records import Estimate
from keff.stats.votes import FloatArray

# Range to which the paper's Algorithm 1 clips c.
CLIP = (0.05, 0.99)

# What an analysis can say about voting.
Recommendation = Literal["sample", "single path", "do not vote", "pilot too small"]


def k_star(c: float, epsilon: float = 0.025, k_max: int = 32, clip: tuple[float, float] | None = CLIP) -> int:
    """Return the paper's K*: the least K at which one more path adds at most ``epsilon`` to K_eff.

    ceil((sqrt((1-c)/epsilon) - 1)/c + 1), at least 1 and at most ``k_max`` (Eq. 12, Algorithm 1). ``clip``
    bounds c first; None leaves it, as the paper's tables do, and then c <= 0 gives ``k_max``. A degenerate
    pilot (c NaN) gives ``k_max``. Raises ValueError for epsilon <= 0, k_max < 1 or c > 1.
    """
    if not epsilon > 0 or k_max < 1:
        raise ValueError("K* needs epsilon > 0 and K_max >= 1")
    if c > 1:
        raise ValueError("a correlation cannot exceed 1")
    if math.isnan(c):
        return k_max
    if clip is not None:
        c = min(max(c, clip[0]), clip[1])
    if c <= 0:
        return k_max
    exact = (math.sqrt((1 - c) / epsilon) - 1) / c + 1
    # Rounding must not push an exact integer up by one path.
    return min(max(math.ceil(exact - 1e-9), 1), k_max)


def k_star_interval(c: Estimate, epsilon: float = 0.025, k_max: int = 32) -> tuple[int, int]:
    """Return the interval of K* that an interval of c implies: [K*(hi), K*(lo)], for K* falls with c.

    Coverage carries over. Without an interval of c nothing is excluded: (1, k_max).
    """
    if c.lo is None or c.hi is None:
        return 1, k_max
    return k_star(min(c.hi, 1.0), epsilon, k_max), k_star(c.lo, epsilon, k_max)


def k_star_conservative(c: Estimate, epsilon: float = 0.025, k_max: int = 32) -> int:
    """Return K* at the lower limit of c: too few paths with probability below the limit's error.

    ``c`` is a two-sided 80% interval, whose lower limit is one-sided 90%
    (``interval_c(votes, level=0.8)``).
    """
    return k_star_interval(c, epsilon, k_max)[1]


def k_within_probably(curves: FloatArray, weights: FloatArray, delta: float, sure: float = 0.8) -> int:
    """Return the least K that lies within ``delta`` of K_max with posterior probability ``sure``.

    ``curves`` [m, K_max] are majority curves of draws or grid cells with ``weights`` [m]
    (``Draws.majority``).
    """
    near = np.abs(curves - curves[:, -1:]) <= delta + 1e-12
    held = np.flip(np.logical_and.accumulate(np.flip(near, axis=1), axis=1), axis=1)
    chance = weights @ held / weights.sum()
    return int(np.argmax(chance >= sure - 1e-12)) + 1


def net_cost(k: int, k_max: int = 32, pilot_k: int = 4) -> float:
    """Return (K + K0)/K_max, the paths of a query and its pilot as a share of the full budget (Table 4)."""
    return (k + pilot_k) / k_max


def amortised_cost(k: int, queries: int, k_max: int = 32, pilot_paths: int = 400) -> float:
    """Return (pilot + N K)/(N K_max), the total cost of N queries as a share of the full budget."""
    return (pilot_paths + queries * k) / (queries * k_max)


def break_even(k: int, k_max: int = 32, pilot_paths: int = 400) -> float:
    """Return after how many queries the pilot is repaid, ceil(pilot/(K_max-K)); infinite if K = K_max."""
    return math.inf if k >= k_max else float(math.ceil(pilot_paths / (k_max - k)))
