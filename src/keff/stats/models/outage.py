"""The plurality of many paths as a receiver in fading: an outage floor, and a term in 1/K above it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keff.records import Estimate
from keff.stats.inference.intervals import interval_mean
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.plurality import plurality_at_k_items

# Paths from which on the law is fitted at the earliest: below, more than the nearest rival is in the way.
LEAST = 4


@dataclass(frozen=True, slots=True)
class OutageLaw:
    """acc(K) = 1 - floor - slope/K, fitted from ``first`` to ``last`` paths.

    ``floor`` is the outage that no number of paths removes: questions whose right answer is not the most
    frequent one. ``slope`` is (f v)'(0)/2 with f the density over questions of the margin of the right answer
    over its strongest rival, and v the variance of one path's vote for that margin; negative where the curve
    falls to its limit. Both have 95% intervals over clusters of questions.
    """

    floor: Estimate
    slope: Estimate
    first: int
    last: int

    def accuracy(self, k: ArrayLike) -> FloatArray:
        """Return the accuracy of the plurality of ``k`` paths, within [0, 1]."""
        return np.clip(1 - self.floor.value - self.slope.value / np.asarray(k, float), 0, 1)

    @property
    def falls(self) -> bool | None:
        """Whether the curve falls to its limit; None where the interval of the slope holds 0."""
        if self.slope.lo is None or self.slope.hi is None or self.slope.lo <= 0 <= self.slope.hi:
            return None
        return self.slope.hi < 0


def fit_outage(votes: Votes, first: int | None = None) -> OutageLaw:
    """Fit the limit law by least squares of each question's plurality in 1/K, from ``first`` paths on.

    ``first`` is half the recorded paths, at least 4, unless given. Floor and slope are means over questions
    of linear functions of their curves, so their intervals are those of means. Assumes exchangeable paths.
    Raises ValueError with fewer than two numbers of paths to fit.
    """
    last = votes.k
    first = max(LEAST, last // 2) if first is None else first
    if not 1 <= first < last:
        raise ValueError(f"the law needs two numbers of paths to fit: from {first} to {last} there are none")
    curves = plurality_at_k_items(votes)[:, first - 1 :]
    level, slope = np.linalg.pinv(np.stack([np.ones(curves.shape[1]), -1 / np.arange(first, last + 1)], 1))
    floor = interval_mean(1 - curves @ level, votes.clusters)
    return OutageLaw(floor, interval_mean(curves @ slope, votes.clusters), first, last)


def diversity_order(curve: ArrayLike, floor: float) -> FloatArray:
    """Return the local diversity order [K-1] of an accuracy curve [K]: how steeply outage falls to its floor.

    -d log(1 - acc(K) - floor) / d log K between neighbours. It tends to 1 for any law of margins with a
    density at 0, and grows without bound where no margin is near 0; NaN where the curve is beyond its floor.
    """
    above = 1 - np.asarray(curve, np.float64) - floor
    k = np.arange(1, above.size + 1, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.diff(np.log(np.where(above > 0, above, np.nan))) / np.diff(np.log(k))
