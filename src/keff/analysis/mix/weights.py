"""Mixes worth replaying: allocations of paths by deflection, each under three kinds of weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keff.analysis.mix.orders import Orders
from keff.analysis.mix.search import CandidatePlan, replay_mix
from keff.policies.mix import Mix, Share
from keff.reading.join import Aligned
from keff.stats.branches.covariance import Between, between
from keff.stats.branches.deflection import allocate, best_weights, margin
from keff.stats.branches.weights import log_odds_weights
from keff.stats.votes import FloatArray, IntArray

MOST_PATHS = 8
"""The most paths of one branch in a mix: further ones hardly add to its deflection."""

BUDGETS = (3.0, 8.0)
"""Costs of a mix, in paths of the cheapest branch and of the median one."""


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
            k = allocate(law, cost, times * unit, most).k
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
