"""Expected gain of a plan of several branches over the best single branch, by shrinkage.

The best of hundreds of plans on a small pilot is best by luck in part. A pilot says much of the difference
between branches where they are far apart, little where they are close; and little of a cascade that seems to
lose nothing, for what it loses are a few questions on which a weaker branch agrees with itself and is wrong.
The constants were chosen with whole families of records left out (docs/branches-measured.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keff.analysis.mix.orders import Reals
from keff.analysis.mix.search import CandidatePlan
from keff.records import frozen
from keff.stats.votes import FloatArray, IntArray


@frozen
class Law:
    """Prior of a plan's gain before a pilot is seen; accuracies are shares.

    ``first`` and ``last``: the part of the difference between its first (last) branch and the best one that a
    plan of several branches is expected to have. ``unseen``: what it loses on questions like none of the
    pilot. ``own``: standard deviation of what it gains or loses beyond that. ``spread``: that of the
    branches' accuracies, counted as ``worth`` branches. ``slack``: accuracy given up for each factor e in
    cost, where the pilot cannot tell the branches apart.
    """

    first: float = 0.3
    last: float = 0.2
    unseen: float = 0.003
    own: float = 0.015
    spread: float = 0.03
    worth: float = 4.0
    slack: float = 0.002


LAW = Law()

# A plan that costs less than a hundredth, or nothing, may lose no more accuracy for it than one of a
# hundredth.
MOST_SAVED = 1e4

# A plan that is chosen because it lost nothing on n questions loses something on others: the error of a
# difference is at least that of .7 of one question. Without it the default's intervals cover .68 on recorded
# pilots, with it .91; and on 15 questions any plan would pass for safe.
UNSEEN = 0.7

# Differences of plans are taken so many at a time: 2 MB, which a processor's cache holds.
CELLS = 2**19


def plans_at_once(questions: int) -> int:
    """Return how many plans are processed in one block, for bounded memory."""
    return max(CELLS // questions, 1)


def cheapest_expected(
    plans: Sequence[CandidatePlan],
    accuracy: Reals,
    cost: Reals,
    ids: IntArray,
    best: int,
    law: Law = LAW,
) -> int:
    """Return the cheapest plan with no expected accuracy loss against plan ``best``, else ``best``.

    ``accuracy`` [P, n] and mean ``cost`` [P]; ``ids`` [n] number the clusters.
    """
    known = _Prior.of(plans, accuracy, ids, best, law)
    dear = max(cost[best], 1e-300)
    saved = np.log(dear / np.maximum(cost, dear / MOST_SAVED))
    # Within the best branch no rule is expected to do better than the best one.
    other = np.array([plan.branches != plans[best].branches for plan in plans])
    limit = -law.slack * saved * (1 - known.real)
    # What is expected lies between the prior and what the pilot shows: most plans are out by that alone.
    open_ = np.flatnonzero(other & (cost < cost[best]) & (np.maximum(known.prior, known.gain) >= limit))
    places = open_[np.argsort(cost[open_], kind="stable")]
    step = plans_at_once(len(ids))
    for start in range(0, len(places), step):
        block = places[start : start + step]
        can = block[known.expected(accuracy, ids, best, block, law) >= limit[block]]
        if len(can):
            return int(can[0])
    return best


def standing(plans: Sequence[CandidatePlan], means: Reals, best: int) -> IntArray:
    """Return one plan per single branch: the one with the rule of ``best``, else the most accurate."""
    alone: dict[int, list[int]] = {}
    for place, plan in enumerate(plans):
        if len(plan.branches) == 1:
            alone.setdefault(plan.branches[0], []).append(place)
    rule = plans[best].spec.partition("(")[2]
    out = [0] * len(alone)
    for branch, places in alone.items():
        same = [place for place in places if plans[place].spec.partition("(")[2] == rule]
        out[branch] = same[0] if same else max(places, key=lambda place: float(means[place]))
    return np.array(out)


def reliability(accuracy: Reals, ids: IntArray, law: Law = LAW) -> float:
    """Return the reliability, 0 to 1, of differences between branches [B, n]: the part that is not noise.

    The variance of their accuracies beyond what the questions of the pilot explain, with a prior, over that
    variance and the paired sampling variance of a branch.
    """
    branches = len(accuracy)
    if branches < 2:
        return 1.0
    centred = accuracy - accuracy.mean(axis=0)
    noise = float((errors(centred, ids) ** 2).sum()) / max(branches - 1, 1)
    beyond = max(float(accuracy.mean(axis=1).var(ddof=1)) - noise, 0.0)
    spread = ((branches - 1) * beyond + law.worth * law.spread**2) / (branches - 1 + law.worth)
    return spread / (spread + noise)


@frozen
class _Prior:
    """Prior and observed ``gain`` of each plan [P] over the best plan on the pilot.

    ``several`` [P] tells the plans of several branches; ``real`` is the reliability of the branches.
    """

    gain: FloatArray
    prior: FloatArray
    several: NDArray[np.bool_]
    real: float

    @classmethod
    def of(
        cls, plans: Sequence[CandidatePlan], accuracy: Reals, ids: IntArray, best: int, law: Law
    ) -> _Prior:
        means = accuracy.mean(axis=1, dtype=np.float64)
        gain: FloatArray = means - means[best]
        alone = standing(plans, means, best)
        real = reliability(accuracy[alone], ids, law)
        apart: FloatArray = means[alone] - means[alone[plans[best].branches[0]]]
        first: IntArray = np.array([plan.branches[0] for plan in plans])
        last: IntArray = np.array([plan.branches[-1] for plan in plans])
        prior: FloatArray = real * (law.first * apart[first] + law.last * apart[last]) - law.unseen
        several: NDArray[np.bool_] = np.array([len(plan.branches) > 1 for plan in plans])
        return cls(gain, np.where(several, prior, real * gain), several, real)

    def expected(self, accuracy: Reals, ids: IntArray, best: int, rows: IntArray, law: Law) -> FloatArray:
        """Return the posterior mean gain of selected plans."""
        error = errors(accuracy[rows] - accuracy[best], ids)
        part = np.where(self.several[rows], law.own**2 / (law.own**2 + error**2), 0.0)
        prior = self.prior[rows]
        return prior + part * (self.gain[rows] - prior)


def errors(values: Reals, ids: IntArray) -> FloatArray:
    """Return the standard error of the mean of each row [P, n], by cluster; infinite for one cluster."""
    units = int(ids.max()) + 1
    if units < 2:
        return np.full(len(values), np.inf)
    sums = cluster_sums(values, ids)
    return np.sqrt(np.einsum("pn,pn->p", sums, sums) * units / (units - 1)) / len(ids)


def cluster_sums(values: Reals, ids: IntArray) -> Reals:
    """Return the deviations of each row [P, n] from its mean, summed by cluster [P, G]."""
    deviation = values - values.mean(axis=1, keepdims=True)
    if int(ids.max()) + 1 == len(ids):
        return deviation
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    return np.asarray(np.add.reduceat(deviation[:, order], starts, axis=1))
