"""Choice of a plan by the worth of a right answer or against two baselines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from keff.analysis.mix.orders import Reals
from keff.analysis.mix.search import EQUAL, CandidatePlan
from keff.analysis.mix.shrink import (
    RECORDED_GAINS,
    UNSEEN,
    Law,
    blocks,
    cluster_sums,
    errors,
    expected_accuracies,
)
from keff.analysis.money import StatedAim
from keff.errors import PolicyError
from keff.records import frozen
from keff.stats.votes import BoolArray, FloatArray, IntArray

# Paired standard errors of V x accuracy - cost by which a plan must beat the best single branch at V. Of 0 to
# 2 on recorded groups (docs/branches-measured.md); any of .5 to 1 does nearly as well.
LEAST_STANDARD_ERRORS = 0.75

# Worths tried in each factor of ten, and how often a step with a change of plan is halved to find where.
WORTHS_PER_DECADE, HALVINGS = 16, 10

# The curve ends at this many mean costs of a plan: a right answer worth more changes no plan.
LARGEST_WORTH = 1e5

# Standard normal: what is bounded is bounded with 90% probability.
QUANTILE = 1.2816

# Accuracy that the default may lose against the best single branch's plan, with 90% probability.
MAX_LOSS_90 = 0.03

# The worth of a right answer without an aim, in costs of the best single branch's plan: for all of that cost
# one point of accuracy is given up. With 30, four groups of fourteen lost accuracy; with 1000 costs rose
# (docs/branches-measured.md).
DEFAULT_VALUE_PER_CORRECT = 100.0


@dataclass(frozen=True, eq=False)
class PlanTable:
    """Replayed plans side by side, for a choice by worth: ``accuracy`` and ``cost`` [P, n].

    Which plans have one branch, and which draw recorded paths only: ``single`` and ``measured`` [P]. ``ids``
    [n] number the clusters of the questions from 0, ``answered`` [A, n] is the share of each branch's paths
    that answer. ``law`` is the prior of what plans gain by votes; ``by_law`` [2, P, n] are accuracy and
    cost of plans that a checker ends by the law of their tries (None: of votes).
    """

    plans: tuple[CandidatePlan, ...]
    accuracy: Reals
    cost: Reals
    single: BoolArray
    measured: BoolArray
    answered: Reals
    ids: IntArray
    law: Law = RECORDED_GAINS
    by_law: Reals | None = None

    @classmethod
    def of(
        cls, plans: Iterable[CandidatePlan], recorded: Sequence[int], answered: Reals, ids: IntArray
    ) -> PlanTable:
        """Return the table of plans; ``recorded`` are the recorded paths of each branch."""
        held = list(plans)
        shape = len(held), len(held[0].accuracy)
        accuracy, cost = np.empty(shape, np.float32), np.empty(shape, np.float32)
        for place, plan in enumerate(held):
            accuracy[place], cost[place] = plan.accuracy, plan.cost
            held[place] = replace(plan, accuracy=accuracy[place], cost=cost[place])
        single = np.array([plan.kind == "single" for plan in held])
        measured = np.array([plan.within(recorded) for plan in held])
        of_tries = [plan.by_law for plan in held if plan.by_law is not None]
        by_law = np.array(of_tries, np.float32).swapaxes(0, 1) if of_tries else None
        return cls(tuple(held), accuracy, cost, single, measured, answered, ids, by_law=by_law)

    def take(self, rows: IntArray, ids: IntArray) -> PlanTable:
        """Return the table restricted to questions (repeats allowed), with cluster numbers ``ids``."""
        named = ("accuracy", "cost", "answered", *(["by_law"] if self.by_law is not None else []))
        part = {name: getattr(self, name).take(rows, axis=-1) for name in named}
        return replace(self, **part, ids=ids)

    @cached_property
    def mean_accuracy(self) -> FloatArray:
        """The mean accuracy of each plan [P]."""
        return self.accuracy.mean(axis=1, dtype=np.float64)

    @cached_property
    def mean_cost(self) -> FloatArray:
        """The mean cost of each plan [P]."""
        return self.cost.mean(axis=1, dtype=np.float64)

    @cached_property
    def expected(self) -> FloatArray:
        """The posterior mean accuracy of each plan [P], by ``expected_accuracies`` or the law of tries."""
        if self.by_law is not None:
            return self.by_law[0].mean(axis=1, dtype=np.float64)
        return expected_accuracies(self.plans, self.accuracy, self.answered, self.ids, self.law)

    @cached_property
    def expected_cost(self) -> FloatArray:
        """The mean cost of each plan [P], by the law of tries where that says what is solved."""
        return self.mean_cost if self.by_law is None else self.by_law[1].mean(axis=1, dtype=np.float64)

    @cached_property
    def _paired(self) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
        """Cache of ``_paired_with``, by the plan compared with."""
        return {}

    @cached_property
    def baselines(self) -> BoolArray:
        """Mask of the single-branch plans that were measured [P], the baselines of all others."""
        return self.single & self.measured

    def best_at(self, worth: float, margin: float = LEAST_STANDARD_ERRORS) -> int:
        """Return the index of the plan to take where one right answer is worth ``worth``.

        The best single branch's plan, unless V x expected accuracy - cost of others is at least ``margin``
        paired standard errors higher: then the highest of those.
        """
        net = worth * self.expected - self.expected_cost
        best = int(np.argmax(np.where(self.baselines, net, -np.inf)))
        if self.by_law is not None:
            # What a law of tries expects of plans differs by no luck of the votes.
            return int(np.argmax(net))
        gain = net - net[best]
        right, both, paid = self._paired_with(best)
        error = np.sqrt(np.maximum(worth**2 * right - 2 * worth * both + paid, 0))
        can = gain >= margin * error
        can[best] = True
        return int(np.argmax(np.where(can, gain, -np.inf)))

    @cached_property
    def curve(self) -> list[tuple[float, int]]:
        """The plan to take by the worth of a right answer: thresholds of worth, rising from 0."""
        paid = self.mean_cost[self.mean_cost > 0]
        first, last = float(paid.min()) / 2, LARGEST_WORTH * float(np.median(paid))
        tried = [
            0.0,
            *np.geomspace(first, last, math.ceil(WORTHS_PER_DECADE * math.log10(last / first))).tolist(),
        ]
        # Of plans that cost the same the more accurate one is taken, however little a right answer is worth.
        out = [(0.0, self.best_at(first * EQUAL))]
        for low, high in pairwise(tried):
            plan = self.best_at(high)
            if plan != out[-1][1]:
                for _ in range(HALVINGS):
                    middle = (low + high) / 2
                    low, high = (low, middle) if self.best_at(middle) == plan else (middle, high)
                out.append((high, plan))
        return out

    def cheaper(self, plan: int) -> BoolArray:
        """Return a mask of the plans that cost less than one, measured and expected [P]."""
        return np.all(
            [cost < cost[plan] * (1 - EQUAL) for cost in (self.mean_cost, self.expected_cost)], axis=0
        )

    def better(self, plan: int) -> BoolArray:
        """Return a mask of the cheaper plans that are expected to be as accurate as one [P]."""
        return self.cheaper(plan) & (self.expected >= self.expected[plan] - EQUAL)

    def pays_from(self, plan: int) -> float | None:
        """Return the worth of a right answer from which a plan beats every cheaper single branch.

        None where a single branch's plan is cheaper and expected to be as accurate.
        """
        if (self.better(plan) & self.baselines).any():
            return None
        cost, cheaper = self.expected_cost, self.baselines & self.cheaper(plan)
        more = self.expected[plan] - self.expected[cheaper]
        return float(((cost[plan] - cost[cheaper]) / more).max(initial=0.0))

    def may_lose_too_much(self, plan: int, best: int) -> bool:
        """Return whether the 90% quantile of a plan's loss against ``best`` exceeds ``MAX_LOSS_90``."""
        difference = (self.accuracy[plan] - self.accuracy[best])[None]
        error = max(errors(difference, self.ids)[0], UNSEEN / len(self.ids))
        return plan != best and bool(difference.mean() - QUANTILE * error < -MAX_LOSS_90)

    def default(self, best: int, stakes: float = DEFAULT_VALUE_PER_CORRECT) -> int:
        """Return the index of the plan to take without an aim, ``best`` being the best single branch's.

        Of the measured plans that cost no more than ``best`` and do not gamble against it: the best where a
        right answer is worth ``stakes`` times what ``best`` costs.
        """
        cost = self.mean_cost
        net = stakes * max(cost[best], 1e-300) * self.expected - self.expected_cost
        held = np.flatnonzero(self.measured & (cost <= cost[best])).tolist()
        # One after the other: few are asked before one that does not gamble.
        return next(
            plan for plan in sorted(held, key=lambda at: -net[at]) if not self.may_lose_too_much(plan, best)
        )

    def within(self, budget: float) -> BoolArray:
        """Return a mask of the plans whose mean cost is within ``budget`` with 90% probability [P]."""
        return self.mean_cost + QUANTILE * errors(self.cost, self.ids) <= budget

    def _paired_with(self, plan: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return variances and covariance of mean differences to a plan in accuracy and cost [P] each."""
        if plan in self._paired:
            return self._paired[plan]
        units = int(self.ids.max()) + 1
        scale = units / max(units - 1, 1) / len(self.ids) ** 2
        out: FloatArray = np.empty((3, len(self.mean_accuracy)))
        for rows in blocks(len(self.mean_accuracy), len(self.ids)):
            right = cluster_sums(self.accuracy[rows] - self.accuracy[plan], self.ids)
            paid = cluster_sums(self.cost[rows] - self.cost[plan], self.ids)
            products = ((right, right), (right, paid), (paid, paid))
            out[:, rows] = [np.einsum("pn,pn->p", left, other) for left, other in products]
        self._paired[plan] = out[0] * scale, out[1] * scale, out[2] * scale
        return self._paired[plan]


@frozen
class MixAim(StatedAim):
    """The user's aim for a mix; at most one. By default: the best plan at no more than A's cost.

    ``retain``: the cheapest plan that is expected to keep this share of the best single branch's accuracy.
    ``budget``: the most accuracy at this mean cost per question. Or the most ``value_per_correct`` * accuracy
    - cost, where ``cost_per_path`` prices a path when nothing else does. Raises PolicyError outside the
    ranges.
    """


@frozen
class PlanChoice:
    """Indices of the plan that is ``taken``, of baseline A ``best`` and of baseline B ``cheap``."""

    best: int
    cheap: int
    taken: int


def choose(table: PlanTable, aim: MixAim) -> PlanChoice:
    """Return the plan to take on a pilot, with its baselines.

    Baseline A, fixed before the search: the single branch's plan of highest accuracy, of equals the
    cheapest. Baseline B: the cheapest single branch's plan within one paired standard error of A (the
    maximum of a small pilot is often a dear branch by luck). Without an aim: ``PlanTable.default``. Plans of
    predicted paths are taken by worth alone, where they pass measured ones by an error: held to A, they lost
    accuracy on two of six groups.
    """
    best, cheap = _baselines(table)
    return PlanChoice(best, cheap, _chosen_place(table, best, aim))


def _baselines(table: PlanTable) -> tuple[int, int]:
    alone = np.flatnonzero(table.baselines)
    means, costs = table.mean_accuracy[alone], table.mean_cost[alone]
    equal = alone[means >= means.max() - EQUAL]
    best = int(equal[np.argmin(table.mean_cost[equal])])
    error = errors(table.accuracy[alone] - table.accuracy[best], table.ids)
    near = means - table.mean_accuracy[best] >= -error - EQUAL
    return best, int(alone[near][np.argmin(costs[near])])


def _chosen_place(table: PlanTable, best: int, aim: MixAim) -> int:
    costs = table.mean_cost
    if aim.budget is not None:
        within = table.within(aim.budget) & table.measured
        if not within.any():
            raise PolicyError(
                f"no plan costs at most {aim.budget:g} per question with 90% probability; the cheapest has "
                f"{costs.min():.3g} on these questions"
            )
        return int(np.argmax(np.where(within, table.expected, -1) - 1e-9 * costs / costs.max()))
    if aim.value_per_correct is not None:
        return table.best_at(aim.value_per_correct)
    if aim.retain is not None:
        keeps = (table.expected >= aim.retain * table.expected[best] - EQUAL) & table.measured
        return int(np.argmin(np.where(keeps, costs, np.inf)))
    return table.default(best)
