"""The Gaussian decision surrogate: correctness as a thresholded normal score."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, owens_t

from keff.stats.votes import FloatArray

NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
OWEN_BELOW = -0.9
NEWTON_STEPS = 100


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
    if rho_d == -1.0:
        return _lowest_c(p)
    if rho_d < OWEN_BELOW:
        return 1.0 - 2.0 * float(owens_t(h, math.sqrt((1.0 - rho_d) / (1.0 + rho_d)))) / scale
    return float(_plackett(np.asarray(h), np.asarray(h), math.asin(rho_d))) / scale


def rho_d_from_c(c: float, p: float) -> float:
    """Return the correlation of decision scores that gives correctness correlation ``c``.

    The inverse of ``c_from_rho_d`` in rho_d: Newton steps in asin(rho_d), with the integrand as derivative,
    kept inside a shrinking bracket. Raises ValueError unless 0 < p < 1 and c lies in
    [-min(p/(1-p), (1-p)/p), 1], the range of a correlation of two votes of accuracy p.
    """
    h, scale = _threshold(p)
    lowest = _lowest_c(p)
    if not lowest <= c <= 1.0:
        raise ValueError(f"two votes of accuracy {p} have a correlation between {lowest:.6g} and 1, not {c}")
    if c in (lowest, 1.0):
        return math.copysign(1.0, c)
    low, high, angle = -math.pi / 2, math.pi / 2, 0.0
    for _ in range(NEWTON_STEPS):
        error = c_from_rho_d(math.sin(angle), p) - c
        low, high = (low, angle) if error > 0 else (angle, high)
        slope = math.exp(-h * h / (1.0 + math.sin(angle))) / (2.0 * math.pi * scale) if angle > low else 0.0
        step = angle - error / slope if slope > 0 else math.nan
        guess = step if low < step < high else 0.5 * (low + high)
        if abs(guess - angle) <= 1e-15 * abs(guess):
            break
        angle = guess
    return math.sin(angle)


def bivariate_normal(h: ArrayLike, k: ArrayLike, rho: float) -> FloatArray:
    """Return Phi_2(h, k; rho), the probability that two correlated standard normals are below h and k.

    Phi(h) Phi(k) plus Plackett's integral, elementwise over h and k; for rho in [0, 1]. Exact to about
    1e-15 for h = k, and to 1e-9 for unequal thresholds up to rho = 0.99.
    """
    h, k = np.asarray(h, float), np.asarray(k, float)
    return ndtr(h) * ndtr(k) + _plackett(h, k, math.asin(rho))


def _plackett(h: FloatArray, k: FloatArray, angle: float) -> FloatArray:
    x = 0.5 * angle * (NODES + 1.0)
    # (h-k)^2 and hk kept apart: the textbook quotient cancels near sin x = 1.
    apart = np.square(h - k)[..., None] / (2.0 * np.square(np.cos(x)))
    together = (h * k)[..., None] / (1.0 + np.sin(x))
    return 0.5 * angle * (np.exp(-apart - together) @ WEIGHTS) / (2.0 * math.pi)


def _threshold(p: float) -> tuple[float, float]:
    if not 0.0 < p < 1.0:
        raise ValueError("the surrogate needs an accuracy strictly between 0 and 1")
    return float(ndtri(p)), p * (1.0 - p)


def _lowest_c(p: float) -> float:
    return -min(p / (1.0 - p), (1.0 - p) / p)
