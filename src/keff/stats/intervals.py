"""Intervals: one vocabulary of methods for c, for the predicted majority vote, and for means over items."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from keff.records import Estimate, Note
from keff.stats.alike import alike
from keff.stats.betabinomial import majority_beta_binomial
from keff.stats.fits import Fits, bayes_fits, bootstrap_fits
from keff.stats.influence import InfluenceSummary, summarise
from keff.stats.limits import Limits, bca, bootstrap_t, hybrid_wilson, percentile
from keff.stats.resampling import MANY_ROWS, NORMAL_ROWS, group_sums, grouped, resampled_totals
from keff.stats.votes import FloatArray, IntArray, Votes

Method = Literal["hybrid_wilson", "bayes", "percentile", "bootstrap_t", "bca", "cluster_bootstrap"]
"""How an interval is made."""

FEW_UNITS = 10
BAYES_PATHS = 8


def interval_c(
    source: Votes | ArrayLike,
    method: Method = "hybrid_wilson",
    level: float = 0.95,
    rng: np.random.Generator | None = None,
    reps: int = 2000,
) -> Estimate:
    """Return the bias-corrected c with a two-sided interval.

    ``source`` is votes, or the count histogram N_0..N_K of independent items. Methods:

    - ``hybrid_wilson`` (default, deterministic): every c with |c_adj - c| <= t_{G-1} times the larger of the
      standard error under the beta-binomial at (p, c) and the one from influence values.
    - ``bayes``: posterior grid, for up to 8 paths.
    - ``percentile``, ``bca``, ``bootstrap_t`` (on the scale half log((1+(K-1)c)/(1-c))): ``reps`` resamples
      of the count bins, at a cost that does not depend on n.
    - ``cluster_bootstrap``: percentile limits from resampled clusters.

    Items that share a cluster are never taken as independent: hybrid Wilson and Bayes use the effective
    number of items, the percentile method resamples clusters, and the other two are refused. Methods that
    draw use ``rng`` (a fixed seed when not given). When fewer than ten units' worth of answers are right or
    wrong, percentile limits are withheld. Raises ValueError for one path or one item.
    """
    summary = summarise(source)
    if not 0 < level < 1:
        raise ValueError("the level of an interval lies between 0 and 1")
    notes = _notes(summary, method)
    if summary.degenerate or summary.units < 2:
        return Estimate(summary.adjusted, None, None, method, summary.units, summary.k, notes)
    draw = rng if rng is not None else np.random.default_rng(0)
    lo, hi, more = _limits(summary, method, level, draw, reps)
    # A few items can put c below the least that exchangeable votes of their accuracy allow.
    lo = None if lo is None else min(lo, summary.adjusted)
    hi = None if hi is None else max(hi, summary.adjusted)
    return Estimate(summary.adjusted, lo, hi, method, summary.units, summary.k, notes + more)


def majority_method(k: int) -> Method:
    """Return how intervals of a predicted majority vote are made from ``k`` recorded paths."""
    return "bayes" if k <= BAYES_PATHS else "cluster_bootstrap"


def interval_majority(
    source: Votes | ArrayLike,
    k: int,
    level: float = 0.95,
    method: Method | None = None,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Return the beta-binomial majority vote of ``k`` paths with an interval over plausible (p, c).

    The value is the vote at the mean accuracy and max(c_adj, 0). ``method`` is ``bayes`` (the default up to
    8 recorded paths) or ``cluster_bootstrap`` (the default beyond). It carries sampling error and what the
    beta-binomial law erred on left-out recorded workloads. Raises ValueError for one path or one item.
    """
    summary = summarise(source)
    used = method or majority_method(summary.k)
    notes = _notes(summary, used)
    if summary.degenerate:
        used = "bayes"
    fits = majority_fits(summary, used, rng)
    c = 1.0 if summary.degenerate else min(max(summary.adjusted, 0.0), 1.0)
    value = float(majority_beta_binomial(k, summary.p, c))
    lo, hi = fits.majority_interval(fits.majority(k)[:, -1], k, level)
    return Estimate(value, min(lo, value), max(hi, value), used, summary.units, summary.k, notes)


def majority_fits(
    source: Votes | InfluenceSummary, method: Method | None = None, rng: np.random.Generator | None = None
) -> Fits:
    """Return plausible (p, c) pairs by ``bayes`` or ``cluster_bootstrap``, for any function of both.

    For instance the gap between two K: ``fits.interval(curve[:, 31] - curve[:, 0])`` with
    ``curve = fits.majority(32)``.
    """
    summary = source if isinstance(source, InfluenceSummary) else summarise(source)
    used = method or majority_method(summary.k)
    if used == "bayes":
        return bayes_fits(summary)
    if used != "cluster_bootstrap":
        raise ValueError("a predicted majority vote takes the method bayes or cluster_bootstrap")
    return bootstrap_fits(summary, rng if rng is not None else np.random.default_rng(0))


def interval_mean(values: ArrayLike, clusters: ArrayLike | None = None, level: float = 0.95) -> Estimate:
    """Return the mean of one value per item [n] with a cluster-robust t interval.

    Clusters are the independent units; items weigh the same. When no unit differs from the mean the
    interval has no width and the warning ``no_variation`` says so; with one unit there is none.
    """
    data = np.asarray(values, float)
    ids = _ids(clusters, data.size)
    units, mean = int(ids.max()) + 1, float(data.mean())
    if units < 2:
        return Estimate(mean, None, None, "cluster_t", units, 1, (_ONE_UNIT,))
    total = np.bincount(ids, weights=data - mean, minlength=units)
    half = float(
        stdtrit(units - 1, (1 + level) / 2) * np.sqrt(total @ total * units / (units - 1)) / data.size
    )
    notes = (
        () if half > 0 else (Note("no_variation", "Every unit has the same value: the interval is empty."),)
    )
    return Estimate(mean, mean - half, mean + half, "cluster_t", units, 1, notes)


def bootstrap_means(
    items: FloatArray, clusters: IntArray | None, rng: np.random.Generator, reps: int = 2000
) -> FloatArray:
    """Return means [reps, m] of per-item values [n, m] in cluster bootstrap resamples.

    One matrix product of resampling weights and cluster sums. ``clusters`` [n] are the independent units
    (None: the items).
    """
    n = items.shape[0]
    ids = _ids(clusters, n)
    if int(ids.max()) + 1 == n:
        return resampled_totals(items, reps, rng).T / n
    rows = np.concatenate([np.ones((n, 1)), items], axis=1)
    totals = resampled_totals(group_sums(rows, ids, int(ids.max()) + 1), reps, rng)
    return (totals[1:] / totals[0]).T


def pattern_means(values: FloatArray, votes: Votes, rng: np.random.Generator, reps: int = 2000) -> FloatArray:
    """Return what ``bootstrap_means`` does, from the ``values`` [u, m] of patterns instead of items.

    Of many independent items only the counts of patterns are drawn, or the normal limit of their totals.
    """
    same, n = alike(votes), votes.n
    by_counts = n >= NORMAL_ROWS or (n >= MANY_ROWS and 2 * same.counts.size < n)
    if by_counts and votes.n_clusters == n:
        return resampled_totals(values, reps, rng, same.counts).T / n
    return bootstrap_means(values[same.back], votes.cluster_ids, rng, reps)


def _ids(clusters: ArrayLike | None, n: int) -> IntArray:
    return np.arange(n) if clusters is None else grouped(np.asarray(clusters))[0]


_ONE_UNIT = Note("one_cluster", "All items belong to one cluster: no interval can be given.")


def _notes(summary: InfluenceSummary, method: Method) -> tuple[Note, ...]:
    notes: list[Note] = []
    if summary.degenerate:
        notes.append(Note("degenerate", "Every path is right, or every path is wrong: c is undefined."))
    if summary.units < 2:
        notes.append(_ONE_UNIT)
    elif summary.units < FEW_UNITS:
        notes.append(Note("few_items", f"Only {summary.units} independent items: the interval is rough."))
    if method == "bayes" and summary.k > BAYES_PATHS:
        notes.append(
            Note("bayes_many_paths", f"Above {BAYES_PATHS} paths Bayes relies on the model too much.")
        )
    return tuple(notes)


def _limits(
    summary: InfluenceSummary, method: Method, level: float, rng: np.random.Generator, reps: int
) -> Limits:
    if method == "hybrid_wilson":
        return hybrid_wilson(summary, level)
    if method == "bayes":
        fits = bayes_fits(summary)
        return (*fits.interval(fits.c, level), ())
    if method in ("bca", "bootstrap_t"):
        if summary.sums is not None:
            raise ValueError(f"{method} takes independent items: use hybrid_wilson or cluster_bootstrap")
        return (bca if method == "bca" else bootstrap_t)(summary, level, rng, reps)
    if method not in ("percentile", "cluster_bootstrap"):
        raise ValueError(f"unknown interval method {method!r}")
    return percentile(summary, level, rng, reps)
