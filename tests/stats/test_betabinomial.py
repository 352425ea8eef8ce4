import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import bdtr

from how_many import examples
from keff.stats.models.betabinomial import (
    betabinom_logpmf,
    log_likelihood,
    majority_beta_binomial,
    majority_curve,
    majority_limit,
    prentice_bound,
)

quick = settings(max_examples=examples(60), deadline=None)
inside = st.floats(0.01, 0.99)


def vote_by_pmf(k, p, c):
    law = np.exp(betabinom_logpmf(k, p, c))
    s = np.arange(k + 1)
    return float(law[2 * s > k].sum() + 0.5 * law[2 * s == k].sum())


@quick
@given(st.integers(1, 80), inside, st.floats(0.02, 0.98))
def test_pmf_matches_scipy_where_scipy_is_accurate(k, p, c):
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    np.testing.assert_allclose(
        np.exp(betabinom_logpmf(k, p, c)),
        scipy.stats.betabinom.pmf(np.arange(k + 1), k, a, b),
        rtol=1e-8,
        atol=1e-13,
    )


@quick
@given(st.integers(2, 120), inside, st.floats(0, 1))
def test_pmf_has_the_mean_and_correlation_it_is_asked_for(k, p, c):
    law, s = np.exp(betabinom_logpmf(k, p, c)), np.arange(k + 1)
    mean = law @ s / k
    joint = law @ (s * (s - 1)) / (k * (k - 1))
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert mean == pytest.approx(p, abs=1e-11)
    assert (joint - p * p) / (p * (1 - p)) == pytest.approx(c, abs=1e-9)


@quick
@given(st.integers(3, 40), inside)
def test_negative_c_down_to_the_prentice_bound(k, p):
    bound = float(prentice_bound(k, p))
    law = np.exp(betabinom_logpmf(k, p, bound))
    s = np.arange(k + 1)
    assert law @ s / k == pytest.approx(p, abs=1e-10)
    joint = law @ (s * (s - 1)) / (k * (k - 1))
    assert (joint - p * p) / (p * (1 - p)) == pytest.approx(bound, abs=1e-9)
    assert vote_by_pmf(k, p, bound) == pytest.approx(float(majority_beta_binomial(k, p, bound)), abs=1e-12)
    with pytest.raises(ValueError, match="least correlation"):
        betabinom_logpmf(k, p, bound * 1.01 - 1e-6)


@quick
@given(st.integers(1, 90), st.floats(0, 1), st.floats(0, 1))
def test_recurrence_is_the_vote_of_the_pmf(k, p, c):
    assert float(majority_beta_binomial(k, p, c)) == pytest.approx(vote_by_pmf(k, p, c), abs=1e-12)


@quick
@given(st.integers(1, 40), st.floats(0, 1), st.floats(0, 1))
def test_an_even_number_buys_what_the_odd_one_before_buys(m, p, c):
    assert majority_beta_binomial(2 * m, p, c) == majority_beta_binomial(2 * m - 1, p, c)


@quick
@given(inside, st.floats(0, 1))
def test_the_curve_moves_one_way_and_stays_between_p_and_its_limit(p, c):
    steps = np.diff(majority_curve(61, p, c))
    assert (steps >= -1e-15).all() if p >= 0.5 else (steps <= 1e-15).all()
    limit = majority_limit(p, c)
    assert min(p, limit) - 1e-9 <= float(majority_beta_binomial(61, p, c)) <= max(p, limit) + 1e-9


@quick
@given(st.integers(1, 101), st.floats(1e-9, 1))
def test_closed_forms_at_both_ends_of_c(k, p):
    half = k // 2
    binomial = 1 - bdtr(half, k, p) + (0.5 * scipy.stats.binom.pmf(half, k, p) if k % 2 == 0 else 0)
    assert float(majority_beta_binomial(k, p, 0)) == pytest.approx(binomial, abs=1e-12)
    assert float(majority_beta_binomial(k, p, 1)) == p


def test_limits_at_the_ends():
    assert [majority_limit(p, 0.0) for p in (0.2, 0.5, 0.7)] == [0, 0.5, 1]
    assert majority_limit(0.7, 1.0) == 0.7
    assert majority_limit(0.0, 0.5) == 0
    assert majority_limit(1.0, 0.5) == 1


def test_vectorised_as_scalar():
    p, c = np.array([[0.2], [0.7]]), np.array([0.0, 0.3, 1.0])
    curve = majority_curve(9, p, c)
    assert curve.shape == (2, 3, 9)
    for i in range(2):
        for j in range(3):
            np.testing.assert_array_equal(curve[i, j], majority_curve(9, p[i, 0], c[j]))
            np.testing.assert_allclose(
                np.exp(betabinom_logpmf(9, p, c)[i, j]),
                np.exp(betabinom_logpmf(9, p[i, 0], c[j])),
                rtol=1e-14,
            )


def test_ten_thousand_paths_over_the_whole_range_of_c():
    for c in (0.0, 1e-15, 1e-10, 1e-6, 0.3, 1 - 1e-12, 1.0):
        law = np.exp(betabinom_logpmf(10_000, 0.3, c))
        assert law.sum() == pytest.approx(1, abs=1e-12)
        assert law @ np.arange(10_001) / 10_000 == pytest.approx(0.3, abs=1e-9)
    exact = scipy.stats.binom.logpmf(np.arange(10_001), 10_000, 0.3)
    np.testing.assert_allclose(betabinom_logpmf(10_000, 0.3, 1e-15)[2900:3100], exact[2900:3100], rtol=1e-9)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_votes(p):
    law = np.exp(betabinom_logpmf(5, p, 0.4))
    assert law[0] == 1 - p
    assert law[-1] == p
    assert majority_beta_binomial(5, p, 0.4) == p


@pytest.mark.parametrize(("p", "c"), [(-0.1, 0.2), (1.1, 0.2), (0.5, 1.1), (math.nan, 0.2), (0.5, math.nan)])
def test_bad_parameters_are_refused(p, c):
    with pytest.raises(ValueError):
        majority_curve(5, p, c)
    with pytest.raises(ValueError):
        betabinom_logpmf(5, p, c)


@quick
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=9).filter(lambda h: sum(h) > 0),
    inside,
    st.floats(0.01, 0.99),
)
def test_log_likelihood_is_that_of_the_pmf(hist, p, c):
    k = len(hist) - 1
    constant = sum(h * math.log(math.comb(k, s)) for s, h in enumerate(hist))
    want = float(np.array(hist) @ betabinom_logpmf(k, p, c))
    assert float(log_likelihood(hist, p, c)) + constant == pytest.approx(want, abs=1e-8)
