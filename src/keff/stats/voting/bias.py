"""The bias of the paper's Eq. 3, for every accuracy, and an estimate of c without its leading term."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.votes import FloatArray, Votes, as_hist
from keff.stats.voting.correlation import pooled_from_hist


def pooled_c_bias(p: float, c: float, n: int, k: int) -> float:
    """Return the leading bias of ``pooled_c`` (Eq. 3) from n questions of k paths under the beta law.

    With u = S/K and w = S(S-1)/(K(K-1)) of a question, c = g(E u, E w) for g(u, w) = (w - u^2)/(u - u^2), so
    the bias is (g_uu Var(u)/2 + g_uw Cov(u, w))/n + O(1/n^2). At p = 1/2 it is -(1-c)(1+(K-1)c)/(nK); towards
    0 and 1 it is several times that. Raises ValueError for p or c outside (0, 1), k < 2 or n < 2.
    """
    if not (0 < p < 1 and 0 < c < 1) or k < 2 or n < 2:
        raise ValueError("the bias needs p and c between 0 and 1, and at least two paths and two questions")
    steps = [(p * (1 - c) + i * c) / ((1 - c) + i * c) for i in range(3)]
    _, second, third = np.cumprod(steps).tolist()
    variance = p * (1 - p) * (1 + (k - 1) * c) / k
    covariance = ((k - 2) * third + 2 * second) / k - p * second
    return float(_bend(np.array(p), np.array(c), np.array(variance), np.array(covariance)) / n)


def second_order_c(source: Votes | ArrayLike) -> float:
    """Return c of Eq. 3 less its leading bias, by the variances of the sample: no law is assumed.

    ``source`` as for ``pooled_c``; questions count as independent. The bias that is left is of order 1/n^2.
    Towards p = 0 or 1 its standard deviation is a few percent larger than that of ``anova_c``, which takes
    out the bias at even odds only. NaN when all paths are right or all wrong. Raises ValueError for one path
    or one question.
    """
    hist = as_hist(source)
    k, n = hist.size - 1, int(hist.sum())
    if k < 2 or n < 2:
        raise ValueError("correlation needs at least two paths per item and at least two items")
    return float(second_order_from_hist(hist))


def second_order_from_hist(hist: ArrayLike) -> FloatArray:
    """Return ``second_order_c`` [...] of histograms [..., K+1]; NaN where degenerate. For resampling."""
    weights = np.asarray(hist, np.float64)
    k = weights.shape[-1] - 1
    s = np.arange(k + 1, dtype=np.float64)
    u, w, n = s / k, s * (s - 1) / (k * (k - 1)), weights.sum(axis=-1)
    p, joint = weights @ u / n, weights @ w / n
    variance = (weights @ (u * u) / n - p * p) * n / (n - 1)
    covariance = (weights @ (u * w) / n - p * joint) * n / (n - 1)
    c = pooled_from_hist(weights)
    return c - _bend(p, c, variance, covariance) / n


def _bend(p: FloatArray, c: FloatArray, variance: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return n times the leading bias: half the second derivatives of g times the covariances."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale, tilt = p * (1 - p), 1 - 2 * p
        twice = (2 * c * tilt**2 + 4 * p * tilt - 2 * (1 - c) * scale) / scale**2
        return twice * variance / 2 - tilt / scale**2 * covariance
