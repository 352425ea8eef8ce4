"""Intervals for c, for the predicted majority vote, and for means over items."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from keff.records import Estimate, Interval, Note, frozen
from keff.stats.influence import (
    Fits,
    InfluenceSummary,
    bayes_fits,
    bootstrap_fits,
    model_variance,
    summarise,
)
from keff.stats.models.betabinomial import prentice_bound
from keff.stats.resampling import (
    clustered_variance,
    group_sums,
    resampled_totals,
)
from keff.stats.votes import FloatArray, IntArray, Votes, cluster_numbers
from keff.stats.voting.alike import vote_patterns


def hybrid_wilson(summary: InfluenceSummary, level: float) -> tuple[float, float] | None:
    """Return the hull of all c with |c_adj - c| <= t_{G-1} max(model, observed standard error).

    The model's error is that of the beta-binomial at (p, c) with the effective number of items, as Wilson's
    interval takes the variance at the value tested; the grid runs from the least admissible c to 1. An empty
    hull (slots more different than chance) gives None.
    """
    k, centre = summary.k, summary.adjusted
    lowest = float(prentice_bound(k, summary.p))
    around = min(max(centre, lowest), 1.0)
    own = model_variance(k, summary.p, np.array([around]))[0] / max(summary.effective - 1, 1)
    # Tenths of a standard error around the estimate, where limits of any usual level lie, and all of the rest
    # coarsely, for a hull that reaches further.
    near = around + math.sqrt(max(float(own), summary.se**2)) * np.linspace(-12, 12, 241)
    grid = np.sort(np.clip(np.concatenate([np.linspace(lowest, 1, 601), near, [around]]), lowest, 1.0))
    variance = np.maximum(model_variance(k, summary.p, grid) / max(summary.effective - 1, 1), summary.se**2)
    quantile = float(stdtrit(summary.units - 1, (1 + level) / 2))
    excess = np.abs(grid - centre) - quantile * np.sqrt(variance)
    inside = np.flatnonzero(excess <= 0)
    if inside.size == 0:
        return None
    return _crossing(grid, excess, inside[0], -1), _crossing(grid, excess, inside[-1], 1)


def _crossing(grid: FloatArray, excess: FloatArray, edge: int, step: int) -> float:
    """Return the root of ``excess`` between the outermost accepted grid point and its neighbour."""
    other = edge + step
    if not 0 <= other < grid.size:
        return float(grid[edge])
    share = -excess[edge] / (excess[other] - excess[edge])
    return float(grid[edge] + share * (grid[other] - grid[edge]))


# Fewer units than this are too few to resample.
FEW_UNITS = 10
# The beta-binomial is trusted where few paths are seen; with more the data speak for themselves.
BAYES_PATHS = 8


def interval_c(source: Votes | ArrayLike, level: float = 0.95) -> Estimate:
    """Return the bias-corrected c with a two-sided interval, ``hybrid_wilson``.

    ``source`` is votes, or the count histogram N_0..N_K of independent items. The interval holds every c with
    |c_adj - c| <= t_{G-1} times the larger of the standard error under the beta-binomial at (p, c) and the
    one from influence values. Items that share a cluster are never taken as independent: it uses the
    effective number of items. Raises ValueError for one path or one item.
    """
    summary = summarise(source)
    if not 0 < level < 1:
        raise ValueError("the level of an interval lies between 0 and 1")
    c, notes, limits = summary.adjusted, _notes(summary), None
    if not summary.degenerate and summary.units > 1:
        limits = hybrid_wilson(summary, level)
        if limits is None:
            text = "Paths of a question differ more than exchangeable votes can, so keff gives no interval."
            notes.append(Note("model_rejected", text))
    # A few items can put c below the least that exchangeable votes of their accuracy allow.
    lo, hi = (None, None) if limits is None else (min(limits[0], c), max(limits[1], c))
    return Estimate(c, lo, hi, "hybrid_wilson", summary.units, summary.k, tuple(notes))


def majority_method(k: int) -> str:
    """Return which method makes intervals of a predicted majority vote from ``k`` recorded paths."""
    return "bayes" if k <= BAYES_PATHS else "cluster_bootstrap"


def majority_fits(source: Votes | ArrayLike) -> Fits:
    """Return draws of (p, c) by the method of ``majority_method``, for functions of both.

    For instance the gap between two K: ``fits.interval(curve[:, 31] - curve[:, 0])`` with
    ``curve = fits.majority(32)``.
    """
    summary = summarise(source)
    if majority_method(summary.k) == "bayes":
        return bayes_fits(summary)
    return bootstrap_fits(summary, np.random.default_rng(0))


@frozen
class SampleMean:
    """Mean of one value per question, and its variance where whole clusters are sampled.

    ``units`` are the clusters, the independent ones.
    """

    value: float
    variance: float
    units: int

    @classmethod
    def of(
        cls, values: ArrayLike, clusters: ArrayLike | None = None, counts: IntArray | None = None
    ) -> SampleMean:
        """Return the mean of values [n] in ``clusters`` [n] (None: each its own).

        ``counts`` [n] say how many questions, each a cluster of its own, have each value.
        """
        data = np.asarray(values, float)
        if counts is None:
            ids = cluster_numbers(clusters, data.size)
            return cls(float(data.mean()), clustered_variance(data, ids), int(ids.max()) + 1)
        units = int(counts.sum())
        mean = float(counts @ data) / units
        return cls(mean, float(counts @ np.square(data - mean)) / max(units - 1, 1) / units, units)

    def half(self, level: float, more: float = 0.0, freedom: float | None = None) -> float:
        """Return half the width of the t interval; ``more`` is variance that the values do not show.

        Of t there are ``freedom`` degrees (default: units - 1).
        """
        degrees = self.units - 1 if freedom is None else freedom
        return float(stdtrit(degrees, (1 + level) / 2)) * math.sqrt(self.variance + more)


def interval_mean(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    *,
    counts: IntArray | None = None,
) -> Estimate:
    """Return the mean of one cost per question [n] with a cluster-robust t interval.

    As ``SampleMean.of``. When no unit differs from the mean the interval has no width and the warning
    ``no_variation`` says so; with one unit there is none.
    """
    mean = SampleMean.of(values, clusters, counts)
    if mean.units < 2:
        return Estimate(mean.value, None, None, "cluster_t", mean.units, 1, (_ONE_UNIT,))
    half = mean.half(level)
    notes = (
        ()
        if half > 0
        else (Note("no_variation", "Every question has the same value, so the interval has no width."),)
    )
    lo, hi = mean.value - half, mean.value + half
    return Estimate(mean.value, lo, hi, "cluster_t", mean.units, 1, notes)


# By how much two imagined units differ, one to either side, beside the differences that were seen: a rule
# that changed nothing on ten questions may still change something on the next.
IMAGINED = 0.25

PAIRED = "paired, cluster t"


def paired_difference(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    *,
    counts: IntArray | None = None,
    noise: float = 0.0,
    answer: float = 0.0,
    freedom: float | None = None,
) -> Interval:
    """Return the mean of paired differences of shares [n] with a t interval over clusters.

    Two imagined units with differences of +1/4 and -1/4 are added to the sum of squares (``IMAGINED``), or
    larger ones where a single ``answer`` weighs more: +1 and -1 of single answers, as in Bonett and Price
    (2012). With a quarter intervals of single answers cover 84% in places. ``noise`` is the variance of the
    mean that the values do not show, such as that of random orders, ``freedom`` the degrees of t (default:
    units - 1). Arguments otherwise as ``SampleMean.of``; no limits for one unit.
    """
    mean = SampleMean.of(values, clusters, counts)
    if mean.units < 2:
        return Interval(mean.value, None, None, "one cluster")
    half = mean.half(level, 2 * (max(IMAGINED, answer) / mean.units) ** 2 + noise, freedom)
    return Interval(mean.value, max(mean.value - half, -1.0), min(mean.value + half, 1.0), PAIRED)


# With fewer questions' worth of right or of wrong answers the spread seen among questions is no guide: then
# no share is taken to be better known than from one answer to each question.
SCARCE = 10


SHARE = "Wilson, clustered"


def mean_share(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    *,
    counts: IntArray | None = None,
    noise: float = 0.0,
) -> Interval:
    """Return the mean of shares [n] with ``wilson``'s interval; arguments as ``paired_difference``."""
    mean = SampleMean.of(values, clusters, counts)
    return Interval(mean.value, *wilson(mean.value, mean.variance + noise, mean.units, level), SHARE)


def wilson(
    value: float, variance: float, units: int, level: float = 0.95, freedom: float | None = None
) -> tuple[float | None, float | None]:
    """Return Wilson's limits of a share with a known standard error, from ``units`` independent units.

    The sample size is value (1 - value) / variance, as in design-based surveys (Korn and Graubard 1998;
    Franco et al. 2019), and the quantile that of t with ``freedom`` degrees (default: units - 1). None for
    fewer than two units.
    """
    if units < 2:
        return None, None
    spread = value * (1 - value)
    size = spread / variance if min(spread, variance) > 0 else float(units)
    if units * min(value, 1 - value) < SCARCE:
        size = min(size, float(units))
    t = float(stdtrit(units - 1 if freedom is None else freedom, (1 + level) / 2)) ** 2
    middle = (value + t / (2 * size)) / (1 + t / size)
    half = math.sqrt(max(t * (spread / size + t / (4 * size * size)), 0.0)) / (1 + t / size)
    return min(max(middle - half, 0.0), value), max(min(middle + half, 1.0), value)


def bootstrap_means(
    items: FloatArray,
    clusters: IntArray | None,
    rng: np.random.Generator,
    reps: int = 2000,
    counts: IntArray | None = None,
) -> FloatArray:
    """Return means [reps, m] of per-item values [n, m] in cluster bootstrap resamples.

    One matrix product of resampling weights and cluster sums. ``clusters`` [n] are the independent units
    (None: the items). ``counts`` [n] say how many items, each a cluster of its own, have each row's values.
    """
    if counts is not None:
        return resampled_totals(items, reps, rng, counts).T / counts.sum()
    n = items.shape[0]
    ids = cluster_numbers(clusters, n)
    if int(ids.max()) + 1 == n:
        return resampled_totals(items, reps, rng).T / n
    rows = np.concatenate([np.ones((n, 1)), items], axis=1)
    totals = resampled_totals(group_sums(rows, ids, int(ids.max()) + 1), reps, rng)
    return (totals[1:] / totals[0]).T


def pattern_shares(
    values: FloatArray, votes: Votes, level: float = 0.95, noise: FloatArray | None = None
) -> list[Interval]:
    """Return the mean of each column of shares [u, m] of vote patterns, as ``mean_share`` of questions.

    ``noise`` [m] is the variance of each that questions do not show.
    """
    same = vote_patterns(votes)
    more: list[float] = [0.0] * values.shape[1] if noise is None else noise.tolist()
    columns = zip(values.T, more, strict=True)
    if votes.n_clusters == votes.n:
        return [mean_share(column, None, level, counts=same.counts, noise=own) for column, own in columns]
    ids = votes.cluster_ids
    return [mean_share(column[same.back], ids, level, noise=own) for column, own in columns]


# Of a record without correlation.
ALL_RIGHT = "Every answer was right, so there is no correlation to measure."
NONE_RIGHT = "No answer was right. Check the gold answers with keff read before anything else."

_ONE_UNIT = Note("one_cluster", "All questions belong to one cluster, so keff can give no interval.")


def _notes(summary: InfluenceSummary) -> list[Note]:
    notes: list[Note] = []
    if summary.degenerate:
        notes.append(Note("degenerate", ALL_RIGHT if summary.p > 0.5 else NONE_RIGHT))
    if summary.units < 2:
        notes.append(_ONE_UNIT)
    elif summary.units < FEW_UNITS:
        notes.append(
            Note("few_items", f"With only {summary.units} independent questions the interval is rough.")
        )
    return notes
