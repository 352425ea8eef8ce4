"""Time to answer: paths in flight along recorded courses, and quantiles with cluster-bootstrap limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.records import Interval
from keff.stats.resampling import group_sums, resampled_totals
from keff.stats.votes import FloatArray, IntArray

GRID = 400
"""So many values between the least and the greatest stand for the law of the times in the bootstrap."""

MANY_GROUPS, NEAR = 20_000, 64
"""From so many clusters on, so many values near the quantile are enough: within twenty standard errors."""


@dataclass(frozen=True)
class Flights:
    """Votes whose paths fly ahead of what is needed [m]: the seconds to the answer, and what was in vain.

    ``in_vain`` [m, cap] is the part of each path that ran without being counted: 1 where it had ended, less
    where it was cancelled, 0 for paths that were counted or never begun.
    """

    wait: FloatArray
    in_vain: FloatArray


def fly(
    ahead: NDArray[Any],
    seconds: NDArray[Any],
    in_flight: int = 1,
    slots: int | None = None,
    alone: float = 1.0,
) -> Flights:
    """Follow a policy along m courses; ``ahead`` [m, cap + 1] are the paths that it asks for, 0 to stop.

    ``seconds`` [m, cap] is how long each path runs once begun. Votes count in launch order. At least
    ``in_flight`` paths are kept asked for beyond those that were counted (1: whole rounds, one after the
    other); those that are not needed are cancelled with the answer. At most ``slots`` of them run at once,
    the others queue in launch order, so that a round never takes less than its work over the slots. A path
    that runs alone takes ``alone`` times the seconds that it takes while all slots are busy, and in between
    proportionally: paths that run at once slow each other down.
    """
    seconds = np.asarray(seconds, np.float64)
    courses, cap = int(seconds.shape[0]), int(seconds.shape[1])
    column: IntArray = np.arange(cap, dtype=np.int64)
    begun, ended = np.full((courses, cap), np.inf), np.full((courses, cap), np.inf)
    most = cap if slots is None else slots
    free = None if most >= cap else np.zeros((courses, most))
    now, at, asked = np.zeros(courses), np.zeros(courses, np.int64), np.zeros(courses, np.int64)
    going: IntArray = np.arange(courses, dtype=np.int64)
    while len(going):
        step = ahead[going, at[going]].astype(np.int64)
        going, step = going[step > 0], step[step > 0]
        needed = at[going] + step
        target = np.maximum(needed, np.minimum(cap, at[going] + in_flight))
        for path in range(int(asked[going].min(initial=cap)), int(target.max(initial=0))):
            rows = going[(path >= asked[going]) & (path < target)]
            busy = np.minimum(target - at[going], most)[(path >= asked[going]) & (path < target)]
            takes = seconds[rows, path] * (alone + (1 - alone) * (busy - 1) / max(most - 1, 1))
            start = now[rows] if free is None else _slot(free, rows, now[rows], takes)
            begun[rows, path], ended[rows, path] = start, start + takes
        asked[going] = np.maximum(asked[going], target)
        at[going] = needed
        counted = column < needed[:, None]
        now[going] = np.where(counted, ended[going], 0.0).max(axis=1)
    flying = (column >= at[:, None]) & (column < asked[:, None])
    ran = np.where(flying, np.maximum(now[:, None] - begun, 0.0), 0.0)
    takes = np.where(flying, ended - np.where(flying, begun, 0.0), 1.0)
    return Flights(now, np.minimum(ran / np.maximum(takes, 1e-12), 1.0))


def longest_of(seconds: NDArray[Any], start: IntArray, size: IntArray) -> FloatArray:
    """Return the longest of ``size`` paths from ``start`` in each row of ``seconds`` [m, cap].

    What a round takes whose paths run at once: it ends with its slowest path.
    """
    longest = np.zeros(len(seconds))
    for width in np.unique(size):
        rows = np.flatnonzero(size == width)
        window = np.asarray(start[rows, None] + np.arange(int(width)), np.int64)
        longest[rows] = seconds[rows[:, None], window].max(axis=1)
    return longest


def _slot(free: FloatArray, rows: IntArray, now: FloatArray, seconds: FloatArray) -> FloatArray:
    """Take the slot of each course that is free first; return when its path begins."""
    slot = free[rows].argmin(axis=1)
    start = np.maximum(now, free[rows, slot])
    free[rows, slot] = start + seconds
    return start


def quantile(times: FloatArray, share: float, clusters: IntArray, replicates: int = 500) -> Interval:
    """Return a quantile of the times to answer [n, R] of n questions over R orders of drawing.

    Every question weighs the same. The limits are 95% percentile limits over resampled clusters [n], None
    with fewer than two; the orders of one question stay together, for its paths are alike in length.
    """
    value = float(np.quantile(times, share))
    groups = int(clusters.max()) + 1
    if groups < 2:
        return Interval(value, None, None, "replayed courses")
    grid = np.unique(np.quantile(times, _shares(share, groups), method="inverted_cdf"))
    below = _reached(times, grid) / times.shape[1]
    units = group_sums(np.hstack([np.ones((len(below), 1)), below]), clusters, groups)
    totals = resampled_totals(units, replicates, np.random.default_rng(0))
    reached = totals[1:] >= share * totals[0] - 1e-9
    spread = grid[reached.argmax(axis=0)]
    lo, hi = np.quantile(spread, [0.025, 0.975])
    return Interval(
        value, min(float(lo), value), max(float(hi), value), "replayed courses, cluster_bootstrap"
    )


def _shares(share: float, groups: int) -> FloatArray:
    """Return the shares whose quantiles the bootstrap looks at."""
    if groups < MANY_GROUPS:
        return np.linspace(0, 1, GRID)
    wide = 10 / groups**0.5
    near: FloatArray = np.linspace(max(share - wide, 0.0), min(share + wide, 1.0), NEAR, dtype=np.float64)
    return np.concatenate([near, [1.0]])


def _reached(times: FloatArray, grid: FloatArray) -> IntArray:
    """Return how many of the times [n, R] of each question are at most each value of ``grid`` [G], [n, G]."""
    n, size = len(times), grid.size
    place = np.searchsorted(grid, times, side="left") + np.arange(n)[:, None] * (size + 1)
    counts = np.bincount(place.ravel(), minlength=n * (size + 1)).reshape(n, size + 1)
    return counts[:, :size].cumsum(axis=1)
