"""The gate's statistics: bounds against published ones and simulated paths, variances by enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from keff.stats.gate import FALSE_ALARM, FALSE_PASS, SURE, bounds, conditional_variance, look, worse_chances
from keff.stats.repeats import Repeats


def test_bounds_are_those_published_for_equal_looks() -> None:
    # Jennison and Turnbull (2000), Lan and DeMets' spending of the O'Brien and Fleming type, 2.5% one-sided.
    assert bounds((0.25, 0.5, 0.75, 1.0), 0.025) == pytest.approx((4.333, 2.963, 2.359, 2.014), abs=6e-4)
    assert bounds((0.2, 0.4, 0.6, 0.8, 1.0), 0.025)[-1] == pytest.approx(2.031, abs=6e-4)
    assert bounds((1.0,), 0.05) == pytest.approx((1.6449,), abs=1e-4)


@pytest.mark.parametrize("alpha", [FALSE_ALARM, FALSE_PASS])
def test_simulated_paths_cross_as_often_as_the_error_allows(alpha: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(3):
        shares = np.sort(np.append(rng.uniform(0.1, 0.95, rng.integers(1, 8)), 1.0))
        steps = rng.standard_normal((100_000, shares.size)) * np.sqrt(np.diff(shares, prepend=0.0))
        z = steps.cumsum(axis=1) / np.sqrt(shares)
        crossed = float(np.any(z > np.array(bounds(tuple(shares), alpha)), axis=1).mean())
        assert crossed == pytest.approx(alpha, abs=4 * (alpha / 100_000) ** 0.5)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize(("b", "r"), [(1, 1), (3, 1), (4, 3), (2, 4)])
def test_the_variance_is_that_over_all_ways_to_split_the_scores(graded: bool, b: int, r: int) -> None:
    rng = np.random.default_rng(10 * b + r)
    scores = rng.random((5, b + r)) if graded else rng.integers(0, 2, (5, b + r)) * 1.0
    truth = 0.0
    for row in scores:
        picks = [list(each) for each in combinations(range(b + r), r)]
        apart = [row[own].mean() - np.delete(row, own).mean() for own in picks]
        assert np.mean(apart) == pytest.approx(0, abs=1e-12)
        truth += np.var(apart) / 25
    sides = [Repeats.of_scores(list(part)) for part in (scores[:, :b], scores[:, b:])]
    assert conditional_variance(sides[0], sides[1]) == pytest.approx(truth)


def judged(theta: np.ndarray, other: np.ndarray, b: int, rng: np.random.Generator) -> tuple[str, int]:
    """Return the verdict on a run of rates ``other`` against ``b`` repeats, and the repeats it took."""
    n = theta.size
    baseline = Repeats.of_counts(rng.binomial(b, theta), np.full(n, b))
    right = np.zeros(n, np.int64)
    for repeats in range(1, 9):
        right += rng.random(n) < other
        found = look(baseline, Repeats.of_counts(right, np.full(n, repeats)), 0.05, 8).difference
        assert found.limits is not None
        if found.limits[0] > -0.05:
            return "pass", repeats
        if found.limits[1] < 0:
            return "worse", repeats
    return "undecided", 8


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1.2, 0.8), (0.3, 0.2), (6.0, 1.0)])
def test_errors_and_power_where_the_truth_is_known(shape: tuple[float, float]) -> None:
    rng = np.random.default_rng(3)
    trials, told = 250, dict[float, list[tuple[str, int]]]()
    for lost in (0.0, 0.05, 0.09):
        for _ in range(trials):
            theta = rng.beta(*shape, 300)
            told.setdefault(lost, []).append(judged(theta, theta * (1 - lost / theta.mean()), 8, rng))

    def share(lost: float, verdict: str) -> float:
        return float(np.mean([each == verdict for each, _ in told[lost]]))

    reach = 4 / np.sqrt(trials)
    assert share(0.0, "worse") <= FALSE_ALARM + reach * np.sqrt(FALSE_ALARM)
    assert share(0.05, "pass") <= FALSE_PASS + reach * np.sqrt(FALSE_PASS)
    assert share(0.09, "worse") >= 0.97 and share(0.0, "pass") >= 0.9
    assert np.mean([repeats for _, repeats in told[0.0]]) <= 0.4 * 8


def test_more_looks_cost_little_and_missing_scores_no_look() -> None:
    rng = np.random.default_rng(5)
    theta = rng.beta(1, 1, 100)
    baseline = Repeats.of_counts(rng.binomial(8, theta), np.full(100, 8))
    run = Repeats.of_counts(rng.binomial(4, theta), np.full(100, 4))
    alone = look(baseline, run, 0.05, 4).difference.limits
    early = look(baseline, run, 0.05, 8).difference.limits
    assert alone is not None and early is not None
    assert early[0] < alone[0] and early[1] > alone[1]
    count = np.where(np.arange(100) < 3, 1, 4)
    ragged = Repeats.of_counts(np.minimum(run.right, count).astype(int), count)
    missing = look(baseline, ragged, 0.05, 8).difference.limits
    assert missing is not None and missing[0] == pytest.approx(early[0], abs=0.02)


def test_where_all_is_right_few_questions_pass_late_and_five_never() -> None:
    def limit(n: int, repeats: int) -> float:
        sides = [Repeats.of_counts(np.full(n, k), np.full(n, k)) for k in (8, repeats)]
        found = look(sides[0], sides[1], 0.05, 8).difference.limits
        assert found is not None
        return found[0]

    assert limit(300, 2) > -0.05 > limit(30, 2)
    # Five questions of which each fails once in 20 answers are all right in 8 repeats 13 times of 100.
    assert limit(5, 8) < -0.05


@pytest.mark.parametrize(("repeats", "found"), [(2, 0.1), (4, 0.45), (8, 0.75)])
def test_of_the_questions_named_as_worse_most_are(repeats: int, found: float) -> None:
    rng = np.random.default_rng(repeats)
    said = wrong = broken = 0
    for _ in range(15):
        theta = rng.beta(3, 1, 200)
        hit = rng.random(200) < 0.1
        baseline = Repeats.of_counts(rng.binomial(8, theta), np.full(200, 8))
        right = rng.binomial(repeats, np.where(hit, 0.0, theta))
        named = worse_chances(baseline, Repeats.of_counts(right, np.full(200, repeats))) >= SURE
        said, wrong, broken = said + named.sum(), wrong + (named & ~hit).sum(), broken + hit.sum()
    # As sure as stated, within four standard errors.
    assert wrong <= (1 - SURE) * said + 4 * np.sqrt(SURE * (1 - SURE) * said)
    assert said - wrong >= found * broken


def test_nothing_is_named_where_nothing_changed() -> None:
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(30):
        theta = rng.beta(1.2, 0.8, 100)
        sides = [Repeats.of_counts(rng.binomial(k, theta), np.full(100, k)) for k in (8, 4)]
        named += bool(np.any(worse_chances(sides[0], sides[1]) >= SURE))
    assert named <= 3
