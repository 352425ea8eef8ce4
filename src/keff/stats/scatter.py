"""Plurality when correct answers agree and wrong ones scatter by a Chinese restaurant process."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from keff.stats.votes import FloatArray, IntArray


def expected_credit(k_max: int, theta: FloatArray, scatter: FloatArray) -> FloatArray:
    """Return the expected credit [K+1, theta, g] of a plurality of v = 0..K answers, each right by theta."""
    out = np.zeros((k_max + 1, theta.size, scatter.size))
    tables = np.stack([credit_table(k_max, float(g)) for g in scatter], axis=-1)
    for v in range(1, k_max + 1):
        s = np.arange(v + 1)[:, None]
        binomial = np.exp(log_ways(v, s) + xlogy(s, theta) + xlog1py(v - s, -theta))
        out[v] = binomial.T @ tables[v, : v + 1]
    return out


def credit_table(k_max: int, g: float) -> FloatArray:
    """Return [v, s] the credit of s equal correct answers among v, the wrong ones scattered by g.

    Exact: wrong answers of a Chinese restaurant process, all blocks below s, have the generating function
    exp(g sum_{j<s} z^j / j) over that of all partitions; a block of s exactly ties, and t of them leave
    1/(t+1).
    """
    below = np.zeros((k_max + 1, k_max + 1))
    below[0] = 1.0
    height = np.arange(k_max + 1)
    window = np.zeros(k_max + 1)
    for w in range(1, k_max + 1):
        window += np.where(height > 1, below[w - 1], 0.0)
        tall = height[2 : w + 1]
        window[tall] -= below[w - tall, tall]
        below[w] = g / w * window
    every = np.exp(np.r_[0.0, np.cumsum(np.log((g + height[:-1]) / (height[:-1] + 1)))])
    out = np.zeros((k_max + 1, k_max + 1))
    for s in range(1, k_max + 1):
        ways, factor = below[:, s].copy(), 1.0
        for t in range(1, k_max // s + 1):
            factor *= g / (s * t)
            ways[s * t :] += factor / (t + 1) * below[: k_max + 1 - s * t, s]
        wrong = height[: k_max + 1 - s]
        out[s + wrong, s] = ways[wrong] / every[wrong]
    return np.clip(out, 0.0, 1.0)


def log_ways(k: int, j: IntArray) -> FloatArray:
    """Return log of k over j."""
    return np.asarray(gammaln(k + 1) - gammaln(j + 1) - gammaln(k - j + 1), np.float64)
