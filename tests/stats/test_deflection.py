"""Weights, deflection, K_eff of a mix and allocation: the paper's formulas, simulation, enumeration."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.stats.branches.covariance import Between
from keff.stats.branches.deflection import (
    Margin,
    allocate,
    best_weights,
    deflection,
    deflections,
    k_eff_of_mix,
    margin,
)


def law(p: list[float], c: list[list[float]]) -> Margin:
    """The margin of branches with known accuracies and correlations."""
    accuracy = np.array(p)
    variance = accuracy * (1 - accuracy)
    latent = np.array(c) * np.sqrt(np.outer(variance, variance))
    return margin(Between(accuracy, variance, latent, 100))


def random_law(branches: int, rng: np.random.Generator) -> Margin:
    loadings = rng.uniform(0.3, 1, (branches, branches + 1))
    r = loadings @ loadings.T
    r /= np.sqrt(np.outer(np.diag(r), np.diag(r)))
    within = rng.uniform(0.05, 0.95, branches)
    return law(rng.uniform(0.35, 0.97, branches).tolist(), r * np.sqrt(np.outer(within, within)))


@pytest.mark.parametrize(("p", "c", "k"), [(0.7, 0.4, 5), (0.9, 0.1, 16), (0.55, 0.0, 3), (0.8, 0.99, 8)])
def test_one_branch_has_the_papers_k_eff(p: float, c: float, k: int) -> None:
    assert k_eff_of_mix(law([p], [[c]]), [k]) == pytest.approx(k / (1 + (k - 1) * c), rel=1e-6)


def test_equal_branches_are_one_branch_with_more_paths() -> None:
    """Three branches that correlate across as within are one branch with three times the paths."""
    equal = law([0.75] * 3, [[0.3] * 3] * 3)
    assert k_eff_of_mix(equal, [4, 4, 4]) == pytest.approx(12 / (1 + 11 * 0.3), rel=1e-6)
    np.testing.assert_allclose(best_weights(equal, [4, 4, 4]), [1 / 3] * 3, rtol=1e-6)


def test_independent_branches_add_up() -> None:
    apart = law([0.7, 0.7], [[0.4, 0.0], [0.0, 0.4]])
    assert k_eff_of_mix(apart, [5, 5]) == pytest.approx(2 * 5 / (1 + 4 * 0.4), rel=1e-6)


def test_no_branch_above_one_half_has_no_k_eff() -> None:
    assert np.isnan(k_eff_of_mix(law([0.4, 0.5], [[0.3, 0.1], [0.1, 0.3]]), [3, 3]))


def test_a_branch_below_one_half_gets_no_weight_where_it_only_adds_noise() -> None:
    """Gains of one would give it the larger weight; gains of mu give it none."""
    weights = best_weights(law([0.9, 0.05], [[0.3, 0.0], [0.0, 0.3]]), [4, 4])
    np.testing.assert_allclose(weights, [1, 0])


def test_a_bad_branch_that_shares_its_errors_would_be_negative_and_is_zero() -> None:
    shared = law([0.8, 0.52], [[0.6, 0.55], [0.55, 0.6]])
    sigma = shared.latent + np.diag(shared.noise / 4)
    assert np.linalg.solve(sigma, shared.mu)[1] < 0
    np.testing.assert_allclose(best_weights(shared, [4, 4]), [1, 0])


def by_supports(known: Margin, k: np.ndarray) -> float:
    """The best deflection over w >= 0 by trying every support."""
    sigma, best = known.latent + np.diag(known.noise / k), 0.0
    for size in range(1, len(k) + 1):
        for support in combinations(range(len(k)), size):
            at = np.ix_(support, support)
            w = np.linalg.solve(sigma[at], known.mu[list(support)])
            if (w >= 0).all():
                best = max(best, float(w @ known.mu[list(support)]))
    return best


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), branches=st.integers(1, 6))
@settings(max_examples=examples(60), deadline=None)
def test_weights_are_the_best_of_every_support(seed: int, branches: int) -> None:
    rng = np.random.default_rng(seed)
    known, k = random_law(branches, rng), rng.integers(1, 9, branches)
    best = by_supports(known, k)
    assert deflection(known, k, best_weights(known, k)) == pytest.approx(best, rel=1e-7, abs=1e-12)
    assert deflections(known, k)[0] == pytest.approx(best, rel=1e-7, abs=1e-12)


def test_deflection_is_that_of_simulated_votes() -> None:
    """Two branches whose thetas are two-point laws: mean over standard deviation of the simulated margin."""
    rng = np.random.default_rng(0)
    n, k = 400_000, np.array([3, 5])
    shared, own = rng.random(n) < 0.5, rng.random((2, n)) < 0.5
    a = 0.65 + 0.2 * (2 * shared - 1.0) + 0.1 * (2 * own[0] - 1.0)
    b = 0.6 + 0.15 * (2 * shared - 1.0) + 0.1 * (2 * own[1] - 1.0)
    means = np.stack([rng.binomial(count, chance) / count for count, chance in zip(k, (a, b), strict=True)])
    p = np.array([0.65, 0.6])
    latent = np.array([[0.05, 0.03], [0.03, 0.0325]])
    known = margin(Between(p, p * (1 - p), latent, n))
    w = best_weights(known, k)
    simulated = w @ (2 * means - 1)
    assert deflection(known, k, w) == pytest.approx((simulated.mean() / simulated.std()) ** 2, rel=0.02)


def test_an_indefinite_covariance_is_shrunk() -> None:
    impossible = law([0.7] * 3, [[0.5, 0.49, -0.49], [0.49, 0.5, 0.49], [-0.49, 0.49, 0.5]])
    assert impossible.shrunk < 1
    assert np.linalg.eigvalsh(impossible.latent)[0] > -1e-12
    assert law([0.7, 0.8], [[0.5, 0.4], [0.4, 0.5]]).shrunk == 1


@pytest.mark.slow
def test_allocation_reaches_98_percent_of_enumeration() -> None:
    rng = np.random.default_rng(1)
    worst = 1.0
    for case in range(examples(100)):
        branches = 2 + case % 3 // 2
        most = rng.integers(2, 5, branches)
        known, cost = random_law(branches, rng), np.exp(rng.uniform(-2, 2, branches))
        budget = float(rng.uniform(0.2, 0.9) * (most @ cost))
        every = np.array(list(product(*(range(limit + 1) for limit in most))))
        best = deflections(known, every[every @ cost <= budget]).max()
        k = allocate(known, cost, budget, most)
        assert k @ cost <= budget * (1 + 1e-9) and (k <= most).all()
        if best > 0:
            worst = min(worst, float(deflections(known, k)[0] / best))
    assert worst >= 0.98


@pytest.mark.slow
def test_a_large_problem_is_searched() -> None:
    """Adding the one best path at a time, and any exchange of one path for another, finds nothing better."""
    known = random_law(9, np.random.default_rng(2))
    cost, most = np.linspace(1, 3, 9), np.full(9, 8)
    k = allocate(known, cost, 25.0, most)
    assert k @ cost <= 25 and (k <= most).all()
    moved = [k - unit + other for unit in np.eye(9, dtype=int) for other in np.eye(9, dtype=int)]
    near = np.array([each for each in moved if each.min() >= 0 and each.max() <= 8 and each @ cost <= 25])
    assert deflections(known, near).max() <= deflections(known, k)[0] * (1 + 1e-9)


def test_what_costs_exactly_the_budget_is_affordable() -> None:
    known = law([0.8, 0.7], [[0.5, 0.2], [0.2, 0.3]])
    assert allocate(known, [0.1, 5.0], 0.1 * 3, [3, 8]).tolist() == [3, 0]
    assert allocate(known, [2.0, 3.0], 1.0, [3, 8]).tolist() == [0, 0]
