"""Cells of the matrix: the paper's numbers by plain computation, the headline counts, and known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from keff.paper import records
from keff.paper.cell import MatrixCell, measure
from keff.paper.matrix import figure3, headline, table3, table8
from keff.paper.records import ArmSample
from keff.stats.votes import Votes
from keff.stats.voting.correlation import pooled_c

K = 8


def arm(rng: np.random.Generator, latent: float, spread: float, mean: float = 0.2) -> np.ndarray:
    """Thresholded Gaussian scores of 50 instances under 5 seeds, [250, 8]."""
    common = np.repeat(rng.normal(size=50), 5)[:, None] * math.sqrt(latent)
    score = common + math.sqrt(1 - latent) * rng.normal(size=(250, K)) + mean + spread * np.linspace(-1, 1, K)
    return (score > 0).astype(int)


def sample(y: np.ndarray, diversity: float | None = None) -> ArmSample:
    clusters = np.repeat(np.arange(50), 5)
    names = tuple(map(str, range(50)))
    values = None if diversity is None else np.full(y.shape, diversity)
    return ArmSample(Votes(None, y, clusters=clusters), np.tile(records.SEEDS, 50), names, values)


def cell(
    task: str, model: str, seed: int, latent: tuple[float, float] = (0.75, 0.5), spread: float = 0.3
) -> MatrixCell:
    rng = np.random.default_rng(seed)
    arms = sample(arm(rng, latent[0], 0), 0.3 + seed / 100), sample(arm(rng, latent[1], spread))
    return measure(model, records.BENCHMARKS[task], arms, 500, rng)


def pearson(y: np.ndarray) -> float:
    return float(np.corrcoef(y, rowvar=False)[np.triu_indices(K, 1)].mean())


def test_a_cell_is_the_plain_computation() -> None:
    rng = np.random.default_rng(1)
    sc, pt = arm(rng, 0.75, 0), arm(rng, 0.5, 0.5)
    numbers = measure("m", records.BENCHMARKS["gsm8k"], (sample(sc), sample(pt)), 200, rng)
    before, after = pearson(sc), pearson(pt)
    assert numbers.delta_rho == pytest.approx((after - before) / before, abs=1e-9)
    assert numbers.delta_k_eff == pytest.approx(8 / (1 + 7 * after) - 8 / (1 + 7 * before), abs=1e-9)
    right = pt.sum(axis=1)
    uniform = np.where(right == 4, 0.5, right > 4).mean()
    assert numbers.mv_pt == pytest.approx(uniform, abs=1e-9)
    accuracy = pt.mean(axis=0)
    assert numbers.slot_cv == pytest.approx(accuracy.std() / accuracy.mean(), abs=1e-9)
    weighted = (2 * pt - 1) @ accuracy
    assert numbers.weighted_gain == pytest.approx((weighted > 0).mean() - uniform, abs=1e-9)
    p, spread = pt.mean(), (pt.mean(axis=1)).var(ddof=1)
    block = p * (1 - p) / spread
    assert numbers.block_over_vote == pytest.approx(block / (8 / (1 + 7 * after)), abs=1e-9)
    # With Eq. 3 in K_eff vote the two are one number.
    unbiased = p * (1 - p) / (pt.mean(axis=1)).var()
    assert unbiased == pytest.approx(8 / (1 + 7 * pooled_c(Votes(None, pt))), abs=1e-9)


@pytest.mark.slow
def test_the_rows_interval_is_the_papers_independent_row_bootstrap() -> None:
    rng = np.random.default_rng(2)
    sc, pt = arm(rng, 0.7, 0), arm(rng, 0.4, 0.3)
    numbers = measure(
        "m", records.BENCHMARKS["gsm8k"], (sample(sc), sample(pt)), 4000, np.random.default_rng(3)
    )
    plain = []
    for _ in range(1500):
        one, two = (y[rng.integers(0, 250, 250)] for y in (sc, pt))
        plain.append(pearson(two) / pearson(one) - 1)
    assert [numbers.rho_lo, numbers.rho_hi] == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.03)
    assert numbers.corrected_hi - numbers.corrected_lo > numbers.rho_hi - numbers.rho_lo
    together = measure(
        "m", records.BENCHMARKS["gsm8k"], (sample(sc), sample(pt)), 4000, np.random.default_rng(3), "paired"
    )
    width = together.corrected_hi - together.corrected_lo
    assert together.rho_hi - together.rho_lo == pytest.approx(width, rel=0.1)


@pytest.fixture(scope="module")
def cells() -> list[MatrixCell]:
    return [
        *(cell("triviaqa", f"m{i}", i, (0.8, 0.2)) for i in range(5)),
        *(cell("hotpotqa", f"m{i}", 10 + i, (0.8, 0.2)) for i in range(5)),
        *(cell("gsm8k", f"m{i}", 20 + i, (0.7, 0.6)) for i in range(5)),
        *(cell("math", f"m{i}", 30 + i, (0.7, 0.65)) for i in range(5)),
        *(cell("drop", f"m{i}", 40 + i, (0.7, 0.4), spread=2.0) for i in range(2)),
    ]


@pytest.mark.slow
def test_tables_average_valid_cells(cells: list[MatrixCell]) -> None:
    row = next(row for row in table3(cells) if row["benchmark"] == "GSM8K")
    own = [one for one in cells if one.about.label == "GSM8K"]
    assert row["n"] == 5
    assert row["delta_rho"] == pytest.approx(np.mean([one.delta_rho for one in own]), abs=1e-12)
    domain = next(row for row in table8(cells) if row["domain"] == "QA")
    change = [one.mv_pt - one.mv_sc for one in cells if one.about.domain == "QA"]
    assert (domain["n"], domain["delta"]) == (10, pytest.approx(np.mean(change), abs=1e-12))
    assert domain["delta_std"] == pytest.approx(np.std(change, ddof=1), abs=1e-12)
    assert [row["domain"] for row in table8(cells)] == ["QA", "NLU", "Math"]


@pytest.mark.slow
def test_cells_below_two_percent_count_nowhere_but_in_weighting(cells: list[MatrixCell]) -> None:
    rng = np.random.default_rng(9)
    dead = np.zeros((250, K), int)
    dead[0, 0] = 1
    low = measure("low", records.BENCHMARKS["drop"], (sample(dead), sample(arm(rng, 0.5, 0))), 100, rng)
    assert not low.valid
    found = headline([*cells, low])
    assert (found["cells"], found["valid"]) == (23, 22)
    assert found["weighted_voting"]["cells"] == 23


def test_headline_tests_are_those_of_scipy(cells: list[MatrixCell]) -> None:
    found = headline(cells)
    qa = [one.delta_rho for one in cells if one.about.domain == "QA"]
    maths = [one.delta_rho for one in cells if one.about.domain == "Math"]
    test = found["mann_whitney"]
    exact = scipy.stats.mannwhitneyu(qa, maths, alternative="less", method="exact").pvalue
    normal = scipy.stats.mannwhitneyu(qa, maths, alternative="less", method="asymptotic").pvalue
    assert (test["p"], test["p_normal"]) == (pytest.approx(exact, rel=1e-9), pytest.approx(normal, rel=1e-9))
    assert test["share_below_0.001"] > 0.99
    points = figure3(cells)
    fit = scipy.stats.pearsonr([row["diversity"] for row in points], [row["delta_rho"] for row in points])
    assert found["predictor"]["r"] == pytest.approx(fit.statistic, abs=1e-9)
    assert found["predictor"]["p"] == pytest.approx(fit.pvalue, abs=1e-9)
    fisher = np.tanh(math.atanh(fit.statistic) + 1.959964 / math.sqrt(len(points) - 3) * np.array([-1, 1]))
    assert [found["predictor"][end] for end in ("r_lo", "r_hi")] == pytest.approx(fisher.tolist(), abs=1e-6)
    wide = [one.rho_hi - one.rho_lo for one in cells]
    assert found["precision"]["rho"]["median_width"] == pytest.approx(np.median(wide))
    ours = [one.corrected_hi - one.corrected_lo for one in cells]
    assert found["precision"]["corrected"]["median_width"] == pytest.approx(np.median(ours))
    assert found["reduced"] == sum(value < 0 for value in (one.delta_rho for one in cells))


def test_weighting_splits_by_slot_cv_and_by_accuracy(cells: list[MatrixCell]) -> None:
    found = headline(cells)["weighted_voting"]
    high = [one for one in cells if one.slot_cv > 0.225]
    assert found["high_cv"]["cells"] == len(high) > 0
    assert found["high_cv"]["gain"] == pytest.approx(np.mean([one.weighted_gain for one in high]))
    low = [one for one in cells if one.mv_pt < 0.3]
    assert found["low_accuracy"]["cells"] == len(low)


@pytest.mark.slow
def test_an_oracle_gain_of_equal_slots_is_what_the_formula_expects() -> None:
    cells = [cell("gsm8k", str(i), 100 + i) for i in range(40)]
    found = headline(cells)["oracle"]
    assert found["mean_gain"] == pytest.approx(found["mean_expected_of_equal_slots"], abs=0.003)
    assert abs(found["mean_gain_cross_fitted"]) < 0.004
