"""Time to answer of the candidate rules, as a part of today's, for choices with a time bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from keff.records import Interval
from keff.stats.time import STEPS, at_share, quantile_change, resampled_ratios, smoothing
from keff.stats.votes import BoolArray, FloatArray, IntArray

# The quantiles that a bound holds for: the usual answer, and the slowest one in twenty.
SHARES = (0.5, 0.95)

# So sure is it, under a normal law of the logarithms, that a quantile stays within its bound: a point
# estimate alone would break it for half of the workloads. The median may break it in 15% of pilots, the 95th
# percentile in 10%; nothing is chosen on records (docs/in-flight.md).
SURE_OF_TIME = (0.85, 0.9)

# Times are kept in single precision; and of the few slowest questions a twentieth more is not noticed.
TOLERANCE: FloatArray = np.log([1 + 1e-6, 1.05])


@dataclass(frozen=True)
class Timing:
    """Times to answer of C rules on common launch orders, each [n, R]; the last is the reference.

    In ``seconds``, or else in tokens of the critical path. None where a rule draws more paths than were
    recorded: nothing shows that it is fast enough.
    """

    waits: tuple[FloatArray | None, ...]
    clusters: IntArray
    seconds: bool

    @property
    def recorded(self) -> BoolArray:
        """Mask of the rules whose times are known [C]."""
        return np.array([wait is not None for wait in self.waits])

    def with_unknown(self, rules: int) -> Timing:
        """Return the times with so many rules beyond the record put before the reference."""
        return replace(self, waits=(*self.waits[:-1], *[None] * rules, self.waits[-1]))

    def _of(self, rule: int) -> FloatArray:
        """Return the times of a rule that are known."""
        wait = self.waits[rule]
        if wait is None:
            raise ValueError(f"rule {rule} draws more paths than were recorded: its times are not known")
        return wait

    @cached_property
    def ratios(self) -> FloatArray:
        """Median and 95th percentile of each rule, divided by the reference's [C, 2]."""
        unknown = np.full(2, np.inf)
        found = np.array([unknown if wait is None else np.quantile(wait, SHARES) for wait in self.waits])
        return np.asarray(found / np.maximum(found[-1], 1e-12), np.float64)

    @cached_property
    def means(self) -> FloatArray:
        """Mean time of each rule, divided by the reference's [C]."""
        found = np.array([np.inf if wait is None else wait.mean() for wait in self.waits])
        return np.asarray(found / max(float(found[-1]), 1e-12), np.float64)

    @cached_property
    def _laws(self) -> tuple[FloatArray, ...]:
        return tuple(smoothing(share, int(self.clusters.max()) + 1) for share in SHARES)

    @cached_property
    def _log_ratios(self) -> FloatArray:
        """Log smoothed quantiles of each rule, minus the reference's [C, 2]."""
        middles = (STEPS[1:] + STEPS[:-1]) / 2
        weights = np.diff(self._laws).T
        ranks = at_share(self._of(-1).size, middles)
        unknown = np.full(2, np.inf)
        read = [unknown if wait is None else np.sort(wait, axis=None)[ranks] @ weights for wait in self.waits]
        found = np.log(np.maximum(read, 1e-12))
        return np.asarray(found - found[-1], np.float64)

    def within(self, bounds: Sequence[float]) -> BoolArray:
        """Return a mask of the rules fast enough on the pilot [C]; ``bounds`` are parts of today's time.

        By the smoothed quantiles, and by the plain ones that are shown.
        """
        shown = self.ratios <= np.asarray(bounds) * (1 + 1e-6)
        return np.asarray(np.all(shown & (self._log_ratios <= np.log(bounds) + TOLERANCE), axis=1))

    def certainty(self, rule: int, bounds: Sequence[float]) -> FloatArray:
        """Return the probability that a rule keeps each bound [2], from resampled questions.

        One that is never slower than today surely keeps today's time.
        """
        mine, today = self._of(rule), self._of(-1)
        never_slower, certain = bool(np.all(mine <= today)), np.ones(2)
        room = np.log(bounds) + TOLERANCE - self._log_ratios[rule]
        for place, (share, bound, law) in enumerate(zip(SHARES, bounds, self._laws, strict=True)):
            if bound < 1 or not never_slower:
                drawn = np.log(np.maximum(resampled_ratios(mine, today, share, self.clusters, law), 1e-12))
                certain[place] = ndtr(room[place] / max(float(drawn.std()), 1e-12))
        return certain

    def quantile_changes(self, rule: int) -> tuple[Interval | None, Interval | None, Interval, Interval]:
        """Return the changes of both quantiles in seconds (None if not recorded), and their ratios.

        With 95% limits for as many new questions.
        """
        waits = self._of(rule), self._of(-1)
        low, high = (
            quantile_change(*waits, share, self.clusters, law)
            for share, law in zip(SHARES, self._laws, strict=True)
        )
        return low[0] if self.seconds else None, high[0] if self.seconds else None, low[1], high[1]
