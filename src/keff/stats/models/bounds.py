"""Nonparametric bounds on majority vote beyond the pilot: nothing is assumed about difficulty over items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, xlogy

from keff.stats.models.answer_model import log_ways
from keff.stats.votes import FloatArray, Votes, as_hist

# Far below what is printed (.1 point).
GAP = 1e-7


def optimum(
    share: FloatArray, b: FloatArray, target: FloatArray, allowed: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the dual y [K0+1] and the count law [K0+1] of the mixing law with the greatest mean target.

    ``b`` [K0+1, m] has the binomial probabilities at each theta of a grid, ``target`` [m] its values there.
    The law's distance sum_s share_s log(share_s / law_s) is at most ``allowed``; without that it is the
    nearest (most likely) law, and y = share / law. Newton steps on the conditions of the optimum, with
    products at a common value that falls (primal-dual interior point; for the likelihood, Koenker and Mizera
    2014): weights w >= 0 of the grid with sum w = 1 and law = b w; slack = eta - target - y b >= 0, w slack =
    0; y law = lam share; spare = allowed - distance >= 0, lam spare = 0. Optimal to about GAP.
    """
    # The nearest law has eta = lam = 1 and no condition on the distance.
    free = slice(None) if allowed is not None else slice(1, -1)
    least = _log_mean(share, share) - (allowed or 0.0)
    size, never = target.size, share == 0
    w = np.full(size, 1 / size)
    y = np.maximum(share / (b @ w), 0.1 / share.size)
    y /= 1.1 * float((y @ b).max())
    slack = float(target.max()) + 1 - target - y @ b
    at, length = _Iterate(w, 1.0, slack, y, 1.0), 0.5
    # A bound on the steps, which rounding can keep from ending.
    for _ in range(80):
        law = b @ at.w
        amiss = at.y * law - at.lam * share
        gap = float(at.w @ at.slack + amiss @ (amiss / (at.y * law)) + at.lam * at.spare)
        if gap < GAP:
            break
        # Products fall tenfold after a long step, hardly after a short one: near a wall none is long.
        mean = max(max(1 - length, 0.1) * gap / (size + never.sum() + 1), 1e-14)
        step = _newton(at, law, share, b, mean, least, free)
        # The law and the dual go each their own way; in one step the nearer wall would hold both.
        own = _short_of(np.append(at.w, at.spare), np.append(step.w, step.spare))
        dual = _short_of(*(np.concatenate([each.slack, each.y, [each.lam]]) for each in (at, step)))
        length = min(own, dual)
        # Slack is not computed anew from y: where it is small rounding would make it none.
        at = _Iterate(
            at.w + own * step.w,
            at.spare + own * step.spare,
            at.slack + dual * step.slack,
            at.y + dual * step.y,
            at.lam + dual * step.lam,
        )
    return at.y, b @ (at.w / at.w.sum())


class _Iterate(NamedTuple):
    """A law's weights and spare distance, and the dual's slack, y and lam; or a step of them."""

    w: FloatArray
    spare: float
    slack: FloatArray
    y: FloatArray
    lam: float


def _newton(
    at: _Iterate, law: FloatArray, share: FloatArray, b: FloatArray, mean: float, least: float, free: slice
) -> _Iterate:
    """Return the step to the conditions of the optimum with products of ``mean``, w and spare eliminated."""
    w, spare, slack, y, lam = at
    stiff, toward = w / slack, mean / slack - w
    bend, reach, moved = b * stiff, b @ stiff, b @ toward
    system = np.empty((share.size + 2, share.size + 2))
    system[0, 0], system[0, 1:-1], system[0, -1] = -stiff.sum(), reach, 0.0
    system[1:-1, 0], system[1:-1, 1:-1], system[1:-1, -1] = -reach, bend @ b.T, -share / y
    system[-1, :-1], system[-1, -1] = share / law @ system[1:-1, :-1], spare / lam
    np.einsum("ii->i", system[1:-1, 1:-1])[:] += law / y
    rest = np.empty(share.size + 2)
    rest[0] = 1 - w.sum() - toward.sum()
    rest[1:-1] = (lam * share + mean * (share == 0)) / y - law - moved
    rest[-1] = least - _log_mean(share, law) + mean / lam - share / law @ moved
    step = np.zeros(share.size + 2)
    step[free] = np.linalg.solve(system[free, free], rest[free])
    closer = step[0] - step[1:-1] @ b
    looser = (mean - spare * step[-1]) / lam - spare
    return _Iterate(toward - stiff * closer, looser, closer, step[1:-1], step[-1])


def _short_of(values: FloatArray, step: FloatArray) -> float:
    """Return the part of a step, at most 1, that leaves each positive value a twentieth of itself."""
    return 0.95 / max(0.95, -float((step / values).min()))


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
    b = _bernstein(k0, _theta(400 + 40 * k0))
    _, law = optimum(share, b, np.zeros_like(b[0]))
    allowed = _log_mean(share, share) - _log_mean(share, law) + math.log(2 / (1 - level)) / n
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

    def upper(sign: float) -> float:
        y, _ = optimum(share, some_b, sign * some, allowed)
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
    right, wrong = np.ones((2, k0 + 1, theta.size))
    right[1:], wrong[1:] = theta, 1 - theta
    np.cumprod(right, axis=0, out=right)
    right *= np.cumprod(wrong, axis=0, out=wrong)[::-1]
    right *= np.exp(log_ways(k0, np.arange(k0 + 1)[:, None]))
    return right
