"""Rows of a comparison: point estimates, paired intervals, and the fixed-K curve at equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keff.analysis.replay.outcomes import PolicyOutcome
from keff.analysis.results.replay import PilotCosts, ReplayRow
from keff.records import Interval
from keff.stats.inference.intervals import interval_mean
from keff.stats.inference.resampling import group_sums, resampled_totals
from keff.stats.votes import FloatArray, IntArray, Kind

LEVEL = 0.95
METHOD = "cluster_bootstrap"


@dataclass(frozen=True)
class Fixed:
    """The closed-form curve of fixed K for each row.

    ``accuracy`` [m, T] is at 1..T paths (None without labels), ``unit`` [m] the mean cost of a path in tokens
    (1 where tokens are unknown).
    """

    accuracy: FloatArray | None
    unit: FloatArray
    cap: int


@dataclass(frozen=True)
class Means:
    """Means over items, one for each replicate [B]: of a policy and of the fixed-K curve [T, B]."""

    accuracy: FloatArray
    cost: FloatArray
    curve: FloatArray
    unit: FloatArray

    def with_noise(self, error: float, rng: np.random.Generator) -> Means:
        """Add the random ``error`` (a standard deviation) of the drawn orders to the accuracies."""
        return replace(self, accuracy=self.accuracy + error * rng.standard_normal(self.accuracy.shape))

    def kept(self, cap: int) -> FloatArray:
        """Return the share of the accuracy at ``cap``; NaN where that is 0."""
        full = self.curve[cap - 1]
        return np.divide(self.accuracy, full, out=np.full(len(full), np.nan), where=full > 0)

    def delta(self) -> FloatArray:
        """Return the accuracy minus that of fixed K, randomised between neighbours to cost the same."""
        top = len(self.curve) - 1
        place = np.clip(self.cost / self.unit - 1, 0, top)
        low = np.minimum(place.astype(int), max(top - 1, 0))
        column = np.arange(len(place))
        below, above = self.curve[low, column], self.curve[np.minimum(low + 1, top), column]
        return self.accuracy - (below + (place - low) * (above - below))


def item_columns(outcome: PolicyOutcome, fixed: Fixed) -> FloatArray:
    """Return accuracy, cost, unit cost and the fixed-K curve side by side [m, 3 + T]."""
    assert outcome.accuracy is not None and fixed.accuracy is not None
    cost = outcome.paths if outcome.tokens is None else outcome.tokens
    return np.column_stack([outcome.accuracy, cost, fixed.unit, fixed.accuracy])


def means_of(totals: FloatArray) -> Means:
    """Split rows of totals or means [3 + T, B]; ratios do not mind which."""
    return Means(totals[0], totals[1], totals[3:], totals[2])


@dataclass(frozen=True)
class Rows:
    """What the m rows of an outcome stand for: a question each, or ``counts`` [m] questions of one pattern.

    Questions go by vote patterns where nothing else was recorded that tells them apart and each is a cluster
    of its own. ``clusters`` [n] are those of the questions, 0..G-1; ``pattern`` [n] the pattern whose orders
    of drawing each question was replayed on (None: its own).
    """

    clusters: IntArray
    groups: int
    pattern: IntArray | None = None
    counts: IntArray | None = None

    @property
    def weights(self) -> IntArray:
        """How many questions each row stands for [m]."""
        return np.ones(self.clusters.size, np.int64) if self.counts is None else self.counts

    def of(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Return values of patterns [u] by row [m]."""
        return values if self.pattern is None or self.counts is not None else values[self.pattern]

    def of_questions(self, weights: IntArray) -> IntArray:
        """Return weights of questions [n] by row [m]."""
        if self.pattern is None or self.counts is None:
            return weights
        return np.bincount(self.pattern, weights, self.counts.size).astype(np.int64)

    def mean(self, values: FloatArray) -> float:
        """Return the mean over questions of values [m]."""
        return float(values.mean() if self.counts is None else self.counts @ values / self.clusters.size)

    def interval(self, values: FloatArray) -> Interval:
        """Return the mean over questions of values [m] with its 95% cluster-robust interval."""
        if self.counts is None:
            return interval_mean(values, self.clusters).interval
        return interval_mean(values, counts=self.counts).interval

    def error(self, noise: FloatArray | None, weights: IntArray) -> float:
        """Return the standard error that the drawn orders leave in a mean weighted by row [m].

        ``noise`` [u] is the variance of each pattern's mean over its orders: questions of a pattern share it.
        """
        if noise is None:
            return 0.0
        shared = weights
        if self.pattern is not None and self.counts is None:
            shared = np.bincount(self.pattern, weights, noise.size)
        return float(np.sqrt(np.square(shared) @ noise)) / float(weights.sum())

    def bootstrap(self, columns: FloatArray, replicates: int, rng: np.random.Generator) -> Means:
        """Resample clusters, the same ones for every column [m, 3 + T], and return means over questions."""
        n = self.clusters.size
        if self.groups == n:
            return means_of(resampled_totals(columns, replicates, rng, self.counts) / n)
        units = group_sums(np.hstack([np.ones((n, 1)), columns]), self.clusters, self.groups)
        totals = resampled_totals(units, replicates, rng)
        return means_of(totals[1:] / totals[0])


def interval(points: FloatArray, replicates: FloatArray | None) -> Interval:
    """Return the mean of the points (one, or one per pilot) with the percentile interval of the replicates.

    No interval with fewer than two clusters.
    """
    value = float(points.mean())
    known = None if replicates is None else replicates[~np.isnan(replicates)]
    if known is None or not len(known) or np.isnan(value):
        return Interval(value, None, None, METHOD)
    lo, hi = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(lo), float(hi), METHOD)


@dataclass(frozen=True)
class Judged:
    """What a policy did: its outcome by row, the means (None without labels), and their replicates."""

    outcome: PolicyOutcome
    rows: Rows
    point: Means | None
    spread: Means | None

    def row(self, spec: str, cap: int, pilot: PilotCosts | None) -> ReplayRow:
        """Return the row of ``keff replay --json``; without labels what needs them is None."""
        accuracy = kept = delta = None
        point, spread = self.point, self.spread
        if point is not None:
            accuracy = interval(point.accuracy, spread and spread.accuracy)
            kept = interval(point.kept(cap), spread and spread.kept(cap))
            delta = interval(point.delta(), spread and spread.delta())
        tokens, mean = self.outcome.tokens, self.rows.mean
        return ReplayRow(
            policy=spec,
            accuracy=accuracy,
            kept=kept,
            delta_at_equal_cost=delta,
            mean_paths=mean(self.outcome.paths),
            mean_tokens=None if tokens is None else mean(tokens),
            rounds=mean(self.outcome.rounds),
            same_answer_as_cap=mean(self.outcome.agrees),
            pilot=pilot,
        )


def with_frontier(rows: Sequence[ReplayRow]) -> tuple[ReplayRow, ...]:
    """Mark the policies that no other beats in both accuracy and cost."""
    return tuple(
        replace(row, frontier=row.accuracy is not None and not any(_beats(other, row) for other in rows))
        for row in rows
    )


def _beats(other: ReplayRow, row: ReplayRow) -> bool:
    if other.accuracy is None or row.accuracy is None:
        return False
    gains = other.accuracy.value - row.accuracy.value, row.cost - other.cost
    return min(gains) >= 0 and max(gains) > 0
