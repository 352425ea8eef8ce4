"""Two levels of correlation: within and between templates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from keff.stats.branches.covariance import BlockCorrelation, block_correlation
from keff.stats.votes import Votes

SLOTS = np.repeat(np.arange(4), 2)


def chances(n: int, rng: np.random.Generator) -> np.ndarray:
    """Difficulty of a question, and of a question under a template; templates differ in accuracy."""
    own = np.array([-0.5, 0.0, 0.5, 1.0])
    return expit(1.5 * rng.normal(size=(n, 1)) + 0.8 * rng.normal(size=(n, 4)) + own)


def drawn(n: int, rng: np.random.Generator) -> Votes:
    correct = (rng.random((n, 8)) < chances(n, rng)[:, SLOTS]).astype(np.int64)
    return Votes(None, correct, SLOTS)


def truth() -> tuple[float, float]:
    """By a million questions: covariances of chances over the mean variance of a path."""
    theta = chances(1_000_000, np.random.default_rng(0))
    cov, p = np.cov(theta.T), theta.mean(axis=0)
    scale = float(np.mean(p * (1 - p)))
    return float(np.mean(np.diag(cov))) / scale, float(np.mean(cov[np.triu_indices(4, 1)])) / scale


@pytest.mark.slow
def test_both_levels_are_found_and_covered() -> None:
    within, between = truth()
    rng = np.random.default_rng(1)
    found = [block_correlation(drawn(100, rng)) for _ in range(400)]
    for name, value in (("within", within), ("between", between), ("difference", within - between)):
        own = [getattr(one, name) for one in found]
        assert np.mean([one.value for one in own]) == pytest.approx(value, abs=0.01)
        covered = np.mean([one.lo <= value <= one.hi for one in own])
        assert 0.92 <= covered <= 0.985, name  # 95% +- three standard errors of 400 draws


def test_the_effective_paths_are_those_of_the_mean_whatever_the_accuracies() -> None:
    """Variance of the mean of all paths over questions, against that of independent paths alike."""
    votes = drawn(4000, np.random.default_rng(2))
    law = block_correlation(votes)
    share = votes.scored().mean(axis=1)
    p = votes.scored().mean(axis=0)
    effective = 8 / (1 + law.within.value + 3 * 2 * law.between.value)
    assert float(np.mean(p * (1 - p)) / share.var(ddof=1)) == pytest.approx(effective, rel=1e-3)


def test_one_path_of_each_template_leaves_the_level_within_unknown() -> None:
    votes = drawn(200, np.random.default_rng(3))
    single = Votes(None, votes.scored()[:, ::2], np.arange(4))
    law = block_correlation(single)
    assert np.isnan(law.within.value)
    assert law.between.value == pytest.approx(block_correlation(votes).between.value, abs=0.1)


def test_clusters_are_left_out_whole() -> None:
    votes = drawn(60, np.random.default_rng(4))
    twice = Votes(None, np.repeat(votes.scored(), 2, axis=0), SLOTS, np.repeat(np.arange(60), 2))
    own, again = block_correlation(votes).between, block_correlation(twice).between
    assert again.value == pytest.approx(own.value, abs=0.01)
    assert again.hi - again.lo == pytest.approx(own.hi - own.lo, rel=0.05)


def test_all_but_certain_answers_have_no_interval() -> None:
    correct = np.ones((40, 4), np.int64)
    correct[0, 0] = 0
    law: BlockCorrelation = block_correlation(Votes(None, correct, np.repeat([0, 1], 2)))
    assert law.between.limits is None
