"""The calculator against closed forms of the paper."""

from __future__ import annotations

import math

import pytest

from keff.analysis.predict import predict
from keff.errors import UsageError
from keff.stats.branches.slots import c_from_rho_d
from keff.stats.models.betabinomial import majority_binomial


@pytest.mark.parametrize(("p", "c", "k"), [(0.5, 0.4, 8), (0.9, 0.1, 32), (0.2, 0.0, 5)])
def test_surrogate_rank_and_multiclass_are_the_closed_forms(p: float, c: float, k: int) -> None:
    told = predict(p, c, k, answers=4)
    assert told.rho_d is not None
    assert c_from_rho_d(told.rho_d, p) == pytest.approx(c, abs=1e-12)
    assert told.k_eff_rank == pytest.approx(k / (1 + (k - 1) * told.rho_d**2))
    assert told.marginal_gain == pytest.approx((1 - c) / (1 + (k - 1) * c) ** 2)
    assert told.p_multiclass == pytest.approx(3 * p / (4 * p - 2 * p + 1))
    if c == 0:  # independent scores: the surrogate is the binomial
        assert told.copula == pytest.approx(told.binomial, abs=1e-9)
        assert told.multiclass == pytest.approx(majority_binomial(k, told.p_multiclass))


def test_one_half_at_p_one_half_has_the_arcsine() -> None:
    """At p = 1/2, c = 2 asin(rho_d) / pi."""
    assert predict(0.5, 0.25, 4).rho_d == pytest.approx(math.sin(math.pi * 0.25 / 2))


def test_what_does_not_exist_is_none() -> None:
    extreme = predict(1.0, 0.3, 8)
    assert (extreme.rho_d, extreme.k_eff_rank, extreme.copula, extreme.multiclass) == (None,) * 4
    negative = predict(0.6, -0.05, 8)
    assert negative.copula is None
    assert negative.rho_d is not None
    assert negative.rho_d < 0
    with pytest.raises(UsageError, match="at least two"):
        predict(0.5, 0.2, 8, answers=1)


def test_a_pilot_is_designed_when_asked_for_and_refused_where_there_is_nothing_to_measure() -> None:
    told = predict(0.8, 0.51, 8, pilot=True)
    assert told.pilot is not None
    assert told.pilot.k == 3
    assert told.to_dict()["pilot"]["loss"]["3"] == 0
    assert predict(0.8, 0.51, 8).pilot is None
    with pytest.raises(UsageError, match="a pilot is designed for"):
        predict(0.8, 0.0, 8, pilot=True)
