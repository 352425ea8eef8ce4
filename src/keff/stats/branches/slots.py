"""Template slots: how they differ, and what that allows their correlation to be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.correlation import correlation_matrix


@dataclass(frozen=True, slots=True)
class PhiAudit:
    """How near slot pairs come to the largest correlation that their accuracies allow.

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


def slot_cv(votes: Votes, ddof: int = 0) -> float:
    """Return the coefficient of variation of the slot accuracies: standard deviation over mean.

    The divisor is K - ``ddof``. The paper calls slots heterogeneous above 0.225. Under one prompt it is not
    zero either: sampling alone gives about sqrt((1-c)(1-p)/(np)). NaN when every path is wrong. Raises
    ValueError when K <= ddof.
    """
    accuracies = slot_accuracies(votes)
    if accuracies.size <= ddof:
        raise ValueError(f"{accuracies.size} slot(s) are too few for ddof={ddof}")
    mean = float(accuracies.mean())
    return float(accuracies.std(ddof=ddof)) / mean if mean > 0 else math.nan


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
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise ValueError("accuracies must be a vector of numbers between 0 and 1")
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where((p > 0) & (p < 1), p / (1 - p), np.nan)
        return np.sqrt(np.minimum(odds[:, None], odds) / np.maximum(odds[:, None], odds))


def phi_audit(votes: Votes) -> PhiAudit:
    """Compare the pairwise correlations of slots with the largest that their accuracies allow.

    A rho that falls while phi/phi_max stays is a change of accuracies, not of dependence. Raises ValueError
    for one path.
    """
    if votes.k < 2:
        raise ValueError("correlation needs at least two paths per item")
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
    models of a benchmark, is set against delta rho (``association.pearson_test``).
    """
    ordered = np.sort(votes.answered(), axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return (new & (ordered >= 0)).sum(axis=1) / votes.k
