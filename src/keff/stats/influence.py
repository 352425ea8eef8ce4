"""Influence function and standard error of c, and posteriors of its beta-binomial fit, for intervals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri

from keff.records import frozen
from keff.stats.models.betabinomial import betabinom_logpmf, log_likelihood, majority_curve
from keff.stats.resampling import clustered_variance, group_sums, resampled_totals
from keff.stats.votes import FloatArray, IntArray, Votes, as_hist
from keff.stats.voting.correlation import pooled_from_hist, pooled_from_sums, unbias

# Standard deviation of what the beta-binomial law errs in logit majority@k, for each unit of 1 - 2/k. Learned
# by ``benchmarks.constants.learn_gain``; .10 to .15 where any one family of workloads is left out.
LAW_SD = 0.139


def cross_run_c(votes: Votes) -> float:
    """Return c over pairs of paths of one item from different runs.

    Rows that share a cluster are taken as repeats of one item. (J - p^2) / (p(1-p)) with J the share of
    right-right among pairs of paths from different rows of a cluster. The within-run companion is
    ``pooled_c``, which is what a deployment meets; both agree up to noise when a run has no effect of its
    own. NaN when no cluster repeats, or when all is right or wrong.
    """
    return float(cross_from_totals(run_sums(votes).sum(axis=0), votes.k))


def run_sums(votes: Votes) -> FloatArray:
    """Return sufficient statistics of cross-run c by cluster [G, 5]: R, S, S^2, cross products, R(R-1)."""
    s = votes.counts.astype(np.float64)
    rows = group_sums(np.stack([np.ones_like(s), s, s * s], axis=1), votes.cluster_ids, votes.n_clusters)
    crossed = np.square(rows[:, 1]) - rows[:, 2]
    return np.column_stack([rows, crossed, rows[:, 0] * (rows[:, 0] - 1)])


def cross_from_totals(totals: FloatArray, k: int) -> FloatArray:
    """Return the cross-run c [...] from totals [5, ...] of ``run_sums``; NaN without repeats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        p = totals[1] / (totals[0] * k)
        return (totals[3] / (totals[4] * k * k) - p * p) / (p * (1 - p))


@frozen
class InfluenceSummary:
    """Counts, bias-corrected c, and its standard error by the influence function.

    ``hist`` N_0..N_K; ``items`` rows; ``units`` independent clusters; ``p`` mean accuracy; ``adjusted`` the
    bias-corrected c; ``se`` its standard error from influence values, summed within clusters; ``effective``
    the number of independent items that would give the same standard error of c. All NaN but ``p`` when
    every path is right or wrong. ``sums`` [G, 3] are rows, sum of S and sum of S^2 of each cluster, None
    when no cluster repeats.
    """

    hist: IntArray
    items: int
    units: int
    p: float
    adjusted: float
    se: float
    effective: float
    sums: FloatArray | None = None

    @property
    def k(self) -> int:
        """Paths per item."""
        return self.hist.size - 1

    @property
    def degenerate(self) -> bool:
        """Whether every path is right, or every path wrong."""
        return self.p in (0.0, 1.0)


def summarise(source: Votes | ArrayLike) -> InfluenceSummary:
    """Return the summary of votes, or of a count histogram of independent items.

    Raises ValueError for one path or one item.
    """
    hist = as_hist(source)
    k, n = hist.size - 1, int(hist.sum())
    if k < 2 or n < 2:
        raise ValueError("correlation needs at least two paths per item and at least two items")
    p, pooled = float(hist @ np.arange(k + 1)) / (n * k), float(pooled_from_hist(hist))
    if not isinstance(source, Votes) or source.n_clusters == n:
        values = influence(k, p, pooled)
        se = math.sqrt(float(hist @ np.square(values - hist @ values / n)) / (n * (n - 1)))
        return InfluenceSummary(hist, n, n, p, float(unbias(pooled, n, k)), se, float(n))
    return _summarise_clusters(source, hist, p, pooled)


def influence(k: int, p: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return the influence function of c at s = 0..K correct paths [..., K+1], up to its mean.

    [w - (2p + c(1-2p)) u] / (p(1-p)) with u = s/K and w = s(s-1)/(K(K-1)).
    """
    p, c = np.asarray(p, float)[..., None], np.asarray(c, float)[..., None]
    s = np.arange(k + 1, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (s * (s - 1) / (k * (k - 1)) - (2 * p + c * (1 - 2 * p)) * s / k) / (p * (1 - p))


def model_variance(k: int, p: float, c: FloatArray) -> FloatArray:
    """Return the variance of one item's influence under the beta-binomial with mean p, at each c [m]."""
    law = np.exp(betabinom_logpmf(k, p, c))
    values = influence(k, p, c)
    mean = np.sum(law * values, axis=-1, keepdims=True)
    return np.sum(law * np.square(values - mean), axis=-1)


def _summarise_clusters(votes: Votes, hist: IntArray, p: float, pooled: float) -> InfluenceSummary:
    n, k, units = votes.n, votes.k, votes.n_clusters
    sums = run_sums(votes)
    values, s = influence(k, p, pooled)[votes.counts], votes.counts / k
    ids = votes.cluster_ids
    se = math.sqrt(clustered_variance(values, ids))
    deviation = s - s.mean()
    spread = clustered_variance(s, ids)
    independent = float(deviation @ deviation) / n / spread if spread > 0 else float(n)
    adjusted = float(unbias(pooled, np.clip(independent, units, n), k))
    return InfluenceSummary(
        hist, n, units, p, adjusted, se, _effective_items(sums, p, adjusted, k), sums[:, :3]
    )


def _effective_items(sums: FloatArray, p: float, c: float, k: int) -> float:
    """Return the effective number of independent items for c's standard error, between n/R and n.

    The model's variance with rows of a cluster independent, and with them as further paths of one item, mixed
    by how far paths correlate across rows. Steadier than a ratio of observed variances when p is extreme.
    """
    rows, repeats = float(sums[:, 0].sum()), float(np.square(sums[:, 0]).sum() / sums[:, 0].sum())
    if not 0 < p < 1 or repeats <= 1:
        return rows
    cross = float(cross_from_totals(sums.sum(axis=0), k))
    shared = min(max(cross / c, 0.0), 1.0) if c > 0 else 1.0
    # The model's variance is that of a proper law: at c = 1 it has none.
    at = np.array([min(max(c, 0.0), 0.999)])
    apart = float(model_variance(k, p, at)[0])
    together = repeats * float(model_variance(round(k * repeats), p, at)[0])
    return rows * apart / ((1 - shared) * apart + shared * max(together, apart))


# Cells of the grid: quantiles are interpolated between them, and finer ones cost time alone.
P_CELLS, C_CELLS = 111, 100
# logit of .99993: no workload is told from this by a pilot.
WIDEST_LOGIT = 9.5
# Values between the limits of a quantity are told apart by so many bins before they are sorted.
BINS = 2**12
# Cells of the grid with less posterior mass change no quantile.
NEGLIGIBLE = 1e-9
# A normal distribution as 21 values of equal weight, at the middles of its quantiles.
_NORMAL: FloatArray = np.asarray(ndtri((np.arange(21) + 0.5) / 21), np.float64)


@frozen
class Fits:
    """Weighted draws of (p, c) from a posterior or bootstrap; ``p``, ``c`` and ``weight`` are [m]."""

    p: FloatArray
    c: FloatArray
    weight: FloatArray

    def majority(self, k_max: int) -> FloatArray:
        """Return the beta-binomial majority curve of every draw [m, k_max]."""
        return majority_curve(k_max, self.p, self.c)

    def majority_interval(self, values: ArrayLike, k: int, level: float = 0.95) -> tuple[float, float]:
        """Return the interval of ``k`` paths' majority accuracy, from its ``values`` [m] by draw.

        Each is spread by the law's own error, normal on the logit scale with a standard deviation of
        ``LAW_SD`` for each unit of 1 - 2/k: one and two paths fix the accuracy alone.
        """
        spread = LAW_SD * max(1 - 2 / k, 0.0)
        # The logit of a certain majority is infinite.
        share = np.clip(np.asarray(values, np.float64), 1e-12, 1 - 1e-12)
        if spread == 0:
            return self.interval(share, level)
        shifted = logit(share)[:, None] + spread * _NORMAL
        low, high = _weighted_interval(shifted.ravel(), np.repeat(self.weight, _NORMAL.size), level)
        return float(expit(low)), float(expit(high))

    def interval(self, values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
        """Return the equal-tailed interval of a quantity from its ``values`` [m] by draw."""
        return _weighted_interval(np.asarray(values, np.float64), self.weight, level)


def _weighted_interval(value: FloatArray, weight: FloatArray, level: float) -> tuple[float, float]:
    """Return the equal-tailed interval of values [m] with weights [m]."""
    low, high = float(value.min()), float(value.max())
    if low == high:
        return low, high
    # Not all of them need be sorted, a fifteenth of a short analysis: those of the bin that holds a limit do,
    # and of its neighbours.
    bins = ((value - low) * (BINS / (high - low))).astype(np.int32)
    mass: FloatArray = np.bincount(bins, weight).astype(np.float64)
    filled: list[int] = np.flatnonzero(mass).tolist()
    upto = np.cumsum(mass)
    limits: list[float] = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        at = int(np.searchsorted(upto[filled], share * float(upto[-1])))
        first, last = filled[max(at - 1, 0)], filled[min(at + 1, len(filled) - 1)]
        near = (bins >= first) & (bins <= last)
        kinds, back = np.unique(value[near], return_inverse=True)
        own = np.bincount(back, weight[near])
        middle = upto[first] - mass[first] + np.cumsum(own) - 0.5 * own
        limits += map(float, np.interp([share * float(upto[-1])], middle, kinds))
    return limits[0], limits[1]


def bayes_fits(summary: InfluenceSummary) -> Fits:
    """Return the posterior of (p, c) on a grid, with Jeffreys' prior for p and a uniform one for c in [0, 1].

    111 values of logit p by 100 of arcsin sqrt c, on a box that closes in on the mass. Repeated clusters
    temper the likelihood to the effective number of items. All right or all wrong still bounds p. At c = 0
    the lower limit is positive by construction: no test of c = 0. For up to about 8 paths; beyond, the
    beta-binomial likelihood is not robust to other laws of difficulty.
    """
    box = (-WIDEST_LOGIT, WIDEST_LOGIT, 0.0, np.pi / 2)
    # A box shrinks to half at each step, or the loop ends: eight leave a few thousandths of the plane.
    for _ in range(8):
        closer = _support(box, _posterior(summary, box)[2])
        if (closer[1] - closer[0]) * (closer[3] - closer[2]) > 0.5 * (box[1] - box[0]) * (box[3] - box[2]):
            break
        box = closer
    p, c, mass = _posterior(summary, box)
    keep = mass > NEGLIGIBLE
    return Fits(p[keep], c[keep], mass[keep] / float(mass[keep].sum()))


def bootstrap_fits(summary: InfluenceSummary, rng: np.random.Generator, reps: int = 2000) -> Fits:
    """Return moment fits of ``reps`` resamples of the independent units, c clipped to [0, 1].

    Units are count bins when no cluster repeats (cost independent of n), else clusters. A resample that is
    all right or all wrong counts as c = 1.
    """
    s = np.arange(summary.k + 1, dtype=np.float64)
    bins = np.stack([np.ones_like(s), s, s * s], axis=1)
    units = (bins, summary.hist) if summary.sums is None else (summary.sums, None)
    n, first, second = resampled_totals(units[0], reps, rng, units[1])
    k = summary.k
    independent = n * summary.effective / summary.items
    c = unbias(pooled_from_sums(n, first, second, k), independent, k)
    c = np.clip(np.where(np.isnan(c), 1.0, c), 0.0, 1.0)
    return Fits(first / (n * k), c, np.full(reps, 1.0 / reps))


_Box = tuple[float, float, float, float]


def _posterior(summary: InfluenceSummary, box: _Box) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return p, c and posterior mass on a grid [P_CELLS, C_CELLS] of logit p and arcsin sqrt c."""
    scale = summary.effective / summary.items
    logit, angle = _midpoints(box[0], box[1], P_CELLS)[:, None], _midpoints(box[2], box[3], C_CELLS)[None, :]
    p, c = 1 / (1 + np.exp(-logit)), np.square(np.sin(angle))
    log = scale * log_likelihood(summary.hist, p, c) + 0.5 * np.log(p * (1 - p)) + np.log(np.sin(2 * angle))
    p, c = np.broadcast_arrays(p, c)
    return p, c, np.asarray(np.exp(log - log.max()), np.float64)


def _support(box: _Box, mass: FloatArray) -> _Box:
    """Return the part of the grid that holds posterior mass, one cell wider."""
    return (*_range(box[0], box[1], mass.sum(axis=1)), *_range(box[2], box[3], mass.sum(axis=0)))


def _range(low: float, high: float, mass: FloatArray) -> tuple[float, float]:
    # The finer grid covers what holds nearly all of the mass; its tails move no quantile of 95%.
    inside, cell = np.flatnonzero(mass > 1e-7 * mass.sum()), (high - low) / mass.size
    return max(low, low + (int(inside[0]) - 1) * cell), min(high, low + (int(inside[-1]) + 2) * cell)


def _midpoints(low: float, high: float, cells: int) -> FloatArray:
    return low + (high - low) * (np.arange(cells) + 0.5) / cells
