"""Analysis against what is known: simulated votes with known p and c, and exact small cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keff.analysis.estimates import Settings, analyze
from keff.analysis.money import doublings
from keff.analysis.plans import make_plan
from keff.analysis.results.estimates import Analysis
from keff.log import LogInfo, Question
from keff.policy import parse_policy
from keff.reading.ballot import Reading, ballot
from keff.reading.open import Record

pytestmark = pytest.mark.slow

EXACT = Reading(lambda answer: answer, lambda answer, gold: answer == gold)


def record(rows: list[list[str]], **fields: Any) -> Record:
    questions = [Question(str(i), tuple(row), gold="r", **fields) for i, row in enumerate(rows)]
    return Record("log", LogInfo(), ballot(questions, EXACT))


def scored(rows: list[list[str | None]], correct: list[list[int]]) -> Record:
    questions = [
        Question(str(i), tuple(row), correct=tuple(marks))
        for i, (row, marks) in enumerate(zip(rows, correct, strict=True))
    ]
    return Record("log", LogInfo(), ballot(questions, EXACT))


def simulated(p: float, c: float, n: int, k: int, seed: int = 0) -> Record:
    rng = np.random.default_rng(seed)
    theta = rng.beta(p * (1 - c) / c, (1 - p) * (1 - c) / c, n)
    right = rng.random((n, k)) < theta[:, None]
    wrong = rng.integers(0, 3, (n, k))
    return record(
        [
            ["r" if ok else f"w{w}" for ok, w in zip(*row, strict=True)]
            for row in zip(right, wrong, strict=True)
        ]
    )


def test_known_p_and_c_come_back_within_their_intervals() -> None:
    inside = 0
    for seed in range(6):
        found = analyze(simulated(0.6, 0.4, 120, 8, seed), Settings(k_max=8))
        inside += found.c.lo <= 0.4 <= found.c.hi
    assert inside >= 5


def test_limits_map_through_monotone_functions() -> None:
    found = analyze(simulated(0.6, 0.4, 100, 8), Settings())
    c, worth, top = found.c, found.k_eff, found.ceiling
    assert worth.value == pytest.approx(8 / (1 + 7 * c.value))
    assert worth.lo == pytest.approx(8 / (1 + 7 * c.hi))
    assert (top.lo, top.hi) == pytest.approx((1 / c.hi, 1 / c.lo))
    assert found.percent_of_ceiling == pytest.approx(100 * worth.value / top.value)
    star = found.k_star
    assert star.lo <= star.paper <= star.hi
    assert star.conservative >= star.paper


def test_curves_are_exact_subset_averages() -> None:
    found = analyze(record([["r", "r", "w"], ["w", "x", "r"]] * 5), Settings(k_max=4))
    assert found.majority[1] == found.plurality[1] == 0.5
    assert found.majority[3] == pytest.approx(0.5)
    assert found.plurality[3] == pytest.approx((1 + 1 / 3) / 2)


def test_voting_that_hurts_is_not_recommended() -> None:
    rng = np.random.default_rng(3)
    rows = [["r" if rng.random() < 0.3 else "w" for _ in range(12)] for _ in range(150)]
    found = analyze(record(rows), Settings(k_max=8))
    assert found.decision.verdict == "ask once"
    assert found.decision.policy.startswith("fixed:1")


def test_identical_paths_want_a_single_one() -> None:
    rows = [["r"] * 8 if i % 2 else ["w"] * 8 for i in range(100)]
    assert analyze(record(rows), Settings(k_max=8)).decision.verdict == "ask once"


def test_a_clear_gain_is_worth_sampling_and_the_policy_is_one() -> None:
    found = analyze(simulated(0.6, 0.15, 150, 8), Settings())
    assert found.decision.verdict == "vote"
    assert parse_policy(found.decision.policy).cap <= 32
    limits = found.decision.accuracy
    assert limits.lo < limits.value < limits.hi


def test_a_tiny_pilot_says_so_and_keeps_the_answers_of_today() -> None:
    found = analyze(simulated(0.6, 0.4, 6, 4), Settings()).decision
    assert found.verdict is None
    assert found.policy == "curtailed:cap=4" and "at least 10" in found.because


def codes_of(found: Analysis) -> set[str]:
    return {warning.code for warning in found.warnings}


def test_edges_are_named_and_claim_nothing() -> None:
    """All abstain, all differ, all are equal, two questions: a warning, and no accuracy from nowhere."""
    rng = np.random.default_rng(4)
    right = (rng.random((40, 8)) < 0.4).astype(int).tolist()
    silent = analyze(scored([[None] * 8] * 40, [[0] * 8] * 40), Settings())
    assert "all_abstain" in codes_of(silent)
    assert silent.decision.verdict is None
    assert silent.predicted.plurality[32].value == pytest.approx(0, abs=0.01)
    apart = analyze(scored([[f"a{j}" for j in range(8)]] * 40, right), Settings())
    assert "all_different" in codes_of(apart)
    assert apart.predicted.plurality[32].value == pytest.approx(float(np.mean(right)), abs=0.01)
    alike = analyze(scored([["a"] * 8] * 40, [[i % 2] * 8 for i in range(40)]), Settings())
    assert "all_equal" in codes_of(alike)
    assert alike.predicted.plurality[32].value == pytest.approx(0.5, abs=0.01)
    two = analyze(scored([["a", "b", "a", "a"]] * 2, [[1, 0, 1, 1]] * 2), Settings())
    assert "few_questions" in codes_of(two)
    assert two.decision.verdict is None


def test_columns_of_different_accuracy_are_told_without_slot_labels() -> None:
    rng = np.random.default_rng(3)
    correct = (rng.random((100, 8)) < np.linspace(0.95, 0.2, 8)).astype(int)
    answers = [["r" if x else f"w{rng.integers(3)}" for x in row] for row in correct]
    found = analyze(scored(answers, correct.tolist()), Settings())
    assert "mixed_columns" in codes_of(found)
    assert found.c.value == pytest.approx(found.c_anova)
    assert found.k_eff.value <= 8 or "k_eff_above_k" in codes_of(found)


def test_no_estimate_lies_outside_its_own_interval() -> None:
    rng = np.random.default_rng(8)
    for n, k in ((2, 2), (3, 4), (5, 8), (12, 3), (30, 8)):
        correct = rng.integers(0, 2, (n, k))
        answers = np.where(correct, "r", rng.choice(["x", "y"], (n, k))).tolist()
        # Bounds beyond the recorded paths are slow, and have no value to lie outside of.
        found = analyze(scored(answers, correct.tolist()), Settings(k_max=k))
        one = [found.c, found.right_answers_meet, found.decision.accuracy]
        many = [*found.predicted.plurality.values()]
        many += [*(found.predicted.beta_binomial or {}).values()]
        for interval in [*one, *many]:
            if interval and interval.limits:
                assert interval.lo <= interval.value <= interval.hi


def test_extraction_is_counted_by_slot() -> None:
    rows = [["r", "w", "r", "w"]] * 3
    found = analyze(
        record(rows, slots=(0, 1, 0, 1), rules=("marker", "no answer", "marker", "marker")), Settings()
    )
    assert found.extraction == {0: {"marker": 6}, 1: {"no answer": 3, "marker": 3}}


def test_a_plan_carries_the_profile_of_the_pilot() -> None:
    one = simulated(0.6, 0.4, 40, 8)
    plan = make_plan(one, analyze(one, Settings()))
    assert plan.profile is not None
    assert len(plan.profile.votes) == 40


def test_prediction_sizes_end_at_the_most_paths() -> None:
    assert doublings(32) == [1, 2, 4, 8, 16, 32]
    assert doublings(20) == [1, 2, 4, 8, 16, 20]
    assert doublings(1) == [1]
