"""Effective number of independent paths, its ceiling and its growth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keff.records import Interval
from keff.stats.inference.intervals import bootstrap_means
from keff.stats.votes import FloatArray, Votes, as_hist


def k_eff(k: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return K/(1+(K-1)c), the number of independent votes that K correlated ones are worth.

    The paper's K_eff^vote (Kish's design effect), elementwise over arrays. It may exceed K for negative c,
    and is infinite at c = -1/(K-1). NaN stays NaN.
    """
    k, c = np.asarray(k, float), np.asarray(c, float)
    design = 1.0 + (k - 1.0) * c
    with np.errstate(divide="ignore"):
        # Rounding can leave a residue of the exact zero at the lower end of the range of c.
        return np.where(design <= 1e-12 * k, np.inf, k / design)[()]


def k_eff_rank(covariance: ArrayLike) -> float:
    """Return the participation ratio (tr R)^2 / tr(R^2) of a covariance matrix [K, K]: its effective rank.

    Eq. 4 of the paper; scale-free. Raises ValueError for a matrix that is not square, not symmetric or zero.
    """
    r = np.asarray(covariance, float)
    if r.ndim != 2 or r.shape[0] != r.shape[1] or not np.allclose(r, r.T):
        raise ValueError("a covariance matrix must be square and symmetric")
    total = float(np.sum(r * r))
    if not total > 0:
        raise ValueError("the effective rank of a zero or undefined matrix does not exist")
    return float(np.trace(r)) ** 2 / total


def k_eff_rank_equal(k: ArrayLike, rho: ArrayLike) -> FloatArray:
    """Return K/(1+(K-1)rho^2), the effective rank of K equally correlated gains (Eq. 6 of the paper)."""
    return k_eff(k, np.square(np.asarray(rho, float)))


def k_eff_block(source: Votes | ArrayLike, ddof: int = 0) -> float:
    """Return p(1-p) / Var(S/K), the variance-based effective number of paths.

    ``source`` is votes or the count histogram N_0..N_K. With ``ddof`` 0 it equals K/(1+(K-1)c) at the
    pooled c for every matrix, so it carries no information beyond it; the paper divides by n-1 (``ddof``
    1). NaN when all right or all wrong, infinite when all items have the same count.
    """
    hist = as_hist(source).astype(np.float64)
    k, n = hist.size - 1, float(hist.sum())
    s = np.arange(k + 1, dtype=np.float64)
    first, second = float(hist @ s), float(hist @ (s * s))
    top, spread = first * (n * k - first), n * second - first * first
    if top == 0:
        return float("nan")
    return float("inf") if spread == 0 else top / spread * (n - ddof) / n


def ceiling(c: ArrayLike) -> FloatArray:
    """Return 1/c, the most independent votes that any number of paths is worth; infinite for c <= 0."""
    c = np.asarray(c, float)
    with np.errstate(divide="ignore"):
        return np.where(c <= 0, np.inf, 1.0 / c)[()]


def percent_of_ceiling(k: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return 100 K_eff c, the percentage of the ceiling that K paths reach; 0 for c <= 0 (no ceiling)."""
    c = np.asarray(c, float)
    with np.errstate(invalid="ignore"):
        return np.where(c <= 0, 0.0, 100.0 * k_eff(k, c) * c)[()]


def marginal_gain(k: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return (1-c)/(1+(K-1)c)^2, the derivative of K_eff by K (the paper's section on Adaptive-K)."""
    k, c = np.asarray(k, float), np.asarray(c, float)
    with np.errstate(divide="ignore"):
        return (1.0 - c) / np.square(1.0 + (k - 1.0) * c)


def k_eff_deflection(votes: Votes, weights: FloatArray, seed: int = 0) -> Interval:
    """Return how many plain paths separate right from wrong as well as K weighted votes do.

    d^2 / d_1^2, with d^2 = (mean M)^2 / Var M of the margin M = sum of w_i (2 y_i - 1) over the paths of a
    question, y_i their correctness, and d_1^2 that of one path of weight 1 that always votes. ``weights``
    [n, K] are not learned from the same questions; 0 is an abstention. With weights of 1 it is
    K / (1 + (K - 1) c) at the pooled c, the paper's K_eff. 95% limits from 2,000 resamples of clusters.
    Raises ValueError without labels; NaN where one path is right half of the time.
    """
    sign = 2.0 * votes.scored() - 1.0
    margin = (weights * sign).sum(axis=1)
    columns = np.stack([margin, margin**2, sign.mean(axis=1)], axis=1)
    drawn = bootstrap_means(columns, votes.cluster_ids, np.random.default_rng(seed))

    def worth(means: FloatArray) -> FloatArray:
        mean, square, one = np.moveaxis(means, -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(mean**2 / (square - mean**2) / (one**2 / (1 - one**2)))

    value, found = float(worth(columns.mean(axis=0))), worth(drawn)
    known = found[np.isfinite(found)]
    if not np.isfinite(value) or known.size < found.size / 2:
        return Interval(value, None, None, "deflection")
    lo, hi = np.quantile(known, [0.025, 0.975]).tolist()
    return Interval(value, min(lo, value), max(hi, value), "deflection, cluster_bootstrap")
