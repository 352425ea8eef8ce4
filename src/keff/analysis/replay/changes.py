"""A policy against what is deployed today, in accuracy, paths and dollars; and its time to answer."""

from __future__ import annotations

import numpy as np

from keff.analysis.replay.outcomes import PolicyOutcome
from keff.analysis.results.money import Change, Seconds
from keff.records import Interval
from keff.stats.intervals import interval_mean
from keff.stats.latency import quantile
from keff.stats.votes import FloatArray, IntArray


def mean_of(values: FloatArray, clusters: IntArray) -> Interval:
    """Return the mean of one value per question [n] with its 95% cluster-robust interval."""
    return interval_mean(values, clusters).interval


def change(
    against: str, outcome: PolicyOutcome, today: PolicyOutcome, clusters: IntArray, *, fitted: bool
) -> Change:
    """Return a policy minus the baseline on the same questions.

    Paired by question; without limits for a policy that was fitted to pilots, whose own variance the
    questions do not show.
    """

    def minus(mine: FloatArray | None, other: FloatArray | None) -> Interval | None:
        if mine is None or other is None:
            return None
        difference = mean_of(mine - other, clusters)
        return Interval(difference.value, None, None, "mean over pilots") if fitted else difference

    paths = minus(outcome.paths, today.paths)
    assert paths is not None
    return Change(
        against, minus(outcome.accuracy, today.accuracy), paths, minus(outcome.dollars, today.dollars)
    )


def seconds_of(times: FloatArray | None, clusters: IntArray) -> Seconds | None:
    """Return the median and the 95th percentile of times to answer [n, R]; None where they are unknown."""
    if times is None or not np.all(np.isfinite(times)):
        return None
    return Seconds(p50=quantile(times, 0.5, clusters), p95=quantile(times, 0.95, clusters))
