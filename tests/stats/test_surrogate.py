"""The Gaussian decision surrogate against references, closed forms and its own inverse."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keff.stats.branches.slots import c_from_rho_d, rho_d_from_c
from reference import reference

accuracies = st.floats(1e-4, 1 - 1e-4)
correlations = st.floats(-1, 1)


def test_reference_values_both_ways():
    for args, c in reference("c_from_rho_d"):
        assert c_from_rho_d(args["rho_d"], args["p"]) == pytest.approx(c, rel=1e-10, abs=0)
        assert rho_d_from_c(c, args["p"]) == pytest.approx(args["rho_d"], rel=1e-10, abs=0)


@given(correlations)
def test_at_one_half_it_is_the_arcsine_law(rho):
    assert c_from_rho_d(rho, 0.5) == pytest.approx(2 / math.pi * math.asin(rho), rel=1e-13, abs=1e-15)


@given(accuracies)
def test_ends(p):
    assert c_from_rho_d(0.0, p) == 0.0
    assert c_from_rho_d(1.0, p) == pytest.approx(1.0, abs=1e-12)
    assert c_from_rho_d(-1.0, p) == -min(p / (1 - p), (1 - p) / p)
    assert rho_d_from_c(1.0, p) == 1.0


@given(accuracies, correlations, correlations)
def test_strictly_increasing_in_rho(p, one, other):
    low, high = sorted((one, other))
    assume(high - low > 1e-6)
    rising = c_from_rho_d(high, p) - c_from_rho_d(low, p)
    # At strongly negative rho the exact rise can be below one rounding of c.
    assert rising > 0 if low > -0.5 else rising >= -1e-14


@given(accuracies, st.floats(-0.9, 0.9999))
def test_inverse(p, rho):
    c = c_from_rho_d(rho, p)
    assume(c > -0.999 * min(p / (1 - p), (1 - p) / p))
    assert c_from_rho_d(rho_d_from_c(c, p), p) == pytest.approx(c, rel=1e-10, abs=1e-14)
    if rho > -0.5:
        assert rho_d_from_c(c, p) == pytest.approx(rho, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("rho", [1e-8, -1e-8, 1e-3])
def test_small_correlations_keep_their_digits(rho):
    h = -0.8416212335729142
    slope = math.exp(-h * h) / (2 * math.pi * 0.16)
    second = h * h * math.exp(-h * h) / (2 * math.pi * 0.16) / 2
    assert c_from_rho_d(rho, 0.2) == pytest.approx(slope * rho + second * rho**2, rel=1e-6)
    assert c_from_rho_d(1e-8, 0.2) == pytest.approx(slope * 1e-8 + second * 1e-16, rel=1e-13)


def test_both_formulas_meet_where_they_change():
    for p in (0.5, 0.55, 0.8, 0.99):
        below, above = c_from_rho_d(-0.9 - 1e-12, p), c_from_rho_d(-0.9 + 1e-12, p)
        assert below == pytest.approx(above, abs=1e-11)


@pytest.mark.parametrize(("rho", "p"), [(0.5, 0.0), (0.5, 1.0), (1.1, 0.5), (math.nan, 0.5), (0.5, math.nan)])
def test_bad_input(rho, p):
    with pytest.raises(ValueError, match=r"rho_d|accuracy"):
        c_from_rho_d(rho, p)


def test_an_impossible_c_is_named():
    with pytest.raises(ValueError, match=r"between -0\.25 and 1"):
        rho_d_from_c(-0.3, 0.8)
