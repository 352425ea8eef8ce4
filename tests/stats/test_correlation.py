import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from how_many import examples
from keff.stats.models.betabinomial import betabinom_logpmf
from keff.stats.votes import Votes
from keff.stats.voting.alike import vote_patterns
from keff.stats.voting.correlation import (
    agreement,
    agreement_patterns,
    anova_c,
    correctness_agreement,
    correlation_matrix,
    fleiss_kappa,
    pearson_c,
    pooled_c,
    pooled_from_hist,
    unbias,
)

matrices = st.tuples(st.integers(2, 12), st.integers(2, 7)).flatmap(
    lambda s: arrays(np.int64, s, elements=st.integers(0, 1))
)
codes = st.tuples(st.integers(1, 8), st.integers(2, 7)).flatmap(
    lambda s: arrays(np.int64, s, elements=st.integers(-1, 3))
)

quick = settings(max_examples=examples(40), deadline=None)


def mixed(matrix):
    return 0 < matrix.mean() < 1


def eq3(matrix):
    """Equation 3 as it stands, pair by pair."""
    p = matrix.mean()
    pairs = combinations(range(matrix.shape[1]), 2)
    return np.mean([((matrix[:, j] * matrix[:, k]).mean() - p * p) / (p * (1 - p)) for j, k in pairs])


@quick
@given(matrices.filter(mixed))
def test_pooled_c_is_equation_3_and_depends_on_counts_alone(matrix):
    votes = Votes.from_correct(matrix)
    assert pooled_c(votes) == pytest.approx(eq3(matrix), abs=1e-12)
    assert pooled_c(votes.hist) == pooled_c(votes)


@quick
@given(matrices.filter(mixed))
def test_anova_c_is_the_one_way_analysis_of_variance(matrix):
    n, k = matrix.shape
    rows = matrix.mean(axis=1)
    between = k * np.sum((rows - matrix.mean()) ** 2) / (n - 1)
    within = np.sum((matrix - rows[:, None]) ** 2) / (n * (k - 1))
    icc = (between - within) / (between + (k - 1) * within)
    assert anova_c(Votes.from_correct(matrix)) == pytest.approx(icc, abs=1e-12)


@quick
@given(matrices.filter(mixed))
def test_pooled_c_splits_into_covariance_and_slot_spread(matrix):
    k, t = matrix.shape[1], matrix.mean() * (1 - matrix.mean())
    covariance = np.cov(matrix.T, ddof=0)
    mean_cov = covariance[np.triu_indices(k, 1)].mean()
    spread = matrix.mean(axis=0).var()
    assert pooled_c(Votes.from_correct(matrix)) == pytest.approx((mean_cov - spread / (k - 1)) / t, abs=1e-12)


@quick
@given(matrices)
def test_pearson_matches_numpy_and_counts_dropped_pairs(matrix):
    k = matrix.shape[1]
    varied = matrix.std(axis=0) > 0
    rho, dropped = pearson_c(Votes.from_correct(matrix))
    good = int(varied.sum())
    assert dropped == k * (k - 1) // 2 - good * (good - 1) // 2
    if good < 2:
        assert math.isnan(rho)
    else:
        want = np.corrcoef(matrix[:, varied].T)[np.triu_indices(good, 1)].mean()
        assert rho == pytest.approx(want, abs=1e-12)
        table = correlation_matrix(Votes.from_correct(matrix))
        assert np.isnan(table[:, ~varied]).all()


@quick
@given(codes)
def test_agreement_counts_equal_pairs_and_abstentions_agree_with_nothing(matrix):
    k = matrix.shape[1]
    want = [
        np.mean([row[j] == row[m] and row[j] >= 0 for j, m in combinations(range(k), 2)]) for row in matrix
    ]
    votes = Votes(matrix, None)
    np.testing.assert_allclose(agreement_patterns(votes)[vote_patterns(votes).back], want, atol=1e-15)


@quick
@given(matrices)
def test_correctness_agreement_is_agreement_of_right_and_wrong(matrix):
    assert correctness_agreement(Votes.from_correct(matrix)) == pytest.approx(agreement(Votes(matrix, None)))


def test_fleiss_kappa_of_his_own_example():
    """Fleiss (1971): 10 subjects, 14 raters, 5 categories; kappa .210."""
    table = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    answers = np.array([np.repeat(np.arange(5), row) for row in table])
    assert fleiss_kappa(Votes(answers, None, closed=True)) == pytest.approx(0.20993, abs=1e-5)


def test_kappa_is_undefined_for_a_constant():
    assert math.isnan(fleiss_kappa(Votes([[2, 2], [2, 2]], None, closed=True)))


def test_binary_kappa_at_gold_coding_is_pooled_c():
    matrix = np.random.default_rng(1).integers(0, 2, (30, 5))
    votes = Votes(matrix, matrix, closed=True)
    assert fleiss_kappa(votes) == pytest.approx(pooled_c(votes), abs=1e-12)


@pytest.mark.parametrize("function", [pooled_c, anova_c, pearson_c])
def test_too_little_is_refused(function):
    with pytest.raises(ValueError, match="at least two paths"):
        function(Votes.from_correct([[1], [0]]))
    with pytest.raises(ValueError, match="at least two items"):
        function(Votes.from_correct([[1, 0]]))


@pytest.mark.parametrize("value", [0, 1])
def test_degenerate_is_nan(value):
    votes = Votes.from_correct(np.full((5, 3), value))
    assert math.isnan(pooled_c(votes))
    assert math.isnan(anova_c(votes))


def test_extremes():
    assert pooled_c(Votes.from_correct([[1, 1, 1], [0, 0, 0]])) == 1
    assert anova_c(Votes.from_correct([[1, 1, 1], [0, 0, 0]])) == 1
    assert pooled_c(Votes.from_correct([[1, 0, 0], [0, 1, 0]])) == -0.5
    assert anova_c(Votes.from_correct([[1, 0, 0], [0, 1, 0]])) == -0.5


def test_anova_c_is_unbiased_where_the_pooled_one_is_not():
    """25 x 4 at (.43, .45): the design's simulation has bias -.013 and .000."""
    rng = np.random.default_rng(11)
    law = np.exp(betabinom_logpmf(4, 0.43, 0.45))
    pooled = pooled_from_hist(rng.multinomial(25, law, 20_000))
    adjusted = unbias(pooled, 25, 4)
    assert np.mean(pooled) - 0.45 == pytest.approx(-0.013, abs=0.003)
    assert np.mean(adjusted) == pytest.approx(0.45, abs=0.003)
