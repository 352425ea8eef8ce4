"""The one-factor copula's majority: closed forms and a fine integral."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from keff.stats.branches.slots import copula_majority
from keff.stats.models.betabinomial import majority_binomial


@given(st.floats(0.02, 0.98), st.integers(1, 12))
def test_without_correlation_it_is_binomial(p, k):
    assert copula_majority(k, p, 0.0) == pytest.approx(float(majority_binomial(k, p)), abs=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8, 0.95, 0.999])
def test_two_and_three_paths_in_closed_form(rho):
    assert copula_majority(2, 0.6, rho) == pytest.approx(0.6, abs=1e-12)
    assert copula_majority(1, 0.9, rho) == pytest.approx(0.9, abs=1e-12)
    # By symmetry.
    assert copula_majority(3, 0.5, rho) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("rho", [0.2, 0.9, 0.99])
def test_majority_of_many_paths_by_a_fine_integral(rho):
    z = np.linspace(-9, 9, 40_001)
    inside = ndtr((ndtri(0.7) + math.sqrt(rho) * z) / math.sqrt(1 - rho))
    wins = sum(math.comb(7, s) * inside**s * (1 - inside) ** (7 - s) for s in range(4, 8))
    assert copula_majority(7, 0.7, rho) == pytest.approx(
        np.average(wins, weights=np.exp(-z * z / 2)), abs=1e-9
    )


def test_stronger_correlation_than_the_grid_reaches_is_one_path():
    assert copula_majority(9, 0.8, 1.0) == pytest.approx(0.8, abs=0.01)
