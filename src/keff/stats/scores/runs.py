"""Repeated runs (seeds) of the same items: correlation within a run, across runs, and the effect of a run."""

from __future__ import annotations

import numpy as np

from keff.stats.inference.resampling import group_sums
from keff.stats.votes import FloatArray, Votes


def cross_run_c(votes: Votes) -> float:
    """Return c over pairs of paths of one item from different runs.

    Rows that share a cluster are taken as repeats of one item. (J - p^2) / (p(1-p)) with J the share of
    right-right among pairs of paths from different rows of a cluster. The within-run companion is
    ``pooled_c``, which is what a deployment meets; both agree up to noise when a run has no effect of its
    own. NaN when no cluster repeats, or when all is right or wrong.
    """
    return float(cross_from_totals(run_sums(votes).sum(axis=0), votes.k))


def run_sums(votes: Votes) -> FloatArray:
    """Return per cluster [G, 5]: rows R, sum S, sum S^2, (sum S)^2 - sum S^2, R(R-1)."""
    s = votes.counts.astype(np.float64)
    rows = group_sums(np.stack([np.ones_like(s), s, s * s], axis=1), votes.cluster_ids, votes.n_clusters)
    crossed = np.square(rows[:, 1]) - rows[:, 2]
    return np.column_stack([rows, crossed, rows[:, 0] * (rows[:, 0] - 1)])


def cross_from_totals(totals: FloatArray, k: int) -> FloatArray:
    """Return the cross-run c [...] from totals [5, ...] of ``run_sums``; NaN without repeats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        p = totals[1] / (totals[0] * k)
        return (totals[3] / (totals[4] * k * k) - p * p) / (p * (1 - p))
