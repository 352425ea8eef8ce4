"""The weight-matrix bootstrap against its moments and a loop; folds and clustered errors."""

from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest

from keff.stats.resampling import cluster_folds, clustered_se, group_sums, resampled_totals
from keff.stats.votes import Votes


def test_totals_have_the_moments_of_the_bootstrap():
    rng = np.random.default_rng(0)
    units = np.column_stack([np.ones(40, int), rng.integers(0, 9, (40, 2))])
    totals = resampled_totals(units, 20_000, rng)
    assert totals.shape == (3, 20_000)
    np.testing.assert_array_equal(totals[0], 40)
    np.testing.assert_allclose(totals.mean(axis=1), units.sum(axis=0), rtol=0.01)
    np.testing.assert_allclose(np.cov(totals[1:]), 40 * np.cov(units[:, 1:].T, ddof=0), rtol=0.05, atol=1.5)


def test_weights_are_multinomial():
    totals = resampled_totals(np.eye(3, dtype=int), 30_000, np.random.default_rng(1)).T
    values, counts = np.unique(totals, axis=0, return_counts=True)
    chance = {(3, 0, 0): 1 / 27, (2, 1, 0): 3 / 27, (1, 1, 1): 6 / 27}
    for value, count in zip(values, counts, strict=True):
        assert count / 30_000 == pytest.approx(chance[tuple(sorted(value, reverse=True))], abs=0.01)


def test_single_and_double_precision_agree_exactly():
    units = np.random.default_rng(2).integers(0, 1000, (50, 4))
    single = resampled_totals(units, 300, np.random.default_rng(3))
    double = resampled_totals(units.astype(float), 300, np.random.default_rng(3))
    np.testing.assert_array_equal(single, double)


def test_large_integers_stay_exact():
    units = np.full((7, 1), 2**30 + 1)
    np.testing.assert_array_equal(resampled_totals(units, 10, np.random.default_rng(0)), 7 * (2**30 + 1))


def test_more_units_than_a_block_holds():
    totals = resampled_totals(np.ones((60_000, 1), int), 3, np.random.default_rng(0))
    np.testing.assert_array_equal(totals, 60_000)


def test_group_sums():
    sums = group_sums(np.array([[1, 2], [3, 4], [5, 6]]), np.array([1, 0, 1]), 3)
    np.testing.assert_array_equal(sums, [[3, 4], [6, 8], [0, 0]])


def test_folds_keep_clusters_together():
    clusters = np.repeat(np.arange(23), 4)
    votes = Votes.from_correct(np.zeros((92, 2), int), clusters)
    fold = cluster_folds(votes, 5, np.random.default_rng(0))
    assert all(np.unique(fold[clusters == c]).size == 1 for c in range(23))
    sizes = np.bincount(fold)
    assert sizes.size == 5
    assert sizes.max() - sizes.min() <= 4
    with pytest.raises(ValueError, match="folds"):
        cluster_folds(votes, 24, np.random.default_rng(0))


@pytest.mark.slow
def test_patterns_in_folds_follow_the_multivariate_hypergeometric_law():
    votes = Votes.from_correct([[0, 0]] * 3 + [[0, 1]] * 2 + [[1, 1]] * 2)
    rng, draws = np.random.default_rng(5), 20_000
    first = [cluster_folds(votes, 2, rng) == 0 for _ in range(draws)]
    drawn = Counter(tuple(np.bincount(votes.counts[fold], minlength=3).tolist()) for fold in first)
    law = {
        (none, half, both): comb(3, none) * comb(2, half) * comb(2, both) / comb(7, 4)
        for none, half, both in product(range(4), range(3), range(3))
        if none + half + both == 4
    }
    assert set(drawn) == set(law)
    for counts, chance in law.items():
        assert drawn[counts] / draws == pytest.approx(chance, abs=0.015)


def test_clustered_se():
    values = np.random.default_rng(0).normal(size=100)
    alone = clustered_se(values, np.arange(100))
    assert alone == pytest.approx(values.std(ddof=1) / 10)
    copies = clustered_se(np.repeat(values, 7), np.repeat(np.arange(100), 7))
    assert copies == pytest.approx(alone)
    assert np.isnan(clustered_se(values, np.zeros(100, int)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["few", "kinds", "many", "rare"])
def test_totals_of_many_rows_have_the_law_of_resampled_rows(kind: str) -> None:
    """Counts of equal rows, and the normal limit, have the mean and the covariance of resampling."""
    rng = np.random.default_rng(3)
    n, reps = 30_000, 1000
    values = rng.integers(0, 3, n) if kind == "few" else rng.random(n)
    values = values[rng.integers(0, 3000, n)] if kind == "kinds" else values
    columns = np.column_stack([np.ones(n), values, values * (np.arange(n) < (20 if kind == "rare" else n))])
    totals = resampled_totals(columns, reps, np.random.default_rng(4))
    assert totals.shape == (3, reps)
    apart = columns - columns.mean(axis=0)
    covariance = apart.T @ apart
    np.testing.assert_allclose(totals[0], n, rtol=1e-12)
    error = np.sqrt(np.diag(covariance) / reps)
    np.testing.assert_array_less(np.abs(totals.mean(axis=1) - columns.sum(axis=0)), 5 * error + 1e-6)
    unsure = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / reps)
    np.testing.assert_array_less(np.abs(np.cov(totals) - covariance), 5 * unsure + 1e-6)
    if kind == "rare":  # those rows are counted: no normal law would be as skewed
        assert totals[2].min() >= 0


@pytest.mark.parametrize(("minus", "normal"), [(0, False), (300, True)])
def test_skewed_totals_are_drawn_and_even_ones_come_from_their_normal_limit(minus: int, normal: bool) -> None:
    """Rows that weigh a three-hundredth each: their skewness decides, and drawn totals are whole numbers."""
    values = np.zeros(6000)
    values[:300] = np.exp(np.linspace(0, 1e-7, 300))  # as good as 1, and of many kinds
    values[300 : 300 + minus] = -1.0
    values[600:] = np.linspace(0, 1e-7, 5400)
    totals = resampled_totals(values[:, None], 400, np.random.default_rng(2))[0]
    assert totals.std() == pytest.approx(np.sqrt(values @ values - values.sum() ** 2 / 6000), rel=0.15)
    whole = np.abs(totals - np.round(totals)) < 1e-3
    assert bool(whole.all()) != normal
