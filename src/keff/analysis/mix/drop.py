"""Branches that a pilot stops drawing: a cheaper one is more accurate by a margin on the first questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keff.analysis.mix.shrink import errors
from keff.reading.join import Aligned
from keff.records import Interval
from keff.stats.inference.intervals import interval_mean
from keff.stats.votes import FloatArray

# Questions after which a pilot is looked at. Below 12 a paired standard error is itself too unsure (of 8
# questions it is off by a quarter); from 50 on dropping saves less than half of a branch.
LOOKS = (12, 25, 50)

# Paired standard errors by which a cheaper branch must be more accurate. Simulated with three looks: a branch
# that is 5 points more accurate than a cheaper one is dropped in 9 of 100 pilots, by 10 points in 2 or 3, an
# equal one in 31. Half an error drops 18 and 5 of 100, and saves a tenth of the pilot more.
MARGIN = 1.0


@dataclass(frozen=True, slots=True)
class DroppedBranch:
    """A branch that a pilot drew no further after ``questions``, for branch ``by`` was cheaper and better.

    ``difference`` is the accuracy of one path of it less that of ``by`` on the questions that both have (it
    was dropped because it is low, so it flatters ``by``); ``cost_ratio`` the cost of its path over that of
    ``by``; ``spent`` what its paths cost.
    """

    name: str
    by: str
    questions: int
    difference: Interval
    cost_ratio: float
    spent: float


def beaten(group: Aligned, costs: Sequence[FloatArray]) -> dict[str, str]:
    """Return which branches a cheaper one beats by ``MARGIN`` paired errors in accuracy, and by which.

    ``costs`` [n, K_a] are those of each branch's paths. The cheapest branch is beaten by none, so one stays.
    """
    accuracy = np.array([branch.votes.scored().mean(axis=1) for branch in group.branches])
    cost = [float(paid.mean()) for paid in costs]
    ids = np.unique(group.clusters, return_inverse=True)[1]
    out: dict[str, str] = {}
    for b, name in enumerate(group.names):
        lead = accuracy - accuracy[b]
        mean, error = lead.mean(axis=1), errors(lead, ids)
        better = [a for a in range(len(cost)) if cost[a] < cost[b] and mean[a] > 0]
        better = [a for a in better if mean[a] >= MARGIN * error[a]]
        if better:
            out[name] = group.names[max(better, key=lambda a: float(mean[a]))]
    return out


def dropped_branch(pair: Aligned, costs: Sequence[FloatArray]) -> DroppedBranch:
    """Compare a dropped branch, the first of two, with the one that beat it, on the questions of both."""
    accuracy = [branch.votes.scored().mean(axis=1) for branch in pair.branches]
    found = interval_mean(accuracy[0] - accuracy[1], pair.clusters)
    mean = [float(paid.mean()) for paid in costs]
    name, by = pair.names
    return DroppedBranch(
        name, by, pair.n, found.interval, mean[0] / max(mean[1], 1e-300), float(costs[0].sum())
    )
