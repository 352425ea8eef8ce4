"""Two arms: the bootstrap against a plain loop, known answers, coverage, pairing and refusals."""

import math

import numpy as np
import pytest

from keff.stats.branches.compare import C_OF, ArmPlan, arm_draws, c_from_totals, compare_arms, row_sums
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_eff
from keff.stats.voting.correlation import anova_c, pearson_c


def make(rng, theta, k, effect=0.0, clusters=None):
    """Paths whose accuracy is theta of the item, moved by an effect of the slot."""
    p = np.clip(theta[:, None] + effect * np.linspace(-1, 1, k), 0, 1)
    return Votes.from_correct((rng.random((theta.size, k)) < p).astype(int), clusters)


def arms(seed, items=50, seeds=5):
    rng = np.random.default_rng(seed)
    theta = np.repeat(rng.beta(0.6, 0.4, items), seeds)
    ids = np.repeat(np.arange(items), seeds)
    return make(rng, theta, 8, 0, ids), make(rng, 0.5 * theta + 0.3, 8, 0.1, ids)


@pytest.mark.parametrize("estimator", ["pearson", "anova"])
def test_the_sums_of_all_rows_give_the_estimator(estimator):
    uneven = Votes.from_correct([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0, 0]])  # one slot is constant
    for arm in (*arms(0), uneven):
        total = row_sums(arm, estimator).sum(axis=0)[:, None]
        assert c_from_totals(total, arm.k, estimator)[0] == pytest.approx(C_OF[estimator](arm), rel=1e-12)
    constant = row_sums(Votes.from_correct([[1, 1], [1, 1]]), estimator).sum(axis=0)[:, None]
    assert math.isnan(c_from_totals(constant, 2, estimator)[0])


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["pearson", "anova"])
def test_draws_follow_a_loop_over_replicates(estimator):
    first, second = arms(1, items=30, seeds=2)
    both = arm_draws(first, second, np.random.default_rng(0), ArmPlan(replicates=4000))
    draws = dict(zip(C_OF, both, strict=True))[estimator]
    rng, loop = np.random.default_rng(1), []
    for _ in range(500):
        rows = np.concatenate([[2 * i, 2 * i + 1] for i in rng.integers(0, 30, 30)])
        loop.append([C_OF[estimator](arm.take(rows)) for arm in (first, second)])
    loop = np.array(loop)
    got = np.stack([draws.first, draws.second])
    np.testing.assert_allclose(got.mean(axis=1), loop.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(np.cov(got), np.cov(loop.T), rtol=0.25, atol=4e-4)


def test_comparison_is_made_of_its_parts():
    first, second = arms(2)
    result, _ = compare_arms(first, second, np.random.default_rng(0))
    a, b = pearson_c(first)[0], pearson_c(second)[0]
    assert result.c == pytest.approx((a, b))
    assert result.delta.value == pytest.approx(b - a)
    assert result.relative.value == pytest.approx((b - a) / a)
    assert result.delta_k_eff.value == pytest.approx(float(k_eff(8, b) - k_eff(8, a)))
    assert result.delta.n == 50
    for estimate in (result.delta, result.relative, result.delta_k_eff):
        assert estimate.lo < estimate.value < estimate.hi
        assert estimate.warnings == ()
    assert result.relative.hi < 0


def test_an_arm_against_itself_differs_by_nothing():
    first, _ = arms(3)
    paired, _ = compare_arms(first, first, np.random.default_rng(0), ArmPlan(replicates=500))
    assert (paired.delta.lo, paired.delta.value, paired.delta.hi) == (0, 0, 0)
    rows, _ = compare_arms(first, first, np.random.default_rng(0), ArmPlan(design="rows", replicates=500))
    assert rows.delta.lo < -0.02
    assert rows.delta.hi > 0.02


@pytest.mark.slow
def test_the_paired_interval_covers():
    """Five runs of 60 items: rows are not independent, so the row bootstrap is narrower than it should be."""
    large = np.random.default_rng(99)
    theta = large.beta(0.6, 0.4, 200_000)
    truth = anova_c(make(large, 0.5 * theta + 0.3, 4)) - anova_c(make(large, theta, 4))
    covered, widths = 0, {"paired": 0.0, "rows": 0.0}
    for seed in range(80):
        rng = np.random.default_rng(seed)
        theta = np.repeat(rng.beta(0.6, 0.4, 60), 5)
        ids = np.repeat(np.arange(60), 5)
        pair = make(rng, theta, 4, 0, ids), make(rng, 0.5 * theta + 0.3, 4, 0, ids)
        for design in widths:
            _, found = compare_arms(*pair, rng, ArmPlan(design, replicates=300))
            interval = found.delta
            widths[design] += interval.hi - interval.lo
            covered += design == "paired" and interval.lo <= truth <= interval.hi
    assert covered >= 0.88 * 80
    assert widths["rows"] < 0.92 * widths["paired"]


def test_partial_arms_pair_what_they_share():
    first, second = arms(4)
    part = second.take(second.clusters < 30)
    result, _ = compare_arms(first, part, np.random.default_rng(0), ArmPlan(replicates=500))
    assert result.c[1] == pytest.approx(pearson_c(part)[0])
    assert result.delta.lo < result.delta.value < result.delta.hi


def test_few_right_answers_withhold_the_paired_interval():
    rng = np.random.default_rng(5)
    rare = Votes.from_correct((rng.random((200, 4)) < 0.008).astype(int))
    plain = Votes.from_correct((rng.random((200, 4)) < 0.5).astype(int))
    result, _ = compare_arms(plain, rare, rng, ArmPlan(replicates=200))
    assert result.delta.lo is None
    assert {note.code for note in result.delta.warnings} >= {"accuracy_floor", "too_few_right_or_wrong"}
    parity, _ = compare_arms(plain, rare, rng, ArmPlan(design="rows", replicates=200))
    assert "too_few_right_or_wrong" not in {note.code for note in parity.delta.warnings}


def test_a_degenerate_arm_is_undefined_and_says_so():
    good, _ = arms(6)
    bad = Votes(None, np.ones_like(good.correct), clusters=good.clusters)
    result, _ = compare_arms(good, bad, np.random.default_rng(0), ArmPlan(replicates=100))
    assert math.isnan(result.delta.value)
    assert result.delta.lo is None
    assert "degenerate" in {note.code for note in result.delta.warnings}


def test_arms_that_cannot_be_paired():
    first, second = arms(7)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="share no cluster"):
        compare_arms(first, Votes(None, second.correct, clusters=second.clusters + 100), rng)
    with pytest.raises(ValueError, match="two paths"):
        compare_arms(first.paths([0]), second, rng)


def test_many_columns_go_by_sums_instead_of_pairs(monkeypatch):
    first, second = arms(8, items=80, seeds=1)
    pairs, _ = arm_draws(first, second, np.random.default_rng(0), ArmPlan(replicates=2000))
    monkeypatch.setattr("keff.stats.branches.compare.PAIRED_CELLS", 0)
    total = row_sums(first, "pearson").sum(axis=0)[:, None]
    assert c_from_totals(total, first.k, "pearson")[0] == pytest.approx(pearson_c(first)[0], rel=1e-9)
    sums, _ = arm_draws(first, second, np.random.default_rng(0), ArmPlan(replicates=2000))
    for one, other in ((pairs.first, sums.first), (pairs.second, sums.second)):
        assert np.std(one - other) < 0.1 * np.std(one)
        np.testing.assert_allclose(
            np.quantile(one, [0.025, 0.975]), np.quantile(other, [0.025, 0.975]), atol=0.006
        )
