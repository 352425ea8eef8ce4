"""The plans that are compared: single branches, cascades and mixes, each replayed on every question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keff.analysis.mix.orders import BranchOrders, CountedPaths, Orders, Reals, RunningVotes
from keff.policies.cascade import Cascade, Keep, Stage, make_stage
from keff.policies.mix import TIE, Mix, Share
from keff.reading.join import Aligned
from keff.stats.branches.covariance import Between, between
from keff.stats.branches.deflection import allocate, best_weights, margin
from keff.stats.branches.weights import log_odds_weights
from keff.stats.votes import FloatArray, IntArray

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

# So many undominated cascades of two are tried with a third stage.
TRIPLES = 8

# The most paths of one branch in a mix: further ones hardly add to its deflection.
MOST_PATHS = 8

# Costs of a mix, in paths of the cheapest branch and of the median one.
BUDGETS = (3.0, 8.0)


@dataclass(frozen=True)
class CandidatePlan:
    """One plan: its policy, its kind, the branches that it may ask, and what it does on each question [n]."""

    spec: str
    kind: Kind
    branches: tuple[int, ...]
    accuracy: Reals
    cost: Reals

    def within(self, recorded: Sequence[int]) -> bool:
        """Return whether it draws at most ``recorded`` paths of each branch [A]: none of them predicted."""
        most = MOST_OF_EACH.findall(self.spec)
        return all(int(paths) <= recorded[branch] for branch, paths in zip(self.branches, most, strict=False))


# What each part of a policy string draws at most: fixed:N, cap=N, or k=N of a mix.
MOST_OF_EACH = re.compile(r"\((?:fixed:|k=|[^()]*cap=)(\d+)")


def single_rules(cap: int) -> list[str]:
    """Return the rules of one branch: one path, and leads of 2 to 4 under a ladder of caps."""
    caps = sorted({rung for rung in (*LADDER, cap) if 2 <= rung <= cap})
    leads = [f"lead_k:{lead},cap={rung}" for lead in (2, 3, 4) for rung in caps if rung >= 2 * lead - 1]
    return ["fixed:1", *leads]


def cascade_spec(stages: Sequence[tuple[str, str]], keep: Keep = "votes") -> str:
    """Return the policy string of stages (branch, rule); one branch alone is the cascade of one stage."""
    shown = "/".join(f"{branch}({rule})" for branch, rule in stages)
    return f"cascade:{shown}" + (",keep=fresh" if keep == "fresh" else "")


@lru_cache(maxsize=512)
def _rule_stage(rule: str, offset: int, last: bool) -> Stage:
    return make_stage("", rule, offset, last=last)


def _stage(branch: str, rule: str, offset: int, last: bool) -> Stage:
    return replace(_rule_stage(rule, offset, last), branch=branch)


def singles(orders: Orders, names: Sequence[str]) -> Iterator[CandidatePlan]:
    """Replay every rule of every single branch."""
    for number, (name, order) in enumerate(zip(names, orders.branches, strict=True)):
        votes = _alone(order)
        rows = np.arange(orders.rows)
        for rule in single_rules(order.cap):
            at, _ = votes.walk(_stage(name, rule, 0, True))
            accuracy, cost = orders.means(votes.credit[rows, at]), orders.means(order.spent[rows, at])
            yield CandidatePlan(cascade_spec([(name, rule)]), "single", (number,), accuracy, cost)


def pairs(orders: Orders, names: Sequence[str]) -> Iterator[CandidatePlan]:
    """Replay cascades of every ordered pair: the useful second stage can be the weaker and dearer one."""
    for a, (name, order) in enumerate(zip(names, orders.branches, strict=True)):
        votes = _alone(order)
        for rule in FIRST:
            first = _stage(name, rule, 0, False)
            if first.cap > order.cap:
                continue
            left = _Left.after(first, votes, order)
            if not len(left.rows):
                continue
            for b, other in enumerate(names):
                if b != a:
                    yield from _second(left, first, (a, b), (name, other), orders)


def _second(
    left: _Left, first: Stage, numbers: tuple[int, int], names: tuple[str, str], orders: Orders
) -> Iterator[CandidatePlan]:
    order = orders.branches[numbers[1]]
    rows = left.rows
    for keep in KEEPS:
        offset = first.cap if keep == "votes" else 0
        last = [_stage(names[1], rule, offset, True) for rule in SECOND]
        most = max((stage.cap for stage in last if stage.cap <= order.cap), default=0)
        before = left.paths if keep == "votes" else left.paths.demoted()
        votes = RunningVotes.of(before.joined(order.codes[rows, :most], order.right[rows, :most]), most)
        for stage in last:
            if stage.cap > order.cap:
                continue
            further, _ = votes.walk(stage)
            accuracy, cost = left.credit.copy(), left.spent.copy()
            accuracy[rows] = votes.credit[np.arange(len(rows)), further]
            cost[rows] += order.spent[rows, further]
            spec = cascade_spec([(names[0], first.spec), (names[1], stage.spec)], keep)
            yield CandidatePlan(spec, "cascade", numbers, orders.means(accuracy), orders.means(cost))


@dataclass(frozen=True)
class _Left:
    """Where a first stage left every row.

    Its credit and cost [N], and the ``rows`` that it left open with their paths.
    """

    credit: Reals
    spent: Reals
    rows: IntArray
    paths: CountedPaths

    @classmethod
    def after(cls, stage: Stage, votes: RunningVotes, order: BranchOrders) -> _Left:
        at, settled = votes.walk(stage)
        every = np.arange(len(at))
        rows = np.flatnonzero(~settled)
        own = slice(0, stage.cap)
        paths = CountedPaths.none(len(rows)).joined(order.codes[rows, own], order.right[rows, own], at[rows])
        return cls(votes.credit[every, at].astype(np.float64), order.spent[every, at], rows, paths)


def _alone(order: BranchOrders) -> RunningVotes:
    """Return the votes of one branch from its first path on."""
    return RunningVotes.of(CountedPaths.none(len(order.codes)).joined(order.codes, order.right), order.cap)


def triples(orders: Orders, names: Sequence[str], plans: Sequence[CandidatePlan]) -> Iterator[CandidatePlan]:
    """Replay a third stage behind the undominated cascades of two."""
    chosen = [plan for plan in undominated(plans) if plan.kind == "cascade"][-TRIPLES:]
    seen: set[tuple[int, ...]] = set()
    for plan in chosen:
        if plan.branches in seen:
            continue
        seen.add(plan.branches)
        head = plan.spec.removeprefix("cascade:").partition("/")[0].rstrip(")").partition("(")[2]
        keep: Keep = "fresh" if plan.spec.endswith("keep=fresh") else "votes"
        for c, name in enumerate(names):
            if c in plan.branches:
                continue
            for middle, last in (("lead_k:2,cap=4", "lead_k:2,cap=4"), ("lead_k:3,cap=5", "lead_k:3,cap=8")):
                stages = [(names[plan.branches[0]], head), (names[plan.branches[1]], middle), (name, last)]
                policy = make_cascade(stages, keep)
                caps = [orders.branches[b].cap for b in (*plan.branches, c)]
                if all(stage.cap <= cap for stage, cap in zip(policy.stages, caps, strict=True)):
                    accuracy, cost = replay_cascade(policy, orders, names)
                    yield CandidatePlan(policy.spec, "cascade", (*plan.branches, c), accuracy, cost)


def make_cascade(stages: Sequence[tuple[str, str]], keep: Keep) -> Cascade:
    """Return the cascade of stages (branch, rule)."""
    made: list[Stage] = []
    for number, (branch, rule) in enumerate(stages):
        offset = sum(stage.cap for stage in made) if keep == "votes" else 0
        made.append(_stage(branch, rule, offset, number + 1 == len(stages)))
    return Cascade(made, keep)


@dataclass(frozen=True)
class StageOutcome:
    """What one stage did to the ``rows`` that reached it.

    Their credit and cost there, and which of them it ``left`` open.
    """

    rows: IntArray
    credit: Reals
    spent: Reals
    left: NDArray[np.bool_]


def along_stages(policy: Cascade, orders: Orders, names: Sequence[str]) -> Iterator[StageOutcome]:
    """Walk every order through the stages of a cascade of any length."""
    rows = np.arange(orders.rows, dtype=np.int64)
    paths = CountedPaths.none(orders.rows)
    for number, stage in enumerate(policy.stages):
        order = orders.branches[list(names).index(stage.branch)]
        if number and policy.keep == "fresh":
            paths = paths.demoted()
        codes, right = order.codes[rows, : stage.cap], order.right[rows, : stage.cap]
        votes = RunningVotes.of(paths.joined(codes, right), stage.cap)
        at, settled = votes.walk(stage)
        credit = votes.credit[np.arange(len(at)), at].astype(np.float64)
        left = ~settled
        yield StageOutcome(rows, credit, order.spent[rows, at], left)
        paths, rows = paths.rows(left).joined(codes[left], right[left], at[left]), rows[left]
        if not len(rows):
            return


def replay_cascade(policy: Cascade, orders: Orders, names: Sequence[str]) -> tuple[Reals, Reals]:
    """Return the accuracy and cost of each question [n] under a cascade of any length."""
    credit, spent = np.zeros(orders.rows), np.zeros(orders.rows)
    for stop in along_stages(policy, orders, names):
        credit[stop.rows] = stop.credit
        spent[stop.rows] += stop.spent
    return orders.means(credit), orders.means(spent)


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
        spent += order.spent[:, share.k]
    best = support.max(axis=1, keepdims=True)
    tied = (support >= best - TIE * support.sum(axis=1, keepdims=True)) & (best > 0)
    credit = np.where(tied, right, 0).sum(axis=1) / np.maximum(tied.sum(axis=1), 1)
    return orders.means(credit), orders.means(spent)


def undominated(plans: Sequence[CandidatePlan]) -> list[CandidatePlan]:
    """Return the plans that no other beats in mean accuracy or mean cost, by cost."""
    cost, right = (
        [float(np.mean(row, dtype=np.float64)) for row in rows]
        for rows in ([plan.cost for plan in plans], [plan.accuracy for plan in plans])
    )
    return [plans[place] for place in frontier(cost, right)]


def frontier(cost: Sequence[float], accuracy: Sequence[float]) -> list[int]:
    """Return the places of what is more accurate than all that costs as much or less, by cost."""
    kept: list[int] = []
    for place in sorted(range(len(cost)), key=cost.__getitem__):
        if not kept or accuracy[place] > accuracy[kept[-1]] + EQUAL:
            while kept and cost[place] <= cost[kept[-1]] * (1 + EQUAL):
                kept.pop()
            kept.append(place)
    return kept


def correctness(group: Aligned) -> Between:
    """Return the covariances of the branches' correctness."""
    return between([branch.votes.scored() for branch in group.branches], group.clusters)


def mixes(group: Aligned, orders: Orders, cost: FloatArray) -> list[CandidatePlan]:
    """Return replayed mixes: allocations by deflection, and one path each, under three kinds of weights.

    Weights: uniform, log odds of accuracy, and Sigma^-1 mu; none is trusted, all are replayed.
    """
    stats = correctness(group)
    most = np.array([order.cap for order in orders.branches])
    made = (
        _mix(group.names, k, weights)
        for k in allocations(stats, cost, most)
        for weights in candidate_weights(stats, k)
    )
    policies = {policy.spec: policy for policy in made if policy is not None}
    return [
        CandidatePlan(
            policy.spec,
            "mix",
            tuple(group.names.index(name) for name in policy.branches),
            *replay_mix(policy, orders, group.names),
        )
        for policy in policies.values()
    ]


def allocations(stats: Between, cost: FloatArray, recorded: IntArray) -> list[IntArray]:
    """Return paths by branch [A] worth replaying: the best by deflection at some budgets, and one each."""
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
    """Return the mix of the branches with weight; None unless there are two of them."""
    used: list[int] = np.flatnonzero((k > 0) & (weights > 0)).tolist()
    if len(used) < 2:
        return None
    scale = float(weights[used].max())
    # Two digits: a weight in a plan is read by people, and a third hardly moves a vote.
    shares = (Share(names[a], int(k[a]), float(f"{weights[a] / scale:.2g}")) for a in used)
    return Mix(tuple(share for share in shares if share.weight > 0))
