"""Quantiles of times to answer, against resampled questions."""

from __future__ import annotations

import numpy as np
import pytest

from keff.stats import time
from keff.stats.time import quantiles
from keff.stats.votes import FloatArray, IntArray


def recorded_times(n: int, orders: int) -> tuple[FloatArray, IntArray]:
    """Return times of n questions that differ in length, and their clusters of two."""
    rng = np.random.default_rng(3)
    return rng.gamma(2, rng.gamma(3, 1, (n, 1)), (n, orders)), np.arange(n) // 2


@pytest.mark.slow
def test_limits_of_a_quantile_are_those_of_resampled_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    times, clusters = recorded_times(300, 5)
    monkeypatch.setattr(time, "REPLICATES", 4000)
    (interval,) = quantiles(times, [0.9], clusters)
    rng, groups = np.random.default_rng(8), clusters[-1] + 1
    by_cluster = times.reshape(groups, -1)
    drawn = [np.quantile(by_cluster[rng.integers(0, groups, groups)], 0.9) for _ in range(4000)]
    lo, hi = np.quantile(drawn, [0.025, 0.975])
    assert interval.value == np.quantile(times, 0.9)
    # A value of the grid stands for a 400th of the times, and 4000 resamples leave some error as well.
    step = np.quantile(times, 0.905) - np.quantile(times, 0.9)
    assert interval.lo == pytest.approx(lo, abs=2 * step) and interval.hi == pytest.approx(hi, abs=2 * step)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_the_limits_of_many_questions_are_those_of_resamples(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    times, clusters = recorded_times(6000, 3)
    (whole,) = quantiles(times, [share], clusters)
    monkeypatch.setattr(time, "MANY_GROUPS", 1000)
    (near,) = quantiles(times, [share], clusters)
    assert near.value == whole.value and near.limits is not None and whole.limits is not None
    step = np.quantile(times, min(share + 0.005, 1)) - np.quantile(times, share)
    np.testing.assert_allclose(near.limits, whole.limits, rtol=0, atol=2 * step)
    assert near.limits[0] < near.value < near.limits[1]
