import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.records import Estimate
from keff.stats.intervals import interval_c
from keff.stats.models.betabinomial import majority_curve
from keff.stats.voting.choose import (
    k_star,
    k_star_interval,
    marginal_gain,
)

quick = settings(max_examples=examples(80), deadline=None)


def estimate(lo, hi):
    return Estimate(0.5, lo, hi, "test", 50, 4)


@quick
@given(st.floats(0.05, 0.99), st.floats(0.005, 0.5))
def test_k_star_is_the_first_with_a_small_marginal_gain(c, epsilon):
    k = k_star(c, epsilon, k_max=10_000)
    assert float(marginal_gain(k, c)) <= epsilon * (1 + 1e-6)
    if k > 1:
        assert float(marginal_gain(k - 1, c)) > epsilon * (1 - 1e-6)


@quick
@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0.001, 1))
def test_k_star_falls_with_c_and_stays_in_range(one, other, epsilon):
    low, high = sorted((one, other))
    assert 1 <= k_star(high, epsilon) <= k_star(low, epsilon) <= 32


def test_k_star_at_the_edges():
    assert k_star(0.98, 0.02) == 1
    assert k_star(0.6, 0.025) == 6
    assert k_star(math.nan) == 32
    assert k_star(-0.5) == k_star(0.05)
    assert k_star(-0.5, clip=None) == 32
    assert k_star(1.0) == k_star(0.99) == 1
    for bad in ({"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"k_max": 0}):
        with pytest.raises(ValueError, match="epsilon > 0"):
            k_star(0.5, **bad)
    with pytest.raises(ValueError, match="exceed 1"):
        k_star(1.5)


def test_exact_whole_numbers_are_not_rounded_up():
    """c and epsilon chosen so that the real number is whole: sqrt((1-c)/eps) = 1 + (K-1)c."""
    wrong = 0
    for k in range(1, 12):
        for c in np.arange(0.05, 1.0, 0.01):
            c = round(float(c), 2)
            epsilon = (1 - c) / (1 + (k - 1) * c) ** 2
            wrong += k_star(c, epsilon) != k
    assert wrong == 0


def test_intervals_map_to_k_star():
    assert k_star_interval(estimate(0.45, 0.79)) == (4, 10)
    assert k_star_interval(estimate(None, None)) == (1, 32)
    assert k_star_interval(estimate(-0.2, 1.0)) == (1, 32)


@pytest.mark.slow
def test_the_conservative_choice_is_seldom_too_small():
    rng = np.random.default_rng(0)
    theta = rng.beta(0.8 * 2 / 3, 0.2 * 2 / 3, (200, 100))
    short = 0
    for items in theta:
        hist = np.bincount(rng.binomial(4, items), minlength=5)
        short += k_star_interval(interval_c(hist, level=0.8))[1] < k_star(0.6)
    assert short / 200 <= 0.15


def within_half_a_point(curve):
    """Return the least K from which on the accuracy stays within half a point of the last."""
    far = np.flatnonzero(np.abs(curve - curve[-1]) > 0.005)
    return int(far[-1]) + 2 if far.size else 1


@pytest.mark.parametrize(
    ("p", "c", "best"), [(0.8, 0.6, 5), (0.43, 0.45, 5), (0.93, 0.33, 9), (0.5, 0.8, 1), (0.05, 0.3, 9)]
)
def test_best_odd_k_of_the_design(p, c, best):
    """Within half a point of MV(31), from the design's table."""
    assert within_half_a_point(majority_curve(31, p, c)) == best
