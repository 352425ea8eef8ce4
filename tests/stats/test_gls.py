"""Generalised least squares weights: references, optimality, special cases and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.stats.branches.gls import gls_weights, risk
from reference import reference


def gain_over_uniform(sigma, gains=None):
    """The share of risk that GLS removes (the paper's Corollary 4.7)."""
    g = np.ones(len(sigma)) if gains is None else np.asarray(gains)
    return 1 - risk(gls_weights(sigma, g), sigma) / risk(np.full(len(g), 1 / g.sum()), sigma)


def covariance(seed: int, k: int) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(k, k + 3))
    return a @ a.T / k


def test_reference_values():
    for args, weights in reference("gls_weights"):
        np.testing.assert_allclose(gls_weights(args["Sigma"], args["g"]), weights, rtol=1e-12)
    for args, least in reference("gls_risk"):
        found = args["D"] * risk(gls_weights(args["Sigma"], args["g"]), args["Sigma"])
        assert found == pytest.approx(least, rel=1e-12)


@given(st.integers(0, 10_000), st.integers(2, 9))
def test_no_unbiased_weights_do_better(seed, k):
    rng = np.random.default_rng(seed)
    sigma, g = covariance(seed, k), rng.uniform(0.2, 2, k)
    best = gls_weights(sigma, g)
    assert best @ g == pytest.approx(1)
    assert risk(best, sigma) == pytest.approx(1 / (g @ np.linalg.solve(sigma, g)))
    step = rng.normal(size=k)
    step -= g * (step @ g) / (g @ g)
    assert risk(best + 0.1 * step, sigma) > risk(best, sigma)
    assert gain_over_uniform(sigma, g) >= -1e-12


@given(st.integers(0, 10_000), st.floats(0, 50))
def test_a_common_signal_leaves_the_weights(seed, tau2):
    g = np.random.default_rng(seed).uniform(0.2, 2, 5)
    sigma = covariance(seed, 5)
    np.testing.assert_allclose(
        gls_weights(sigma + tau2 * np.outer(g, g), g), gls_weights(sigma, g), rtol=1e-7, atol=1e-9
    )


@given(st.integers(2, 12), st.floats(-0.05, 0.99), st.floats(0.1, 10))
def test_symmetric_is_uniform(k, rho, variance):
    sigma = variance * ((1 - rho) * np.eye(k) + rho)
    np.testing.assert_allclose(gls_weights(sigma), 1 / k, rtol=1e-9)
    assert risk(gls_weights(sigma), sigma) == pytest.approx(variance * (1 + (k - 1) * rho) / k)
    assert gain_over_uniform(sigma) == pytest.approx(0, abs=1e-9)


def test_white_noise_is_maximum_ratio_combining():
    g = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(gls_weights(3 * np.eye(3), g), g / 5.25, rtol=1e-14)


def test_equality_holds_exactly_for_equal_row_sums():
    circulant = np.array([[2, 0.5, 0.1, 0.5], [0.5, 2, 0.5, 0.1], [0.1, 0.5, 2, 0.5], [0.5, 0.1, 0.5, 2]])
    assert gain_over_uniform(circulant) == pytest.approx(0, abs=1e-14)
    uneven = circulant + np.diag([0, 0, 0, 0.3])
    assert gain_over_uniform(uneven) > 1e-4
    # With gains, equal weights are optimal when Sigma 1 is proportional to them.
    assert gain_over_uniform(uneven, uneven.sum(axis=1)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("sigma", [np.ones((3, 3)), np.diag([1.0, -1.0]), np.zeros((2, 2))])
def test_a_singular_or_indefinite_covariance_needs_a_ridge(sigma):
    with pytest.raises(ValueError, match="ridge"):
        gls_weights(sigma)
