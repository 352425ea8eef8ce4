"""Generalised least squares: the best linear combination of path embeddings."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.votes import FloatArray

SINGULAR = 1e-12


def gls_weights(sigma: ArrayLike, gains: ArrayLike | None = None) -> FloatArray:
    """Return the minimum-risk unbiased weights w = Sigma^-1 g / (g' Sigma^-1 g), [K].

    ``sigma`` [K, K] is the error covariance, ``gains`` [K] are the g of e_k = g_k s + error (default ones).
    The paper's Theorem 4.4 (Aitken's generalised least squares). White noise gives g/(g'g), maximum ratio
    combining; equal gains give covariance-aware averaging; a symmetric Sigma then gives uniform weights.
    Raises ValueError, suggesting a ridge, when sigma is singular, indefinite or not symmetric, or g is zero.
    """
    matrix, g = _checked(sigma, gains)
    solved = np.linalg.solve(matrix, g)
    return solved / (g @ solved)


def gls_risk(sigma: ArrayLike, gains: ArrayLike | None = None, dims: int = 1) -> float:
    """Return the optimal risk D / (g' Sigma^-1 g) of ``gls_weights`` in ``dims`` dimensions."""
    matrix, g = _checked(sigma, gains)
    return float(dims / (g @ np.linalg.solve(matrix, g)))


def risk(weights: ArrayLike, sigma: ArrayLike, dims: int = 1) -> float:
    """Return D w' Sigma w, the mean squared error of the combination with unbiased ``weights`` [K]."""
    w = np.asarray(weights, float)
    return float(dims * (w @ np.asarray(sigma, float) @ w))


def mrc_weights(gains: ArrayLike) -> FloatArray:
    """Return g/(g'g) [K]: the optimum under white noise, maximum ratio combining."""
    g = np.asarray(gains, float)
    if g.ndim != 1 or not np.any(g) or not np.all(np.isfinite(g)):
        raise ValueError("gains must be a vector of finite numbers, not all zero")
    return g / (g @ g)


def symmetric_covariance(k: int, rho: float, variance: float = 1.0) -> FloatArray:
    """Return variance * ((1-rho) I + rho 11') [K, K], the symmetric model of the paper's Corollary 4.5."""
    return variance * ((1.0 - rho) * np.eye(k) + rho * np.ones((k, k)))


def gain_over_uniform(sigma: ArrayLike, gains: ArrayLike | None = None) -> float:
    """Return 1 - optimal risk / risk of equal weights, in [0, 1): the share of risk that GLS removes.

    Equal weights are scaled to be unbiased, w = 1/(1'g). The paper's Corollary 4.7; zero exactly where
    ``uniform_is_optimal``. Raises ValueError as ``gls_weights``, and when the gains sum to zero.
    """
    matrix, g = _checked(sigma, gains)
    return 1.0 - gls_risk(matrix, g) / risk(unbiased_uniform(g), matrix)


def uniform_is_optimal(sigma: ArrayLike, gains: ArrayLike | None = None, rtol: float = 1e-9) -> bool:
    """Return whether equal weights are optimal: Sigma 1 proportional to g (for g = 1, equal row sums)."""
    matrix, g = _checked(sigma, gains)
    rows = matrix.sum(axis=1)
    across = rows - g * (rows @ g) / (g @ g)
    return bool(np.linalg.norm(across) <= rtol * np.linalg.norm(rows))


def unbiased_uniform(gains: ArrayLike) -> FloatArray:
    """Return the equal weights [K] with g'w = 1; ValueError when the gains sum to zero."""
    g = np.asarray(gains, float)
    if abs(g.sum()) <= SINGULAR * np.abs(g).sum():
        raise ValueError("gains that sum to zero leave no unbiased equal weights to compare with")
    return np.full(g.size, 1.0 / g.sum())


def _checked(sigma: ArrayLike, gains: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    matrix = np.asarray(sigma, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all(np.isfinite(matrix)):
        raise ValueError("the covariance must be a square matrix of finite numbers")
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=SINGULAR * float(np.abs(matrix).max())):
        raise ValueError("the covariance must be symmetric")
    g = np.ones(matrix.shape[0]) if gains is None else np.asarray(gains, float)
    if g.shape != matrix.shape[:1] or not np.all(np.isfinite(g)) or not np.any(g):
        raise ValueError("gains must be finite, one per path, and not all zero")
    spectrum = np.linalg.eigvalsh(matrix)
    if not spectrum[0] > SINGULAR * max(spectrum[-1], 0.0):
        raise ValueError(
            "the covariance is singular or indefinite: add a ridge, such as 0.01 of its mean variance"
        )
    return matrix, g
