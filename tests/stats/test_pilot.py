"""The best pilot for c and the bias of Eq. 3, against enumeration, limits and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from keff.stats.influence import model_variance
from keff.stats.models.betabinomial import betabinom_logpmf
from keff.stats.voting.choose import pilot_design, variance_of_c
from keff.stats.voting.correlation import (
    anova_c,
    pooled_c,
    pooled_from_hist,
    second_order_c,
    unbias,
)

CELLS = [(0.5, 0.51), (0.8, 0.16), (0.93, 0.33), (0.05, 0.3)]


def histograms(p: float, c: float, k: int, n: int, draws: int, seed: int = 0) -> np.ndarray:
    law = np.exp(betabinom_logpmf(k, p, np.array([c])))[0]
    return np.random.default_rng(seed).multinomial(n, law / law.sum(), size=draws)


@pytest.mark.parametrize(("p", "c"), CELLS)
@pytest.mark.parametrize("k", [2, 3, 4, 8, 32])
def test_the_variance_is_that_of_the_influence_summed_over_all_counts(p: float, c: float, k: int) -> None:
    assert variance_of_c(p, c, k) == pytest.approx(model_variance(k, p, np.array([c]))[0], rel=1e-10)


@pytest.mark.parametrize(("p", "c"), CELLS)
def test_no_other_number_of_paths_does_better(p: float, c: float) -> None:
    design = pilot_design(p, c)
    ks = np.linspace(1.5, 40, 4000)
    assert ks[np.argmin(ks * variance_of_c(p, c, ks))] == pytest.approx(design.exact, abs=0.02)
    assert abs(design.k - design.exact) < 1
    assert design.loss[4] == pytest.approx(
        math.sqrt(4 * variance_of_c(p, c, 4) / (design.k * variance_of_c(p, c, design.k))) - 1
    )


def test_even_odds_and_small_c_give_the_textbook_limit() -> None:
    assert pilot_design(0.5, 0.001).exact == pytest.approx(1.001 / 0.001, rel=0.003)
    # The paper's four paths are that limit at c = 1/3, and within a path of the best from .2 to .5.
    assert pilot_design(0.5, 1 / 3).limit == pytest.approx(4)
    assert all(abs(pilot_design(p, c).exact - 4) < 2.5 for p in (0.2, 0.5, 0.9) for c in (0.2, 1 / 3, 0.5))


@pytest.mark.slow
def test_simulated_pilots_of_400_paths_err_as_derived() -> None:
    for p, c in [(0.5, 0.51), (0.5, 0.16)]:
        for k in (2, 4, 8):
            n = 400 // k
            drawn = unbias(pooled_from_hist(histograms(p, c, k, n, 4000)), n, k)
            assert np.std(drawn) == pytest.approx(math.sqrt(float(variance_of_c(p, c, k)) / n), rel=0.05)


def derived_bias(p: float, c: float, n: int, k: int) -> float:
    """The leading bias of Eq. 3 as docs/statistics.md derives it."""
    even = p * (1 - p)
    third = p * (p * (1 - c) + c) * (p * (1 - c) + 2 * c) / (1 + c)
    bent = (2 * c * (1 - 2 * p) ** 2 + 4 * p * (1 - 2 * p) - 2 * (1 - c) * even) / even**2
    second = p**2 + c * even
    covariance = ((k - 2) * third + 2 * second) / k - p * second
    return (bent * even * (1 + (k - 1) * c) / k / 2 - (1 - 2 * p) / even**2 * covariance) / n


@pytest.mark.slow
def test_towards_certainty_the_simulated_bias_is_the_derived_one_and_is_taken_out() -> None:
    p, c, n, k, draws = 0.93, 0.33, 100, 4, 40_000
    some = histograms(p, c, k, n, draws)
    pooled = pooled_from_hist(some)
    error = float(np.std(pooled)) / math.sqrt(draws)
    assert pooled.mean() - c == pytest.approx(derived_bias(p, c, n, k), abs=4 * error + 0.0015)
    assert pooled.mean() - c < -0.011  # the short formula says -.0033
    assert unbias(pooled, n, k).mean() - c < -0.008
    assert abs(second_order_c(some).mean() - c) < 0.004


def test_the_corrections_agree_where_p_is_one_half() -> None:
    hist = [20, 8, 4, 8, 20]
    n, k, c = 60, 4, pooled_c(hist)
    assert second_order_c(hist) - c == pytest.approx((1 - c) * (1 + (k - 1) * c) / ((n - 1) * k))
    assert second_order_c(hist) == pytest.approx(anova_c(hist), abs=1e-3)
    assert math.isnan(second_order_c([0, 0, 5]))
