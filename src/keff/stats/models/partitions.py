"""The laws that a workload's answers may follow, and answer shares drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keff.stats.votes import FloatArray, IntArray
from keff.stats.voting.draws import Draws

# Concentrations from nearly one answer to nearly all different; even in the logarithm.
THETAS = (0.03, 0.08, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 15.0, 60.0)
# Concentrations of answers among few options; even in the logarithm.
KAPPAS = (0.1, 0.3, 0.8, 2.0, 6.0, 20.0)
# The components: kind, then (discount d, strength theta) if open, or (M answers, kappa) if few.
COMPONENTS: tuple[tuple[str, float, float], ...] = (
    ("one", 0.0, 0.0),
    *[("open", d, theta) for d in (0.0, 0.4) for theta in THETAS],
    *[("few", float(m), kappa) for m in (2, 4) for kappa in KAPPAS],
)

# Made by ``python -m benchmarks.prior`` from 35 recorded sets of generations with at least 48 paths per
# question (mathematics, science, multiple choice, puzzles). Each record counts once. In the order of
# ``COMPONENTS``.
_ONE = [0.202]
_OPEN = [0.113, 0.064, 0.04, 0.047, 0.199, 0.006, 0.001, 0.001, 0.001, 0.002]
_OPEN_HEAVY_TAIL = [0.075, 0.04, 0.018, 0.01, 0.007, 0.007, 0.015, 0.015, 0.031, 0.001]
_TWO_ANSWERS = [0.033, 0.009, 0.004, 0.002, 0.002, 0.002]
_FOUR_ANSWERS = [0.017, 0.009, 0.01, 0.008, 0.003, 0.002]

# How often each component holds for a question of a workload like those recorded.
GENERIC_WEIGHTS: FloatArray = np.concatenate([_ONE, _OPEN, _OPEN_HEAVY_TAIL, _TWO_ANSWERS, _FOUR_ANSWERS])

# Unseen answers that a sampled open distribution names; beyond them no two answers are equal.
STICKS = 40

# Beta prior of a question's abstention rate.
ABSTENTION_PRIOR = (0.05, 1.0)


@dataclass(frozen=True)
class Simulated:
    """New questions like the pilot's: orders of drawing, and the true share of every answer.

    ``draws`` [n, R, cap] as for records; ``shares`` [n, R, A] the probability of each code among the
    votes, 0 of any other. Question (i, r) is drawn from what pilot question i says about its distribution.
    """

    draws: Draws
    shares: FloatArray

    def share_of_leader(self) -> FloatArray:
        """Return the true share of the running leader after 0..cap paths [n, R, cap + 1]; 0 for none."""
        leader = self.draws.tallies.leader.astype(np.int64)
        named = self.shares.shape[2]
        share = np.take_along_axis(self.shares, np.clip(leader, 0, named - 1), axis=2)
        return np.where((leader >= 0) & (leader < named), share, 0.0)


def prior_shares(weights: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw the answer shares of ``count`` new questions [count, A], nothing being known of them."""
    pick = rng.choice(len(COMPONENTS), count, p=weights / weights.sum())
    shares = np.zeros((count, STICKS))
    for index, component in enumerate(COMPONENTS):
        rows = np.flatnonzero(pick == index)
        unseen = np.zeros((len(rows), 1), np.int64)
        drawn = posterior_shares(component, unseen, rng)
        # Its one answer stands among the seen, which none is yet.
        shares[rows] = drawn[:, 1:]
        shares[rows, 0] += drawn[:, 0]
    return shares


def posterior_shares(
    component: tuple[str, float, float], counts: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Draw the answer shares of questions with votes ``counts`` [n, r]: seen answers, then unseen ones."""
    kind, x, y = component
    n, r = counts.shape
    out = np.zeros((n, r + STICKS))
    if kind == "one":
        out[:, 0] = 1.0
        return out
    seen = counts > 0
    if kind == "few":
        unseen = np.arange(STICKS) < np.maximum(x - seen.sum(axis=1), 0)[:, None]
        mass = np.concatenate([np.where(seen, counts + y, 0.0), np.where(unseen, y, 0.0)], axis=1)
        return _dirichlet(mass, rng)
    k = seen.sum(axis=1)
    strength = y + k * x
    mass = _dirichlet(np.column_stack([np.where(seen, counts - x, 0.0), strength]), rng)
    out[:, :r] = mass[:, :r]
    later: FloatArray = strength[:, None] + x * np.arange(1, STICKS + 1)
    breaks = np.asarray(rng.beta(1 - x, later), np.float64)
    left = np.cumprod(1 - breaks, axis=1)
    out[:, r:] = mass[:, r:] * breaks * np.column_stack([np.ones(n), left[:, :-1]])
    return out


def _dirichlet(mass: FloatArray, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw one Dirichlet a row; a parameter of 0 gives a share of 0."""
    draws = np.where(mass > 0, np.maximum(rng.standard_gamma(np.maximum(mass, 1e-9)), 1e-300), 0.0)
    return draws / draws.sum(axis=1, keepdims=True)
