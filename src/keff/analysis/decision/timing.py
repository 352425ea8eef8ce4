"""Time to answer of the candidate rules against today's: what bounds a choice in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keff.records import Interval
from keff.stats.time import quantile_change, quantile_ratio, resampled_ratios
from keff.stats.votes import FloatArray, IntArray

SHARES = (0.5, 0.95)
"""The quantiles that a bound holds for: the usual answer, and the slowest one in twenty."""

SURE_OF_TIME = 0.9
"""In so many of the resamples of the questions a quantile must stay within its bound: a point estimate alone
would break it for half of the workloads."""

ROUNDING = 1e-6
"""Times are kept in single precision."""


@dataclass(frozen=True)
class Timing:
    """Times to answer of C rules along the same orders of launching, each [n, R]; the last is the reference.

    In ``seconds``, or else in tokens of the critical path.
    """

    waits: tuple[FloatArray, ...]
    clusters: IntArray
    seconds: bool

    @cached_property
    def ratios(self) -> FloatArray:
        """Median and 95th percentile of each rule as parts of the reference's [C, 2]."""
        found = np.array([np.quantile(wait, SHARES) for wait in self.waits])
        return np.asarray(found / np.maximum(found[-1], 1e-12), np.float64)

    @cached_property
    def means(self) -> FloatArray:
        """Mean time of each rule as a part of the reference's [C]."""
        found = np.array([wait.mean() for wait in self.waits])
        return np.asarray(found / max(float(found[-1]), 1e-12), np.float64)

    def within(self, bounds: Sequence[float]) -> NDArray[np.bool_]:
        """Return which rules are fast enough on the pilot [C]; ``bounds`` are parts of today's time."""
        return np.asarray(np.all(self.ratios <= np.asarray(bounds) * (1 + ROUNDING), axis=1))

    def surely(self, rule: int, bounds: Sequence[float]) -> bool:
        """Return whether a rule is fast enough in nearly all resamples of the questions."""
        for share, bound in zip(SHARES, bounds, strict=True):
            drawn = resampled_ratios(self.waits[rule], self.waits[-1], share, self.clusters)
            if np.mean(drawn <= bound * (1 + ROUNDING)) < SURE_OF_TIME:
                return False
        return True

    def change(self, rule: int) -> tuple[Interval | None, Interval | None]:
        """Return the change of both quantiles in seconds; None where none are recorded."""
        if not self.seconds:
            return None, None
        mine, today = self.waits[rule], self.waits[-1]
        p50, p95 = (quantile_change(mine, today, share, self.clusters) for share in SHARES)
        return p50, p95

    def ratio(self, rule: int) -> tuple[Interval, Interval]:
        """Return both quantiles as parts of today's, with 95% limits for as many new questions."""
        mine, today = self.waits[rule], self.waits[-1]
        p50, p95 = (quantile_ratio(mine, today, share, self.clusters) for share in SHARES)
        return p50, p95
