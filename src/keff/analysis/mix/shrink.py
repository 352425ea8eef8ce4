"""Expected accuracy of plans, by shrinking what each gains over one path of its branches.

The best of hundreds of plans on a small pilot is so in part by luck. How branches differ a pilot says well;
what a vote or a cascade of them adds it says badly, and much the same was added in other families. Constants
were chosen with whole families left out (docs/branches-measured.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from keff.analysis.mix.orders import Reals
from keff.analysis.mix.search import EQUAL, CandidatePlan
from keff.records import frozen
from keff.stats.votes import FloatArray, IntArray


@frozen
class Law:
    """Prior of what a plan gains over one path of its branches, which has accuracy q.

    The vote of one branch is expected to gain ``gain`` (1 - 1/m) q(1 - q), m the most paths that the plan
    draws, a plan of several branches the same with ``of_several``; ``apart`` and ``apart_of_several`` are
    the standard deviations beyond that. ``last``: the most that the last branch of a cascade counts in q.
    """

    gain: float = 0.15
    of_several: float = 0.25
    apart: float = 0.01
    apart_of_several: float = 0.02
    last: float = 0.5


# With any family left out the gains are .12 to .18 and .22 to .31. They deviate by .024 and .032; less has
# least regret, for choices are between plans of one workload.
RECORDED_GAINS = Law()

# A plan chosen because it lost nothing on n questions loses something on others: the error of a difference is
# at least that of .7 of one question. Without it the default's intervals cover .68 on recorded pilots, with
# it .91; and on 15 questions any plan would pass for safe.
UNSEEN = 0.7

# Differences of plans are taken so many at a time: 2 MB, which a processor's cache holds.
CELLS = 2**19


def blocks(plans: int, questions: int) -> Iterator[slice]:
    """Yield slices of the plans that are processed together, for bounded memory."""
    step = max(CELLS // questions, 1)
    return (slice(start, start + step) for start in range(0, plans, step))


def expected_accuracies(
    plans: Sequence[CandidatePlan], accuracy: Reals, answered: Reals, ids: IntArray, law: Law = RECORDED_GAINS
) -> FloatArray:
    """Return the posterior mean accuracy of each plan [P], from ``accuracy`` [P, n] in clusters ``ids``.

    q + g + (gain - g) s^2 / (s^2 + error^2): q of one path of its branches on the pilot (``paths_of``), gain
    what the plan has more there, g and s the mean and deviation of ``law``. How branches differ is left as it
    was seen.
    """
    share, path = paths_of(plans, accuracy, answered, law)
    q = share @ path.mean(axis=1, dtype=np.float64)
    single = np.array([len(plan.branches) == 1 for plan in plans])
    prior = votes_of(plans) * q * (1 - q) * np.where(single, law.gain, law.of_several)
    spread = np.where(single, law.apart, law.apart_of_several) ** 2
    for rows in blocks(len(plans), len(ids)):
        # In the precision of accuracies, which is fast.
        gain = accuracy[rows] - share[rows].astype(path.dtype) @ path
        part = spread[rows] / (spread[rows] + errors(gain, ids) ** 2)
        q[rows] += prior[rows] + part * (gain.mean(axis=1, dtype=np.float64) - prior[rows])
    return q


def votes_of(plans: Sequence[CandidatePlan]) -> FloatArray:
    """Return 1 - 1/m of each plan [P], m the most paths that it draws."""
    return 1 - 1 / np.array([sum(plan.most) for plan in plans])


def paths_of(
    plans: Sequence[CandidatePlan], accuracy: Reals, answered: Reals, law: Law = RECORDED_GAINS
) -> tuple[FloatArray, Reals]:
    """Return what one path of each branch counts in q of each plan [P, 2A], and its accuracy [2A, n].

    Of a branch's paths the share ``answered`` [A, n] answers. A vote passes over the others: what accuracy
    they lose, the last A rows, counts 1 - 1/m.
    """
    one: dict[int, int] = {}
    for place, plan in enumerate(plans):
        if len(plan.branches) == 1:  # the first rule of each branch is one path
            one.setdefault(plan.branches[0], place)
    share, path = path_shares(plans, list(one), law), accuracy[list(one.values())]
    lost = path / np.maximum(answered[list(one)], EQUAL) - path
    return np.hstack([share, share * votes_of(plans)[:, None]]), np.vstack([path, lost])


def path_shares(
    plans: Sequence[CandidatePlan], branches: Sequence[int], law: Law = RECORDED_GAINS
) -> FloatArray:
    """Return what one path of each of ``branches`` counts in the accuracy expected of each plan [P, A].

    By the most paths of each; in a cascade the last counts at most ``law.last``, and just that where it
    votes afresh, for it is asked the questions that the others leave open.
    """
    out: FloatArray = np.zeros((len(plans), len(branches)))
    column = {branch: number for number, branch in enumerate(branches)}
    for row, plan in enumerate(plans):
        total = sum(plan.most)
        share = [paths / total for paths in plan.most]
        others = len(share) - 1
        if plan.kind == "cascade" and others:
            last = law.last if plan.spec.endswith("keep=fresh") else min(law.last, share[-1])
            share = [(1 - last) / others] * others + [last]
        for branch, part in zip(plan.branches, share, strict=True):
            out[row, column[branch]] = part
    return out


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
