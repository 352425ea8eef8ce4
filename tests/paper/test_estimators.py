"""The paper's estimators against independent computations on records that the tests make."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betaln, comb

from keff.paper.records import ArmSample, Series
from keff.paper.saturation import (
    adaptive_k,
    beta_binomial,
    held_out_errors,
    operating_point,
    per_seed,
    pilot_draws,
    ratio,
    rho,
    table1,
    table2,
    table9,
    table10,
    table11,
    vote_gap,
)
from keff.stats.votes import Votes
from published_records import Truth, series_rows

SERIES = Series("qwen7b", "gsm8k", (42, 123, 456), 1024)
TOLERANCE = 1e-9


def sample(p: float = 0.7, c: float = 0.5, instances: int = 40, seed: int = 3) -> ArmSample:
    rows = list(series_rows(SERIES, Truth(p, c, trace=1), np.random.default_rng(seed), instances))
    correct = np.array([[int(answer == "18") for answer in row["all_answers"]] for row in rows])
    names = tuple(dict.fromkeys(row["instance_id"] for row in rows))
    clusters = np.array([names.index(row["instance_id"]) for row in rows])
    answers = np.where(correct == 1, 0, np.arange(1, 33))
    tokens = np.array([row["gen_lens"] for row in rows], float)
    seeds = np.array([row["seed"] for row in rows])
    return ArmSample(Votes(answers, correct, clusters=clusters, tokens=tokens), seeds, names, None)


SAMPLE = sample()


def pearson(y: np.ndarray) -> float:
    matrix = np.corrcoef(y, rowvar=False)
    return float(matrix[np.triu_indices(y.shape[1], 1)].mean())


def vote(y: np.ndarray, k: int) -> np.ndarray:
    right = y[:, :k].sum(axis=1)
    return np.where(2 * right == k, 0.5, 2 * right > k)


def predicted(k: int, p: float, c: float) -> float:
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    pmf = [comb(k, j) * math.exp(betaln(j + a, k - j + b) - betaln(a, b)) for j in range(k + 1)]
    return sum(pmf[k // 2 + 1 :]) + (0.5 * pmf[k // 2] if k % 2 == 0 else 0)


def independent(k: int, p: float) -> float:
    pmf = [comb(k, j) * p**j * (1 - p) ** (k - j) for j in range(k + 1)]
    return sum(pmf[k // 2 + 1 :]) + (0.5 * pmf[k // 2] if k % 2 == 0 else 0)


def test_table_1_is_the_plain_computation() -> None:
    y = SAMPLE.votes.scored()
    for row in table1(SAMPLE):
        k = row["k"]
        means = [y[SAMPLE.seeds == seed][:, :k].mean() for seed in SERIES.seeds]
        assert row["p"] == pytest.approx(np.mean(means), abs=TOLERANCE)
        assert row["p_std"] == pytest.approx(np.std(means, ddof=1), abs=TOLERANCE)
        assert SAMPLE.votes.tokens is not None
        assert row["tokens"] == pytest.approx(SAMPLE.votes.tokens[:, :k].sum(axis=1).mean(), abs=TOLERANCE)
        if k == 1:
            assert row["k_eff"] == 1
            continue
        c = pearson(y[:, :k])
        pairs = [(y[:, i] == y[:, j]).mean() for i in range(k) for j in range(i)]
        assert row["c"] == pytest.approx(c, abs=TOLERANCE)
        assert row["agree"] == pytest.approx(np.mean(pairs), abs=TOLERANCE)
        assert row["k_eff"] == pytest.approx(k / (1 + (k - 1) * c), abs=TOLERANCE)
        assert row["ceiling"] == pytest.approx(1 / c, abs=TOLERANCE)
        assert row["percent_of_ceiling"] == pytest.approx(
            100 * k * c / (1 + (k - 1) * c), abs=100 * TOLERANCE
        )
        p = y[:, :k].mean()
        eq3 = np.mean([(y[:, i] * y[:, j]).mean() - p * p for i in range(k) for j in range(i)]) / (
            p * (1 - p)
        )
        assert row["c_eq3"] == pytest.approx(eq3, abs=TOLERANCE)


def test_table_2_predicts_from_the_mean_pearson_correlation_of_all_paths() -> None:
    (row,) = table2(SAMPLE)
    y = SAMPLE.votes.scored()
    c = pearson(y)
    assert row["c_pilot"] == pytest.approx(pearson(y[:, :4]), abs=TOLERANCE)
    assert row["k_eff_32"] == pytest.approx(32 / (1 + 31 * c), abs=TOLERANCE)
    assert row["mv"] == pytest.approx(vote(y, 32).mean(), abs=TOLERANCE)
    assert row["bb"] == pytest.approx(predicted(32, y.mean(), c), abs=TOLERANCE)
    assert row["binomial"] == pytest.approx(independent(32, y.mean()), abs=TOLERANCE)


def test_adaptive_k_is_eq_12_on_the_first_four_paths() -> None:
    row = adaptive_k(SAMPLE, 2000, np.random.default_rng(0))
    y = SAMPLE.votes.scored()
    c = pearson(y[:, :4])
    star = math.ceil((math.sqrt((1 - c) / 0.025) - 1) / c + 1)
    assert row["k_star"] == star
    assert row["mv_star"] == pytest.approx(vote(y, star).mean(), abs=TOLERANCE)
    assert row["retained"] == pytest.approx(vote(y, star).mean() / vote(y, 32).mean(), abs=TOLERANCE)
    assert row["net_cost"] == pytest.approx((star + 4) / 32, abs=TOLERANCE)
    assert row["repaid_after"] == math.ceil(400 / (32 - star))
    assert row["cost_at_1000"] == pytest.approx((400 + 1000 * star) / 32000, abs=TOLERANCE)
    gap = vote(y, star).mean() - vote(y, 32).mean()
    assert row["gap_lo"] < gap < row["gap_hi"]


@pytest.mark.slow
def test_the_interval_of_the_vote_gap_is_the_cluster_bootstrap() -> None:
    lo, hi = vote_gap(SAMPLE.votes, 6, 20_000, np.random.default_rng(1))
    y, own = SAMPLE.votes.scored(), SAMPLE.votes.cluster_ids
    change = vote(y, 6) - vote(y, 32)
    sums = np.bincount(own, weights=change)
    rng = np.random.default_rng(2)
    plain = [sums[rng.integers(0, sums.size, sums.size)].sum() / y.shape[0] for _ in range(20_000)]
    assert [lo, hi] == pytest.approx(np.quantile(plain, [0.025, 0.975]).tolist(), abs=0.0045)


@pytest.mark.parametrize(("c", "star"), [(0.604, 6), (0.53, 8), (0.45, 10), (0.61, 6), (0.79, 4), (0.33, 14)])
def test_the_operating_points_of_table_4_follow_from_the_printed_c(c: float, star: int) -> None:
    assert operating_point(c) == star


def test_operating_points_are_not_capped_and_c_of_zero_takes_all_paths() -> None:
    assert operating_point(0.1) == 51
    assert operating_point(1.0 + 1e-15) == operating_point(1.0) == 1
    assert operating_point(0.0) == operating_point(-0.1) == operating_point(math.nan) == 32


def test_the_held_out_test_is_the_published_protocol() -> None:
    found = held_out_errors(SAMPLE, (4, 32))
    order = np.arange(40)
    np.random.default_rng(2026).shuffle(order)
    y, own = SAMPLE.votes.scored(), SAMPLE.votes.cluster_ids
    sides = [np.isin(own, order[:20]), np.isin(own, order[20:])]
    errors = []
    for fit, test in (sides, sides[::-1]):
        p, c = y[fit][:, :4].mean(), pearson(y[fit][:, :4])
        errors.append([abs(predicted(k, p, c) - vote(y[test], k).mean()) for k in (4, 32)])
    assert found["bb_error"] == pytest.approx(np.mean(errors, axis=0), abs=TOLERANCE)
    rows = table9(SAMPLE)
    assert rows[-1]["bb_error"] == pytest.approx(np.mean(errors, axis=0)[1], abs=TOLERANCE)
    assert rows[-1]["mv"] == pytest.approx(vote(y, 32).mean(), abs=TOLERANCE)


@pytest.mark.slow
def test_pilot_draws_keep_all_seeds_of_an_instance_together() -> None:
    draws = pilot_draws(SAMPLE.votes, 25, 4000, np.random.default_rng(4))
    y, own = SAMPLE.votes.scored()[:, :4], SAMPLE.votes.cluster_ids
    rng = np.random.default_rng(5)
    rows = [np.flatnonzero(own == one) for one in range(40)]
    plain = []
    for _ in range(1500):
        chosen = np.concatenate([rows[one] for one in rng.integers(0, 40, 25)])
        plain.append(pearson(y[chosen]))
    assert draws.mean() == pytest.approx(np.mean(plain), abs=0.01)
    assert draws.std() == pytest.approx(np.std(plain), rel=0.1)


def test_tables_10_and_11_have_a_row_for_each_setting() -> None:
    assert [row["n"] for row in table10(SAMPLE, 0)] == [25, 50, 100, 200]
    stars = [row["k_star"] for row in table11(SAMPLE)]
    assert stars == sorted(stars, reverse=True)
    assert table11(SAMPLE)[1]["k_star"] == operating_point(rho(SAMPLE.votes, 4))


def test_undefined_cases_stay_undefined() -> None:
    assert math.isnan(ratio(0.0, 0.0))
    assert beta_binomial(5, 0.7, math.nan) == pytest.approx(independent(5, 0.7))
    assert math.isnan(per_seed(np.ones(3), ArmSample(SAMPLE.votes, np.array([1, 1, 1]), (), None))[1])


@pytest.mark.slow
def test_known_p_and_c_come_back_within_their_intervals() -> None:
    inside = 0
    for seed in range(20):
        found = adaptive_k(sample(0.7, 0.5, 100, seed), 200, np.random.default_rng(seed))
        inside += abs(found["c_corrected"] - 0.5) < 0.15
    assert inside >= 19


def test_k_star_at_the_lower_limit_is_capped_as_little_as_k_star_itself() -> None:
    """Four drawn paths: a K* of more is no promise of theirs, and being surer never takes fewer."""
    drawn = sample(p=0.7, c=0.25, instances=30)
    four = ArmSample(drawn.votes.paths(np.arange(4)), drawn.seeds, drawn.names, None)
    row = adaptive_k(four, 50, np.random.default_rng(0))
    assert row["k_star"] > 4
    assert row["k_star_conservative"] >= row["k_star"]


def test_the_shorthand_is_within_a_path_and_never_above_where_the_paper_says_so() -> None:
    for c in np.linspace(0.5, 0.7, 2001):
        short = math.ceil(2 / c**2 - 1e-9)
        assert operating_point(c) - 1 <= short <= operating_point(c), c


def test_outside_that_range_the_shorthand_is_wrong_by_several_paths() -> None:
    assert (math.ceil(2 / 0.33**2), operating_point(0.33)) == (19, 14)
