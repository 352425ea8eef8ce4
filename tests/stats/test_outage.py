"""The limit law of the plurality against exact sums over counts, and its fit against known laws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from benchmarks.stats.limit_law import diversity_order, fit_outage
from keff.stats.models.betabinomial import majority_binomial, majority_curve, majority_limit
from keff.stats.votes import Votes


def three_answers(k: int, tilt: float, third: float = 0.1) -> float:
    """Exact accuracy where margins have the density 1 + tilt m on [-1/2, 1/2] and a third answer has .1."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    margin = nodes / 2
    right = ((1 - third) + margin) / 2 / (1 - third)
    voting = np.arange(k + 1)[:, None]
    binom = scipy.stats.binom
    wins = binom.sf(voting // 2, voting, right) + np.where(
        voting % 2, 0, binom.pmf(voting // 2, voting, right) / 2
    )
    share = binom.pmf(k - voting[:, 0], k, third)
    return float(weights / 2 @ ((1 + tilt * margin) * (share @ wins)))


def test_three_answers_approach_the_floor_as_derived() -> None:
    """(f v)'(0)/2 with f = 1 + tilt m and v = .9 - m^2: half of tilt times .9."""
    tilt, slope = 0.8, 0.8 * 0.9 / 2
    near, far = (k * (0.5 + tilt / 8 - three_answers(k, tilt)) for k in (50, 150))
    assert abs(far - slope) < abs(near - slope) / 2
    # What is left falls as 1/K: carried on, both say the limit.
    assert (150 * far - 50 * near) / 100 == pytest.approx(slope, rel=0.005)


@pytest.mark.parametrize(("p", "c"), [(0.8, 0.6), (0.43, 0.45), (0.6, 0.2)])
def test_two_answers_give_the_gap_law_of_the_beta_binomial(p: float, c: float) -> None:
    """With margins 2 theta - 1 the slope is (alpha - beta) f(1/2)/4, f the beta density."""
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    slope = (a - b) * scipy.stats.beta.pdf(0.5, a, b) / 4
    k = 401
    assert k * (majority_limit(p, c) - majority_curve(k, p, c)[-1]) == pytest.approx(slope, rel=0.02)


def test_the_fit_finds_floor_slope_and_order_of_two_answers() -> None:
    rng = np.random.default_rng(3)
    theta = rng.beta(2.0, 1.0, 3000)
    correct = (rng.random((3000, 32)) < theta[:, None]).astype(int)
    law = fit_outage(Votes(1 - correct, correct))
    # Beta(2, 1): P(theta < 1/2) = 1/4, and (alpha - beta) f(1/2)/4 = 1/4.
    assert law.floor.lo < 0.25 < law.floor.hi
    assert law.slope.lo < 0.25 < law.slope.hi
    assert law.falls is False
    assert (law.first, law.last) == (16, 32)
    assert law.accuracy([1000])[0] == pytest.approx(0.75, abs=0.03)


def test_a_curve_that_falls_to_its_limit_is_told() -> None:
    rng = np.random.default_rng(4)
    theta = rng.beta(1.0, 2.0, 4000)
    correct = (rng.random((4000, 16)) < theta[:, None]).astype(int)
    law = fit_outage(Votes(1 - correct, correct))
    assert law.falls is True
    with pytest.raises(ValueError, match="two numbers of paths"):
        fit_outage(Votes(1 - correct[:, :4], correct[:, :4]))


def test_the_order_is_one_with_a_density_at_zero_and_grows_without() -> None:
    k = np.arange(1, 101)
    assert diversity_order(0.9 - 0.3 / k, 0.1)[-20:] == pytest.approx(1)
    apart = np.array([float(majority_binomial(each, 0.7)) for each in range(1, 100, 2)])
    above = -np.diff(np.log(1 - apart)) / np.diff(np.log(np.arange(1, 100, 2)))
    assert above[-1] > 3 * above[5]
    assert np.isnan(diversity_order([0.9, 0.95], 0.08)[0])
