from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from how_many import examples
from keff.stats.models.betabinomial import (
    betabinom_logpmf,
    majority_at_k,
    majority_at_k_items,
    majority_binomial,
    majority_curve,
    majority_prefix,
    majority_prefix_items,
    majority_table,
    multiclass_p,
)
from keff.stats.votes import Votes

quick = settings(max_examples=examples(40), deadline=None)
matrices = st.tuples(st.integers(1, 5), st.integers(1, 8)).flatmap(
    lambda s: arrays(np.int64, s, elements=st.integers(0, 1))
)


def score(right, size):
    return 1.0 if 2 * right > size else 0.5 if 2 * right == size else 0.0


@quick
@given(matrices)
def test_majority_at_k_is_the_average_over_all_subsets(matrix):
    n, k = matrix.shape
    want = np.zeros((n, k))
    for size in range(1, k + 1):
        subsets = list(combinations(range(k), size))
        want[:, size - 1] = [
            np.mean([score(row[list(sub)].sum(), size) for sub in subsets]) for row in matrix
        ]
    votes = Votes.from_correct(matrix)
    np.testing.assert_allclose(majority_at_k_items(votes), want, atol=1e-14)
    np.testing.assert_allclose(majority_at_k(votes), want.mean(axis=0), atol=1e-14)
    np.testing.assert_array_equal(majority_at_k(votes.hist), majority_at_k(votes))


@pytest.mark.parametrize("k", [1, 2, 31, 32, 160])
def test_the_table_is_hypergeometric(k):
    table = majority_table(k)
    for size in {size for size in (1, 2, 3, k // 2, k - 1, k) if 1 <= size <= k}:
        for s in {0, 1, k // 3, k // 2, k - 1, k}:
            ways = [comb(s, j) * comb(k - s, size - j) * int(2 * score(j, size)) for j in range(size + 1)]
            assert table[size - 1, s] == pytest.approx(sum(ways) / (2 * comb(k, size)), abs=1e-13)
    if k >= 4:
        np.testing.assert_array_equal(table[1::2], table[0::2][: k // 2])


def test_subset_averages_of_a_beta_binomial_are_beta_binomial():
    """Averaging MV@k over the law of S at K = 20 gives MV(k): the estimator is unbiased."""
    law = np.exp(betabinom_logpmf(20, 0.43, 0.45))
    np.testing.assert_allclose(majority_table(20) @ law, majority_curve(20, 0.43, 0.45), atol=1e-13)


@quick
@given(matrices)
def test_prefix_votes_on_the_first_paths(matrix):
    votes = Votes.from_correct(matrix)
    want = [[score(row[:size].sum(), size) for size in range(1, votes.k + 1)] for row in matrix]
    np.testing.assert_array_equal(majority_prefix_items(votes), want)
    np.testing.assert_allclose(majority_prefix(votes), np.mean(want, axis=0))
    np.testing.assert_allclose(majority_prefix(votes)[-1], majority_at_k(votes)[-1], atol=1e-14)


def test_condorcet():
    assert majority_binomial(3, 0.6) == pytest.approx(0.648)
    assert majority_binomial(4, 0.6) == pytest.approx(0.648)
    assert majority_binomial(1, 0.6) == 0.6


def test_multiclass_heuristic():
    assert multiclass_p(0.5, 4) == 0.75
    assert multiclass_p(0.3, 2) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="two possible answers"):
        multiclass_p(0.5, 1)
