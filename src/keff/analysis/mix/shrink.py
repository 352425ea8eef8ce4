"""What a plan of other branches may be expected to gain over the best branch's plan: shrunk, not as seen.

The best of hundreds of plans on a small pilot is best by luck in part. A pilot says much of the difference
between branches where they are far apart, little where they are close; and little of a cascade that seems to
lose nothing, for what it loses are a few questions on which a weaker branch agrees with itself and is wrong.
The constants were chosen with whole families of records left out (docs/branches-measured.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keff.analysis.mix.orders import Reals
from keff.analysis.mix.search import CandidatePlan
from keff.stats.votes import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Law:
    """What is expected before a pilot is seen; accuracies are shares.

    ``first`` and ``last``: the part of the difference between its first (last) branch and the best one that a
    plan of several branches is expected to have. ``unseen``: what it loses on questions like none of the
    pilot. ``own``: standard deviation of what it gains or loses beyond that. ``spread``: that of the
    branches' accuracies, counted as ``worth`` branches. ``slack``: accuracy given up for each factor e in
    cost, where the pilot cannot tell the branches apart.
    """

    first: float = 0.3
    last: float = 0.2
    unseen: float = 0.006
    own: float = 0.015
    spread: float = 0.04
    worth: float = 4.0
    slack: float = 0.006


LAW = Law()


def cheapest_expected(
    plans: Sequence[CandidatePlan],
    accuracy: Reals,
    cost: Reals,
    ids: IntArray,
    best: int,
    law: Law = LAW,
) -> int:
    """Return the cheapest plan that is not expected to lose accuracy against plan ``best``, else ``best``.

    ``accuracy`` [P, n] and mean ``cost`` [P]; ``ids`` [n] number the clusters.
    """
    gain, real = expected_gain(plans, accuracy, ids, best, law)
    saved = np.log(max(cost[best], 1e-300)) - np.log(np.maximum(cost, 1e-300))
    # Within the best branch no rule is expected to do better than the best one.
    other = np.array([plan.branches != plans[best].branches for plan in plans])
    can = other & (saved > 0) & (gain >= -law.slack * saved * (1 - real))
    can[best] = True
    return int(np.argmin(np.where(can, cost, np.inf)))


def standing(plans: Sequence[CandidatePlan], means: Reals, best: int) -> IntArray:
    """Return one plan of each branch alone: that of the rule of plan ``best``, else its most accurate."""
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
    """Return which part of the differences between branches [B, n] is real, 0 to 1.

    The variance of their accuracies beyond what the questions of the pilot explain, with a prior, over that
    variance and the paired sampling variance of a branch.
    """
    branches = len(accuracy)
    centred = accuracy - accuracy.mean(axis=0)
    noise = float((errors(centred, ids) ** 2).sum()) / max(branches - 1, 1)
    beyond = max(float(accuracy.mean(axis=1).var(ddof=1)) - noise, 0.0)
    spread = ((branches - 1) * beyond + law.worth * law.spread**2) / (branches - 1 + law.worth)
    return spread / (spread + noise)


def expected_gain(
    plans: Sequence[CandidatePlan], accuracy: Reals, ids: IntArray, best: int, law: Law = LAW
) -> tuple[FloatArray, float]:
    """Return each plan's expected gain in accuracy over plan ``best`` [P], and the reliability of branches.

    ``accuracy`` [P, n]. A single branch's: its difference on the pilot times the reliability. Of several
    branches: the mean of what the branches let expect and of the difference on the pilot, weighted by
    law.own^2 and its squared error.
    """
    means = accuracy.mean(axis=1)
    gain = means - means[best]
    alone = standing(plans, means, best)
    real = reliability(accuracy[alone], ids, law)
    apart: FloatArray = means[alone] - means[alone[plans[best].branches[0]]]
    first: IntArray = np.array([plan.branches[0] for plan in plans])
    last: IntArray = np.array([plan.branches[-1] for plan in plans])
    prior: FloatArray = real * (law.first * apart[first] + law.last * apart[last]) - law.unseen
    part = law.own**2 / (law.own**2 + errors(accuracy - accuracy[best], ids) ** 2)
    several = [place for place, plan in enumerate(plans) if len(plan.branches) > 1]
    expected: FloatArray = real * gain
    expected[several] = (prior + part * (gain - prior))[several]
    return expected, real


def errors(values: Reals, ids: IntArray) -> FloatArray:
    """Return the standard error of the mean of each row [P, n], by cluster; infinite for one cluster."""
    units = int(ids.max()) + 1
    if units < 2:
        return np.full(len(values), np.inf)
    return np.sqrt((cluster_sums(values, ids) ** 2).sum(axis=1) * units / (units - 1)) / len(ids)


def cluster_sums(values: Reals, ids: IntArray) -> FloatArray:
    """Return the deviations of each row [P, n] from its mean, summed by cluster [P, G]."""
    deviation = values - values.mean(axis=1, keepdims=True)
    units = int(ids.max()) + 1
    if units == len(ids):
        return deviation
    indicator = np.zeros((len(ids), units))
    indicator[np.arange(len(ids)), ids] = 1
    return deviation @ indicator
