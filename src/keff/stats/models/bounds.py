"""Nonparametric bounds on majority vote beyond the pilot: nothing is assumed about difficulty over items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, xlog1py, xlogy

from keff.stats.models.answer_model import log_ways
from keff.stats.votes import FloatArray, Votes, as_hist

# Far below what is printed (.1 point).
GAP = 1e-7

# Value, gradient and Hessian of a convex function.
Objective = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]


def minimise(objective: Objective, rows: FloatArray, floor: FloatArray, start: FloatArray) -> FloatArray:
    """Return the minimiser of a convex objective subject to rows @ x >= floor, by a barrier method.

    Log-barrier Newton, optimal to about GAP; where rounding stops it sooner, x is still feasible.
    """
    # The weight of the barrier falls thirtyfold a round: few rounds, each with few Newton steps.
    x, weight = start, 0.1
    while True:
        x = _centre(objective, rows, floor, x, weight)
        if weight * floor.size < GAP:
            return x
        weight /= 30


def _centre(
    objective: Objective, rows: FloatArray, floor: FloatArray, x: FloatArray, weight: float
) -> FloatArray:
    """Return the minimiser of objective - weight * sum log(rows @ x - floor), by damped Newton steps."""
    # Keeps the Hessian of a flat direction solvable; far below what a step can see.
    ridge = 1e-14 * np.eye(x.size)
    slack = rows @ x - floor
    value, slope, curve = objective(x)
    # A bound on the steps, which rounding can keep from ending; the point stays feasible.
    for _ in range(60):
        slope = slope - weight * (1 / slack) @ rows
        curve = curve + weight * (rows / slack[:, None] ** 2).T @ rows
        scale = 1 / np.sqrt(curve.diagonal())
        step = -scale * np.linalg.solve(curve * scale[:, None] * scale + ridge, slope * scale)
        gain = -float(slope @ step)
        # Nearer to the centre is no use: the next round moves it.
        if gain < 0.1 * weight:
            break
        change = rows @ step
        # Short of the wall by 1%: on it the logarithm is infinite.
        length = min(1.0, 0.99 * float(np.min(-slack[change < 0] / change[change < 0], initial=np.inf)))
        before = value - weight * float(np.log(slack).sum())
        # Halved until the value falls; a shorter step would change nothing that is printed.
        while length > 1e-9:
            there = x + length * step
            beyond = rows @ there - floor
            if beyond.min() > 0:
                value, slope, curve = objective(there)
                if value - weight * float(np.log(beyond).sum()) < before:
                    break
            length /= 2
        else:
            break
        x, slack = there, beyond
    return x


# Bounds the grid's memory; a degree that needs more gets eight cells for each.
FINEST = 2**19


def majority_bounds(
    source: Votes | ArrayLike, ks: Sequence[int], level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return the least and greatest MV@k at each of ``ks`` that the counts at K0 paths allow.

    Items have a chance theta of a correct path, drawn from any mixing law G on [0, 1]; then
    MV@k = E_G m_k(theta), with m_k the chance that most of k independent paths are right (half credit at a
    tie), and the count law at K0 fixes exactly the first K0 moments of G. ``source`` is votes or the count
    histogram N_0..N_K0 of independent items.

    They run over every G whose log-likelihood lies within log(2/(1-level)) of the best, a Chernoff threshold
    on each side that is wider than the chi-square one; simulated coverage is in docs/statistics.md.

    Both are outer bounds: each comes from a polynomial of degree K0 that is checked to stay on its side of
    m_k over all of [0, 1] (a fine grid and Bernstein's inequality), and is loose by about 1e-5 up to K = 500.
    """
    limits = _likely(tuple(as_hist(source).tolist()), level, tuple(ks))
    lo, hi = np.array(limits, np.float64).T
    return lo, hi


# One record is asked again and again: at other aims, prices and seeds, which change nothing here.
@lru_cache(maxsize=32)
def _likely(counts: tuple[int, ...], level: float, sizes: tuple[int, ...]) -> list[tuple[float, float]]:
    n, k0 = sum(counts), len(counts) - 1
    share: FloatArray = np.array(counts, np.float64) / n
    # A grid coarser than the bounds' own: a likelihood that is not quite the best only widens them.
    allowed = _distance(share, _bernstein(k0, _theta(400 + 40 * k0))) + math.log(2 / (1 - level)) / n
    return [_limits(share, allowed, size) for size in sizes]


def _limits(share: FloatArray, allowed: float, k: int) -> tuple[float, float]:
    """Return the bounds from the dual problem, convex in y [K0+1].

    For every y, E_G target is at most max over theta of [target(theta) + sum_s y_s b_s(theta)] less the least
    sum_s y_s law_s(G) of the laws within reach; a good y is found on a coarse grid of theta, where b_s are
    the binomial probabilities.
    """
    k0 = share.size - 1
    degree = max(k, k0)
    # A polynomial of this degree turns within about 1/sqrt(degree) of the angle; 200 points on each turn.
    coarse = _theta(int(200 * (2 + math.sqrt(degree))))
    # Bernstein's inequality is useless below a few cells for each degree, and exact enough at 512.
    fine = _theta(min(512 * degree, max(FINEST, 8 * degree)))
    (some, some_b), (most, most_b) = ((_majority(k, t), _bernstein(k0, t)) for t in (coarse, fine))
    rows = np.vstack([np.hstack([np.ones((some.size, 1)), -some_b.T]), np.eye(k0 + 2)[1:]])

    def upper(sign: float) -> float:
        start = np.ones(k0 + 2)
        start[0] = float((sign * some).max()) + 2.0
        floor = np.append(sign * some, np.zeros(k0 + 1))
        y = minimise(_likelihood_ball(share, allowed), rows, floor, start)[1:]
        return _greatest(sign * most + y @ most_b, degree) - float(np.exp(_log_mean(share, y) - allowed))

    return max(-upper(-1.0), 0.0), min(upper(1.0), 1.0)


def _greatest(values: FloatArray, degree: int) -> float:
    """Return an upper bound on the maximum over [0, 1] of a polynomial, from its values at even angles.

    In the angle it is a trigonometric polynomial of that degree, whose second derivative Bernstein's
    inequality bounds by degree^2 times its half range; at a maximum the slope is zero.
    """
    bend = (degree * math.pi / (values.size - 1)) ** 2 / 8
    top, bottom = float(values.max()), float(values.min())
    return top + bend / (1 - bend) * (top - bottom) / 2


def _likelihood_ball(share: FloatArray, allowed: float) -> Objective:
    """Return the likelihood-ball constraint eta - exp(-allowed) prod_s y_s^share_s over x = (eta, y).

    Its minimum over y >= 0 and eta >= target + sum_s y_s b_s is the greatest E_G target over all G with
    sum_s share_s log(share_s / law_s(G)) <= allowed: the conjugate of the entropy ball.
    """

    def objective(x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        y = x[1:]
        mean = float(np.exp(_log_mean(share, y) - allowed))
        slope = np.concatenate(([0.0], share / y))
        # Written in place: this runs a thousand times per analysis, on a few numbers.
        hessian = np.outer(-slope, slope)
        np.einsum("ii->i", hessian)[1:] += share / y**2
        gradient = -mean * slope
        gradient[0] = 1.0
        return float(x[0]) - mean, gradient, mean * hessian

    return objective


def _distance(share: FloatArray, b: FloatArray) -> float:
    """Return the likelihood distance sum_s share_s log(share_s / law_s(G)) at the best mixing law G.

    The dual of nonparametric maximum likelihood is the greatest weighted log of y with sum_s y_s b_s <= 1;
    its slacks are inverse to the weights of G. A law that is not quite the best only widens the bounds.
    """

    def objective(y: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        return -_log_mean(share, y), -share / y, np.diag(share / y**2)

    rows = np.vstack([-b.T, np.eye(share.size)])
    floor = np.append(np.full(b.shape[1], -1.0), np.zeros(share.size))
    weight = 1 / (1 - minimise(objective, rows, floor, np.full(share.size, 0.5)) @ b)
    law = b @ (weight / weight.sum())
    return _log_mean(share, share) - _log_mean(share, law)


def _log_mean(share: FloatArray, y: FloatArray) -> float:
    return float(xlogy(share, y).sum())


def _theta(cells: int) -> FloatArray:
    """Return ``cells + 1`` points of [0, 1], even in the angle and so dense at the ends."""
    return np.sin(np.linspace(0.0, np.pi / 2, cells + 1)) ** 2


def _majority(k: int, theta: FloatArray) -> FloatArray:
    half = (k + 1) // 2
    return np.asarray(betainc(half, half, theta), np.float64)


def _bernstein(k0: int, theta: FloatArray) -> FloatArray:
    """Return the binomial probabilities [K0+1, m] of s successes in K0 at each theta."""
    s = np.arange(k0 + 1)[:, None]
    return np.exp(log_ways(k0, s) + xlogy(s, theta) + xlog1py(k0 - s, -theta))
