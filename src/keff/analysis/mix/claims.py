"""Claims on the plan taken: accuracy and cost against two baselines, corrected for the choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from scipy.special import stdtrit

from keff.analysis.mix.choose import PlanChoice, PlanTable
from keff.analysis.mix.orders import Reals
from keff.analysis.mix.shrink import UNSEEN, errors
from keff.errors import PolicyError
from keff.records import Interval, frozen
from keff.stats.votes import FloatArray, IntArray

# Resamples of the pilot on which the choice is made again; fewer where it is made on so many questions that
# it is no luck: of 5,000 the optimism is below a tenth of a point.
RESAMPLES, FEWEST, QUESTIONS = 25, 5, 25_000

# Each of the two tests is one-sided at 5%, so intervals are two-sided at 90%.
ONE_SIDED = 0.95

METHOD = "expected, with the paired error on the pilot, corrected for the choice by resampling, 90%"

# Chooses from a table.
Chooser = Callable[[PlanTable], PlanChoice]


@frozen
class BaselineComparison:
    """Comparison of the chosen plan with one baseline, corrected for selection.

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
        """The one-sided critical value of Student's t with G - 1 degrees of freedom."""
        return float(stdtrit(max(self.units - 1, 1), ONE_SIDED))

    def intervals(self) -> tuple[Interval, Interval]:
        """Return the ratio of mean costs and the difference of accuracies, each with its interval."""
        half = self.t * self.log_error
        lo, value, hi = (math.exp(self.log_ratio + by) for by in (-half, 0.0, half))
        half = self.t * self.error
        difference = Interval(self.difference, self.difference - half, self.difference + half, METHOD)
        return Interval(value, lo, hi, METHOD), difference

    def saves(self, margin: float) -> bool:
        """Return whether it costs less and is non-inferior by ``margin``: two one-sided tests at 5%."""
        cheaper = self.log_ratio + self.t * self.log_error < 0
        return cheaper and self.difference - self.t * self.error > -margin

    def questions_needed(self, n: int, margin: float) -> int | None:
        """Return how many more questions would show the saving, at these estimates; None where none would."""
        if self.log_ratio >= 0 or self.difference <= -margin:
            return None
        parts = (self.log_error / -self.log_ratio, self.error / (self.difference + margin))
        return max(math.ceil(n * (self.t * max(parts)) ** 2) - n, 1)


@frozen
class Claims:
    """Estimates for the chosen plan after selection: its accuracy, and its comparison with both baselines."""

    accuracy: Interval
    best: BaselineComparison
    cheap: BaselineComparison


def claims_of(
    table: PlanTable,
    choice: PlanChoice,
    chooser: Chooser,
    rng: np.random.Generator,
    luck: FloatArray | None = None,
) -> Claims:
    """Return selection-corrected estimates for the plan chosen on a pilot.

    Accuracies are the expected ones, by which plans are chosen. The best of many looks better on the pilot
    that it was chosen on than it is. How much: the choice is made again on resamples of the clusters, and
    what is expected of the plan chosen there more on the resample than on the pilot is the optimism of one
    choice (Efron 1983). Its mean is taken off, and its variance added to
    the paired one of the pilot, for the optimism of this very choice is not known. Influences
    C_i / Cbar - C0_i / Cbar0 on the log ratio and A_i - A0_i on the difference, by cluster. ``luck`` [A] is
    the variance of each branch's accuracy over other sources (prompts, judges); that of a plan counts its
    branches alike.
    """
    ids, units = table.ids, int(table.ids.max()) + 1
    order, sizes = np.argsort(ids, kind="stable"), np.bincount(ids)
    ends = np.cumsum(sizes)
    seen: list[FloatArray] = []
    for _ in range(int(np.clip(QUESTIONS // len(ids), FEWEST, RESAMPLES))):
        drawn = rng.integers(0, units, units)
        own = np.repeat(np.arange(units, dtype=np.int64), sizes[drawn])
        # Of the clusters drawn, one after the other, the questions stand in ``order`` up to their ends.
        back = np.cumsum(sizes[drawn])[own] - np.arange(len(own))
        # A budget may be out of reach on a resample.
        with suppress(PolicyError):
            seen.append(_optimism(table, order[ends[drawn][own] - back], own, chooser))
    optimism = np.array(seen) if len(seen) > 1 else np.zeros((2, 5))
    value = _figures(table, choice) - optimism.mean(axis=0)
    error = np.sqrt(_errors(table, choice) ** 2 + optimism.var(axis=0, ddof=1) + _luck(table, choice, luck))
    # Against itself a plan is exactly equal, whatever resamples would have chosen.
    same = choice.taken == np.array([-1, choice.best, choice.best, choice.cheap, choice.cheap])
    value[same] = error[same] = 0
    best = BaselineComparison(value[1], error[1], value[2], error[2], units)
    half = best.t * error[0]
    lo, hi = max(value[0] - half, 0.0), min(value[0] + half, 1.0)
    accuracy = Interval(float(np.clip(value[0], lo, hi)), lo, hi, METHOD)
    return Claims(accuracy, best, BaselineComparison(value[3], error[3], value[4], error[4], units))


def _luck(table: PlanTable, choice: PlanChoice, luck: FloatArray | None) -> FloatArray:
    """Return the variance of ``_figures`` over other sources of the branches' paths [5]."""
    if luck is None:
        return np.zeros(5)
    taken, best, cheap = (
        table.plans[place].weights(luck.size) for place in (choice.taken, choice.best, choice.cheap)
    )
    return np.array([taken**2 @ luck, 0.0, (taken - best) ** 2 @ luck, 0.0, (taken - cheap) ** 2 @ luck])


def _optimism(table: PlanTable, rows: IntArray, ids: IntArray, chooser: Chooser) -> FloatArray:
    """Return the optimism of a choice: figures on the resample ``rows`` minus those on the pilot [5]."""
    part = table.take(rows, ids)
    again = chooser(part)
    return _figures(part, again) - _figures(table, again)


def _figures(table: PlanTable, choice: PlanChoice) -> FloatArray:
    """Return the choice's expected accuracy, then log cost ratio and difference to each baseline [5]."""
    places = [choice.taken, choice.best, choice.cheap]
    right = table.expected[places]
    paid = np.log(np.maximum(table.cost[places].mean(axis=1, dtype=np.float64), 1e-300))
    beside = np.stack([paid[0] - paid[1:], right[0] - right[1:]], axis=1)
    return np.append(right[0], beside)


# Which of the five figures are accuracies.
IN_ACCURACY = np.array([1, 0, 1, 0, 1])


def _errors(table: PlanTable, choice: PlanChoice) -> FloatArray:
    """Return the standard errors of ``_figures`` on the pilot [5], by cluster."""
    right, paid = table.accuracy[choice.taken], _relative(table.cost[choice.taken])
    rows = [right]
    for place in (choice.best, choice.cheap):
        rows += [paid - _relative(table.cost[place]), right - table.accuracy[place]]
    return np.maximum(errors(np.array(rows, np.float64), table.ids), UNSEEN / len(table.ids) * IN_ACCURACY)


def _relative(cost: Reals) -> Reals:
    # In single precision a smaller divisor is 0.
    return cost / max(float(cost.mean()), 1e-30)
