"""Branches that a pilot stops drawing: a cheaper one is clearly more accurate on the first questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keff.analysis.mix.shrink import errors
from keff.reading.join import Aligned
from keff.records import Interval
from keff.stats.branches.weights import weighted_plurality
from keff.stats.intervals import interval_mean
from keff.stats.votes import FloatArray

# Questions after which a pilot is looked at. Below 12 a paired standard error is itself too unsure (of 8
# questions it is off by a quarter); from 50 on dropping saves less than half of a branch.
LOOKS = (12, 25, 50)

# Paired standard errors by which a path of a cheaper branch must be right more often. Of the margins whose
# pilots cost at most three quarters of full ones, that of least regret, with families of records left out
# (docs/branches-measured.md, with how often a better branch is dropped).
MARGIN = 0.75


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


def beaten(group: Aligned, costs: Sequence[FloatArray], margin: float = MARGIN) -> dict[str, str]:
    """Return which branches a cheaper one beats in accuracy, and by which.

    By ``margin`` paired standard errors in the accuracy of a path, and in that of the vote of all paths: a
    branch may be poor by the path and good by its vote. ``costs`` [n, K_a] are those of each branch's paths.
    The cheapest branch is beaten by none, so one stays.
    """
    votes = [branch.votes for branch in group.branches]
    path = np.array([own.scored().mean(axis=1) for own in votes])
    vote = np.array([float(weighted_plurality(own, np.ones(own.k)).mean()) for own in votes])
    cost = np.array([float(paid.mean()) for paid in costs])
    ids = np.unique(group.clusters, return_inverse=True)[1]
    out: dict[str, str] = {}
    for b, name in enumerate(group.names):
        mean = (path - path[b]).mean(axis=1)
        clear = mean >= margin * errors(path - path[b], ids)
        better = (cost < cost[b]) & (mean > 0) & clear & (vote > vote[b])
        if better.any():
            out[name] = group.names[int(np.argmax(np.where(better, mean, -1)))]
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
