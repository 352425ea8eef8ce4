"""What is said of a choice between branches: claims that cover, verdicts, warnings, tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keff.analysis.mix.choose import MixAim, PlanChoice, PlanTable
from keff.analysis.mix.claims import claims_of
from keff.analysis.mix.findings import short
from keff.analysis.mix.prices import path_costs
from keff.analysis.mix.study import MixSettings, combine_branches
from keff.errors import UsageError
from keff.policy import parse_policy
from keff.sampling.cost import Price
from keff.stats.votes import FloatArray
from mix_rig import group, table_of

pytestmark = pytest.mark.slow


def test_claims_of_a_fixed_choice_cover_the_truth() -> None:
    """Where the choice is always the same the claim is a paired comparison: its 90% interval covers 90%."""
    rng = np.random.default_rng(5)
    hits = np.zeros(2)
    for _ in range(200):
        n = 60
        base = rng.random(n)
        cost: FloatArray = rng.gamma(2, 1, (2, n))
        accuracy = np.stack([base, base + rng.normal(0.02, 0.2, n)])
        table = table_of(accuracy, cost * np.array([[1], [0.5]]))
        chosen = PlanChoice(0, 0, 1)
        against = claims_of(table, chosen, lambda _, c=chosen: c, rng).best
        ratio, gain = against.intervals()
        assert None not in (ratio.lo, ratio.hi, gain.lo, gain.hi)
        hits += [ratio.lo <= 0.5 <= ratio.hi, gain.lo <= 0.02 <= gain.hi]  # type: ignore[operator]
    # Resamples of a fixed choice add the variance of their own noise: a little more than 90%.
    assert np.all(hits / 200 > 0.84) and np.all(hits / 200 < 0.99)


def test_the_best_of_many_equal_plans_is_not_flattered() -> None:
    """Forty plans of one accuracy: the pilot's best looks points better than it is, the claim does not."""
    rng = np.random.default_rng(6)
    seen, claimed, covered = [], [], 0
    for _ in range(60):
        accuracy = rng.random((41, 80)) < 0.7
        table = table_of(accuracy * 1.0, np.ones((41, 80)), single=1)

        def best(part: PlanTable) -> PlanChoice:
            return PlanChoice(0, 0, 1 + int(np.argmax(part.mean_accuracy[1:])))

        choice = best(table)
        found = claims_of(table, choice, best, rng)
        _, gain = found.best.intervals()
        seen.append(float(table.mean_accuracy[choice.taken] - table.mean_accuracy[0]))
        claimed.append(gain.value)
        covered += gain.lo <= 0 <= gain.hi  # type: ignore[operator]
    assert np.mean(seen) > 0.08
    assert abs(np.mean(claimed)) < 0.5 * np.mean(seen) and covered / 60 > 0.8
    # Beside itself a plan is exactly equal.
    same = claims_of(table, PlanChoice(0, 0, 0), best, rng).best
    assert same.difference == same.error == 0


def test_a_branch_that_is_better_and_cheaper_is_enough() -> None:
    found = combine_branches(group(120, 8, seed=6, p=(0.9, 0.6), tokens=(50, 1000)), MixSettings(cap=8))
    assert found.advice.verdict == "one branch is enough"
    assert found.advice.plan.branches == ("small",)
    assert "dominates" in [note.code for note in found.warnings]


def test_a_plan_saves_where_it_surely_loses_no_more_points_than_allowed() -> None:
    branches = group(120, 8, seed=6, p=(0.6, 0.9), tokens=(50, 1000))
    aim = MixAim(retain=0.9)
    for points in (1.0, 5.0, 20.0):
        found = combine_branches(branches, MixSettings(cap=8, aim=aim, max_loss=points)).advice
        assert found.cost_ratio.hi is not None and found.accuracy_difference.lo is not None
        within = found.cost_ratio.hi < 1 and -100 * found.accuracy_difference.lo < points
        assert (found.verdict == "saves") == within == (points == 20)


def test_findings_have_the_contract() -> None:
    found = combine_branches(group(40, 8, seed=7), MixSettings(cap=8)).to_dict()
    assert {
        "n",
        "branches",
        "c_between",
        "frontier",
        "best_single",
        "cheap_single",
        "recommendation",
        "warnings",
    } <= set(found)
    assert {"name", "p", "c", "tokens", "cost"} <= set(found["branches"][0])
    advice = found["recommendation"]
    assert {
        "verdict",
        "policy",
        "accuracy",
        "cost",
        "cost_ratio",
        "accuracy_difference",
        "questions_needed",
        "because",
    } <= set(advice)
    for interval in (advice["cost_ratio"], advice["accuracy_difference"]):
        assert interval["lo"] <= interval["value"] <= interval["hi"]
    parse_policy(advice["policy"])
    assert all(
        a["cost"]["value"] <= b["cost"]["value"]
        for a, b in zip(found["frontier"], found["frontier"][1:], strict=False)
    )


def test_a_tiny_pilot_is_too_small() -> None:
    found = combine_branches(group(10, 8, seed=8), MixSettings(cap=8))
    assert found.advice.verdict == "pilot too small" and found.advice.questions_needed == 6


def test_the_same_seed_finds_the_same() -> None:
    aligned = group(30, 8, seed=9)
    assert (
        combine_branches(aligned, MixSettings(cap=8)).to_dict()
        == combine_branches(aligned, MixSettings(cap=8)).to_dict()
    )


def test_prices() -> None:
    aligned = group(20, 4, seed=10)
    costs = path_costs(
        aligned, {"small": Price(prompt=0, output=2), "large": Price(prompt=0, output=1, path=3)}
    )
    tokens = [branch.votes.tokens for branch in aligned.branches]
    assert costs.unit == "dollars" and tokens[0] is not None and tokens[1] is not None
    np.testing.assert_allclose(costs.paths[0], tokens[0] * 2e-6)
    np.testing.assert_allclose(costs.paths[1], tokens[1] * 1e-6 + 3)
    with pytest.raises(UsageError, match="no price for large"):
        path_costs(aligned, {"small": Price(prompt=0, output=2)})
    with pytest.raises(UsageError, match="costs 0"):
        path_costs(aligned, {"small": Price(prompt=0, output=0), "large": Price(prompt=0, output=0)})
    free = path_costs(aligned, {"small": Price(), "large": Price(path=1)})
    assert [note.code for note in free.notes] == ["free_branch"]
    flat = path_costs(aligned, None, per_path=0.5)
    assert flat.unit == "dollars" and all(bool((paid == 0.5).all()) for paid in flat.paths)
    with pytest.raises(UsageError, match="keep one"):
        path_costs(aligned, {"small": Price(), "large": Price(path=1)}, per_path=0.5)
    with pytest.raises(UsageError, match="cost-per-path 0"):
        path_costs(aligned, None, per_path=0)


def test_records_that_are_read_wrongly_are_refused_or_named() -> None:
    aligned = group(30, 4, seed=11)
    wrong = replace(
        aligned.branches[0], votes=replace(aligned.branches[0].votes, correct=np.zeros((30, 4), int))
    )
    one = replace(aligned, branches=(wrong, aligned.branches[1]))
    found = combine_branches(one, MixSettings(cap=4))
    assert "never_right" in [note.code for note in found.warnings]
    # What it adds to the other branch is chance.
    assert found.branches[0].adds == 0 and all(len(plan.branches) == 1 for plan in found.frontier)
    silent = replace(wrong, votes=replace(wrong.votes, answers=np.full((30, 4), -1)))
    mute = replace(aligned, branches=(silent, aligned.branches[1]))
    assert "never_answers" in [note.code for note in combine_branches(mute, MixSettings(cap=4)).warnings]
    with pytest.raises(UsageError, match="answer-space"):
        combine_branches(replace(aligned, branches=(wrong, wrong)), MixSettings(cap=4))


def test_worth_needs_prices() -> None:
    aim = MixSettings(cap=4, aim=MixAim(value_per_correct=1.0))
    with pytest.raises(UsageError, match="--prices"):
        combine_branches(group(30, 4, seed=12), aim)
    with pytest.raises(UsageError, match="--prices"):
        combine_branches(group(30, 4, seed=12), MixSettings(cap=4, aim=MixAim(budget=1.0)))
    # Where prices exist no cost of a path is asked for; where it is given, tokens price nothing.
    prices = {"small": Price(path=1), "large": Price(path=3)}
    for settings in (
        replace(aim, prices=prices),
        replace(aim, aim=MixAim(value_per_correct=1.0, cost_per_path=0.1)),
    ):
        assert combine_branches(group(30, 4, seed=12), settings).cost_unit == "dollars"


def test_pilots_of_an_exam_are_told_how_little_they_say() -> None:
    codes = [note.code for note in combine_branches(group(30, 4, seed=14), MixSettings(cap=4)).warnings]
    assert "few_questions" in codes
    codes = [note.code for note in combine_branches(group(60, 4, seed=14), MixSettings(cap=4)).warnings]
    assert "few_questions" not in codes


def test_the_verdict_never_denies_what_the_frontier_shows() -> None:
    """What is cheaper than the plan and more accurate, measured or expected, is named as declined.

    And what costs more is not said to save, however dear a right answer is.
    """
    prices = {f"b{number}": Price(path=path) for number, path in enumerate((0.1, 0.3, 1.0))}
    dear = MixSettings(cap=4, aim=MixAim(value_per_correct=1e4), prices=prices)
    verdicts = set[str]()
    for seed in range(8):
        aligned = group(15 if seed > 5 else 60, 4, seed, p=(0.7, 0.72, 0.8), tokens=(100, 300, 1000))
        found = combine_branches(aligned, dear if seed > 3 else MixSettings(cap=4))
        assert found.advice.cost_ratio.value < 1 or "saves" not in found.advice.verdict
        verdicts.add(found.advice.verdict)
        taken = found.advice.plan
        better = [
            line.policy
            for line in (*found.frontier, *found.singles)
            if line.cost.value < taken.cost.value * 0.999
            and (line.accuracy.value > taken.accuracy.value + 1e-5 or line.expected > taken.expected + 1e-5)
        ]
        assert bool(better) == (" as accurate (" in found.advice.because)
        product = found.advice.by_model * found.advice.by_cascade
        assert product == pytest.approx(taken.cost.value / found.best_single.cost.value, rel=1e-4)
    assert "does not save" in verdicts


def test_a_plan_of_predicted_paths_says_so() -> None:
    aim = MixAim(value_per_correct=1e6, cost_per_path=1.0)
    said: list[bool] = []
    for k in (4, 8):
        found = combine_branches(group(150, k, seed=3, p=(0.55, 0.6)), MixSettings(aim=aim))
        said.append("predicted_paths" in [note.code for note in found.warnings])
        assert said[-1] == ("predicted" in found.advice.plan.accuracy.method)
    assert said == [True, False]


def test_the_pilot_is_paid_back_by_what_the_plan_saves() -> None:
    found = combine_branches(group(120, 8, seed=6, p=(0.9, 0.6), tokens=(50, 1000)), MixSettings(cap=8))
    aligned = group(120, 8, seed=6, p=(0.9, 0.6), tokens=(50, 1000))
    spent = sum(float(cost.sum()) for cost in path_costs(aligned, None).paths)
    assert found.pilot_cost == pytest.approx(spent)
    saved = found.best_single.cost.value - found.advice.plan.cost.value
    assert found.pays_back == (None if saved <= 0 else np.ceil(spent / saved))


def test_the_table_of_plans_says_from_which_worth_each_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    found = combine_branches(group(80, 4, 3), MixSettings(cap=4))
    assert len(found.by_worth) > 1
    lines = list(found.statements())[-1].splitlines()
    for change in found.by_worth:
        (row,) = (line for line in lines if line.startswith(f"{change.plan.policy} "))
        assert row.split("  ")[-1].strip() == short(change.worth)
