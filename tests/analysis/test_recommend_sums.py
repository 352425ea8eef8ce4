"""Means and variances from sums: as from the values themselves, also when a part is taken away."""

import numpy as np
import pytest

from keff.analysis.recommend.sums import Sums


def direct(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """The variance of the mean by its definition: of the clusters' totals of deviations."""
    apart = values - values.mean(axis=0)
    totals = np.array([apart[clusters == each].sum(axis=0) for each in np.unique(clusters)])
    groups = len(totals)
    return (totals**2).sum(axis=0) / len(values) ** 2 * groups / max(groups - 1, 1)


@pytest.mark.parametrize("clustered", [False, True])
def test_sums_give_the_mean_and_its_variance_of_any_part(clustered: bool) -> None:
    rng = np.random.default_rng(5)
    clusters = rng.integers(0, 60, 200) if clustered else np.arange(200)
    values = 3 + rng.random((200, 4)) * [1.0, 10.0, 1e-3, 0.0]
    whole = Sums.of(values, clusters)
    for part in (np.isin(clusters, [1]), np.isin(clusters, np.unique(clusters)[::3])):
        rest = whole.without(Sums.of(values[part], clusters[part]))
        np.testing.assert_allclose(rest.mean, values[~part].mean(axis=0), rtol=1e-13)
        want = direct(values[~part], clusters[~part])
        np.testing.assert_allclose(rest.variance, want, rtol=1e-6, atol=1e-14)
        assert rest.groups == np.unique(clusters[~part]).size
    np.testing.assert_allclose(whole.variance, direct(values, clusters), rtol=1e-6, atol=1e-14)


def test_one_cluster_has_no_variance() -> None:
    assert Sums.of(np.arange(6.0)[:, None], np.zeros(6, int)).variance == pytest.approx([0.0], abs=1e-15)
