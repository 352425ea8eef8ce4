"""GLS-R from embeddings: recovers the optimum, keeps uniform where slots do not differ."""

import numpy as np
import pytest

from keff.stats.branches.gls import (
    choose_ridge,
    gls_r_weights,
    gls_weights,
    risk,
    slot_covariance,
)


def embeddings(sigma, problems, dims, seed, tau=2.0):
    """e_k = s + error, error ~ N(0, sigma) across slots, s ~ N(0, tau^2), slot offsets on top."""
    rng = np.random.default_rng(seed)
    k = sigma.shape[0]
    signal = tau * rng.normal(size=(problems, 1, dims))
    error = np.einsum("kj,tjd->tkd", np.linalg.cholesky(sigma), rng.normal(size=(problems, k, dims)))
    return signal + error + 5 * rng.normal(size=(1, k, dims))


SIGMA = np.diag([0.1, 1.0, 2.0, 4.0]) + 0.05


def test_covariance_is_error_plus_common_signal():
    got = slot_covariance(embeddings(SIGMA, 2000, 30, 0))
    np.testing.assert_allclose(got, SIGMA + 4.0, rtol=0.05)


def test_learned_weights_reach_nearly_the_optimal_risk():
    choice = choose_ridge(embeddings(SIGMA, 150, 40, 1), np.random.default_rng(0))
    assert choice.ridge is not None
    assert choice.held_out_risk < choice.held_out_risk_uniform
    optimal, uniform = risk(gls_weights(SIGMA), SIGMA), risk(np.full(4, 0.25), SIGMA)
    assert risk(choice.weights, SIGMA) < optimal + 0.05 * (uniform - optimal)
    # The held-out difference is the difference of risks: the signal's variance cancels.
    got = choice.held_out_risk - choice.held_out_risk_uniform
    assert got == pytest.approx(optimal - uniform, rel=0.2)


def test_exchangeable_slots_keep_uniform_weights():
    sigma = 0.6 * np.eye(5) + 0.4
    kept = [
        choose_ridge(embeddings(sigma, 60, 8, seed), np.random.default_rng(seed)).ridge is None
        for seed in range(20)
    ]
    assert sum(kept) >= 15


def test_an_infinite_ridge_is_uniform_and_a_large_one_close():
    e = embeddings(SIGMA, 50, 5, 4)
    np.testing.assert_allclose(gls_r_weights(e, np.inf), 0.25)
    np.testing.assert_allclose(gls_r_weights(e, 1e6), 0.25, atol=1e-4)


def test_centring_within_a_problem_would_be_degenerate():
    e = embeddings(SIGMA, 50, 5, 4)
    inside = e - e.mean(axis=1, keepdims=True)
    sigma = np.einsum("tkd,tjd->kj", inside, inside)
    np.testing.assert_allclose(gls_weights(sigma + 0.3 * np.eye(4)), 0.25, rtol=1e-9)
    assert np.ptp(gls_r_weights(e, 0.01)) > 0.1


def test_singular_without_a_ridge():
    e = embeddings(SIGMA, 50, 5, 5)
    e[:, 1] = e[:, 0]
    with pytest.raises(ValueError, match="ridge"):
        gls_r_weights(e, 0.0)
    assert gls_r_weights(e, 0.1).sum() == pytest.approx(1)
    assert choose_ridge(e, np.random.default_rng(0)).ridge != 0.0


@pytest.mark.parametrize("bad", [np.ones((3, 2)), np.ones((1, 2, 3)), np.full((4, 2, 3), np.nan)])
def test_bad_embeddings(bad):
    with pytest.raises(ValueError, match="embeddings"):
        slot_covariance(bad)


def test_too_few_problems():
    e = embeddings(SIGMA, 9, 5, 6)
    with pytest.raises(ValueError, match="too few"):
        choose_ridge(e, np.random.default_rng(0))
