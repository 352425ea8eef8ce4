"""How many paths to draw: the paper's K*, its honest versions, costs, and what can be said about voting."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from keff.records import Estimate
from keff.stats.votes import FloatArray

CLIP = (0.05, 0.99)
"""Range to which the paper's Algorithm 1 clips c."""

Recommendation = Literal["sample", "single path", "do not vote", "pilot too small"]
"""What an analysis can say about voting."""


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


def k_within(curve: ArrayLike, delta: float) -> int:
    """Return the least K from which on the accuracy [K_max] stays within ``delta`` of that at K_max.

    For a plurality curve of records or a predicted majority curve, whose even entries equal the odd ones
    before and are thus never chosen. Raises ValueError for negative ``delta`` or an empty curve.
    """
    values = _curve(curve)
    if not delta >= 0:
        raise ValueError("the accuracy to give away must not be negative")
    far = np.flatnonzero(np.abs(values - values[-1]) > delta + 1e-12)
    return int(far[-1]) + 2 if far.size else 1


def k_within_probably(curves: FloatArray, weights: FloatArray, delta: float, sure: float = 0.8) -> int:
    """Return the least K that lies within ``delta`` of K_max with posterior probability ``sure``.

    ``curves`` [m, K_max] are majority curves of draws or grid cells with ``weights`` [m]
    (``Draws.majority``).
    """
    near = np.abs(curves - curves[:, -1:]) <= delta + 1e-12
    held = np.flip(np.logical_and.accumulate(np.flip(near, axis=1), axis=1), axis=1)
    chance = weights @ held / weights.sum()
    return int(np.argmax(chance >= sure - 1e-12)) + 1


def k_retaining(curve: ArrayLike, share: float) -> int:
    """Return the least K from which on the accuracy [K_max] is at least ``share`` of that at K_max."""
    values = _curve(curve)
    if not 0 < share <= 1:
        raise ValueError("the share to retain must be above 0 and at most 1")
    short = np.flatnonzero(values < share * values[-1] - 1e-12)
    return int(short[-1]) + 2 if short.size else 1


def k_by_value(curve: ArrayLike, value_per_correct: float, cost_per_path: float) -> int:
    """Return the least K with the largest value_per_correct * accuracy(K) - cost_per_path * K."""
    values = _curve(curve)
    if not value_per_correct > 0 or not cost_per_path >= 0:
        raise ValueError("the value of a correct answer must be positive and the cost not negative")
    worth = value_per_correct * values - cost_per_path * np.arange(1, values.size + 1)
    return int(np.argmax(worth >= worth.max() - 1e-12 * value_per_correct)) + 1


def net_cost(k: int, k_max: int = 32, pilot_k: int = 4) -> float:
    """Return (K + K0)/K_max, the paths of a query and its pilot as a share of the full budget (Table 4)."""
    return (k + pilot_k) / k_max


def amortised_cost(k: int, queries: int, k_max: int = 32, pilot_paths: int = 400) -> float:
    """Return (pilot + N K)/(N K_max), the total cost of N queries as a share of the full budget."""
    return (pilot_paths + queries * k) / (queries * k_max)


def break_even(k: int, k_max: int = 32, pilot_paths: int = 400) -> float:
    """Return after how many queries the pilot is repaid, ceil(pilot/(K_max-K)); infinite if K = K_max."""
    return math.inf if k >= k_max else float(math.ceil(pilot_paths / (k_max - k)))


def _curve(curve: ArrayLike) -> FloatArray:
    values = np.asarray(curve, np.float64)
    if values.ndim != 1 or values.size < 1 or not np.all(np.isfinite(values)):
        raise ValueError("an accuracy curve needs one finite value for each K = 1..K_max")
    return values
