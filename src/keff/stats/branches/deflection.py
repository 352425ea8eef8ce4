"""What a weighted vote of several branches separates: weights, deflection, K_eff of a mix, allocation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from keff.stats.branches.covariance import Between
from keff.stats.votes import FloatArray, IntArray

# Up to so many allocations all are tried.
ENUMERATED = 50_000

# So many of the best greedy allocations are improved by exchanges, up to ``MOST_EXCHANGED`` branches.
EXCHANGED = 2

# Exchange moves grow with the square of the branches; beyond, greedy allocations stand.
MOST_EXCHANGED = 12

# Share of a path's variance that is always noise, so that one that never disagrees has finite weight.
LEAST_NOISE = 1e-9


@dataclass(frozen=True, slots=True)
class Margin:
    """The law of the margin of a vote on correctness, by branch.

    Its mean mu = p - 1/2 [A], the latent covariance made positive semidefinite [A, A], and the noise of one
    path beyond it [A].
    ``shrunk`` is what the off-diagonal correlations were multiplied by (1: nothing had to be done).
    """

    mu: FloatArray
    latent: FloatArray
    noise: FloatArray
    shrunk: float

    def covariance(self, k: ArrayLike) -> FloatArray:
        """Return Sigma of the branches' means with k_a >= 1 paths: latent plus noise / k on the diagonal."""
        return self.latent + np.diag(self.noise / np.asarray(k, np.float64))


def margin(branches: Between) -> Margin:
    """Return the margin's law by branch, the latent covariance shrunk to positive semidefinite.

    Off-diagonal correlations r are multiplied by one factor until no eigenvalue is negative. A branch with
    one path has no c_aa: all its variance counts as noise that its own further paths share none of, so its
    covariances are dropped.
    """
    within = np.nan_to_num(np.diag(branches.latent), nan=0.0)
    within = np.clip(within, 0.0, branches.variance)
    scale = np.sqrt(np.outer(within, within))
    r = np.divide(branches.latent, scale, out=np.zeros_like(scale), where=scale > 0)
    r = np.clip(np.nan_to_num(r), -1, 1)
    np.fill_diagonal(r, 1.0)
    lowest = float(np.linalg.eigvalsh(r)[0])
    shrunk = 1.0 if lowest >= 0 else 1 / (1 - lowest)
    r = shrunk * r + (1 - shrunk) * np.eye(len(r))
    latent = r * scale
    noise = np.maximum(branches.variance - within, LEAST_NOISE * np.maximum(branches.variance, LEAST_NOISE))
    return Margin(branches.p - 0.5, latent, noise, shrunk)


def best_weights(law: Margin, k: ArrayLike) -> FloatArray:
    """Return the weights w >= 0 [A] of the branches' means that maximise (w'mu)^2 / (w'Sigma w); sum 1.

    Proportional to Sigma^-1 mu where that has no negative entry (the paper's GLS with gains mu). Otherwise
    the maximiser on the cone: that of w'mu - w'Sigma w / 2, by non-negative least squares, which is exact.
    Branches with k_a = 0 get none. All zero when no mu is positive among the rest.
    """
    paths = np.asarray(k, np.float64)
    out = np.zeros(len(law.mu))
    used = np.flatnonzero(paths > 0)
    if not used.size or law.mu[used].max() <= 0:
        return out
    sigma = law.latent[np.ix_(used, used)] + np.diag(law.noise[used] / paths[used])
    lower = np.linalg.cholesky(sigma)
    w, _ = nnls(lower.T, np.linalg.solve(lower, law.mu[used]))
    out[used] = w / w.sum()
    return out


def deflections(law: Margin, k: ArrayLike) -> FloatArray:
    """Return d^2 [M] of allocations k [M, A]: the most (w'mu)^2 / (w'Sigma w) over w >= 0.

    Phi(d) approximates the accuracy of the binary vote only.
    """
    paths = np.atleast_2d(np.asarray(k, np.float64))
    # Sigma^-1 = H (I + H latent H)^-1 H with H^2 = k / noise, which also holds where k = 0.
    h = np.sqrt(paths / law.noise)
    inner = np.eye(len(law.mu)) + h[:, :, None] * law.latent * h[:, None, :]
    w = h * np.linalg.solve(inner, (h * law.mu)[..., None])[..., 0]
    d2 = w @ law.mu
    for row in np.flatnonzero((w < 0).any(axis=1)):
        d2[row] = deflection(law, paths[row], best_weights(law, paths[row]))
    return d2


def deflection(law: Margin, k: ArrayLike, weights: ArrayLike) -> float:
    """Return d^2 = (w'mu)^2 / (w'Sigma w) of one allocation and weights; 0 without weights."""
    w, paths = np.asarray(weights, np.float64), np.asarray(k, np.float64)
    used = w > 0
    if not used.any() or w @ law.mu <= 0:
        return 0.0
    noise = np.where(used, law.noise / np.where(used, paths, 1), 0)
    return float((w @ law.mu) ** 2 / (w @ law.latent @ w + w**2 @ noise))


def k_eff_of_mix(law: Margin, k: ArrayLike) -> float:
    """Return how many independent paths of the best branch separate as well as the mix k [A].

    d^2 / max_a[(p_a - 1/2)^2 / s_a^2]: k / (1 + (k-1) c) for one branch. NaN when no p_a exceeds one half.
    """
    variance = np.diag(law.latent) + law.noise
    best = np.where(law.mu > 0, law.mu**2 / variance, 0).max(initial=0)
    return float(deflections(law, k)[0] / best) if best > 0 else float("nan")


def allocate(law: Margin, cost: ArrayLike, budget: float, k_max: ArrayLike) -> IntArray:
    """Return the paths by branch [A] with the most d^2 whose cost is within ``budget``.

    Tries all where the product of k_max + 1 is at most 50,000. Otherwise adds paths by d^2 per cost, from
    nothing and from each affordable single branch, then exchanges: drop up to two paths and refill.
    """
    prices, most = np.asarray(cost, np.float64), np.asarray(k_max, np.int64)
    find = _enumerate if float(np.prod(most + 1.0)) <= ENUMERATED else _search
    return find(law, prices, budget, most)


def _enumerate(law: Margin, cost: FloatArray, budget: float, most: IntArray) -> IntArray:
    every = np.array(list(product(*(range(limit + 1) for limit in most))), np.int64)
    # A mix that costs exactly the budget is within it, whatever its sum rounds to.
    every = every[every @ cost <= budget * (1 + 1e-12)]
    return every[int(np.argmax(deflections(law, every)))]


def _search(law: Margin, cost: FloatArray, budget: float, most: IntArray) -> IntArray:
    zero = np.zeros(len(cost), np.int64)
    starts = [zero]
    for a, price in enumerate(cost):
        whole = zero.copy()
        # Budgets such as 3 * 0.1 are a rounding error short of three paths.
        whole[a] = most[a] if price <= 0 else min(most[a], int(budget * (1 + 1e-12) / price))
        starts.append(whole)
    filled = np.array(sorted({tuple(_fill(law, cost, budget, most, k).tolist()) for k in starts}), np.int64)
    best = np.argsort(-deflections(law, filled), kind="stable")[:EXCHANGED]
    if len(cost) > MOST_EXCHANGED:
        return filled[best[0]]
    ends = np.array([_exchange(law, cost, budget, most, filled[row]) for row in best])
    return ends[int(np.argmax(deflections(law, ends)))]


def _fill(law: Margin, cost: FloatArray, budget: float, most: IntArray, k: IntArray) -> IntArray:
    """Add the path with most d^2 per cost until no path can be paid for."""
    k = k.copy()
    now = float(deflections(law, k)[0])
    while True:
        can = np.flatnonzero((k < most) & (k @ cost + cost <= budget * (1 + 1e-12)))
        if not can.size:
            return k
        d2 = deflections(law, k + np.eye(len(k), dtype=np.int64)[can])
        # A branch that is free comes first.
        best = int(np.argmax((d2 - now) / np.maximum(cost[can], 1e-300)))
        k[can[best]] += 1
        now = float(d2[best])


def _exchange(law: Margin, cost: FloatArray, budget: float, most: IntArray, k: IntArray) -> IntArray:
    best = float(deflections(law, k)[0])
    improved = True
    while improved:
        improved = False
        for size in (1, 2):
            for drop in combinations_with_replacement(range(len(k)), size):
                fewer = k - np.bincount(drop, minlength=len(k))
                if fewer.min() < 0:
                    continue
                for start in (fewer, *_with_one_more(fewer, drop, cost, budget, most)):
                    other = _fill(law, cost, budget, most, start)
                    d2 = float(deflections(law, other)[0])
                    # Allocations that differ by rounding only keep the first, so that an answer does not hang
                    # on the machine.
                    if d2 > best * (1 + 1e-9):
                        k, best, improved = other, d2, True
    return k


def _with_one_more(
    k: IntArray, drop: tuple[int, ...], cost: FloatArray, budget: float, most: IntArray
) -> list[IntArray]:
    """Return k with one path of each branch that was not dropped: greed would refill the same."""
    unit = np.eye(len(k), dtype=np.int64)
    return [
        k + unit[a]
        for a in range(len(k))
        if a not in drop and k[a] < most[a] and k @ cost + cost[a] <= budget * (1 + 1e-12)
    ]
