"""The number of paths: K_eff, its ceiling and growth, K* with its interval, and the best pilot."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from keff.records import Estimate, Interval, frozen
from keff.stats.intervals import bootstrap_means
from keff.stats.votes import FloatArray, Votes, as_hist

# Range to which the paper's Algorithm 1 clips c.
CLIP = (0.05, 0.99)


def k_star(c: float, epsilon: float = 0.025, k_max: int = 32, clip: tuple[float, float] | None = CLIP) -> int:
    """Return the paper's K*: the least K at which one more path adds at most ``epsilon`` to K_eff.

    ceil((sqrt((1-c)/epsilon) - 1)/c + 1), at least 1 and at most ``k_max`` (Eq. 12, Algorithm 1). ``clip``
    bounds c first; None leaves it, as the paper's tables do, and then c <= 0 gives ``k_max``. A degenerate
    pilot (c NaN) gives ``k_max``. Raises ValueError for epsilon <= 0, k_max < 1 or c > 1.
    """
    if not epsilon > 0 or k_max < 1:
        raise ValueError("K* needs epsilon > 0 and K_max >= 1")
    if c > 1:
        raise ValueError("a correlation cannot exceed 1")
    if math.isnan(c):
        return k_max
    if clip is not None:
        c = min(max(c, clip[0]), clip[1])
    if c <= 0:
        return k_max
    exact = (math.sqrt((1 - c) / epsilon) - 1) / c + 1
    # Rounding must not push an exact integer up by one path.
    return min(max(math.ceil(exact - 1e-9), 1), k_max)


def k_star_interval(c: Estimate, epsilon: float = 0.025, k_max: int = 32) -> tuple[int, int]:
    """Return the interval of K* that an interval of c implies: [K*(hi), K*(lo)], for K* falls with c.

    Coverage carries over: K* at the lower limit of an 80% interval, which is one-sided 90%, is too few paths
    with probability 10%. Without an interval of c nothing is excluded: (1, k_max).
    """
    if c.lo is None or c.hi is None:
        return 1, k_max
    return k_star(min(c.hi, 1.0), epsilon, k_max), k_star(c.lo, epsilon, k_max)


# Queries to come, for which the paper counts the pilot's cost.
QUERIES = 1000


@frozen
class PilotCost:
    """Cost of ``star`` paths per question and the pilot, against ``full`` paths, as the paper counts it.

    ``net_cost`` = (star + K0)/full bills every question for a pilot of K0 paths; ``repaid_after`` is the
    number of questions after which the pilot is paid back (infinite where nothing is saved), and
    ``cost_at_1000`` the share of the full cost with the pilot spread over 1,000 questions.
    """

    net_cost: float
    repaid_after: float
    cost_at_1000: float


def pilot_cost(star: int, full: float, per_question: int, paths: int) -> PilotCost:
    """Return the cost of K* with a pilot of ``paths`` paths in all, ``per_question`` of each question."""
    return PilotCost(
        net_cost=(star + per_question) / full,
        repaid_after=math.inf if star >= full else float(math.ceil(paths / (full - star))),
        cost_at_1000=(paths + QUERIES * star) / (QUERIES * full),
    )


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


def k_eff_interval(k: ArrayLike, c: Interval) -> Interval:
    """Return K_eff of K votes with the interval that their correlation's leaves it."""
    return c.mapped(lambda value: float(k_eff(k, value)), f"from c ({c.method})")


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


def k_eff_deflection(
    votes: Votes, weights: FloatArray, seed: int = 0, voting: FloatArray | float = 1.0
) -> Interval:
    """Return K_eff by deflection: how many plain paths separate right from wrong as K weighted votes do.

    d^2 / d_1^2, with d^2 = (mean M)^2 / Var M of the margin M = sum of w_i (2 y_i - 1) over the paths of a
    question, y_i their correctness, and d_1^2 that of one path of weight 1, or 0 where it does not vote:
    ``voting`` [n, K]. ``weights`` [n, K] are not learned from the same questions; 0 is an abstention. With
    weights of ``voting`` K paths that err and abstain independently are worth K; with 1 it is
    K / (1 + (K - 1) c) at the pooled c, the paper's K_eff. 95% limits from 2,000 resamples of clusters.
    Raises ValueError without labels; NaN where one path is right half of the time.
    """
    sign = 2.0 * votes.scored() - 1.0
    margin, one = (weights * sign).sum(axis=1), voting * sign
    columns = np.stack([margin, margin**2, one.mean(axis=1), np.square(one).mean(axis=1)], axis=1)
    drawn = bootstrap_means(columns, votes.cluster_ids, np.random.default_rng(seed))

    def worth(means: FloatArray) -> FloatArray:
        mean, square, one, voted = np.moveaxis(means, -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(mean**2 / (square - mean**2) / (one**2 / (voted - one**2)))

    value, found = float(worth(columns.mean(axis=0))), worth(drawn)
    known = found[np.isfinite(found)]
    if not np.isfinite(value) or known.size < found.size / 2:
        return Interval(value, None, None, "deflection")
    lo, hi = np.quantile(known, [0.025, 0.975]).tolist()
    return Interval(value, min(lo, value), max(hi, value), "deflection, cluster_bootstrap")


# Paths a question up to which the best number is looked for; a c below about 1/63 wants more.
MOST = 64


@frozen
class PilotDesign:
    """The number of paths per question that measures c best, at a fixed number of paths in all.

    ``k`` is the best integer (2..64), ``exact`` the real one, ``limit`` (1 + c)/c, what it tends to for
    even odds and small c; ``loss`` is by how much the standard error of c grows at 2, 3, 4, 6, 8, 12, 16
    paths per question (0 at the best). It is the best design for c, not for choosing a number of paths:
    curves of votes need more paths per question.
    """

    k: int
    exact: float
    limit: float
    loss: dict[int, float]


def pilot_design(p: float, c: float) -> PilotDesign:
    """Return the pilot design that estimates c best, for beta questions of mean ``p`` and correlation ``c``.

    Raises ValueError for p outside (0, 1) or c outside (0, 1).
    """
    if not (0 < p < 1 and 0 < c < 1):
        raise ValueError("a pilot is designed for an accuracy and a correlation between 0 and 1")
    constant, _, pairs = _parts(p, c)
    # Numbers of paths that people draw in pilots.
    shown = np.array([2, 3, 4, 6, 8, 12, 16])
    ks = np.arange(2, MOST + 1)
    cost = ks * variance_of_c(p, c, ks)
    loss = np.sqrt(shown * variance_of_c(p, c, shown) / cost.min()) - 1
    return PilotDesign(
        k=int(ks[np.argmin(cost)]),
        exact=1 + math.sqrt(pairs / constant),
        limit=(1 + c) / c,
        loss={int(k): float(value) for k, value in zip(shown, loss, strict=True)},
    )


def variance_of_c(p: float, c: float, k: ArrayLike) -> FloatArray:
    """Return n times the asymptotic variance of the estimated c from n questions of k paths.

    A + B/k + D/(k(k-1)), exact for the first-order influence of a question under the beta law:
    with h = theta^2 - a theta, a = 2p + c(1-2p), q = 1-theta and T = p(1-p),
    A = Var(h)/T^2, B = E[theta q (2 theta - a)^2]/T^2 and D = 2 E[theta^2 q^2]/T^2.
    Hence k(A + B/k + D/(k(k-1))), the variance at a fixed number of paths, is least at k = 1 + sqrt(D/A).
    """
    k = np.asarray(k, np.float64)
    constant, single, pairs = _parts(p, c)
    return constant + single / k + pairs / (k * (k - 1))


def _parts(p: float, c: float) -> tuple[float, float, float]:
    """Return the terms A, B and D of ``variance_of_c``, from the first four moments of the beta law."""
    steps = [(p * (1 - c) + i * c) / ((1 - c) + i * c) for i in range(4)]
    first, second, third, fourth = np.cumprod(steps).tolist()
    scale = (p * (1 - p)) ** 2
    a = 2 * p + c * (1 - 2 * p)
    constant = fourth - 2 * a * third + a * a * second - (second - a * first) ** 2
    single = 4 * (third - fourth) - 4 * a * (second - third) + a * a * (first - second)
    pairs = 2 * (second - 2 * third + fourth)
    return constant / scale, single / scale, pairs / scale
