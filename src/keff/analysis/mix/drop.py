"""Branches that a pilot stops sampling, since a cheaper branch is hardly worse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from keff.analysis.mix.prices import Costs
from keff.analysis.mix.shrink import UNSEEN, errors
from keff.reading.join import Aligned
from keff.records import Interval, frozen
from keff.stats.branches.weights import weighted_plurality
from keff.stats.intervals import interval_mean
from keff.stats.votes import FloatArray, IntArray, cluster_numbers

# Questions after which a pilot is looked at. Below 12 a paired standard error is itself too unsure (of 8
# questions it is off by a quarter); from 50 on dropping saves less than half of a branch.
LOOKS = (12, 25, 50)

# Accuracy that may be given up for the price of a whole pilot. Of the values whose pilots cost at most three
# quarters of full ones where a pilot has the questions of every look, that of least regret
# (docs/branches-measured.md, with families left out, and with how often a better branch is dropped).
LOSS_ALLOWED = 0.02


@frozen
class DroppedBranch:
    """A branch dropped after ``questions`` of a pilot, since the cheaper branch ``by`` does as well.

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


def dominated_branches(group: Aligned, costs: Sequence[FloatArray]) -> dict[str, str]:
    """Return the branches not worth sampling further, each with the cheaper branch that beats it.

    ``costs`` [n, K_a] are those of each branch's paths; see ``is_dominated``.
    """
    found = is_dominated(expected_losses(group), np.array([float(paid.mean()) for paid in costs]))
    return {group.names[b]: group.names[a] for b, a in found.items()}


def is_dominated(losses: FloatArray, cost: FloatArray, given_up: float = LOSS_ALLOWED) -> dict[int, int]:
    """Return the indices of dropped branches and their rivals, from ``expected_losses`` and path costs [A].

    Those of which the loss is below ``given_up`` times the share of the pilot's cost that they take. The
    cheapest branch is beaten by none, so one stays.
    """
    beside = np.where(cost < cost[:, None], losses, np.inf)
    out = beside.min(axis=1) < given_up * cost / max(float(cost.sum()), 1e-300)
    return {b: int(np.argmin(beside[b])) for b in np.flatnonzero(out).tolist()}


def expected_losses(group: Aligned) -> FloatArray:
    """Return the expected accuracy lost by dropping branch b in favour of branch a [b, a].

    E[max(theta_b - theta_a, 0)] under a flat prior and normal errors (the expected value of perfect
    information), in the accuracy of a path or in that of the vote of all paths, whichever is more: a branch
    may be poor by the path and good by its vote.
    """
    votes = [branch.votes for branch in group.branches]
    ids = cluster_numbers(group.clusters, group.n)
    path = np.array([own.scored().mean(axis=1) for own in votes])
    vote = np.array([weighted_plurality(own, np.ones(own.k)) for own in votes])
    return np.array(
        [
            np.maximum(*(expected_loss(right - right[b], ids) for right in (path, vote)))
            for b in range(len(votes))
        ]
    )


def expected_loss(lead: FloatArray, ids: IntArray) -> FloatArray:
    """Return E[max(-lead, 0)] under a normal law of each mean lead [A], from leads by question [A, n]."""
    mean: FloatArray = lead.mean(axis=1)
    error: FloatArray = np.maximum(errors(lead, ids), UNSEEN / len(ids))
    z: FloatArray = mean / error
    return error * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) - mean * ndtr(-z)


def dropped_branch(pair: Aligned, costs: Costs) -> DroppedBranch:
    """Return a dropped branch compared with its rival on the questions that both answered."""
    accuracy = [branch.votes.scored().mean(axis=1) for branch in pair.branches]
    found = interval_mean(accuracy[0] - accuracy[1], pair.clusters)
    mean = [float(paid.mean()) for paid in costs.paths]
    name, by = pair.names
    return DroppedBranch(
        name, by, pair.n, found.interval, mean[0] / max(mean[1], 1e-300), costs.record_cost(0)
    )
