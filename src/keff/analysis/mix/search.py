"""Candidate plans of a mix: single branches, cascades and weighted mixes, replayed on every question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Literal, cast

import numpy as np

from keff.analysis.mix.orders import BranchOrders, CountedPaths, Orders, Reals, RunningVotes
from keff.analysis.mix.prices import Costs
from keff.policies.cascade import FRESH, Cascade, Keep, Stage, make_stage
from keff.policies.mix import TIE, Mix, Share
from keff.policy import parse_policy
from keff.reading.join import Aligned
from keff.records import frozen
from keff.stats.branches.covariance import Between
from keff.stats.branches.deflection import allocate, best_weights, margin
from keff.stats.branches.weights import log_odds_weights
from keff.stats.votes import BoolArray, FloatArray, IntArray

Kind = Literal["single", "cascade", "mix"]

# Accuracies and costs are means in single precision: closer ones are equal.
EQUAL = 1e-6

# Caps that are tried, up to the one that is allowed.
LADDER = (3, 4, 5, 8, 16, 32, 64)

# Rules of a stage that passes questions on.
FIRST = (
    "lead_k:2,cap=2",
    "lead_k:2,cap=4",
    "lead_k:3,cap=3",
    "lead_k:3,cap=5",
    "lead_k:4,cap=4",
    "lead_k:4,cap=6",
)

# Rules of a last stage.
SECOND = ("fixed:1", "lead_k:2,cap=4", "lead_k:2,cap=8", "lead_k:3,cap=8", "lead_k:3,cap=16")

KEEPS: tuple[Keep, ...] = ("votes", "fresh")

# So many undominated cascades of two are tried with a third stage, and with which rules of the last two.
TRIPLES = 8
THIRD = (("lead_k:2,cap=4", "lead_k:2,cap=4"), ("lead_k:3,cap=5", "lead_k:3,cap=8"))

# The most paths of one branch in a mix: further ones hardly add to its deflection.
MOST_PATHS = 8

# Costs of a mix, in paths of the cheapest branch and of the median one.
BUDGETS = (3.0, 8.0)


@frozen
class CandidatePlan:
    """One plan: policy, kind, branches it may ask, and accuracy and cost on each question [n].

    ``by_law`` are both by the law of tries, for a plan that a checker ends; ``error`` is the standard error
    of the mean accuracy that questions replayed on the same orders share.
    """

    spec: str
    kind: Kind
    branches: tuple[int, ...]
    accuracy: Reals
    cost: Reals
    by_law: tuple[Reals, Reals] | None = None
    error: float = 0.0

    @property
    def most(self) -> tuple[int, ...]:
        """The most paths of each of its branches."""
        return most_of_each(self.spec)

    def weights(self, branches: int) -> FloatArray:
        """Return the share of each of all branches [A] in the plan, its own alike."""
        shares = np.zeros(branches)
        shares[list(self.branches)] = 1 / len(self.branches)
        return shares

    def within(self, recorded: Sequence[int]) -> bool:
        """Return whether the plan needs at most the ``recorded`` paths of each branch [A], none predicted."""
        return all(paths <= recorded[branch] for branch, paths in zip(self.branches, self.most, strict=True))


# What each part of a policy string draws at most: fixed:N, retry:N, cap=N, or k=N of a mix.
MOST_OF_EACH = re.compile(r"\((?:fixed:|retry:|k=|[^()]*cap=)(\d+)")


@lru_cache(maxsize=2**15)
def most_of_each(spec: str) -> tuple[int, ...]:
    """Return the most paths that each part of a policy string draws."""
    return tuple(int(paths) for paths in MOST_OF_EACH.findall(spec))


def single_rules(cap: int) -> list[str]:
    """Return the rules of one branch: one path, and leads of 2 to 4 under a ladder of caps."""
    caps = sorted({rung for rung in (*LADDER, cap) if 2 <= rung <= cap})
    leads = [f"lead_k:{lead},cap={rung}" for lead in (2, 3, 4) for rung in caps if rung >= 2 * lead - 1]
    return ["fixed:1", *leads]


def cascade_spec(stages: Sequence[tuple[str, str]], keep: Keep = "votes") -> str:
    """Return the policy string of stages (branch, rule); of one branch, a cascade with one stage."""
    shown = "/".join(f"{branch}({rule})" for branch, rule in stages)
    return f"cascade:{shown}" + (",keep=fresh" if keep == "fresh" else "")


@lru_cache(maxsize=512)
def _rule_stage(rule: str, offset: int, last: bool) -> Stage:
    return make_stage("", rule, offset, last=last)


def _stage(branch: str, rule: str, offset: int, last: bool) -> Stage:
    return replace(_rule_stage(rule, offset, last), branch=branch)


@frozen
class CascadeState:
    """State of all orders after some stages of a cascade.

    Its credit and cost [N], and the ``rows`` that are still open, with their paths.
    """

    credit: Reals
    spent: Reals
    rows: IntArray
    paths: CountedPaths

    @classmethod
    def before_all(cls, rows: int) -> CascadeState:
        """Return the state before the first stage."""
        zero = np.zeros(rows, np.float32)
        return cls(zero, zero, np.arange(rows, dtype=np.int64), CountedPaths.none(rows))

    def fresh(self) -> CascadeState:
        """Return the state for a stage that votes afresh: earlier paths count for almost nothing."""
        return replace(self, paths=replace(self.paths, weights=self.paths.weights / np.float32(FRESH)))

    def votes(self, order: BranchOrders, cap: int) -> RunningVotes:
        """Return the running vote of the undecided orders along ``cap`` paths of a branch."""
        codes, right = order.codes[self.rows, :cap], order.right[self.rows, :cap]
        return RunningVotes.of(self.paths.followed_by(codes, right), cap)

    def after_stage(
        self, order: BranchOrders, votes: RunningVotes, stage: Stage
    ) -> tuple[Reals, Reals, IntArray, BoolArray]:
        """Return credit and cost [N] after a stage, its paths, and a mask of the orders it settled."""
        at, rounds, settled = votes.walk(stage)
        credit, spent = self.credit.copy(), self.spent.copy()
        credit[self.rows] = votes.credit[np.arange(len(at)), at]
        spent[self.rows] += order.request_cost(self.rows, at, rounds)
        return credit, spent, at, settled

    def after(self, order: BranchOrders, votes: RunningVotes, stage: Stage) -> CascadeState:
        """Return the state of all orders after a stage."""
        credit, spent, at, settled = self.after_stage(order, votes, stage)
        rows = self.rows[~settled]
        codes, right = order.codes[rows, : stage.cap], order.right[rows, : stage.cap]
        return CascadeState(
            credit, spent, rows, self.paths.rows(~settled).followed_by(codes, right, at[~settled])
        )


def singles(group: Aligned, costs: Costs, orders: Orders, seed: int = 0) -> Iterator[CandidatePlan]:
    """Replay every rule of every single branch.

    By the branch's own ``Workload`` where it draws recorded paths, so that a plan of one branch is what
    ``keff replay`` says of its rule; else along the ``orders``, which hold predicted paths.
    """
    start = CascadeState.before_all(orders.rows)
    for number, (branch, order) in enumerate(zip(group.branches, orders.branches, strict=True)):
        # By the strings as they are made: a policy leaves a cap out that is its default.
        rules = {rule: parse_policy(rule) for rule in single_rules(order.cap)}
        most = min(order.cap, branch.votes.k)
        recorded = [rule for rule in rules.values() if rule.cap <= most]
        replayed = costs.workload(number, branch.votes, recorded, most, seed)
        votes = start.votes(order, order.cap)
        for made, rule in rules.items():
            spec = cascade_spec([(branch.name, made)])
            if rule.cap <= most:
                found = replayed.outcome(rule)
                assert found.accuracy is not None
                error = replayed.rows.error(found.noise, replayed.rows.weights)
                accuracy, cost = map(replayed.rows.by_question, (found.accuracy, costs.of(found)))
                yield CandidatePlan(spec, "single", (number,), accuracy, cost, error=error)
            else:
                credit, spent, *_ = start.after_stage(order, votes, _stage(branch.name, made, 0, True))
                yield CandidatePlan(spec, "single", (number,), orders.means(credit), orders.means(spent))


def pairs(orders: Orders, names: Sequence[str]) -> Iterator[CandidatePlan]:
    """Replay cascades of every ordered pair: the useful second stage can be the weaker and dearer one."""
    start = CascadeState.before_all(orders.rows)
    for a, (name, order) in enumerate(zip(names, orders.branches, strict=True)):
        votes = start.votes(order, order.cap)
        for rule in FIRST:
            first = _stage(name, rule, 0, False)
            if first.cap > order.cap:
                continue
            left = start.after(order, votes, first)
            for b in range(len(names)):
                if b != a and len(left.rows):
                    yield from _second(left, first, (a, b), names[b], orders)


def _second(
    left: CascadeState, first: Stage, numbers: tuple[int, int], name: str, orders: Orders
) -> Iterator[CandidatePlan]:
    order = orders.branches[numbers[1]]
    for keep in KEEPS:
        before, offset = (left, first.cap) if keep == "votes" else (left.fresh(), 0)
        every = (_stage(name, rule, offset, True) for rule in SECOND)
        last = [stage for stage in every if stage.cap <= order.cap]
        votes = before.votes(order, max(stage.cap for stage in last))
        for stage in last:
            credit, spent, *_ = before.after_stage(order, votes, stage)
            spec = cascade_spec([(first.branch, first.spec), (name, stage.spec)], keep)
            yield CandidatePlan(spec, "cascade", numbers, orders.means(credit), orders.means(spent))


def triples(orders: Orders, names: Sequence[str], plans: Sequence[CandidatePlan]) -> Iterator[CandidatePlan]:
    """Replay a third stage behind the undominated cascades of two."""
    chosen: dict[tuple[int, ...], str] = {}
    for plan in [plan for plan in undominated(plans) if plan.kind == "cascade"][-TRIPLES:]:
        chosen.setdefault(plan.branches, plan.spec)
    for numbers, spec in chosen.items():
        pair = as_cascade(spec)
        head, tail = pair.stages
        others = (c for c in range(len(names)) if c not in numbers)
        for c, (middle, last) in product(others, THIRD):
            stages = [(head.branch, head.spec), (tail.branch, middle), (names[c], last)]
            policy = as_cascade(cascade_spec(stages, pair.keep))
            caps = [orders.branches[b].cap for b in (*numbers, c)]
            if all(stage.cap <= cap for stage, cap in zip(policy.stages, caps, strict=True)):
                accuracy, cost = replay_cascade(policy, orders, names)
                yield CandidatePlan(policy.spec, "cascade", (*numbers, c), accuracy, cost)


def as_cascade(spec: str) -> Cascade:
    """Return the cascade of a policy string that is one."""
    return cast("Cascade", parse_policy(spec))


def along_stages(policy: Cascade, orders: Orders, names: Sequence[str]) -> Iterator[CascadeState]:
    """Yield the state of all orders after each stage of a cascade."""
    state = CascadeState.before_all(orders.rows)
    for number, stage in enumerate(policy.stages):
        order = orders.branches[list(names).index(stage.branch)]
        if number and policy.keep == "fresh":
            state = state.fresh()
        state = state.after(order, state.votes(order, stage.cap), stage)
        yield state


def replay_cascade(policy: Cascade, orders: Orders, names: Sequence[str]) -> tuple[Reals, Reals]:
    """Return the accuracy and cost of each question [n] under a cascade of any length."""
    *_, end = along_stages(policy, orders, names)
    return orders.means(end.credit), orders.means(end.spent)


def replay_mix(policy: Mix, orders: Orders, names: Sequence[str]) -> tuple[Reals, Reals]:
    """Return the accuracy and cost of each question [n] under a weighted vote; ties share the credit."""
    total = orders.rows
    width = 1 + max(int(order.codes.max(initial=0)) for order in orders.branches)
    support, right = np.zeros((total, width)), np.zeros((total, width), np.float32)
    spent = np.zeros(total)
    for share in policy.shares:
        order = orders.branches[list(names).index(share.branch)]
        for code, credit in zip(order.codes.T[: share.k], order.right.T[: share.k], strict=True):
            at = np.flatnonzero(code >= 0)
            support[at, code[at]] += share.weight / share.k
            right[at, code[at]] = credit[at]
        spent += order.request_cost(np.arange(total), share.k, 1)
    best = support.max(axis=1, keepdims=True)
    tied = (support >= best - TIE * support.sum(axis=1, keepdims=True)) & (best > 0)
    credit = np.where(tied, right, 0).sum(axis=1) / np.maximum(tied.sum(axis=1), 1)
    return orders.means(credit), orders.means(spent)


def undominated(plans: Sequence[CandidatePlan]) -> list[CandidatePlan]:
    """Return the plans on the accuracy-cost frontier, by cost."""
    cost, right = (
        [float(np.mean(getattr(plan, name), dtype=np.float64)) for plan in plans]
        for name in ("cost", "accuracy")
    )
    return [plans[place] for place in frontier(cost, right)]


def frontier(cost: Sequence[float], accuracy: Sequence[float]) -> list[int]:
    """Return the indices of plans more accurate than all others of equal or lower cost, by cost."""
    kept: list[int] = []
    for place in sorted(range(len(cost)), key=cost.__getitem__):
        if not kept or accuracy[place] > accuracy[kept[-1]] + EQUAL:
            while kept and cost[place] <= cost[kept[-1]] * (1 + EQUAL):
                kept.pop()
            kept.append(place)
    return kept


def mixes(stats: Between, names: Sequence[str], orders: Orders, cost: FloatArray) -> list[CandidatePlan]:
    """Return replayed weighted mixes: allocations by deflection and one path each, with three weightings.

    Weights: uniform, log odds of accuracy, and Sigma^-1 mu; none is trusted, all are replayed.
    """
    most = np.array([order.cap for order in orders.branches])
    made = (
        _mix(names, k, weights)
        for k in allocations(stats, cost, most)
        for weights in candidate_weights(stats, k)
    )
    policies = {policy.spec: policy for policy in made if policy is not None}
    return [
        CandidatePlan(
            policy.spec,
            "mix",
            tuple(names.index(name) for name in policy.branches),
            *replay_mix(policy, orders, names),
        )
        for policy in policies.values()
    ]


def allocations(stats: Between, cost: FloatArray, recorded: IntArray) -> list[IntArray]:
    """Return candidate allocations of paths [A]: the best by deflection at some budgets, and one each."""
    law = margin(stats)
    most = np.minimum(recorded, MOST_PATHS)
    out: dict[tuple[int, ...], IntArray] = {}
    for unit in (float(cost.min()), float(np.median(cost))):
        for times in BUDGETS:
            k = allocate(law, cost, times * unit, most)
            if np.count_nonzero(k) > 1:
                out[tuple(k.tolist())] = k
    each = np.ones(len(cost), np.int64)
    out[tuple(each.tolist())] = each
    return list(out.values())


def candidate_weights(stats: Between, k: IntArray) -> list[FloatArray]:
    """Return weights of the branches' means [A] under k: uniform votes, log odds, and maximal ratio.

    The odds are those of right against wrong: odds against one wrong answer of many, log(p(M-1)/(1-p)), give
    weak branches that share their errors too much (63 against 72% on 28 models of MMLU-Pro).
    """
    p = np.clip(stats.p, 0.5 / stats.units, 1 - 0.5 / stats.units)
    return [k.astype(np.float64), k * log_odds_weights(p), best_weights(margin(stats), k)]


def _mix(names: Sequence[str], k: IntArray, weights: FloatArray) -> Mix | None:
    """Return the mix of the branches with positive weight; None for fewer than two."""
    used: list[int] = np.flatnonzero((k > 0) & (weights > 0)).tolist()
    if len(used) < 2:
        return None
    scale = float(weights[used].max())
    # Two digits: a weight in a plan is read by people, and a third hardly moves a vote.
    shares = (Share(names[a], int(k[a]), float(f"{weights[a] / scale:.2g}")) for a in used)
    return Mix(tuple(share for share in shares if share.weight > 0))
