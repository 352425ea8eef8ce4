"""What intervals of c are made from: first-order influence, standard error and effective number of items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.betabinomial import betabinom_logpmf
from keff.stats.correlation import pooled_from_hist, unbias
from keff.stats.resampling import group_sums
from keff.stats.votes import FloatArray, IntArray, Votes, as_hist


@dataclass(frozen=True, slots=True)
class Summary:
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
    sums: IntArray | None = None

    @property
    def k(self) -> int:
        return self.hist.size - 1

    @property
    def degenerate(self) -> bool:
        return self.p in (0.0, 1.0)

    @property
    def scarce(self) -> bool:
        """Whether fewer than ten units' worth of right or of wrong answers make a normal limit hopeless."""
        return self.units * min(self.p, 1 - self.p) < 10


def summarise(source: Votes | ArrayLike) -> Summary:
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
        return Summary(hist, n, n, p, pooled, float(unbias(pooled, n, k)), se, float(n))
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


def _clustered(votes: Votes, hist: IntArray, p: float, pooled: float) -> Summary:
    ids, units, s = votes.cluster_ids, votes.n_clusters, votes.counts
    sums = group_sums(np.stack([np.ones_like(s), s, s * s], axis=1), ids, units)
    k, n = votes.k, votes.n
    values = influence(k, p, pooled)[s]
    items = _shrunken(values, ids, units)
    independent = _shrunken(s / k, ids, units)
    se = float(standard_error(hist, p, pooled)) * float(np.sqrt(n / items))
    return Summary(hist, n, units, p, pooled, float(unbias(pooled, independent, k)), se, items, sums)


def _shrunken(values: FloatArray, ids: IntArray, units: int) -> float:
    """Return n over the design effect of clusters for the mean of ``values`` [n], between G and n."""
    n, centred = values.size, values - values.mean()
    within = np.bincount(ids, weights=centred, minlength=units)
    rows, clusters = float(centred @ centred), float(within @ within) * units / max(units - 1, 1)
    return float(np.clip(n * rows / clusters, units, n)) if clusters > 0 else float(n)
