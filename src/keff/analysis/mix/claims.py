"""What may be claimed of a choice: the pilot's paired figures, corrected for having chosen by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.special import stdtrit

from keff.analysis.mix.choose import PlanChoice, PlanTable
from keff.analysis.mix.orders import Reals
from keff.analysis.mix.shrink import UNSEEN, errors
from keff.errors import PolicyError
from keff.records import Interval
from keff.stats.votes import FloatArray, IntArray

# Resamples of the pilot on which the choice is made again; fewer where it is made on so many questions that
# it is no luck: of 5,000 the optimism is below a tenth of a point.
RESAMPLES, FEWEST, QUESTIONS = 25, 5, 25_000

# Each of the two tests is one-sided at 5%, so intervals are two-sided at 90%.
SIDE = 0.95

METHOD = "paired on the pilot, corrected for the choice by resampling, 90%"

# Chooses from a table, with the numbers of its questions' clusters.
Chooser = Callable[[PlanTable, IntArray], PlanChoice]


@dataclass(frozen=True, slots=True)
class Against:
    """The chosen plan against one baseline, corrected for the choice.

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


@dataclass(frozen=True, slots=True)
class Claims:
    """What may be claimed of the chosen plan: its accuracy, and how it stands against baselines A and B."""

    accuracy: Interval
    best: Against
    cheap: Against


def claims_of(
    table: PlanTable, ids: IntArray, choice: PlanChoice, chooser: Chooser, rng: np.random.Generator
) -> Claims:
    """Return what may be claimed of a choice among plans on a pilot whose clusters are numbered ``ids`` [n].

    The best of many plans looks better on the pilot that it was chosen on than it is. How much: the choice
    is made again on resamples of the clusters, and what the plan chosen there has more on the resample than
    on the pilot is the optimism of one choice (Efron 1983). Its mean is taken off, and its variance added to
    the paired one of the pilot, for the optimism of this very choice is not known. Influences
    C_i / Cbar - C0_i / Cbar0 on the log ratio and A_i - A0_i on the difference, by cluster.
    """
    units = int(ids.max()) + 1
    order = np.argsort(ids, kind="stable")
    members = cast("list[IntArray]", np.split(order, np.flatnonzero(np.diff(ids[order])) + 1))
    seen: list[FloatArray] = []
    for _ in range(int(np.clip(QUESTIONS // len(ids), FEWEST, RESAMPLES))):
        drawn: list[IntArray] = [members[unit] for unit in rng.integers(0, units, units).tolist()]
        own = np.repeat(np.arange(units, dtype=np.int64), [len(rows) for rows in drawn])
        # A budget may be out of reach on a resample.
        with suppress(PolicyError):
            seen.append(_optimism(table, np.concatenate(drawn), own, chooser))
    optimism = np.array(seen) if len(seen) > 1 else np.zeros((2, 5))
    value = _figures(table, choice) - optimism.mean(axis=0)
    error = np.sqrt(_errors(table, ids, choice) ** 2 + optimism.var(axis=0, ddof=1))
    best = Against(value[1], error[1], value[2], error[2], units)
    half = best.t * error[0]
    lo, hi = max(value[0] - half, 0.0), min(value[0] + half, 1.0)
    accuracy = Interval(float(np.clip(value[0], lo, hi)), lo, hi, METHOD)
    return Claims(accuracy, best, Against(value[3], error[3], value[4], error[4], units))


def _optimism(table: PlanTable, rows: IntArray, ids: IntArray, chooser: Chooser) -> FloatArray:
    """Return what the figures of a choice made on the questions ``rows`` have more there [5]."""
    part = table.take(rows)
    again = chooser(part, ids)
    return _figures(part, again) - _figures(table, again)


def _figures(table: PlanTable, choice: PlanChoice) -> FloatArray:
    """Return accuracy of the choice, then log cost ratio and accuracy difference to A, and to B [5]."""
    places = [choice.taken, choice.best, choice.cheap]
    right = table.accuracy[places].mean(axis=1, dtype=np.float64)
    paid = np.log(np.maximum(table.cost[places].mean(axis=1, dtype=np.float64), 1e-300))
    return np.array(
        [right[0], paid[0] - paid[1], right[0] - right[1], paid[0] - paid[2], right[0] - right[2]]
    )


def _errors(table: PlanTable, ids: IntArray, choice: PlanChoice) -> FloatArray:
    """Return the standard errors of ``_figures`` on the pilot [5], by cluster."""
    right, paid = table.accuracy[choice.taken], _relative(table.cost[choice.taken])
    rows = [right]
    for place in (choice.best, choice.cheap):
        rows += [paid - _relative(table.cost[place]), right - table.accuracy[place]]
    found = errors(np.array(rows, np.float64), ids)
    differ = [True, False, choice.best != choice.taken, False, choice.cheap != choice.taken]
    return np.maximum(found, np.where(differ, UNSEEN / len(ids), 0))


def _relative(cost: Reals) -> Reals:
    # In single precision a smaller divisor is 0.
    return cost / max(float(cost.mean()), 1e-30)
