"""Stop when the leader will probably still lead at the cap, by a prior fitted to an unlabelled pilot."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keff.errors import PolicyError
from keff.policies._table import GENERIC, TablePolicy, check_value, log_rising, top_two_lead
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, format_spec
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import dense_codes
from keff.stats.voting.draws import Draws

# The law (a, w) of the leader's share among the top two: 1 with probability w, else Beta(a, a).
Prior = tuple[float, float]

# How many pilot questions the generic prior is worth.
PSEUDO_ITEMS = 10

# Pseudo-votes of the prior, from nearly none to more than a pilot has; even in the logarithm.
A_GRID = np.round(np.geomspace(0.2, 20, 41), 3)
# Share of questions whose leader takes every vote among the top two.
W_GRID = np.round(np.linspace(0, 0.96, 33), 3)


def fit_prior(pilot: Votes) -> Prior:
    """Return the maximum likelihood (a, w) of an unlabelled pilot's folded top-two counts.

    Adds ``PSEUDO_ITEMS`` questions of the generic prior. Searches a fixed grid, so that near-equal pilots
    give the same policy.
    """
    if pilot.answers is None:
        raise PolicyError("pilot_budget is fitted to answers: these records hold correctness only")
    last = Draws(dense_codes(pilot.answers)[:, None, :]).tallies
    size = pilot.k
    seen = np.zeros((size + 1, size + 1))
    np.add.at(seen, (last.v1[:, 0, -1].astype(int), last.v2[:, 0, -1].astype(int)), 1.0)
    seen[0, 0] = 0
    v2 = np.arange(size // 2 + 1)
    seen[size - v2, v2] += PSEUDO_ITEMS * np.exp(_log_law(size, *GENERIC)[size - v2, v2])
    score = (seen * _log_law(size, A_GRID[:, None], W_GRID)).sum(axis=(2, 3))
    a, w = np.unravel_index(int(score.argmax()), score.shape)
    return float(A_GRID[a]), float(W_GRID[w])


def _log_law(size: int, a: ArrayLike, w: ArrayLike) -> FloatArray:
    """Return log P(v1, v2 | v1 + v2), folded, at each (a, w) by [..., v1, v2]."""
    v1, v2 = np.indices((size + 1, size + 1))
    alone = np.asarray(w, np.float64)[..., None, None]
    factorial = log_rising(1.0, 2 * size)
    choose = factorial[v1 + v2] - factorial[v1] - factorial[v2] + np.log(np.where(v1 == v2, 1, 2))
    shape = np.asarray(a, np.float64)
    to_one, together = log_rising(shape, size), log_rising(2 * shape, 2 * size)
    two = np.exp(choose + to_one[..., v1] + to_one[..., v2] - together[..., v1 + v2])
    law = alone * (v2 == 0) + (1 - alone) * two
    return np.log(np.where((v2 <= v1) & (v1 > 0), law, 1.0))


class PilotBudget(TablePolicy):
    """The rule under one prior; ``fit`` returns it under a pilot's."""

    def __init__(self, tau: float, cap: int, prior: Prior | None) -> None:
        a, w = prior or (None, None)
        spec = format_spec("pilot_budget", tau, cap=cap, a=a, w=w)
        super().__init__(spec, top_two_lead(cap, *(prior or GENERIC)) >= tau)
        self.tau = tau
        self.fitted = prior is not None

    def fit(self, pilot: Votes) -> PilotBudget:
        """Return the rule with (a, w) fitted to the pilot's answers, without labels."""
        return PilotBudget(self.tau, self.cap, fit_prior(pilot))


def policy(
    value: float | None = 0.98, *, cap: int = DEFAULT_CAP, a: float | None = None, w: float | None = None
) -> Policy:
    """Return ``pilot_budget:tau,a=..,w=..``: stop when P(the leader leads at the cap) >= tau.

    Without ``a`` and ``w`` it uses the generic prior until ``fit`` gives it a pilot.
    """
    tau = check_value("pilot_budget", value, 1)
    if (a is None) != (w is None):
        raise PolicyError("pilot_budget: give both a and w, or neither")
    if a is None or w is None:
        return PilotBudget(tau, cap, None)
    if isinstance(a, str) or isinstance(w, str) or not 0 < a < float("inf") or not 0 <= w < 1:
        raise PolicyError(f"pilot_budget: a must be above 0 and w in [0, 1), not {a} and {w}")
    return PilotBudget(tau, cap, (float(a), float(w)))
