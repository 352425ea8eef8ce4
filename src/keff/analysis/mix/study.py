"""Analysis of a mix: replay the plans on aligned branches, choose one, and report it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise

import numpy as np

from keff.analysis.audit import ceiling
from keff.analysis.decision.tries import LEAST_QUESTIONS, Verdicts, errors_of, why_undecidable
from keff.analysis.mix.choose import MixAim, PlanTable, choose
from keff.analysis.mix.claims import BaselineComparison, Claims, claims_of
from keff.analysis.mix.drop import DroppedBranch
from keff.analysis.mix.findings import (
    BranchLine,
    Escalation,
    EscalationBin,
    MixAdvice,
    MixFindings,
    MixVerdict,
    PlanLine,
    WorthLine,
    short,
)
from keff.analysis.mix.orders import PREDICTED, Orders, Reals, draw_orders
from keff.analysis.mix.prices import Costs, named_prices, path_costs
from keff.analysis.mix.search import (
    EQUAL,
    CandidatePlan,
    along_stages,
    as_cascade,
    frontier,
    mixes,
    pairs,
    singles,
    triples,
)
from keff.analysis.mix.tries import BranchTries, stage_shares, try_plans
from keff.analysis.sources import mean_luck
from keff.errors import UsageError
from keff.reading.join import Aligned
from keff.records import Interval, Note, frozen
from keff.sampling.cost import Price
from keff.stats.branches.covariance import branch_covariances, correlation_intervals
from keff.stats.branches.deflection import k_eff_of_mix, margin
from keff.stats.intervals import interval_c, interval_mean, mean_share
from keff.stats.votes import FloatArray, cluster_numbers

# Of fewer independent questions half a dozen decide a resample's choice, and no interval of it covers.
FEWEST = 16

# Above so many branches, cascades are tried among the undominated ones and the best only.
MOST_BRANCHES = 12

# Of fewer questions (AIME has 30) regret is two to four times that of 100 (docs/branches-measured.md).
FEW = 50

# Two standard errors of one question's difference between plans of two branches, as recorded.
TWO_ERRORS_OF_ONE = 0.8

NO_AIM = MixAim()

# Ends of the shares of right paths by which questions that a cascade passes on are counted.
EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

# Points of accuracy that a plan that saves may lose.
MAX_LOSS = 1.0


@frozen
class MixSettings:
    """The user's settings for a mix.

    The most paths of one branch (``cap``), the aim, prices, the points of accuracy that may be lost
    (``max_loss``) and the seed of the orders and splits. ``false_accept`` is the share of wrong answers that
    a checker passes.
    """

    cap: int = 32
    aim: MixAim = NO_AIM
    prices: Mapping[str, Price] | None = None
    max_loss: float = MAX_LOSS
    seed: int = 0
    false_accept: float | None = None

    def check(self, branches: Sequence[tuple[str, str | None]] = ()) -> None:
        """Raise UsageError for an aim in dollars without prices, and for ``branches`` without one."""
        priced = self.prices is not None or self.aim.cost_per_path is not None
        if not priced and self.aim.value_per_correct is not None:
            raise UsageError("--value-per-correct is in dollars: add --prices FILE, or --cost-per-path")
        if not priced and self.aim.budget is not None:
            raise UsageError("--budget-dollars needs --prices FILE")
        if self.prices is not None:
            named_prices(branches, self.prices)


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
        raise UsageError(f"all branches share {group.n} question(s) in one cluster: two are needed at least")
    if not any(branch.votes.scored().any() for branch in group.branches):
        raise UsageError(
            f"no path of any branch is right as {group.space}: name another space with --answer-space"
        )
    settings.check()
    costs = path_costs(group, settings.prices, settings.aim.cost_per_path)
    return MixAnalysis(group, settings, costs).findings(dropped)


class MixAnalysis:
    """One analysis of a mix: replayed plans, the choice, and what is reported of it."""

    def __init__(self, group: Aligned, settings: MixSettings, costs: Costs) -> None:
        self.group, self.settings, self.costs = group, settings, costs
        self.mean_cost = np.array([float(cost.mean()) for cost in costs.paths])
        self.recorded = [branch.votes.k for branch in group.branches]
        self.correct = [branch.votes.scored() for branch in group.branches]
        self.stats = branch_covariances(self.correct, group.clusters)
        self.law = margin(self.stats)
        self.ids = cluster_numbers(group.clusters, group.n)
        verdicts = [Verdicts.of(branch.votes) for branch in group.branches]
        known = [each for each in verdicts if each is not None]
        if group.verdicts_only:
            known = [replace(each, right=None) for each in known]
        self.tried = tried = self._tries(known) if len(known) == len(verdicts) else None
        orders = None
        if tried is not None:
            plans = try_plans(tried, group.names, self.mean_cost)
        else:
            if settings.false_accept:
                raise UsageError("--false-accept is only for branches with a checker's verdicts")
            orders = draw_orders(group, costs, settings.cap, np.random.default_rng(settings.seed))
            plans = chain(
                _fixed_plans(group, costs, orders, settings.seed),
                mixes(self.stats, group.names, orders, self.mean_cost),
            )
        # What a branch that is never right adds to others is chance.
        right = self.stats.p > 0
        held = (plan for plan in plans if len(plan.branches) == 1 or right[list(plan.branches)].all())
        self.table = PlanTable.of(held, self.recorded, group.answered, self.ids)
        # Over other prompts or judges, where branches hold several of many.
        self.luck: FloatArray | None = None
        if group.sources == "random":
            units = int(self.ids.max()) + 1
            self.luck = np.array([mean_luck(branch.votes, units) for branch in group.branches])
        self.choose = partial(choose, aim=settings.aim)
        self.choice = self.choose(self.table)
        self.claims: Claims | None = None
        if self.stats.units >= FEWEST:
            rng = np.random.default_rng(settings.seed + 1)
            self.claims = claims_of(self.table, self.choice, self.choose, rng, self.luck)
        taken = self.table.plans[self.choice.taken]
        # The orders are not kept: of a large record they take as much memory as its votes.
        self.escalation: Escalation | None = None
        if taken.kind == "cascade":
            if orders is not None:
                self.escalation = escalation(taken.spec, orders, group)
            elif tried is not None:
                self.escalation = self._escalation_of_tries(taken, tried)

    def _tries(self, verdicts: Sequence[Verdicts]) -> list[BranchTries]:
        """Return what tries of each branch do; UsageError for verdicts that say nothing."""
        out: list[BranchTries] = []
        for branch, own, cost in zip(self.group.branches, verdicts, self.costs.paths, strict=True):
            why = why_undecidable(own)
            if why is not None and own.passed.any() and len(np.unique(own.clusters)) >= LEAST_QUESTIONS:
                raise UsageError(f"{branch.name}: {why}")
            share, _ = errors_of(own, self.settings.false_accept)
            out.append(BranchTries.of(own, cost, self.settings.cap, 0.0 if share is None else share.value))
        return out

    def _escalation_of_tries(self, plan: CandidatePlan, tried: Sequence[BranchTries]) -> Escalation:
        """Return how often branches pass questions on, of a plan that a checker ends."""
        names = tuple(self.group.names[branch] for branch in plan.branches)
        share = self.correct[plan.branches[0]].mean(axis=1)
        first, tries = tried[plan.branches[0]].measured, plan.most[0]
        binned = _bin_by_difficulty(share, first.failing[:, tries], first.solved[:, tries], plan.accuracy)
        return Escalation(names, stage_shares(plan, tried), tuple(binned))

    def line(self, place: int) -> PlanLine:
        """Return a plan's accuracy and cost on the pilot, with Wilson's and t intervals by cluster."""
        plan = self.table.plans[place]
        shares = plan.weights(len(self.group.branches))
        luck = 0.0 if self.luck is None else float(shares**2 @ self.luck)
        noise = luck + plan.error**2
        accuracy = mean_share(np.asarray(plan.accuracy, np.float64), self.ids, noise=noise)
        cost = interval_mean(np.asarray(plan.cost, np.float64), self.ids).interval
        if self.tried is not None and plan.kind == "single":
            alone, tries = self.tried[plan.branches[0]].alone, plan.most[0]
            accuracy, cost = accuracy if luck else alone.right(tries), alone.spent(tries)
        if not plan.within(self.recorded):
            accuracy = replace(accuracy, method=f"{accuracy.method}; paths beyond the recorded are predicted")
        names = tuple(self.group.names[branch] for branch in plan.branches)
        return PlanLine(plan.spec, plan.kind, names, accuracy, float(self.table.expected[place]), cost)

    def findings(self, dropped: tuple[DroppedBranch, ...] = ()) -> MixFindings:
        """Return the findings of the analysis."""
        group = self.group
        stats = self.stats
        c, ones = correlation_intervals(self.correct, group.clusters), np.ones(len(group.branches))
        for number, branch in enumerate(group.branches):
            if branch.votes.k > 1:
                c[number][number] = interval_c(branch.votes).interval
        spent = sum(map(self.costs.record_cost, range(len(group.branches)))) + sum(
            each.spent for each in dropped
        )
        cost, accuracy = self.table.mean_cost, self.table.mean_accuracy
        saved = float(cost[self.choice.best] - cost[self.choice.taken])
        return MixFindings(
            n=group.n,
            clusters=stats.units,
            paths=tuple(branch.votes.k for branch in group.branches),
            cap=self.settings.cap,
            cost_unit=self.costs.unit,
            branches=tuple(self._branch(a, c[a][a]) for a in range(len(group.branches))),
            c_between=tuple(tuple(row) for row in c),
            r_between=tuple(tuple(row) for row in stats.r.tolist()),
            k_eff=Interval(k_eff_of_mix(self.law, ones), None, None, "deflection, one path each"),
            ceiling=ceiling(
                np.sum([branch.votes.counts for branch in group.branches], axis=0).astype(np.float64),
                self.ids,
            ),
            frontier=tuple(map(self.line, frontier(cost.tolist(), accuracy.tolist()))),
            singles=tuple(map(self.line, np.flatnonzero(self.table.single).tolist())),
            dropped=dropped,
            escalation=self.escalation,
            best_single=self.line(self.choice.best),
            cheap_single=self.line(self.choice.cheap),
            advice=self._advice(stats.units),
            by_worth=tuple(WorthLine(worth, self.line(plan)) for worth, plan in self.table.curve),
            pays_from=self.table.pays_from(self.choice.taken),
            pilot_cost=spent,
            pays_back=None if saved <= 0 else math.ceil(spent / saved),
            warnings=(*group.notes, *self.costs.notes, *self._notes()),
        )

    def _branch(self, number: int, c: Interval) -> BranchLine:
        branch = self.group.branches[number]
        tokens = None if branch.votes.tokens is None else float(np.nanmean(branch.votes.tokens))
        return BranchLine(
            branch.name,
            branch.model,
            mean_share(branch.votes.scored().mean(axis=1), self.ids),
            c,
            tokens,
            float(self.mean_cost[number]),
            self._adds(number),
        )

    def _adds(self, number: int) -> float | None:
        """Return each branch's contribution: accuracy lost without it, at no more than the plan's cost.

        None where no plan without it is as cheap.
        """
        accuracy, cost = self.table.mean_accuracy, self.table.mean_cost
        cheap = cost <= cost[self.choice.taken] * (1 + EQUAL)
        without = cheap & np.array([number not in plan.branches for plan in self.table.plans])
        return float(accuracy[cheap].max() - accuracy[without].max()) if without.any() else None

    def _advice(self, units: int) -> MixAdvice:
        taken = self.line(self.choice.taken)
        if self.claims is None:
            none = Interval(float("nan"), None, None, "not corrected for the choice")
            accuracy, best, cheap = taken.accuracy, (none, none), (none, none)
            why = f"{units} independent questions are too few to choose, you need at least {FEWEST}"
            why = _join_sentences(why, self._declined_plan())
            found: tuple[MixVerdict, int | None, str] = "pilot too small", FEWEST - units, why
        else:
            claims = self.claims
            accuracy, best, cheap = claims.accuracy, claims.best.intervals(), claims.cheap.intervals()
            found = self._verdict(taken, claims.best)
        verdict, needed, why = found
        return MixAdvice(verdict, taken, accuracy, *best, cheap, *self._savings(), needed, why)

    def _savings(self) -> tuple[float, float]:
        """Return two cost ratios whose product is the saving: choosing one model, combining several.

        Between baseline A and the plan stands the cheapest single branch's plan that is as accurate on the
        pilot as the plan (A where none is cheaper than A).
        """
        accuracy, cost, place = self.table.mean_accuracy, self.table.mean_cost, self.choice
        if self.table.single[place.taken]:
            alone = place.taken
        else:
            as_good = self.table.single & (accuracy >= accuracy[place.taken] - EQUAL)
            as_good[place.best] = True
            alone = int(np.argmin(np.where(as_good, cost, np.inf)))
        paid = np.maximum(cost, 1e-300)
        return float(paid[alone] / paid[place.best]), float(paid[place.taken] / paid[alone])

    def _verdict(self, taken: PlanLine, best: BaselineComparison) -> tuple[MixVerdict, int | None, str]:
        allowed = self.settings.max_loss
        points = f"{allowed:g} point{'s' * (allowed != 1)}"
        by_model, by_cascade = self._savings()
        declined = self._declined_plan()
        if len(taken.branches) == 1:
            model = self.group.names[self.table.plans[self.choice.best].branches[0]]
            why = "the most accurate plan of one branch asks another model"
            nothing = "on other questions keff expects no cheaper plan to be as accurate"
            shown = why if taken.branches[0] != model else ""
            return "one branch is enough", None, _join_sentences(shown, declined or nothing)
        split = ""
        if by_model < 1 - EQUAL:
            split = (
                f"choosing the model alone cuts the cost to {by_model:.0%}, and asking several to "
                f"{by_cascade:.0%} of that"
            )
        if best.saves(allowed / 100):
            shown = f"it costs less and loses at most {points}, each with 95% confidence"
            return "saves", None, _join_sentences(shown, split, declined)
        if needed := best.questions_needed(self.group.n, allowed / 100):
            why = f"about {short(needed)} more questions would show it"
            return "probably saves", needed, _join_sentences(why, split, declined)
        if best.log_ratio < 0:
            why = f"it is cheaper, but loses more than the {points} you allow"
        elif best.difference > 0:
            why = "keff takes it for its accuracy"
        else:
            why = "corrected for picking the best of many plans, it is neither cheaper nor more accurate"
        return "does not save", None, _join_sentences(why, split, declined)

    def _declined_plan(self) -> str:
        """Return a sentence on a cheaper plan that is as accurate but declined, and why; empty for none."""
        table, taken = self.table, self.choice.taken
        cost, many = table.mean_cost, f"these {self.group.n:,} questions do not rule out that it is worse"
        for accuracy, told in (
            (table.expected, "on other questions keff expects {} to be as accurate"),
            (table.mean_accuracy, "on this pilot {} was as accurate"),
        ):
            better = table.cheaper(taken) & (accuracy >= accuracy[taken] - EQUAL)
            if better.any():
                place = int(np.argmax(np.where(better, accuracy - EQUAL * cost / cost.max(), -1)))
                if not table.measured[place] and self.settings.aim.value_per_correct is None:
                    why = (
                        "it draws more paths than you recorded, and keff takes such plans with "
                        "--value-per-correct only"
                    )
                else:
                    why = many if accuracy is table.expected else "keff expects less of it on other questions"
                gain = f"{100 * (accuracy[place] - accuracy[taken]):+z.1f} points"
                saved = f"at {cost[place] / cost[taken]:.0%} of the cost"
                return f"{told.format(table.plans[place].spec)} ({gain}) {saved}, but {why}"
        return ""

    def _notes(self) -> Iterator[Note]:
        """Yield warnings on the branches, the questions and the recommended plan."""
        # Mostly records that are read wrongly.
        for branch in self.group.branches:
            if self.group.verdicts_only and not np.ptp(branch.votes.scored()):
                always = bool(branch.votes.scored().all())
                yield Note(
                    "always_passes" if always else "never_passes",
                    f"every try of {branch.name} passed: check that the checker can fail an answer"
                    if always
                    else f"no try of {branch.name} passed: check what the checker was given, or leave it out",
                )
            elif not (branch.votes.answered() >= 0).any():
                yield Note(
                    "never_answers",
                    f"keff finds no answer of {branch.name} as {self.group.space}. Check --answer-space, or "
                    "leave it out",
                )
            elif not branch.votes.scored().any():
                yield Note(
                    "never_right",
                    f"{branch.name} is never right. Check its answers with keff read, or leave it out",
                )
        p, cost, units = self.stats.p, self.mean_cost, self.stats.units
        dominating = (p == p.max()) & (cost == cost.min())
        if dominating.any():
            name = self.group.names[int(np.argmax(dominating))]
            yield Note("dominates", f"{name} is the most accurate branch and the cheapest")
        if units < FEW:
            yield Note(
                "few_questions",
                f"with {units} independent questions keff can only tell plans apart that differ by "
                f"{100 * TWO_ERRORS_OF_ONE / math.sqrt(units):.0f} points or more. Draw {FEW}, or pool "
                "similar exams",
            )
        if self.law.shrunk < 0.995:  # 1.00, in what is said
            yield Note(
                "shrunk",
                f"keff multiplied the correlations between branches by {self.law.shrunk:.2f}, since together "
                "they are impossible",
            )
        if not self.table.measured[self.choice.taken]:
            yield Note(
                "predicted_paths",
                "the plan may draw more paths than you recorded, so part of it is predicted. To measure it, "
                f"draw {PREDICTED} of each branch (--k {PREDICTED})",
            )


def _join_sentences(*parts: str) -> str:
    return ". ".join(
        f"{part[0].upper()}{part[1:]}" if place else part for place, part in enumerate(filter(None, parts))
    )


def _fixed_plans(group: Aligned, costs: Costs, orders: Orders, seed: int) -> list[CandidatePlan]:
    """Return replayed plans that do not use accuracy estimates: single branches and cascades."""
    plans, names = list(singles(group, costs, orders, seed)), group.names
    if len(names) <= MOST_BRANCHES:
        plans += pairs(orders, names)
        plans += triples(orders, names, plans)
    return plans


def escalation(spec: str, orders: Orders, group: Aligned) -> Escalation:
    """Return how often the cascade ``spec`` passes questions to each of its stages."""
    policy = as_cascade(spec)
    stops = list(along_stages(policy, orders, group.names))
    left = np.zeros(orders.rows)
    left[stops[0].rows] = 1
    reach = (1.0, *(len(stop.rows) / orders.rows for stop in stops[:-1]))
    means = map(orders.means, (left, stops[0].credit, stops[-1].credit))
    first = group.branches[group.names.index(policy.branches[0])]
    by_difficulty = _bin_by_difficulty(first.votes.scored().mean(axis=1), *means)
    return Escalation(policy.branches, reach, tuple(by_difficulty))


def _bin_by_difficulty(first: FloatArray, passed: Reals, before: Reals, after: Reals) -> list[EscalationBin]:
    out: list[EscalationBin] = []
    for lo, hi in pairwise(EDGES):
        inside = (first >= lo) & ((first < hi) | (hi == EDGES[-1]))
        count = int(inside.sum())
        means = [float(values[inside].mean()) if count else None for values in (passed, before, after)]
        out.append(EscalationBin(lo, hi, count, *means))
    return out
