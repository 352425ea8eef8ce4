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


def correctness(group: Aligned, rows: IntArray | None = None) -> Between:
    """Return the covariances of the branches' correctness on some questions."""
    chosen = np.arange(group.n) if rows is None else rows
    return between([b.votes.scored()[chosen] for b in group.branches], group.clusters[chosen])


class Mixer:
    """Replays mixes of a group: allocations are planned once, weights are learned on any of its questions."""

    def __init__(self, group: Aligned, orders: Orders, cost: FloatArray) -> None:
        self.group, self.orders = group, orders
        self.allocations = allocations(correctness(group), cost, np.array([o.cap for o in orders.branches]))
        self._known: dict[str, CandidatePlan] = {}

    def mixes(self, rows: IntArray) -> list[CandidatePlan]:
        """Return mixes whose weights are learned on the questions ``rows``, replayed on all.

        Weights: uniform, log odds of accuracy, and Sigma^-1 mu; none is trusted, all are replayed.
        """
        stats = correctness(self.group, rows)
        made = (
            _mix(self.group.names, k, weights)
            for k in self.allocations
            for weights in candidate_weights(stats, k)
        )
        policies = {policy.spec: policy for policy in made if policy is not None}
        return [self._replayed(policy) for policy in policies.values()]

    def _replayed(self, policy: Mix) -> CandidatePlan:
        if policy.spec not in self._known:
            asked = tuple(self.group.names.index(name) for name in policy.branches)
            outcome = replay_mix(policy, self.orders, self.group.names)
            self._known[policy.spec] = CandidatePlan(policy.spec, "mix", asked, *outcome)
        return self._known[policy.spec]


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
