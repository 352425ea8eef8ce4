"""What may be claimed of a choice: cost ratio and accuracy difference on questions that did not make it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from keff.analysis.mix.choose import PlanChoice, PlanTable
from keff.records import Interval
from keff.stats.votes import FloatArray, IntArray

SPLITS = 20
SIDE = 0.95
"""Each of the two tests is one-sided at 5%, so intervals are two-sided at 90%."""

METHOD = "cross-fitted over 20 splits, 90% (two one-sided tests at 5%)"

Chooser = Callable[[IntArray], tuple[PlanTable, PlanChoice]]
"""Makes the plans and chooses among them on the questions of a training fold."""


@dataclass(frozen=True, slots=True)
class Against:
    """A rule of choice against one baseline, on held-out questions.

    ``log_ratio`` of mean costs and ``difference`` of accuracies with their standard errors; ``units``
    independent questions.
    """

    log_ratio: float
    log_error: float
    difference: float
    error: float
    units: int

    @property
    def t(self) -> float:
        """The one-sided limit of Student's t with G - 1 degrees of freedom."""
        return float(stdtrit(max(self.units - 1, 1), SIDE))

    def cost_ratio(self) -> Interval:
        """Return the ratio of mean costs with its interval."""
        half = self.t * self.log_error
        lo, hi = math.exp(self.log_ratio - half), math.exp(self.log_ratio + half)
        return Interval(math.exp(self.log_ratio), lo, hi, METHOD)

    def accuracy_difference(self) -> Interval:
        """Return the difference of accuracies with its interval."""
        half = self.t * self.error
        return Interval(self.difference, self.difference - half, self.difference + half, METHOD)

    def saves(self, tolerance: float) -> bool:
        """Return whether it costs less and loses no more than ``tolerance``: two one-sided tests at 5%."""
        cheaper = self.log_ratio + self.t * self.log_error < 0
        return cheaper and self.difference - self.t * self.error > -tolerance

    def questions_needed(self, n: int, tolerance: float) -> int | None:
        """Return how many more questions would show it saves, if the estimates hold; None when none would."""
        if self.log_ratio >= 0 or self.difference <= -tolerance:
            return None
        parts = (self.log_error / -self.log_ratio, self.error / (self.difference + tolerance))
        return max(math.ceil(n * (self.t * max(parts)) ** 2) - n, 1)


def cross_fit(
    clusters: IntArray, chooser: Chooser, rng: np.random.Generator, splits: int = SPLITS
) -> tuple[Against, Against]:
    """Return what the rule of choice does against baselines A and B on questions it did not see.

    In each of ``splits`` the clusters are halved; plans, baselines and choice are made on one half and
    measured on the other, and the reverse. Influences C_i / Cbar - C0_i / Cbar0 on the log ratio and
    A_i - A0_i - Delta give errors by cluster; the variance between splits is added.
    """
    parts = [_one_split(clusters, chooser, rng) for _ in range(splits)]
    ids = np.unique(clusters, return_inverse=True)[1]
    best, cheap = (_pooled([part[side] for part in parts], ids) for side in (0, 1))
    return best, cheap


Measured = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Cost and accuracy of the choice, cost and accuracy of the baseline, each [n]."""


def _one_split(clusters: IntArray, chooser: Chooser, rng: np.random.Generator) -> tuple[Measured, Measured]:
    ids = np.unique(clusters, return_inverse=True)[1]
    half = rng.permutation(int(ids.max()) + 1) % 2
    fold = half[ids]
    values = np.empty((6, len(ids)))
    for side in (0, 1):
        train, test = np.flatnonzero(fold != side), np.flatnonzero(fold == side)
        table, choice = chooser(train)
        for row, place in enumerate((choice.taken, choice.best, choice.cheap)):
            values[2 * row, test] = table.cost[place, test]
            values[2 * row + 1, test] = table.accuracy[place, test]
    taken, best, cheap = values[:2], values[2:4], values[4:]
    return (taken[0], taken[1], best[0], best[1]), (taken[0], taken[1], cheap[0], cheap[1])


def _pooled(splits: list[Measured], ids: IntArray) -> Against:
    units = int(ids.max()) + 1
    logs, log_variances, gains, variances = np.array([_moments(split, ids, units) for split in splits]).T

    def error(values: FloatArray, within: FloatArray) -> float:
        spread = float(values.var(ddof=1)) if len(values) > 1 else 0.0
        return math.sqrt(float(within.mean()) + spread)

    return Against(
        float(logs.mean()), error(logs, log_variances), float(gains.mean()), error(gains, variances), units
    )


def _moments(split: Measured, ids: IntArray, units: int) -> tuple[float, float, float, float]:
    cost, accuracy, cost0, accuracy0 = split
    ratio = cost / cost.mean() - cost0 / cost0.mean()
    gain = accuracy - accuracy0
    log = math.log(cost.mean() / cost0.mean())
    return log, _variance(ratio, ids, units), float(gain.mean()), _variance(gain - gain.mean(), ids, units)


def _variance(influence: FloatArray, ids: IntArray, units: int) -> float:
    totals = np.bincount(ids, weights=influence, minlength=units)
    return float(totals @ totals) * units / (units - 1) / len(ids) ** 2
