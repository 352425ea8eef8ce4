"""Stop when the leader will probably still lead at the cap, by a prior fitted to an unlabelled pilot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from keff.errors import PolicyError
from keff.policies._table import TablePolicy, check_value, grid, log_rising
from keff.policy import Policy
from keff.policy_spec import DEFAULT_CAP, check_cap, format_spec
from keff.stats.draws import Draws, dense_codes
from keff.stats.votes import FloatArray, Votes

GENERIC = (0.564, 0.3)
"""The prior (a, w) without a pilot: the pooled fit to recorded generations of 20 models on 15 tasks."""

PSEUDO_ITEMS = 10
"""How many pilot questions the generic prior is worth."""

A_GRID = np.round(np.geomspace(0.2, 20, 41), 3)
W_GRID = np.round(np.linspace(0, 0.96, 33), 3)


def top_two_lead(cap: int, a: float, w: float) -> FloatArray:
    """Return P(the leader still leads after path ``cap`` | n, v1, v2) [cap + 1] * 3, by (n, v1, v2).

    The leader's share among the top two is 1 with probability w, else Beta(a, a). The (cap - n)(v1 + v2)/n
    votes of the top two that remain are beta-binomial; a fraction of a vote is interpolated, a tie counts
    one half. Cells before the first vote hold 0.
    """
    n, v1, v2 = grid(cap)
    rest = np.minimum((cap - n) * (v1 + v2) / np.maximum(n, 1), cap)
    whole = np.floor(rest).astype(int)
    ahead = _ahead_given_rest(cap, a)
    i, j = np.indices((cap + 1, cap + 1))
    low, high = ahead[i, j, whole], ahead[i, j, np.minimum(whole + 1, cap)]
    mixed = low + (rest - whole) * (high - low)
    together = 2 * np.exp(log_rising(a, cap) - log_rising(2 * a, cap))
    one_answer = w / (w + (1 - w) * np.minimum(together, 1))
    mixed[:, 1:, 0] = one_answer[None, 1:] + (1 - one_answer[None, 1:]) * mixed[:, 1:, 0]
    mixed[:, 0] = 0
    return mixed


@lru_cache(maxsize=64)
def _ahead_given_rest(cap: int, a: float) -> FloatArray:
    """P(v1 + Y > v2 + r - Y) + half P(tie), Y ~ BetaBin(r, a + v1, a + v2), by [v1, v2, r].

    By recursion over the next vote. Holds where v1 + v2 + r <= cap, the cells that occur.
    """
    v1, v2 = np.indices((cap + 1, cap + 1))
    to_leader = (a + v1) / (2 * a + v1 + v2)
    out = np.empty((cap + 1,) * 3)
    out[:, :, 0] = (1 + np.sign(v1 - v2)) / 2
    for r in range(1, cap + 1):
        later = np.pad(out[:, :, r - 1], (0, 1), mode="edge")
        out[:, :, r] = to_leader * later[1:, :-1] + (1 - to_leader) * later[:-1, 1:]
    return out


@dataclass(frozen=True, slots=True)
class Prior:
    """The law of the leader's share among the top two: 1 with probability w, else Beta(a, a)."""

    a: float
    w: float


def fit_prior(pilot: Votes, generic: tuple[float, float] = GENERIC) -> Prior:
    """Fit (a, w) by maximum likelihood to the folded top-two counts of an unlabelled pilot.

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
    seen[size - v2, v2] += PSEUDO_ITEMS * np.exp(_log_law(size, *generic)[size - v2, v2])
    score = (seen * _log_law(size, A_GRID[:, None], W_GRID)).sum(axis=(2, 3))
    a, w = np.unravel_index(int(score.argmax()), score.shape)
    return Prior(float(A_GRID[a]), float(W_GRID[w]))


def _log_law(size: int, a: ArrayLike, w: ArrayLike) -> FloatArray:
    """Log of P(v1, v2 | v1 + v2), folded, at each (a, w) by [..., v1, v2]; impossible cells hold 0."""
    v1, v2 = np.indices((size + 1, size + 1))
    one = np.asarray(w, np.float64)[..., None, None]
    factorial = log_rising(1.0, 2 * size)
    choose = factorial[v1 + v2] - factorial[v1] - factorial[v2] + np.log(np.where(v1 == v2, 1, 2))
    shape = np.asarray(a, np.float64)
    to_one, together = log_rising(shape, size), log_rising(2 * shape, 2 * size)
    two = np.exp(choose + to_one[..., v1] + to_one[..., v2] - together[..., v1 + v2])
    law = one * (v2 == 0) + (1 - one) * two
    return np.log(np.where((v2 <= v1) & (v1 > 0), law, 1.0))


class PilotBudget(TablePolicy):
    """The rule for one prior. ``fit`` returns it for the prior of a pilot."""

    def __init__(self, tau: float, cap: int, prior: Prior | None) -> None:
        a, w = (prior.a, prior.w) if prior else GENERIC
        lead = top_two_lead(cap, a, w)
        spec = format_spec("pilot_budget", tau, cap=cap, a=prior and prior.a, w=prior and prior.w)
        super().__init__(spec, lead >= tau)
        self.tau = tau
        self.fitted = prior is not None

    def fit(self, pilot: Votes) -> PilotBudget:
        """Fit (a, w) to the answers of the pilot; no labels are used."""
        return PilotBudget(self.tau, self.cap, fit_prior(pilot))


def policy(
    value: float | None = 0.98, *, cap: int = DEFAULT_CAP, a: float | None = None, w: float | None = None
) -> Policy:
    """Return ``pilot_budget:tau,a=..,w=..``: stop when P(the leader leads at the cap) >= tau.

    Without ``a`` and ``w`` it uses the generic prior until ``fit`` gives it a pilot.
    """
    tau = check_value("pilot_budget", value, 0, 1)
    check_cap("pilot_budget", cap)
    if (a is None) != (w is None):
        raise PolicyError("pilot_budget: give both a and w, or neither")
    if a is None or w is None:
        return PilotBudget(tau, cap, None)
    if isinstance(a, str) or isinstance(w, str) or not 0 < a < float("inf") or not 0 <= w < 1:
        raise PolicyError(f"pilot_budget: a must be above 0 and w in [0, 1), not {a} and {w}")
    return PilotBudget(tau, cap, Prior(float(a), float(w)))
