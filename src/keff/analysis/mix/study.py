"""From aligned branches to findings: replay the plans, choose, and say what may be claimed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keff.analysis.audit import ceiling
from keff.analysis.mix.choose import MixAim, PlanChoice, PlanTable, choose, worth_rule
from keff.analysis.mix.claims import Against, cross_fit
from keff.analysis.mix.drop import DroppedBranch
from keff.analysis.mix.escalation import Escalation, escalation
from keff.analysis.mix.findings import (
    BranchLine,
    MixAdvice,
    MixFindings,
    PlanLine,
    Verdict,
    WorthLine,
)
from keff.analysis.mix.orders import draw_orders
from keff.analysis.mix.prices import Costs, path_costs
from keff.analysis.mix.search import CandidatePlan, pairs, singles, triples, undominated
from keff.analysis.mix.weights import Mixer, correctness
from keff.errors import UsageError
from keff.reading.join import Aligned
from keff.records import Interval, Note
from keff.sampling.cost import Price
from keff.stats.branches.covariance import correlation_intervals
from keff.stats.branches.deflection import k_eff_of_mix, margin
from keff.stats.inference.intervals import interval_mean
from keff.stats.inference.resampling import grouped
from keff.stats.votes import FloatArray, IntArray

FEWEST = 16
"""Fewer independent questions cannot be halved into folds that say anything."""

MOST_BRANCHES = 12
"""Above so many branches, cascades are tried among the undominated ones and the best only."""

NO_AIM = MixAim()

TOLERANCE = 0.01
"""The accuracy that may be lost in a plan that saves: one point."""


@dataclass(frozen=True, slots=True)
class MixSettings:
    """What the user chose.

    The most paths of one branch (``cap``), the aim, prices, the accuracy that may be lost (``tolerance``)
    and the seed of the orders and splits.
    """

    cap: int = 32
    aim: MixAim = NO_AIM
    prices: Mapping[str, Price] | None = None
    tolerance: float = TOLERANCE
    seed: int = 0


def combine_branches(
    group: Aligned, settings: MixSettings | None = None, dropped: tuple[DroppedBranch, ...] = ()
) -> MixFindings:
    """Return which branches to ask, in what order and how often, for a group of aligned branches.

    Replays single branches, cascades and mixes on the recorded paths, chooses by ``settings.aim``, and
    measures the choice on held-out questions. Raises UsageError for fewer than two questions, for prices
    of some branches only, and PolicyError for an aim that nothing reaches.
    """
    settings = settings or MixSettings()
    if group.n < 2 or len(np.unique(group.clusters)) < 2:
        raise UsageError(f"all branches share {group.n} question(s): combining them needs at least two")
    if not any(branch.votes.scored().any() for branch in group.branches):
        raise UsageError(
            f"no path of any branch is right as {group.space}: name another space with --answer-space"
        )
    costs = path_costs(group, settings.prices)
    return MixAnalysis(group, settings, costs).findings(dropped)


class MixAnalysis:
    """One run of the analysis: the replayed plans and what depends on them."""

    def __init__(self, group: Aligned, settings: MixSettings, costs: Costs) -> None:
        self.group, self.settings, self.costs = group, settings, costs
        self.rng = np.random.default_rng(settings.seed)
        self.orders = draw_orders(group, costs.paths, settings.cap, self.rng)
        self.mean_cost = np.array([float(cost.mean()) for cost in costs.paths])
        self.aim = self._aim()
        self.fixed_table = PlanTable.of(self._fixed_plans())
        self.mixer = Mixer(group, self.orders, self.mean_cost)
        self.every = np.arange(group.n)
        self.table, self.choice = self.chosen_on(self.every)

    def _aim(self) -> MixAim:
        """Where nothing else prices a path, ``cost_per_path`` does: worth is then counted in those paths."""
        aim = self.settings.aim
        if aim.value_per_correct is None:
            return aim
        if aim.cost_per_path is None:
            if self.costs.unit != "dollars":
                raise UsageError("--value-per-correct is in dollars: add --prices FILE, or --cost-per-path")
            return aim
        if self.costs.unit != "paths":
            raise UsageError("--cost-per-path goes with records that are counted in paths: use --prices here")
        worth = aim.value_per_correct / max(aim.cost_per_path, 1e-300)
        return MixAim(value_per_correct=min(worth, 1e300))

    def _fixed_plans(self) -> list[CandidatePlan]:
        orders, names = self.orders, self.group.names
        plans = list(singles(orders, names))
        if len(names) <= MOST_BRANCHES:
            plans += pairs(orders, names)
            plans += triples(orders, names, plans)
        return plans

    def chosen_on(self, rows: IntArray) -> tuple[PlanTable, PlanChoice]:
        """Return the plans with mixes learned on some questions, and the choice on these questions."""
        table = self.fixed_table.with_plans(self.mixer.mixes(rows))
        return table, choose(table, rows, self.group.clusters, self.aim)

    def line(self, plan: CandidatePlan) -> PlanLine:
        """Return a plan's accuracy and cost on the pilot, with cluster t intervals."""
        clusters = self.group.clusters
        accuracy, cost = interval_mean(plan.accuracy, clusters), interval_mean(plan.cost, clusters)
        names = tuple(self.group.names[branch] for branch in plan.branches)
        return PlanLine(plan.spec, plan.kind, names, _within(accuracy.interval, 0, 1), cost.interval)

    def findings(self, dropped: tuple[DroppedBranch, ...] = ()) -> MixFindings:
        """Put together all that was found."""
        group = self.group
        stats = correctness(group)
        correct = [branch.votes.scored() for branch in group.branches]
        c = correlation_intervals(correct, group.clusters)
        frontier = undominated(self.table.plans)
        ones = np.ones(len(group.branches))
        rule = worth_rule(self.table, self.every, group.clusters)
        spent = sum(float(cost.sum()) for cost in self.costs.paths) + sum(each.spent for each in dropped)
        saved = float(rule.costs[self.choice.best] - rule.costs[self.choice.taken])
        return MixFindings(
            n=group.n,
            clusters=stats.units,
            paths=tuple(branch.votes.k for branch in group.branches),
            cap=self.settings.cap,
            cost_unit=self.costs.unit,
            branches=tuple(self._branch(a, c[a][a], frontier) for a in range(len(group.branches))),
            c_between=tuple(tuple(row) for row in c),
            r_between=tuple(tuple(row) for row in stats.r.tolist()),
            k_eff=Interval(k_eff_of_mix(margin(stats), ones), None, None, "deflection, one path each"),
            ceiling=ceiling(
                np.sum([branch.votes.counts for branch in group.branches], axis=0).astype(np.float64),
                grouped(group.clusters)[0],
            ),
            frontier=tuple(self.line(plan) for plan in frontier),
            singles=tuple(self.line(plan) for plan in self.table.plans if plan.kind == "single"),
            dropped=dropped,
            escalation=self._escalation(),
            best_single=self.line(self.table.plans[self.choice.best]),
            cheap_single=self.line(self.table.plans[self.choice.cheap]),
            advice=self._advice(stats.units),
            by_worth=tuple(WorthLine(worth, self.line(self.table.plans[plan])) for worth, plan in rule.curve),
            pays_from=rule.pays_from(self.choice.taken),
            pilot_cost=spent,
            pays_back=None if saved <= 0 else math.ceil(spent / saved),
            warnings=(
                *group.notes,
                *self.costs.notes,
                *self._useless(),
                *self._dominating(stats.p),
                *_shrunk(margin(stats).shrunk),
            ),
        )

    def _escalation(self) -> Escalation | None:
        right = np.array([branch.votes.scored().mean(axis=1) for branch in self.group.branches])
        return escalation(self.table.plans[self.choice.taken].spec, self.orders, self.group.names, right)

    def _branch(self, number: int, c: Interval, frontier: Sequence[CandidatePlan]) -> BranchLine:
        branch = self.group.branches[number]
        p = interval_mean(branch.votes.scored().mean(axis=1), self.group.clusters)
        tokens = None if branch.votes.tokens is None else float(np.nanmean(branch.votes.tokens))
        without = [plan for plan in self.table.plans if number not in plan.branches]
        adds = _adds(frontier, without, float(self.table.cost[self.choice.taken].mean()))
        return BranchLine(
            branch.name,
            branch.model,
            _within(p.interval, 0, 1),
            c,
            tokens,
            float(self.mean_cost[number]),
            adds,
        )

    def _advice(self, units: int) -> MixAdvice:
        taken = self.line(self.table.plans[self.choice.taken])
        if units < FEWEST:
            none = Interval(float("nan"), None, None, "not cross-fitted")
            why = f"{units} independent questions cannot be split into folds: at least {FEWEST} can"
            return MixAdvice("pilot too small", taken, none, none, (none, none), FEWEST - units, why)
        best, cheap = cross_fit(
            self.group.clusters, self.chosen_on, np.random.default_rng(self.settings.seed + 1)
        )
        verdict, needed, why = self._verdict(taken, best, cheap)
        return MixAdvice(
            verdict,
            taken,
            best.cost_ratio(),
            best.accuracy_difference(),
            (cheap.cost_ratio(), cheap.accuracy_difference()),
            needed,
            why,
        )

    def _verdict(self, taken: PlanLine, best: Against, cheap: Against) -> tuple[Verdict, int | None, str]:
        tolerance = self.settings.tolerance
        numbers = f"cost x {best.cost_ratio().value:.2f}, accuracy {100 * best.difference:+.1f} points"
        against = f"{numbers} against the best single branch on questions held out"
        if len(taken.branches) == 1:
            own = self.table.plans[self.choice.best]
            model = self.group.names[own.branches[0]]
            why = f"{against}, by the choice of the model" if taken.branches[0] != model else ""
            return "one branch is enough", None, "; ".join(part for part in (why, self._declined()) if part)
        if best.saves(tolerance):
            if not cheap.saves(tolerance):
                against += (
                    "; against the cheapest single plan as good it shows no gain: the gain is in the model"
                )
            return "saves", None, against
        needed = best.questions_needed(self.group.n, tolerance)
        if needed is None:
            return (
                "probably saves",
                None,
                f"{against}: more questions would not show a saving at these figures",
            )
        return "probably saves", needed, f"{against}: about {needed} more questions would tell"

    def _declined(self) -> str:
        """Say which plan of the frontier looks better than the one that is taken, and why it is left."""
        accuracy, cost = self.table.accuracy.mean(axis=1), self.table.cost.mean(axis=1)
        taken = self.choice.taken
        better = ~self.table.single & (cost < cost[taken]) & (accuracy > accuracy[taken])
        if not better.any():
            return "no cascade or mix is both cheaper and more accurate on this pilot"
        place = int(np.argmax(np.where(better, accuracy, -1)))
        share, points = cost[place] / cost[taken], 100 * (accuracy[place] - accuracy[taken])
        return (
            f"{self.table.plans[place].spec} looks better on this pilot (cost x {share:.2f}, accuracy "
            f"{points:+.1f} points) and is declined: the best of many plans is so in part by luck, "
            "and it may lose accuracy on other questions"
        )

    def _useless(self) -> list[Note]:
        """Name branches that are never right, or never answer: mostly records that are read wrongly."""
        notes: list[Note] = []
        for branch in self.group.branches:
            if not (branch.votes.answered() >= 0).any():
                text = f"{branch.name} never gives an answer that {self.group.space} reads"
                notes.append(Note("never_answers", f"{text}: check --answer-space, or leave it out"))
            elif not branch.votes.scored().any():
                text = f"{branch.name} is never right: check how its answers are read, or leave it out"
                notes.append(Note("never_right", text))
        return notes

    def _dominating(self, p: FloatArray) -> list[Note]:
        """Say where one branch is at least as accurate and as cheap as every other one."""
        for a, name in enumerate(self.group.names):
            others = np.arange(len(p)) != a
            if (p[a] >= p[others]).all() and (self.mean_cost[a] <= self.mean_cost[others]).all():
                message = f"{name} is at least as accurate per path and as cheap as every other branch"
                return [Note("dominates", message)]
        return []


def _adds(frontier: Sequence[CandidatePlan], without: Sequence[CandidatePlan], cost: float) -> float | None:
    """Return the accuracy that is lost without a branch at (at most) the cost of the recommended plan.

    None where no plan without it is as cheap.
    """
    limit = cost * (1 + 1e-9)
    best, other = (
        max((float(plan.accuracy.mean()) for plan in plans if plan.cost.mean() <= limit), default=None)
        for plans in (frontier, without)
    )
    return None if best is None or other is None else max(best - other, 0.0)


def _within(interval: Interval, low: float, high: float) -> Interval:
    if interval.lo is None or interval.hi is None:
        return interval
    return Interval(interval.value, max(interval.lo, low), min(interval.hi, high), interval.method)


def _shrunk(factor: float) -> list[Note]:
    if factor >= 1:
        return []
    message = f"correlations between branches were multiplied by {factor:.2f}: together they were impossible"
    return [Note("shrunk", message)]
