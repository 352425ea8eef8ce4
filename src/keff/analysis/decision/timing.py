"""Time to answer of the candidate rules against today's: what bounds a choice in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri

from keff.records import Interval
from keff.stats.time import quantile_change, quantile_ratio, resampled_ratios
from keff.stats.votes import FloatArray, IntArray

# The quantiles that a bound holds for: the usual answer, and the slowest one in twenty.
SHARES = (0.5, 0.95)

# So sure is it, under a normal law of the logarithms, that a quantile stays within its bound: a point
# estimate alone would break it for half of the workloads. As the surest rules are not always the cheapest,
# the median then breaks its bound in 15% of recorded pilots, and the 95th percentile in 10% (docs/in-
# flight.md).
SURE_OF_TIME = (0.85, 0.8)

# Times are kept in single precision; and of the few slowest questions a twentieth more is not noticed.
TOLERANCE: FloatArray = np.log([1 + 1e-6, 1.05])

# Shares at whose quantiles a smoothed one looks.
STEPS: FloatArray = np.linspace(0, 1, 401, dtype=np.float64)


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

    @cached_property
    def _laws(self) -> tuple[FloatArray, ...]:
        """The laws of the shares over which a smoothed quantile is the mean, at ``STEPS``.

        Harrell and Davis (Biometrika 1982): Beta((n + 1) q, (n + 1) (1 - q)) for n questions. Of 15 questions
        the plain median and 95th percentile are two questions' times, and vary by a third more.
        """
        size = int(self.clusters.max()) + 2
        return tuple(betainc(size * share, size * (1 - share), STEPS) for share in SHARES)

    @cached_property
    def _smoothed(self) -> FloatArray:
        """Logarithms of the smoothed quantiles of each rule as parts of the reference's [C, 2]."""
        middles = (STEPS[1:] + STEPS[:-1]) / 2
        weights = np.diff(self._laws).T
        read = [np.quantile(wait, middles, method="inverted_cdf") @ weights for wait in self.waits]
        found = np.log(np.maximum(read, 1e-12))
        return np.asarray(found - found[-1], np.float64)

    def within(self, bounds: Sequence[float]) -> NDArray[np.bool_]:
        """Return which rules are fast enough on the pilot [C]; ``bounds`` are parts of today's time.

        By the smoothed quantiles, and by the plain ones that are shown.
        """
        shown = self.ratios <= np.asarray(bounds) * (1 + 1e-6)
        return np.asarray(np.all(shown & (self._smoothed <= np.log(bounds) + TOLERANCE), axis=1))

    def surely(self, rule: int, bounds: Sequence[float]) -> bool:
        """Return whether a rule is as surely fast enough as is asked: by its error over resampled questions.

        One that is never slower than today keeps today's time.
        """
        mine, today = self.waits[rule], self.waits[-1]
        never_slower = bool(np.all(mine <= today))
        room = np.log(bounds) + TOLERANCE - self._smoothed[rule]
        for share, bound, law, sure, left in zip(SHARES, bounds, self._laws, SURE_OF_TIME, room, strict=True):
            if bound < 1 or not never_slower:
                drawn = np.log(np.maximum(resampled_ratios(mine, today, share, self.clusters, law), 1e-12))
                if float(drawn.std()) * ndtri(sure) > left:
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
