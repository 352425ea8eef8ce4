"""Which plan to take: two baselines of one branch, and the rule that prefers another to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keff.analysis.mix.orders import Reals
from keff.analysis.mix.search import CandidatePlan
from keff.analysis.mix.shrink import cheapest_expected, errors
from keff.analysis.mix.worth import WorthRule
from keff.errors import PolicyError
from keff.stats.votes import FloatArray, IntArray

# Accuracies and costs are means in single precision: closer ones are equal.
EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Replayed plans side by side: ``accuracy`` and ``cost`` [P, n], and which plans have one branch [P]."""

    plans: tuple[CandidatePlan, ...]
    accuracy: Reals
    cost: Reals
    single: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @classmethod
    def of(cls, plans: Iterable[CandidatePlan]) -> PlanTable:
        """Stack plans; they are held once, as rows of the table."""
        held = list(plans)
        shape = len(held), len(held[0].accuracy)
        accuracy, cost = np.empty(shape, np.float32), np.empty(shape, np.float32)
        for place, plan in enumerate(held):
            accuracy[place], cost[place] = plan.accuracy, plan.cost
            held[place] = replace(plan, accuracy=accuracy[place], cost=cost[place])
        return cls(tuple(held), accuracy, cost, np.array([plan.kind == "single" for plan in held]))

    def take(self, rows: IntArray) -> PlanTable:
        """Return the table on some questions, which may repeat."""
        return replace(self, accuracy=self.accuracy.take(rows, axis=1), cost=self.cost.take(rows, axis=1))

    @property
    def mean_accuracy(self) -> FloatArray:
        """The mean accuracy of each plan [P]."""
        return self.accuracy.mean(axis=1, dtype=np.float64)

    @property
    def mean_cost(self) -> FloatArray:
        """The mean cost of each plan [P]."""
        return self.cost.mean(axis=1, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class MixAim:
    """What the user wants; at most one aim. Without one: no accuracy lost that the pilot can see.

    ``retain``: the cheapest plan that keeps this share of the best single branch's accuracy. ``budget``: the
    most accuracy at this mean cost per question. Or the most ``value_per_correct`` * accuracy - cost, where
    ``cost_per_path`` prices a path when nothing else does. Raises PolicyError outside the ranges.
    """

    retain: float | None = None
    budget: float | None = None
    value_per_correct: float | None = None
    cost_per_path: float | None = None

    def __post_init__(self) -> None:
        if sum(aim is not None for aim in (self.retain, self.budget, self.value_per_correct)) > 1:
            raise PolicyError("state one aim: retain, budget in dollars, or value_per_correct")
        if self.retain is not None and not 0 < self.retain <= 1:
            raise PolicyError(f"retain must be above 0 and at most 1, not {self.retain:g}")
        for name in ("budget", "value_per_correct"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise PolicyError(f"{name} must be above 0, not {value:g}")
        if self.cost_per_path is not None and not 0 <= self.cost_per_path < np.inf:
            raise PolicyError("cost_per_path must not be negative")


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """Places in a table: baseline A ``best``, baseline B ``cheap``, and the plan that is ``taken``."""

    best: int
    cheap: int
    taken: int


def choose(table: PlanTable, ids: IntArray, aim: MixAim) -> PlanChoice:
    """Choose from what a pilot shows; ``ids`` [n] number the clusters of its questions from 0.

    Baseline A, fixed before the search: the single branch's plan of highest accuracy, of equals the
    cheapest. Baseline B: the cheapest single branch's plan within one paired standard error of A (the
    maximum of a small pilot is often a dear branch by luck). Without an aim: the cheapest plan that is not
    expected to lose accuracy against A, as ``shrink`` says, else A; and A where that plan's loss may exceed
    ``worth.GAMBLE``.
    """
    rule = WorthRule(table.accuracy, table.cost, table.single, ids)
    best, cheap = _baselines(rule)
    return PlanChoice(best, cheap, _taken(table.plans, rule, best, aim))


def _baselines(rule: WorthRule) -> tuple[int, int]:
    single = np.flatnonzero(rule.single)
    means, costs = rule.means[single], rule.costs[single]
    equal = single[means >= means.max() - EQUAL]
    best = int(equal[np.argmin(rule.costs[equal])])
    error = errors(rule.accuracy[single] - rule.accuracy[best], rule.ids)
    near = means - rule.means[best] >= -error - EQUAL
    return best, int(single[near][np.argmin(costs[near])])


def _taken(plans: Sequence[CandidatePlan], rule: WorthRule, best: int, aim: MixAim) -> int:
    if aim.budget is not None:
        within = rule.within(aim.budget)
        if not within.any():
            raise PolicyError(
                f"no plan costs at most {aim.budget:g} per question with 90% probability; the cheapest has "
                f"{rule.costs.min():.3g} on these questions"
            )
        return int(np.argmax(np.where(within, rule.means, -1) - 1e-9 * rule.costs / rule.costs.max()))
    if aim.value_per_correct is not None:
        return rule.at(aim.value_per_correct)
    if aim.retain is not None:
        keeps = rule.means >= aim.retain * rule.means[best] - EQUAL
        return int(np.argmin(np.where(keeps, rule.costs, np.inf)))
    taken = cheapest_expected(plans, rule.accuracy, rule.costs, rule.ids, best)
    return best if rule.gambles(taken, best) else taken
