import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from how_many import examples
from keff.stats.votes import Votes
from keff.stats.voting.choose import (
    ceiling,
    k_eff,
    k_eff_block,
    k_eff_deflection,
    k_eff_rank,
    k_eff_rank_equal,
    marginal_gain,
    percent_of_ceiling,
)
from keff.stats.voting.correlation import pooled_c

matrices = st.tuples(st.integers(2, 12), st.integers(2, 7)).flatmap(
    lambda s: arrays(np.int64, s, elements=st.integers(0, 1))
)

quick = settings(max_examples=examples(40), deadline=None)


@quick
@given(matrices.filter(lambda m: 0 < m.mean() < 1))
def test_block_equals_vote_at_pooled_c_for_every_matrix(matrix):
    votes = Votes.from_correct(matrix)
    block = k_eff_block(votes)
    want = float(k_eff(votes.k, pooled_c(votes)))
    assert block == want if math.isinf(block) else block == pytest.approx(want, rel=1e-9)


def test_block_with_the_papers_divisor():
    matrix = np.random.default_rng(0).integers(0, 2, (20, 5))
    p, spread = matrix.mean(), matrix.mean(axis=1).var(ddof=1)
    assert k_eff_block(Votes.from_correct(matrix), ddof=1) == pytest.approx(p * (1 - p) / spread)


@quick
@given(st.integers(1, 200), st.floats(0.01, 1))
def test_monotone_bounded_and_saturating(k, c):
    value = float(k_eff(k, c))
    assert 1 - 1e-12 <= value <= min(k, float(ceiling(c))) + 1e-9
    assert float(k_eff(k + 1, c)) >= value - 1e-12
    assert float(percent_of_ceiling(k, c)) == pytest.approx(100 * value / float(ceiling(c)))


@quick
@given(st.integers(2, 60), st.floats(0.0, 0.99))
def test_marginal_gain_is_the_derivative(k, c):
    step = 1e-5
    slope = (float(k_eff(k + step, c)) - float(k_eff(k - step, c))) / (2 * step)
    assert float(marginal_gain(k, c)) == pytest.approx(slope, rel=1e-6, abs=1e-9)


@quick
@given(st.integers(1, 12), st.floats(-0.05, 1))
def test_participation_ratio_of_the_equal_case(k, rho):
    covariance = 2.5 * ((1 - rho) * np.eye(k) + rho)
    assert k_eff_rank(covariance) == pytest.approx(float(k_eff_rank_equal(k, rho)), rel=1e-12)


def test_edges():
    assert k_eff(1, 0.7) == 1
    assert k_eff(8, 0.0) == 8
    assert k_eff(8, 1.0) == 1
    assert k_eff(8, -1 / 7) == math.inf
    assert k_eff(8, -0.05) > 8
    assert ceiling(0.0) == math.inf
    assert ceiling(-0.1) == math.inf
    assert percent_of_ceiling(8, -0.1) == 0
    assert np.isnan(k_eff(8, math.nan))
    assert np.isnan(ceiling(math.nan))
    assert np.isnan(percent_of_ceiling(8, math.nan))
    assert math.isnan(k_eff_block(Votes.from_correct([[1, 1], [1, 1]])))
    assert k_eff([4, 8], [0.5, 0.0]).tolist() == [1.6, 8.0]


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.ones((2, 3)), [[1.0, 0.2], [0.5, 1.0]], [[math.nan]]])
def test_effective_rank_refuses_what_is_no_covariance(bad):
    with pytest.raises(ValueError):
        k_eff_rank(bad)


def test_k_eff_by_deflection_is_the_paper_s_for_plain_votes() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random((300, 6)) < rng.beta(4, 2, (300, 1))).astype(int)
    votes = Votes.from_correct(right)
    found = k_eff_deflection(votes, np.ones(right.shape))
    assert found.value == pytest.approx(k_eff(6, pooled_c(votes)), rel=1e-12)
    assert found.limits is not None and found.limits[0] < found.value < found.limits[1]
    assert k_eff_deflection(votes, np.full(right.shape, 3.0)).value == pytest.approx(found.value)


def test_k_eff_of_one_path_that_knows_its_chance_is_the_closed_form() -> None:
    # Of all weights 2p - 1 separates most: d^2 = m / (1 - m) with m the mean of (2p - 1)^2.
    rng = np.random.default_rng(1)
    chance = rng.beta(3, 1, (200_000, 1))
    votes = Votes.from_correct((rng.random(chance.shape) < chance).astype(int))
    m, one = float(np.mean((2 * chance - 1) ** 2)), (2 * 0.75 - 1) ** 2
    found = k_eff_deflection(votes, np.maximum(2 * chance - 1, -1))
    assert found.value == pytest.approx(m / (1 - m) / (one / (1 - one)), rel=0.02)


def test_independent_paths_that_abstain_at_random_are_worth_as_many_as_they_are() -> None:
    """Also where abstentions make half of all paths wrong, so that a plain one tells nothing."""
    rng = np.random.default_rng(2)
    voting = (rng.random((20_000, 5)) < 0.65).astype(float)
    votes = Votes.from_correct(((rng.random(voting.shape) < 0.77) & (voting > 0)).astype(int))
    assert k_eff_deflection(votes, voting, voting=voting).value == pytest.approx(5, rel=0.03)


def test_an_abstention_of_a_wrong_path_counts_for_it() -> None:
    right = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 1]] * 5)
    votes = Votes.from_correct(right)
    knows = k_eff_deflection(votes, np.where(right == 1, 1.0, 0.0))
    assert knows.value > k_eff_deflection(votes, np.ones(right.shape)).value
