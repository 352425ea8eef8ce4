"""The one-factor copula: closed forms, brute force over patterns, and recovery of known slots."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from keff.stats.branches.slots import OneFactorCopula, bivariate_normal, c_from_rho_d, fit_copula
from keff.stats.models.betabinomial import majority_binomial
from keff.stats.votes import Votes


def simulate(rng, p, rho, n):
    h = ndtri(np.asarray(p))
    score = math.sqrt(rho) * rng.normal(size=(n, 1)) + math.sqrt(1 - rho) * rng.normal(size=(n, h.size))
    return Votes.from_correct((score < h).astype(int))


@given(st.floats(0.02, 0.98), st.integers(1, 12))
def test_without_correlation_it_is_binomial(p, k):
    copula = OneFactorCopula(np.full(k, ndtri(p)), 0.0, False)
    assert copula.majority() == pytest.approx(float(majority_binomial(k, p)), abs=1e-12)


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=6))
def test_without_correlation_unequal_slots_by_enumeration(p):
    want = 0.0
    for outcome in itertools.product([0, 1], repeat=len(p)):
        chance = math.prod(q if y else 1 - q for q, y in zip(p, outcome, strict=True))
        want += chance * (0.5 + 0.5 * np.sign(2 * sum(outcome) - len(p)))
    assert OneFactorCopula(ndtri(np.array(p)), 0.0, False).majority() == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8, 0.95, 0.999])
def test_two_and_three_slots_in_closed_form(rho):
    h = ndtri(np.array([0.3, 0.6, 0.9]))
    copula = OneFactorCopula(h, rho, False)
    assert copula.majority([0, 2]) == pytest.approx(0.6, abs=1e-12)
    # Three equal slots at the median: the orthant probability is known.
    median = OneFactorCopula(np.zeros(3), rho, False)
    orthant = 1 / 8 + 3 * math.asin(rho) / (4 * math.pi)
    both = 1 / 4 + math.asin(rho) / (2 * math.pi)
    assert median.majority() == pytest.approx(3 * both - 2 * orthant, abs=1e-12)


@pytest.mark.parametrize("rho", [0.2, 0.9, 0.99])
def test_majority_of_many_slots_by_a_fine_integral(rho):
    p = np.array([0.3, 0.5, 0.8, 0.9, 0.6, 0.2, 0.75])
    z = np.linspace(-9, 9, 40_001)
    mass = np.exp(-z * z / 2)
    inside = ndtr((ndtri(p)[:, None] + math.sqrt(rho) * z) / math.sqrt(1 - rho))
    total = np.zeros_like(z)
    for outcome in itertools.product([0, 1], repeat=7):
        if sum(outcome) >= 4:
            total += np.prod(np.where(np.array(outcome)[:, None] == 1, inside, 1 - inside), axis=0)
    want = float(total @ mass / mass.sum())
    assert OneFactorCopula(ndtri(p), rho, False).majority() == pytest.approx(want, abs=1e-9)


def test_fit_matches_accuracies_and_mean_joint_accuracy():
    votes = simulate(np.random.default_rng(0), [0.3, 0.5, 0.7, 0.9], 0.5, 400)
    copula = fit_copula(votes)
    y = votes.correct.astype(float)
    np.testing.assert_allclose(ndtr(copula.thresholds), y.mean(axis=0), rtol=1e-12)
    pairs = list(itertools.combinations(range(4), 2))
    h = copula.thresholds
    fitted = np.mean([bivariate_normal(h[i], h[j], copula.rho_d) for i, j in pairs])
    assert fitted == pytest.approx(np.mean([(y[:, i] * y[:, j]).mean() for i, j in pairs]), abs=1e-12)
    assert not copula.clipped


def test_fit_recovers_the_truth_and_predicts_subsets():
    p, rho = [0.2, 0.4, 0.6, 0.8, 0.9], 0.6
    votes = simulate(np.random.default_rng(1), p, rho, 60_000)
    copula = fit_copula(votes)
    assert copula.rho_d == pytest.approx(rho, abs=0.01)
    subsets = list(itertools.combinations(range(5), 3))
    counted = [(votes.correct[:, s].sum(axis=1) >= 2).mean() for s in subsets]
    np.testing.assert_allclose(copula.majorities(subsets), counted, atol=0.008)


def test_equal_slots_agree_with_the_surrogate():
    votes = simulate(np.random.default_rng(2), [0.8] * 6, 0.5, 40_000)
    assert fit_copula(votes).rho_d == pytest.approx(0.5, abs=0.02)
    assert c_from_rho_d(fit_copula(votes).rho_d, 0.8) == pytest.approx(c_from_rho_d(0.5, 0.8), abs=0.02)


def test_what_one_factor_cannot_give_is_clipped():
    opposed = fit_copula(Votes.from_correct([[1, 0], [0, 1], [1, 0], [0, 1]]))
    assert (opposed.rho_d, opposed.clipped) == (0.0, True)
    same = fit_copula(Votes.from_correct([[1, 1], [0, 0], [1, 1], [0, 0]]))
    assert same.clipped
    assert same.majority() == pytest.approx(0.5)


def test_a_constant_slot_stays_constant():
    copula = fit_copula(Votes.from_correct([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]]))
    assert copula.majority([0]) == pytest.approx(1.0)
    assert copula.majority([2]) == pytest.approx(0.0)
    assert copula.majority([0, 1, 2]) == pytest.approx(0.5)


def test_bad_input():
    with pytest.raises(ValueError, match="two slots"):
        fit_copula(Votes.from_correct([[1], [0]]))
    with pytest.raises(ValueError, match="one slot"):
        OneFactorCopula(np.zeros(2), 0.1, False).majority([])
