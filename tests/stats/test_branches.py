"""Covariances between branches against simulation with known laws, and against formulas for one branch."""

from __future__ import annotations

import numpy as np
import pytest

from keff.stats.branches.covariance import RANGE, branch_covariances, correlation_intervals
from keff.stats.votes import IntArray, Votes
from keff.stats.voting.correlation import anova_c


def theta(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Chances of being right of two branches: uniform on two points each, with a common part."""
    shared = rng.random(n) < 0.5
    own = rng.random((2, n)) < 0.5
    a = 0.5 + 0.2 * (2 * shared - 1.0) + 0.1 * (2 * own[0] - 1.0)
    b = 0.6 + 0.15 * (2 * shared - 1.0) + 0.1 * (2 * own[1] - 1.0)
    return a, b


COVARIANCE = 0.2 * 0.15
VARIANCES = (0.2**2 + 0.1**2, 0.15**2 + 0.1**2)


def draw(n: int, ks: tuple[int, int], rng: np.random.Generator) -> list[IntArray]:
    return [
        (rng.random((n, k)) < chance[:, None]).astype(np.int64)
        for chance, k in zip(theta(n, rng), ks, strict=True)
    ]


@pytest.mark.slow
def test_covariances_are_unbiased() -> None:
    rng = np.random.default_rng(0)
    seen = np.array([branch_covariances(draw(12, (3, 5), rng)).latent for _ in range(2500)])
    truth = np.array([[VARIANCES[0], COVARIANCE], [COVARIANCE, VARIANCES[1]]])
    error = seen.std(axis=0) / np.sqrt(len(seen))
    assert np.all(np.abs(seen.mean(axis=0) - truth) < 4 * error)


@pytest.mark.slow
def test_the_variance_of_a_path_is_unbiased() -> None:
    rng = np.random.default_rng(1)
    seen = np.array([branch_covariances(draw(8, (2, 4), rng)).variance for _ in range(2500)])
    error = seen.std(axis=0) / np.sqrt(len(seen))
    assert np.all(np.abs(seen.mean(axis=0) - [0.25, 0.24]) < 4 * error)


@pytest.mark.slow
def test_covariances_are_unbiased_for_clusters() -> None:
    """Three copies of each of 8 questions: the copies are no further questions."""
    rng = np.random.default_rng(2)
    ids = np.repeat(np.arange(8), 3)
    seen: list[np.ndarray] = []
    for _ in range(2500):
        chances = theta(8, rng)
        drawn = [(rng.random((24, 3)) < chance[ids][:, None]).astype(np.int64) for chance in chances]
        seen.append(branch_covariances(drawn, ids).latent)
    values = np.array(seen)
    error = values.std(axis=0) / np.sqrt(len(values))
    truth = np.array([[VARIANCES[0], COVARIANCE], [COVARIANCE, VARIANCES[1]]])
    assert np.all(np.abs(values.mean(axis=0) - truth) < 4 * error)


def test_the_diagonal_is_the_analysis_of_variance() -> None:
    drawn = draw(40, (4, 6), np.random.default_rng(3))
    c = branch_covariances(drawn).c
    for a, matrix in enumerate(drawn):
        assert c[a, a] == pytest.approx(anova_c(Votes.from_correct(matrix)), rel=1e-12)


def test_clusters_of_one_question_change_nothing() -> None:
    drawn = draw(30, (3, 3), np.random.default_rng(4))
    plain, single = branch_covariances(drawn), branch_covariances(drawn, np.arange(30)[::-1])
    np.testing.assert_allclose(plain.latent, single.latent, rtol=1e-12)


def test_one_path_has_no_correlation_within() -> None:
    drawn = draw(30, (1, 4), np.random.default_rng(5))
    c = branch_covariances(drawn).c
    assert np.isnan(c[0, 0]) and np.isfinite(c[0, 1]) and np.isfinite(c[1, 1])


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 150])
def test_intervals_cover(n: int) -> None:
    rng = np.random.default_rng(6)
    truth = COVARIANCE / np.sqrt(0.25 * 0.24)
    hits = 0
    for _ in range(400):
        interval = correlation_intervals(draw(n, (4, 4), rng))[0][1]
        assert interval.lo is not None and interval.hi is not None
        hits += interval.lo <= truth <= interval.hi
    assert 0.92 <= hits / 400 <= 0.985


def test_few_wrong_answers_give_a_range_and_no_interval() -> None:
    rng = np.random.default_rng(7)
    drawn = [(rng.random((50, 4)) < 0.95).astype(np.int64) for _ in range(2)]
    interval = correlation_intervals(drawn)[0][1]
    assert interval.method == RANGE
    assert interval.lo is not None and interval.hi is not None


def test_branches_with_other_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="same questions"):
        branch_covariances([np.ones((3, 2), np.int64), np.ones((4, 2), np.int64)])
