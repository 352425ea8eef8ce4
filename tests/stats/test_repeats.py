"""Repeats: closed forms, enumeration, and coverage under known laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy

import keff
from keff.stats.intervals import mean_share, wilson
from keff.stats.repeats import (
    Repeats,
    components,
    icc,
    icc_interval,
    run_to_run,
    within_variance,
)
from keff.stats.scores import (
    all_right,
    any_right,
    chance_all,
    flips,
    moment,
    without_gradient,
)
from keff.stats.votes import Votes
from keff.stats.voting.correlation import anova_c


def drawn(rng, n=60, m=4, a=1.2, b=0.8):
    theta = rng.beta(a, b, n)
    return theta, (rng.random((n, m)) < theta[:, None]).astype(np.int64)


def test_counts_rows_and_votes_say_the_same() -> None:
    _, y = drawn(np.random.default_rng(0))
    one, two = Repeats.of_votes(Votes.from_correct(y)), Repeats.of_scores(list(y))
    for name in ("count", "mean", "second", "fourth"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), atol=1e-12)
    assert one.binary and two.binary


def test_scores_keep_their_scale() -> None:
    repeats = Repeats.of_scores([[1, 10], [5.5, 5.5, 10]])
    assert repeats.scale == (1.0, 10.0)
    np.testing.assert_allclose(repeats.mean, [0.5, (0.5 + 0.5 + 1) / 3])
    for bad in ([[-1, 0.5]], [[101, 0]], [[math.inf]], [[math.nan]]):
        with pytest.raises(ValueError, match=r"score"):
            Repeats.of_scores(bad)


def test_the_correlation_is_the_anova_of_equal_repeats() -> None:
    _, y = drawn(np.random.default_rng(1))
    assert icc(Repeats.of_scores(list(y))) == pytest.approx(anova_c(Votes.from_correct(y)), rel=1e-12)


def test_graded_correlation_is_that_of_the_analysis_of_variance_table() -> None:
    rng = np.random.default_rng(2)
    y = rng.random((30, 1)) * 0.5 + rng.random((30, 3)) * 0.5
    f = scipy.stats.f_oneway(*y).statistic
    assert icc(Repeats.of_scores(list(y))) == pytest.approx((f - 1) / (f + 2), rel=1e-9)


def test_run_to_run_is_the_formula_of_p_and_c() -> None:
    _, y = drawn(np.random.default_rng(3), n=400)
    repeats = Repeats.of_scores(list(y))
    p, c = y.mean(), icc(repeats)
    found = run_to_run(repeats)
    assert found.value == pytest.approx(math.sqrt(p * (1 - p) * (1 - c) / 400), rel=2e-3)
    assert found.lo < found.value < found.hi


@pytest.mark.parametrize("theta", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("m", [4, 5])
def test_the_variance_of_a_variance_is_unbiased(theta: float, m: int) -> None:
    """Enumerate all outcomes of m answers: E(s^4 - estimate of v^2) is the variance of s^2."""
    outcomes = [np.array(row) for row in itertools.product((0, 1), repeat=m)]
    chances = np.array([theta ** row.sum() * (1 - theta) ** (m - row.sum()) for row in outcomes])
    each = np.array([row.var(ddof=1) for row in outcomes])
    truth = chances @ each**2 - (chances @ each) ** 2
    known = Repeats.of_scores(outcomes)
    squares = ((m * m - 3 * m + 3) * known.second**2 - m * (m - 1) * known.fourth) / (
        m * (m - 1) * (m - 2) * (m - 3)
    )
    assert chances @ squares == pytest.approx((theta * (1 - theta)) ** 2, abs=1e-12)
    assert chances @ (each**2 - squares) == pytest.approx(truth, abs=1e-12)


def test_pass_powers_within_the_repeats_are_enumerated() -> None:
    for m, s, k in itertools.product((4, 6), range(5), (1, 2, 3)):
        row = [1] * s + [0] * (m - s)
        picked = list(itertools.combinations(row, k))
        found = chance_all(np.array([s]), np.array([m]), k)[0]
        assert found == pytest.approx(np.mean([all(each) for each in picked]))
    _, y = drawn(np.random.default_rng(4))
    repeats = Repeats.of_scores(list(y))
    assert all_right(repeats, 1).value == pytest.approx(y.mean()) == any_right(repeats, 1).value
    both = 1 - flips(repeats).value
    assert without_gradient(repeats, 2).value == pytest.approx(both)


@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_moments_of_the_beta_law(k: int) -> None:
    p, c = 0.7, 0.3
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    assert float(moment(p, c, k)) == pytest.approx(scipy.stats.beta(a, b).moment(k))
    assert float(moment(p, 0.0, k)) == pytest.approx(p**k)
    assert float(moment(p, 1.0, k)) == pytest.approx(p)


@pytest.mark.slow
def test_beyond_the_repeats_the_truth_of_a_beta_law_is_covered() -> None:
    rng, hits = np.random.default_rng(5), 0
    truth = scipy.stats.beta(1.2, 0.8).moment(16)
    for _ in range(40):
        _, y = drawn(rng, n=100, m=4)
        found = all_right(Repeats.of_scores(list(y)), 16)
        hits += found.lo <= truth <= found.hi
    assert hits >= 35  # 95% of 40 is 38; fewer than 35 is a chance of 1 in 300


@pytest.mark.slow
def test_run_to_run_covers_the_law_of_these_questions() -> None:
    rng, hits = np.random.default_rng(6), 0
    for _ in range(100):
        theta, y = drawn(rng, n=50, m=3, a=0.5, b=0.3)
        found = run_to_run(Repeats.of_scores(list(y)))
        hits += found.lo <= math.sqrt(np.mean(theta * (1 - theta)) / 50) <= found.hi
    assert hits >= 88


def test_nothing_varies_and_still_there_is_an_upper_limit() -> None:
    repeats = Repeats.of_scores([[1, 1]] * 20 + [[0, 0]] * 20)
    found = run_to_run(repeats)
    assert found.value == 0 == found.lo
    # A share of 3.7/40 mixed pairs of answers, each a variance of one half.
    assert found.hi == pytest.approx(math.sqrt(3.689 / 40 * 0.5 / 40), rel=1e-3)


def test_wilson_is_the_textbooks_for_independent_answers() -> None:
    n, p = 10_000, 0.3
    lo, hi = wilson(p, p * (1 - p) / n, n)
    wanted = scipy.stats.binomtest(3000, n).proportion_ci(method="wilson")
    assert (lo, hi) == pytest.approx((wanted.low, wanted.high), abs=1e-5)
    assert wilson(1.0, 0.0, 1) == (None, None)
    lo, hi = wilson(1.0, 0.0, 30)
    assert hi == 1.0 and 0.85 < lo < 0.95


def test_variance_is_split_as_it_was_made() -> None:
    rng = np.random.default_rng(7)
    clusters = np.repeat(np.arange(400), 3)
    theta = 0.5 + rng.uniform(-0.2, 0.2, 400)[clusters] + rng.uniform(-0.15, 0.15, 1200)
    y = theta[:, None] + rng.uniform(-0.1, 0.1, (1200, 3))
    found = components(Repeats.of_scores(list(y), clusters))
    assert found.clusters == pytest.approx(0.4**2 / 12, rel=0.15)
    assert found.questions == pytest.approx(0.3**2 / 12, rel=0.15)
    assert found.repeats == pytest.approx(0.2**2 / 12, rel=0.1)


def test_clusters_widen_the_interval_of_a_score() -> None:
    _, y = drawn(np.random.default_rng(8), n=40)
    once, again = Repeats.of_scores(list(y)), Repeats.of_scores([*y, *y], np.tile(np.arange(40), 2))
    alone, twice = (mean_share(repeats.mean, repeats.ids) for repeats in (once, again))
    assert twice.value == pytest.approx(alone.value)
    assert twice.hi - twice.lo == pytest.approx(alone.hi - alone.lo, rel=1e-9)


@pytest.mark.slow
def test_ragged_repeats_lose_nothing() -> None:
    """Where the number of repeats says nothing of the question, estimates agree with those of equal ones."""
    rng = np.random.default_rng(9)
    theta = rng.beta(1.2, 0.8, 4000)
    rows = [rng.random(m) < t for m, t in zip(rng.integers(1, 7, 4000), theta, strict=True)]
    repeats = Repeats.of_scores([row.astype(float) for row in rows])
    p, c = 0.6, 1 / 3
    assert icc(repeats) == pytest.approx(c, abs=0.04)
    assert within_variance(repeats).value == pytest.approx(p * (1 - p) * (1 - c), rel=0.05)
    found = icc_interval(repeats)
    assert found.lo < c < found.hi


def test_of_few_questions_no_deviation_is_above_what_scores_can_have() -> None:
    """Two of four repeats are right: the unbiased variance is 1/3, and no share has more than 1/4."""
    found = keff.noise([["a", "a", "b", "b"]], gold_answer=["a"])
    assert found.run_to_run_sd is not None and found.run_to_run_sd.value == 0.5
    assert found.gap_of_two_runs == 1
    assert not any("two repeats" in note.message for note in found.warnings)
