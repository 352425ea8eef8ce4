"""Template slots: accuracies, their spread, correlation bounds by Frechet, and the Gaussian surrogate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, owens_t

from keff.records import frozen
from keff.stats.models.betabinomial import majority_binomial
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import distinct_answers
from keff.stats.voting.correlation import correlation_matrix
from keff.stats.voting.plurality import unit_quadrature


@frozen
class PhiAudit:
    """Pairwise correlations of slots relative to the largest that their accuracies allow (phi / phi_max).

    ``phi`` and ``phi_max`` are means over pairs, ``ratio`` the mean of phi/phi_max, ``dropped`` the number
    of pairs with a constant slot. All NaN when every pair is dropped.
    """

    phi: float
    phi_max: float
    ratio: float
    dropped: int


def slot_accuracies(votes: Votes) -> FloatArray:
    """Return the accuracy of each column [K]; ValueError without gold labels."""
    return votes.scored().mean(axis=0)


def slot_cv(votes: Votes) -> float:
    """Return the coefficient of variation of the slot accuracies: standard deviation over mean.

    The divisor is K. The paper calls slots heterogeneous above 0.225. Under one prompt it is not zero either:
    sampling alone gives about sqrt((1-c)(1-p)/(np)). NaN when every path is wrong.
    """
    accuracies = slot_accuracies(votes)
    mean = float(accuracies.mean())
    return float(accuracies.std()) / mean if mean > 0 else math.nan


def extraction_failures(votes: Votes) -> FloatArray:
    """Return the share of paths without an answer in each column [K]; needs no gold labels.

    To show beside every fall in correlation: a template that breaks the format fails on its own, which
    looks like diversity.
    """
    return (votes.answered() < 0).mean(axis=0)


def phi_max(accuracies: ArrayLike) -> FloatArray:
    """Return the largest Pearson correlation [K, K] that 0/1 votes of these accuracies [K] can have.

    sqrt(p_j (1-p_k) / (p_k (1-p_j))) for p_j <= p_k: below 1 as soon as two accuracies differ, so that
    templates of unequal difficulty lower the correlation without any independence. NaN for accuracy 0 or 1.
    """
    p = np.asarray(accuracies, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where((p > 0) & (p < 1), p / (1 - p), np.nan)
        return np.sqrt(np.minimum(odds[:, None], odds) / np.maximum(odds[:, None], odds))


def phi_audit(votes: Votes) -> PhiAudit:
    """Compare the pairwise correlations of slots with the largest that their accuracies allow.

    A rho that falls while phi/phi_max stays is a change of accuracies, not of dependence.
    """
    upper = np.triu_indices(votes.k, 1)
    phi, bound = correlation_matrix(votes)[upper], phi_max(slot_accuracies(votes))[upper]
    kept = ~np.isnan(phi)
    if not np.any(kept):
        return PhiAudit(math.nan, math.nan, math.nan, int(phi.size))
    phi, bound = phi[kept], bound[kept]
    return PhiAudit(float(phi.mean()), float(bound.mean()), float((phi / bound).mean()), int(np.sum(~kept)))


def answer_diversity(votes: Votes) -> FloatArray:
    """Return the number of distinct answers over K for each item [n]; abstentions give none.

    The paper's label-free predictor of decorrelation (n_unique/K); its mean over items, averaged over the
    models of a benchmark, is set against delta rho.
    """
    return distinct_answers(votes.answered()) / votes.k


# Nodes with which Plackett's integral is exact to rounding for equal thresholds: its integrand is smooth.
NODES = 32
# Near -1 the quadrature in rho loses digits; Owen's T does not.
OWEN_BELOW = -0.9


def c_from_rho_d(rho_d: float, p: float) -> float:
    """Return the correctness correlation c of two paths whose decision scores correlate by ``rho_d``.

    c = (Phi_2(h, h; rho_d) - p^2) / (p(1-p)) with h = Phi^-1(p): strictly increasing in rho_d (the paper's
    Proposition 3.4). By Plackett's integral from 0 to asin(rho_d) of exp(-h^2/(1+sin x)) / (2 pi p(1-p)),
    which keeps its digits at small rho_d; below -0.9, where that integrand turns sharply, by Owen's T.
    Raises ValueError unless 0 < p < 1 and -1 <= rho_d <= 1.
    """
    h, scale = _threshold(p)
    if not -1.0 <= rho_d <= 1.0:
        raise ValueError("rho_d must lie in [-1, 1]: it is a correlation")
    if abs(rho_d) == 1.0:
        return 1.0 if rho_d > 0 else _lowest_c(p)
    if rho_d < OWEN_BELOW:
        return 1.0 - 2.0 * float(owens_t(h, math.sqrt((1.0 - rho_d) / (1.0 + rho_d)))) / scale
    limit = math.asin(rho_d)
    nodes, weights = unit_quadrature(NODES)
    integrand = np.exp(-h * h / (1.0 + np.sin(limit * nodes)))
    return limit * float(integrand @ weights) / (2.0 * math.pi * scale)


def rho_d_from_c(c: float, p: float) -> float:
    """Return the correlation of decision scores that gives correctness correlation ``c``.

    The inverse of ``c_from_rho_d`` in rho_d, by Brent's method in asin(rho_d). Raises ValueError unless
    0 < p < 1 and c lies in [-min(p/(1-p), (1-p)/p), 1], the range of a correlation of two votes of accuracy
    p.
    """
    _threshold(p)
    lowest = _lowest_c(p)
    if not lowest <= c <= 1.0:
        raise ValueError(f"two votes of accuracy {p} have a correlation between {lowest:.6g} and 1, not {c}")
    ends = (0.0, math.pi / 2) if c >= 0 else (-math.pi / 2, 0.0)
    from scipy.optimize import brentq  # a seventh of a second, which few commands need

    # The usual tolerance, 2e-12, would cost small correlations their digits.
    return math.sin(brentq(lambda x: c_from_rho_d(math.sin(x), p) - c, *ends, xtol=1e-18, maxiter=1000))


def _threshold(p: float) -> tuple[float, float]:
    if not 0.0 < p < 1.0:
        raise ValueError("the surrogate needs an accuracy strictly between 0 and 1")
    return float(ndtri(p)), p * (1.0 - p)


def _lowest_c(p: float) -> float:
    return -min(p / (1.0 - p), (1.0 - p) / p)


# Beyond 8.5 standard deviations the normal has less mass than a double can see.
REACH = 8.5
# Of a stronger factor the grid has no end, and the vote is that of one path.
STRONGEST = 0.999


def copula_majority(k: int, p: float, rho_d: float) -> float:
    """Return the majority vote of K paths of accuracy ``p`` whose normal scores correlate by ``rho_d`` >= 0.

    The binomial majority given the common factor, averaged over the factor; half credit at a tie. A
    correlation above 0.999 counts as that.
    """
    rho = min(rho_d, STRONGEST)
    # Steps of a fifth of what is narrower: the density, or the turn from wrong to right, which is as wide as
    # this (and of independent votes without end). An even grid converges like exp(-1/step^2); 41
    # Gauss-Hermite nodes err by 0.03 at a strong correlation.
    width = math.sqrt((1.0 - rho) / max(rho, 1e-3))
    z = np.linspace(-REACH, REACH, 2 * math.ceil(REACH / min(0.2, 0.2 * width)) + 1)
    given = ndtr((ndtri(p) + math.sqrt(rho) * z) / math.sqrt(1.0 - rho))
    return float(np.average(majority_binomial(k, given), weights=np.exp(-0.5 * z * z)))
