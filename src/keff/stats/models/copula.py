"""One-factor Gaussian copula: majority votes of unequal slots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from keff.stats.branches.slots import slot_accuracies
from keff.stats.models.surrogate import bivariate_normal
from keff.stats.votes import FloatArray, Votes

REACH = 8.5
STRONGEST = 0.999
FAR = 38.0


@dataclass(frozen=True, slots=True)
class OneFactorCopula:
    """Slot k is right when a normal score below ``thresholds[k]`` [K]; any two scores correlate by ``rho_d``.

    ``clipped`` says that the data asked for a correlation outside [0, 0.999], which one factor cannot give.
    """

    thresholds: FloatArray
    rho_d: float
    clipped: bool

    def majority(self, slots: Sequence[int] | None = None) -> float:
        """Return the majority-vote accuracy of some slots (default all), half credit at a tie."""
        return float(self.majorities([range(self.thresholds.size) if slots is None else slots])[0])

    def majorities(self, subsets: Sequence[Sequence[int]]) -> FloatArray:
        """Return ``majority`` of each of several subsets of slots, [m]."""
        conditional, masses = self._conditional()
        return np.array([_majority(conditional, masses, subset) for subset in subsets])

    def _conditional(self) -> tuple[FloatArray, FloatArray]:
        """Return the accuracy of each slot given the factor, [K, nodes], and the nodes' masses.

        An even grid whose step follows the width of the turn in the factor converges like exp(-1/step^2);
        41 Gauss-Hermite nodes err by 0.03 at a strong correlation.
        """
        width = math.sqrt((1.0 - self.rho_d) / max(self.rho_d, 1e-3))
        z = np.linspace(-REACH, REACH, 2 * math.ceil(REACH / min(0.2, 0.2 * width)) + 1)
        masses = np.exp(-0.5 * z * z)
        shifted = self.thresholds[:, None] + math.sqrt(self.rho_d) * z
        return np.asarray(ndtr(shifted / math.sqrt(1.0 - self.rho_d))), masses / masses.sum()


def fit_copula(votes: Votes) -> OneFactorCopula:
    """Fit the one-factor Gaussian copula: slot accuracies, and the mean joint accuracy over pairs.

    Thresholds are Phi^-1(p_k) and one rho_d in [0, 0.999] matches the mean over pairs of both being right,
    by bisection (the joint accuracy rises in rho_d). Predicts what fixed subsets of slots would score, with
    less noise than counting. Raises ValueError for one path.
    """
    if votes.k < 2:
        raise ValueError("a copula needs at least two slots")
    y = votes.scored().astype(np.float64)
    upper = np.triu_indices(votes.k, 1)
    target = float(((y.T @ y) / votes.n)[upper].mean())
    h = np.clip(ndtri(slot_accuracies(votes)), -FAR, FAR)

    def joint(rho: float) -> float:
        return float(bivariate_normal(h[upper[0]], h[upper[1]], rho).mean())

    low, high = 0.0, STRONGEST
    if not joint(low) <= target <= joint(high):
        return OneFactorCopula(h, low if target < joint(low) else high, True)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if joint(middle) < target else (low, middle)
    return OneFactorCopula(h, 0.5 * (low + high), False)


def _majority(conditional: FloatArray, masses: FloatArray, slots: Sequence[int]) -> float:
    """Average the Poisson-binomial majority of ``conditional[slots]`` over the factor's nodes."""
    size = len(slots)
    if size == 0:
        raise ValueError("a vote needs at least one slot")
    pmf = np.ones((1, conditional.shape[1]))
    for slot in slots:
        p = conditional[slot]
        longer = np.zeros((pmf.shape[0] + 1, pmf.shape[1]))
        longer[:-1] += pmf * (1 - p)
        longer[1:] += pmf * p
        pmf = longer
    credit = np.sign(2 * np.arange(size + 1) - size) / 2 + 0.5
    return float(credit @ pmf @ masses)
