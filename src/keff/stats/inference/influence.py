"""What intervals of c are made from: first-order influence, standard error and effective number of items."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.models.betabinomial import betabinom_logpmf
from keff.stats.scores.runs import cross_from_totals, run_sums
from keff.stats.votes import FloatArray, IntArray, Votes, as_hist
from keff.stats.voting.correlation import pooled_from_hist, unbias


@dataclass(frozen=True, slots=True)
class InfluenceSummary:
    """Counts and first-order facts about c.

    ``hist`` N_0..N_K; ``items`` rows; ``units`` independent clusters; ``p`` mean accuracy; ``pooled`` and
    ``adjusted`` c; ``se`` its standard error from influence values, summed within clusters; ``effective``
    the number of independent items that would give the same standard error of c. All NaN but ``p`` when
    every path is right or wrong. ``sums`` [G, 3] are rows, sum of S and sum of S^2 of each cluster, None
    when no cluster repeats.
    """

    hist: IntArray
    items: int
    units: int
    p: float
    pooled: float
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

    @property
    def scarce(self) -> bool:
        """Whether fewer than ten units' worth of right or of wrong answers make a normal limit hopeless."""
        return self.units * min(self.p, 1 - self.p) < 10


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
        se = float(standard_error(hist, p, pooled))
        return InfluenceSummary(hist, n, n, p, pooled, float(unbias(pooled, n, k)), se, float(n))
    return _clustered(source, hist, p, pooled)


def influence(k: int, p: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return the influence on c of an item with s = 0..K correct paths [..., K+1], up to its mean.

    [w - (2p + c(1-2p)) u] / (p(1-p)) with u = s/K and w = s(s-1)/(K(K-1)).
    """
    p, c = np.asarray(p, float)[..., None], np.asarray(c, float)[..., None]
    s = np.arange(k + 1, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (s * (s - 1) / (k * (k - 1)) - (2 * p + c * (1 - 2 * p)) * s / k) / (p * (1 - p))


def standard_error(hist: ArrayLike, p: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return the standard error of c [...] for histograms [..., K+1] of independent items."""
    weights = np.asarray(hist, float)
    n = weights.sum(axis=-1)
    values = influence(weights.shape[-1] - 1, p, c)
    mean = np.sum(weights * values, axis=-1) / n
    spread = np.sum(weights * np.square(values - mean[..., None]), axis=-1)
    return np.sqrt(spread / (n * (n - 1)))


def model_variance(k: int, p: float, c: FloatArray) -> FloatArray:
    """Return the variance of the influence of one item under the beta-binomial with mean p, at each c [m]."""
    law = np.exp(betabinom_logpmf(k, p, c))
    values = influence(k, p, c)
    mean = np.sum(law * values, axis=-1, keepdims=True)
    return np.sum(law * np.square(values - mean), axis=-1)


def _clustered(votes: Votes, hist: IntArray, p: float, pooled: float) -> InfluenceSummary:
    n, k, units = votes.n, votes.k, votes.n_clusters
    sums = run_sums(votes)
    values, s = influence(k, p, pooled)[votes.counts], votes.counts / k
    ids = votes.cluster_ids
    se = math.sqrt(_squared_totals(values, ids, units)) / n
    deviation = s - s.mean()
    spread = _squared_totals(s, ids, units)
    independent = n * float(deviation @ deviation) / spread if spread > 0 else float(n)
    adjusted = float(unbias(pooled, np.clip(independent, units, n), k))
    return InfluenceSummary(
        hist, n, units, p, pooled, adjusted, se, _effective(sums, p, adjusted, k), sums[:, :3]
    )


def _squared_totals(values: FloatArray, ids: IntArray, units: int) -> float:
    """Return the sum of squares of cluster totals about the mean, times G/(G-1)."""
    totals = np.bincount(ids, weights=values - values.mean(), minlength=units)
    return float(totals @ totals) * units / max(units - 1, 1)


def _effective(sums: FloatArray, p: float, c: float, k: int) -> float:
    """Return how many independent items would give c the same standard error, between n/R and n.

    The model's variance with rows of a cluster independent, and with them as further paths of one item, mixed
    by how far paths correlate across rows. Steadier than a ratio of observed variances when p is extreme.
    """
    rows, repeats = float(sums[:, 0].sum()), float(np.square(sums[:, 0]).sum() / sums[:, 0].sum())
    if not 0 < p < 1 or repeats <= 1:
        return rows
    cross = float(cross_from_totals(sums.sum(axis=0), k))
    shared = min(max(cross / c, 0.0), 1.0) if c > 0 else 1.0
    at = np.array([min(max(c, 0.0), 0.999)])
    apart = float(model_variance(k, p, at)[0])
    together = repeats * float(model_variance(round(k * repeats), p, at)[0])
    return rows * apart / ((1 - shared) * apart + shared * max(together, apart))
