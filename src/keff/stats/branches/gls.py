"""Generalised least squares: weights of path embeddings, and GLS-R for template slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keff.records import frozen
from keff.stats.resampling import FOLDS
from keff.stats.votes import FloatArray

# None, then decades: chosen by cross-validation, so finer steps would fit noise.
RIDGES = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


@frozen
class RidgeChoice:
    """The ridge of GLS-R (Eq. 11) that did best on held-out problems, and the weights of slots with it.

    ``ridge`` is in units of the mean slot variance, and None where equal weights were kept; ``weights`` [K]
    are refitted on all problems. The risks are the mean held-out w' Sigma w of the best ridge and of equal
    weights, and ``se`` the standard error over folds of their difference.
    """

    ridge: float | None
    weights: tuple[float, ...]
    held_out_risk: float
    held_out_risk_uniform: float
    se: float


def slot_covariance(embeddings: ArrayLike) -> FloatArray:
    """Return (TD)^-1 sum_t E_t E_t' [K, K] of embeddings [T, K, D], each slot centred across problems.

    Centring within a problem would make the rows sum to zero and every ridge return uniform weights. Across
    problems the answer's own variance adds a multiple of gg', which leaves the optimal weights as they are.
    For template slots; under one prompt the slot labels carry nothing and uniform is the answer.
    """
    e = _embeddings(embeddings)
    problems, k, dims = e.shape
    flat = (e - e.mean(axis=0)).swapaxes(0, 1).reshape(k, -1)
    return flat @ flat.T / (problems * dims)


def gls_r_weights(embeddings: ArrayLike, ridge: float) -> FloatArray:
    """Return the paper's regularised empirical weights (Eq. 11), [K], from embeddings [T, K, D].

    Sigma is ``slot_covariance``; ``ridge`` is lambda in units of the mean slot variance, infinite for no
    covariance at all, which leaves uniform weights; all gains are one. Raises ValueError when the
    regularised matrix is singular.
    """
    return _ridge_weights(slot_covariance(embeddings), ridge)


def choose_ridge(embeddings: ArrayLike, rng: np.random.Generator) -> RidgeChoice:
    """Choose the ridge of GLS-R by held-out w' Sigma w over folds of problems, against uniform weights.

    ``embeddings`` [T, K, D]. The held-out value contains the variance of the
    answers themselves, the same for all unbiased weights, so differences are differences of risk. Equal
    weights stay unless the best ridge beats them by more than one standard error. A ridge whose training
    matrix is singular in a fold is left out. Raises ValueError for fewer than two problems a fold.
    """
    e = _embeddings(embeddings)
    problems, k = e.shape[:2]
    if problems < 2 * FOLDS:
        raise ValueError(f"{problems} problems are too few for {FOLDS} folds of at least two")
    uniform = np.full(k, 1.0 / k)
    parts = np.array_split(rng.permutation(problems), FOLDS)
    tests = [slot_covariance(e[part]) for part in parts]
    trains = [slot_covariance(np.delete(e, part, axis=0)) for part in parts]
    plain = np.array([risk(uniform, test) for test in tests])
    fits = {ridge: _held_out_risks(trains, tests, ridge) for ridge in (*RIDGES, np.inf)}
    ridge = min(fits, key=lambda r: float(np.nan_to_num(fits[r].mean(), nan=np.inf)))
    difference = fits[ridge] - plain
    se = float(difference.std(ddof=1) / np.sqrt(FOLDS))
    even = not float(difference.mean()) < -se
    weights = uniform if even else _ridge_weights(slot_covariance(e), ridge)
    risks = float(fits[ridge].mean()), float(plain.mean())
    return RidgeChoice(None if even else ridge, tuple(weights.tolist()), *risks, se)


def _held_out_risks(trains: list[FloatArray], tests: list[FloatArray], ridge: float) -> FloatArray:
    try:
        fitted = [_ridge_weights(train, ridge) for train in trains]
    except ValueError:
        return np.full(len(tests), np.nan)
    return np.array([risk(w, test) for w, test in zip(fitted, tests, strict=True)])


def _ridge_weights(sigma: FloatArray, ridge: float) -> FloatArray:
    k = sigma.shape[0]
    if np.isinf(ridge):
        return np.ones(k) / k
    return gls_weights(sigma + ridge * float(np.trace(sigma)) / k * np.eye(k))


def _embeddings(embeddings: ArrayLike) -> FloatArray:
    e = np.asarray(embeddings, float)
    if e.ndim != 3 or e.shape[0] < 2 or not np.all(np.isfinite(e)):
        raise ValueError("embeddings must be [T, K, D] of finite numbers with at least two problems T")
    return e


# Relative to the largest eigenvalue: below it an inverse would be rounding.
SINGULAR = 1e-12


def gls_weights(sigma: ArrayLike, gains: ArrayLike | None = None) -> FloatArray:
    """Return the minimum-risk unbiased weights w = Sigma^-1 g / (g' Sigma^-1 g), [K].

    ``sigma`` [K, K] is the error covariance, ``gains`` [K] are the g of e_k = g_k s + error (default ones).
    The paper's Theorem 4.4 (Aitken's generalised least squares). White noise gives g/(g'g), maximum ratio
    combining; equal gains give covariance-aware averaging; a symmetric Sigma then gives uniform weights.
    Their ``risk`` is 1 / (g' Sigma^-1 g). Raises ValueError, suggesting a ridge, when sigma is singular or
    indefinite.
    """
    matrix: FloatArray = np.asarray(sigma, float)
    g: FloatArray = np.ones(len(matrix)) if gains is None else np.asarray(gains, float)
    spectrum = np.linalg.eigvalsh(matrix)
    if not spectrum[0] > SINGULAR * max(spectrum[-1], 0.0):
        raise ValueError(
            "the covariance is singular or indefinite: add a ridge, such as 0.01 of its mean variance"
        )
    solved = np.linalg.solve(matrix, g)
    return solved / (g @ solved)


def risk(weights: ArrayLike, sigma: ArrayLike) -> float:
    """Return w' Sigma w, the mean squared error of the combination with unbiased ``weights`` [K]."""
    w = np.asarray(weights, float)
    return float(w @ np.asarray(sigma, float) @ w)
