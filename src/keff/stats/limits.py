"""Limits of c by each method, for ``keff.stats.intervals``."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from keff.records import Note
from keff.stats.betabinomial import prentice_bound
from keff.stats.correlation import pooled_from_hist, pooled_from_sums, unbias
from keff.stats.fits import resampled_hist, resampled_sums
from keff.stats.influence import InfluenceSummary, influence, model_variance, standard_error
from keff.stats.votes import FloatArray

Limits = tuple[float | None, float | None, tuple[Note, ...]]
"""Lower and upper limit, None where withheld, and why."""


def hybrid_wilson(summary: InfluenceSummary, level: float) -> Limits:
    """Every c with |c_adj - c| <= t_{G-1} max(model's, observed standard error), as a hull.

    The model's error is that of the beta-binomial at (p, c) with the effective number of items, as Wilson's
    interval takes the variance at the value tested; the grid runs from the least admissible c to 1. An empty
    hull (slots more different than chance) gives no interval and the warning ``model_rejected``.
    """
    k, centre = summary.k, summary.adjusted
    lowest = float(prentice_bound(k, summary.p))
    around = min(max(centre, lowest), 1.0)
    own = model_variance(k, summary.p, np.array([around]))[0] / max(summary.effective - 1, 1)
    near = around + math.sqrt(max(float(own), summary.se**2)) * np.linspace(-12, 12, 241)
    grid = np.unique(np.clip(np.concatenate([np.linspace(lowest, 1, 601), near, [around]]), lowest, 1.0))
    variance = np.maximum(model_variance(k, summary.p, grid) / max(summary.effective - 1, 1), summary.se**2)
    quantile = float(stdtrit(summary.units - 1, (1 + level) / 2))
    excess = np.abs(grid - centre) - quantile * np.sqrt(variance)
    inside = np.flatnonzero(excess <= 0)
    if inside.size == 0:
        line = "Paths of an item are more different than any exchangeable votes can be: no interval is given."
        return None, None, (Note("model_rejected", line),)
    return _crossing(grid, excess, inside[0], -1), _crossing(grid, excess, inside[-1], 1), ()


def _crossing(grid: FloatArray, excess: FloatArray, edge: int, step: int) -> float:
    """Return where ``excess`` crosses zero between the outermost accepted point and its neighbour."""
    other = edge + step
    if not 0 <= other < grid.size:
        return float(grid[edge])
    share = -excess[edge] / (excess[other] - excess[edge])
    return float(grid[edge] + share * (grid[other] - grid[edge]))


def percentile(summary: InfluenceSummary, level: float, rng: np.random.Generator, reps: int) -> Limits:
    """Percentiles of c over resampled count bins, or clusters where they repeat (Efron)."""
    if summary.scarce:
        return None, None, (_SCARCE,)
    n, first, second = resampled_sums(summary, rng, reps)
    pooled = pooled_from_sums(n, first, second, summary.k)
    # The correction of the whole record: resampling adds a bias of its own that percentiles must not undo.
    drawn = pooled + (summary.adjusted - summary.pooled)
    lo, hi = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(lo), float(min(hi, 1.0)), ()


def bca(summary: InfluenceSummary, level: float, rng: np.random.Generator, reps: int) -> Limits:
    """Percentiles corrected for bias and acceleration, the latter from influence values (Efron 1987)."""
    if summary.scarce:
        return None, None, (_SCARCE,)
    hist = resampled_hist(summary, rng, reps)
    drawn = unbias(pooled_from_hist(hist), summary.items, summary.k)
    drawn = np.asarray(drawn[~np.isnan(drawn)], np.float64)
    values = influence(summary.k, summary.p, summary.pooled)
    values = values - summary.hist @ values / summary.items
    spread = float(summary.hist @ np.square(values))
    if spread == 0:
        return None, None, (_NO_SPREAD,)
    bend = float(summary.hist @ values**3) / (6 * spread**1.5)
    below = float(np.mean(0.5 + 0.5 * np.sign(summary.adjusted - drawn)))
    shift = float(ndtri(min(max(below, 1 / reps), 1 - 1 / reps)))
    limits: list[float] = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        tail = shift + float(ndtri(share))
        moved = 0.5 * math.erfc(-(shift + tail / (1 - bend * tail)) / math.sqrt(2))
        limits.append(float(np.quantile(drawn, moved)))
    return limits[0], limits[1], ()


def bootstrap_t(summary: InfluenceSummary, level: float, rng: np.random.Generator, reps: int) -> Limits:
    """Studentised limits on the scale half log((1+(K-1)c)/(1-c)), which steadies the variance of c."""
    k = summary.k
    if summary.se == 0 or summary.adjusted <= -1 / (k - 1):
        return None, None, (_NO_SPREAD,)
    hist = resampled_hist(summary, rng, reps)
    pooled = pooled_from_hist(hist)
    drawn = unbias(pooled, summary.items, k)
    share = hist @ np.arange(k + 1) / (summary.items * k)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = standard_error(hist, share, pooled) * _z_slope(k, drawn)
        ratio = (_z(k, drawn) - _z(k, summary.adjusted)) / width
    low, high = np.quantile(ratio[np.isfinite(ratio)], [(1 - level) / 2, (1 + level) / 2])
    scale = summary.se * float(_z_slope(k, summary.adjusted))
    centre = float(_z(k, summary.adjusted))
    return _from_z(k, centre - high * scale), _from_z(k, centre - low * scale), ()


def _z(k: int, c: ArrayLike) -> FloatArray:
    c = np.asarray(c, float)
    return np.asarray(0.5 * np.log((1 + (k - 1) * c) / (1 - c)))


def _z_slope(k: int, c: ArrayLike) -> FloatArray:
    c = np.asarray(c, float)
    return np.asarray(0.5 * k / ((1 - c) * (1 + (k - 1) * c)))


def _from_z(k: int, z: float) -> float:
    ratio = math.exp(2 * min(z, 300.0))
    return (ratio - 1) / (ratio + k - 1)


_SCARCE = Note(
    "too_few_right_or_wrong",
    "Fewer than ten units' worth of right or of wrong answers: resampling limits would mislead.",
)
_NO_SPREAD = Note("no_spread", "Items do not vary enough for this method: use hybrid_wilson.")
