"""Plausible beta-binomial fits of a record: a Bayes grid, or a cluster bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri

from keff.stats.inference.influence import InfluenceSummary
from keff.stats.inference.resampling import resampled_totals
from keff.stats.models.betabinomial import log_likelihood, majority_curve
from keff.stats.models.learned import LAW_SD
from keff.stats.votes import FloatArray
from keff.stats.voting.correlation import pooled_from_sums, unbias

P_CELLS, C_CELLS = 111, 100
# logit of .99993: no workload is told from this by a pilot.
WIDEST_LOGIT = 9.5
# Cells of the grid with less posterior mass change no quantile.
NEGLIGIBLE = 1e-9
_NORMAL: FloatArray = np.asarray(ndtri((np.arange(21) + 0.5) / 21), np.float64)


@dataclass(frozen=True, slots=True)
class Fits:
    """Weighted pairs (p, c) that a record leaves plausible; ``p``, ``c`` and ``weight`` are [m]."""

    p: FloatArray
    c: FloatArray
    weight: FloatArray

    def majority(self, k_max: int) -> FloatArray:
        """Return the beta-binomial majority curve of every pair [m, k_max]."""
        return majority_curve(k_max, self.p, self.c)

    def majority_interval(self, values: ArrayLike, k: int, level: float = 0.95) -> tuple[float, float]:
        """Return the interval of the majority of ``k`` paths, whose fitted ``values`` [m] are given.

        Each is spread by the law's own error, normal on the logit scale with a standard deviation of
        ``stats.learned.LAW_SD`` for each unit of 1 - 2/k: one and two paths fix the accuracy alone.
        """
        spread = LAW_SD * max(1 - 2 / k, 0.0)
        share = np.clip(np.asarray(values, np.float64), 1e-12, 1 - 1e-12)
        if spread == 0:
            return self.interval(share, level)
        shifted = expit(logit(share)[:, None] + spread * _NORMAL)
        return Fits(
            np.repeat(self.p, _NORMAL.size),
            np.repeat(self.c, _NORMAL.size),
            np.repeat(self.weight, _NORMAL.size),
        ).interval(shifted.ravel(), level)

    def interval(self, values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
        """Return the equal-tailed interval of a quantity that takes ``values`` [m] at the pairs."""
        value, back = np.unique(np.asarray(values, float), return_inverse=True)
        weight = np.bincount(back, weights=self.weight)
        if value.size == 1:
            return float(value[0]), float(value[0])
        middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
        lo, hi = np.interp([(1 - level) / 2, (1 + level) / 2], middle, value)
        return float(lo), float(hi)


def bayes_fits(summary: InfluenceSummary) -> Fits:
    """Return the posterior of (p, c) on a grid, with Jeffreys' prior for p and a uniform one for c in [0, 1].

    111 values of logit p by 100 of arcsin sqrt c, on a box that closes in on the mass. Repeated clusters
    temper the likelihood to the effective number of items. All right or all wrong still bounds p. At c = 0
    the lower limit is positive by construction: no test of c = 0. For up to about 8 paths; beyond, the
    beta-binomial likelihood is not robust to other laws of difficulty.
    """
    box = (-WIDEST_LOGIT, WIDEST_LOGIT, 0.0, np.pi / 2)
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
    n, first, second = resampled_sums(summary, rng, reps)
    k = summary.k
    independent = n * summary.effective / summary.items
    c = unbias(pooled_from_sums(n, first, second, k), independent, k)
    c = np.clip(np.where(np.isnan(c), 1.0, c), 0.0, 1.0)
    return Fits(first / (n * k), c, np.full(reps, 1.0 / reps))


def resampled_sums(
    summary: InfluenceSummary, rng: np.random.Generator, reps: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return items, sum of S and sum of S^2 in ``reps`` resamples of the units, each [reps]."""
    if summary.sums is not None:
        n, first, second = resampled_totals(summary.sums, reps, rng)
        return n, first, second
    hist, s = resampled_hist(summary, rng, reps), np.arange(summary.k + 1, dtype=np.float64)
    return hist.sum(axis=1), hist @ s, hist @ (s * s)


def resampled_hist(summary: InfluenceSummary, rng: np.random.Generator, reps: int) -> FloatArray:
    """Return count histograms [reps, K+1] of resampled independent items, without going through the items."""
    return rng.multinomial(summary.items, summary.hist / summary.items, reps).astype(np.float64)


_Box = tuple[float, float, float, float]


def _posterior(summary: InfluenceSummary, box: _Box) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return p, c and unnormalised mass on a grid [P_CELLS, C_CELLS] over logit p and arcsin sqrt c."""
    scale = summary.effective / summary.items
    logit, angle = _midpoints(box[0], box[1], P_CELLS)[:, None], _midpoints(box[2], box[3], C_CELLS)[None, :]
    p, c = np.broadcast_arrays(1 / (1 + np.exp(-logit)), np.square(np.sin(angle)))
    log = scale * log_likelihood(summary.hist, p, c) + 0.5 * np.log(p * (1 - p)) + np.log(np.sin(2 * angle))
    return p, c, np.asarray(np.exp(log - log.max()), np.float64)


def _support(box: _Box, mass: FloatArray) -> _Box:
    """Return the part of the box that holds mass, one cell wider."""
    return (*_range(box[0], box[1], mass.sum(axis=1)), *_range(box[2], box[3], mass.sum(axis=0)))


def _range(low: float, high: float, mass: FloatArray) -> tuple[float, float]:
    inside, cell = np.flatnonzero(mass > 1e-7 * mass.sum()), (high - low) / mass.size
    return max(low, low + (int(inside[0]) - 1) * cell), min(high, low + (int(inside[-1]) + 2) * cell)


def _midpoints(low: float, high: float, cells: int) -> FloatArray:
    return low + (high - low) * (np.arange(cells) + 0.5) / cells
