"""Expected gain of a plan of several branches over the best single branch, by shrinkage.

The best of hundreds of plans on a small pilot is so in part by luck. A pilot says much of branches that are
far apart, little of close ones, and little of a cascade that seems to lose nothing: it loses a few questions
on which a weaker branch agrees with itself and is wrong. Constants were chosen with whole families left out
(docs/branches-measured.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from keff.analysis.mix.orders import Reals
from keff.analysis.mix.search import CandidatePlan
from keff.records import frozen
from keff.stats.votes import FloatArray, IntArray


@frozen
class Law:
    """Prior of a plan's gain before a pilot is seen; accuracies are shares.

    ``part``: the part of the mean difference between its branches and the best one that a plan of several
    branches is expected to have. ``unseen``: what it loses on questions like none of the pilot. ``own``:
    standard deviation of what it gains or loses beyond that. ``spread``: that of the branches' accuracies,
    counted as ``worth`` branches. ``slack``: accuracy given up for each factor e in cost, of 1e-4 at least,
    where the pilot cannot tell the branches apart.
    """

    part: float = 0.5
    unseen: float = 0.003
    own: float = 0.015
    spread: float = 0.03
    worth: float = 4.0
    slack: float = 0.002


LAW = Law()

# A plan chosen because it lost nothing on n questions loses something on others: the error of a difference is
# at least that of .7 of one question. Without it the default's intervals cover .68 on recorded pilots, with
# it .91; and on 15 questions any plan would pass for safe.
UNSEEN = 0.7

# What the vote of one branch, and a plan of several, is expected to gain over one path of accuracy q: this
# times q(1 - q); and the deviation of gains from that. With any family left out .17 to .22, and .27 to .33.
GAIN, GAIN_OF_SEVERAL = 0.2, 0.3
APART, APART_OF_SEVERAL = 0.03, 0.04

# Differences of plans are taken so many at a time: 2 MB, which a processor's cache holds.
CELLS = 2**19


def blocks(plans: int, questions: int) -> Iterator[slice]:
    """Yield slices of the plans that are processed together, for bounded memory."""
    step = max(CELLS // questions, 1)
    return (slice(start, start + step) for start in range(0, plans, step))


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
    expected, real = expected_gains(plans, accuracy, ids, best, law)
    limit = law.slack * (1 - real) * np.log(np.maximum(cost / max(cost[best], 1e-300), 1e-4))
    # Within the best branch no rule is expected to do better than the best one.
    other = np.array([plan.branches != plans[best].branches for plan in plans])
    can = other & (cost < cost[best]) & (expected >= limit)
    return int(np.argmin(np.where(can, cost, np.inf))) if can.any() else best


def expected_accuracies(plans: Sequence[CandidatePlan], accuracy: Reals, ids: IntArray) -> FloatArray:
    """Return the posterior mean accuracy of each plan [P], from ``accuracy`` [P, n] in clusters ``ids``.

    One path of its branches, of each as often, has accuracy q on the pilot. What the plan gains over that is
    shrunk to what plans gained in other families: q + g + (gain - g) s^2 / (s^2 + error^2), g a multiple of
    q(1 - q). How branches differ is left as it was seen.
    """
    alone = {branch: places[0] for branch, places in _alone(plans).items()}
    one, share = list(alone.values()), _shares(plans, alone)
    path = accuracy[one]
    q = share @ path.mean(axis=1, dtype=np.float64)
    single = share.max(axis=1) == 1
    prior = np.where(single, GAIN, GAIN_OF_SEVERAL) * q * (1 - q)
    prior[one] = 0
    spread = np.where(single, APART, APART_OF_SEVERAL)
    return q + shrunk(accuracy, share, path, prior, spread, ids)


def _alone(plans: Sequence[CandidatePlan]) -> dict[int, list[int]]:
    """Return the indices of the single-branch plans by branch; the first of each is one path."""
    alone: dict[int, list[int]] = {}
    for place, plan in enumerate(plans):
        if len(plan.branches) == 1:
            alone.setdefault(plan.branches[0], []).append(place)
    return alone


def reliability(accuracy: Reals, ids: IntArray, law: Law = LAW) -> float:
    """Return the reliability, 0 to 1, of differences between branches [B, n]: the part that is not noise.

    The variance of their accuracies beyond what the questions of the pilot explain, with a prior, over that
    variance and the paired sampling variance of a branch.
    """
    branches = len(accuracy)
    if branches < 2:
        return 1.0
    centred = accuracy - accuracy.mean(axis=0)
    noise = float((errors(centred, ids) ** 2).sum()) / (branches - 1)
    beyond = max(float(accuracy.mean(axis=1).var(ddof=1)) - noise, 0.0)
    spread = ((branches - 1) * beyond + law.worth * law.spread**2) / (branches - 1 + law.worth)
    return spread / (spread + noise)


def expected_gains(
    plans: Sequence[CandidatePlan], accuracy: Reals, ids: IntArray, best: int, law: Law = LAW
) -> tuple[FloatArray, float]:
    """Return the posterior mean gain of plans over ``best`` [P], and the reliability of branches."""
    gain: FloatArray = accuracy.mean(axis=1, dtype=np.float64)
    gain -= gain[best]
    alone = {branch: max(places, key=gain.__getitem__) for branch, places in _alone(plans).items()}
    top = list(alone.values())
    real = reliability(accuracy[top], ids, law)
    share = _shares(plans, alone)
    several = law.part * real * share @ (gain[top] - gain[alone[plans[best].branches[0]]]) - law.unseen
    single = share.max(axis=1) == 1
    prior, spread = np.where(single, real * gain, several), np.where(single, 0.0, law.own)
    return shrunk(accuracy, np.ones((len(plans), 1)), accuracy[[best]], prior, spread, ids), real


def shrunk(
    accuracy: Reals, share: FloatArray, path: Reals, prior: FloatArray, spread: FloatArray, ids: IntArray
) -> FloatArray:
    """Return posterior means [P] of what plans gain over ``share`` [P, B] of ``path`` [B, n].

    Normal with mean ``prior`` and deviation ``spread`` [P] before the pilot, and with its error on it.
    """
    out: list[FloatArray] = []
    for rows in blocks(len(accuracy), len(ids)):
        gain = accuracy[rows] - share[rows] @ path
        # Equal rows have no error, and nothing beyond their prior.
        part = spread[rows] ** 2 / (spread[rows] ** 2 + errors(gain, ids) ** 2 + 1e-300)
        out.append(prior[rows] + part * (gain.mean(axis=1, dtype=np.float64) - prior[rows]))
    return np.concatenate(out)


def _shares(plans: Sequence[CandidatePlan], branches: Iterable[int]) -> FloatArray:
    """Return the share of each of ``branches`` among those of each plan [P, A]."""
    return np.array(
        [[(b in plan.branches) / len(plan.branches) for b in branches] for plan in plans], np.float64
    )


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
