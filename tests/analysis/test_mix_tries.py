"""Branches that a checker judges: m tries of one, then l of another, by the same table as plans of votes."""

from __future__ import annotations

import json
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keff
from keff.analysis.mix.findings import MixFindings, PlanLine
from keff.errors import KeffError
from keff.policy import Sample, View, parse_policy


def branch(chance: float, n: int, k: int, seed: int) -> list[list[int]]:
    """Return verdicts on questions of a difficulty that all branches share."""
    difficulty = np.random.default_rng(0).random(n)
    theta = np.clip(chance - difficulty, 0, 1)
    return (np.random.default_rng(seed).random((n, k)) < theta[:, None]).astype(int).tolist()


def mixed(small: list[list[int]], large: list[list[int]], **options: object) -> MixFindings:
    return keff.mix(np.array(small), np.array(large), names=["small", "large"], **options)


def plans(found: MixFindings) -> dict[str, PlanLine]:
    lines = [*found.frontier, *found.singles, *(line.plan for line in found.by_worth)]
    return {line.policy: line for line in lines}


def by_enumeration(
    tries: dict[str, list[list[int]]], prices: dict[str, int], policy: str
) -> tuple[float, float]:
    """Return the share solved and the cost by running a policy on every order of paths."""
    rule, solved, spent, runs = parse_policy(policy), 0.0, 0.0, 0
    for rows in zip(*tries.values(), strict=True):
        for orders in product(*map(permutations, rows)):
            left = {name: list(order) for name, order in zip(tries, orders, strict=True)}
            keys: list[str] = []
            ratings: list[float] = []
            names: list[str] = []
            while isinstance(decision := rule.decide(View(keys, ratings, branches=names)), Sample):
                (name,) = decision.branches
                ratings.append(left[name].pop(0))
                keys.append("x")
                names.append(name)
            solved += decision.weight
            spent += sum(prices[name] for name in names)
            runs += 1
    return solved / runs, spent / runs


def test_plans_are_what_the_deployed_policy_does_on_all_orders() -> None:
    tries = {"small": branch(0.7, 16, 3, 1), "large": branch(1.2, 16, 3, 2)}
    prices = {"small": 1, "large": 10}
    priced = {name: {"path": price} for name, price in prices.items()}
    found = plans(mixed(*tries.values(), prices=priced, cap=3))
    both = [policy for policy in found if "/" in policy]
    assert both, "some plan asks both"
    for policy in [*both[:4], "cascade:small(retry:3)", "cascade:large(retry:2)"]:
        solved, spent = by_enumeration(tries, prices, policy)
        assert found[policy].accuracy.value == pytest.approx(solved, abs=1e-6)
        assert found[policy].cost.value == pytest.approx(spent, rel=1e-6)


def test_a_third_branch_is_asked_where_two_leave_questions_open() -> None:
    tries = {
        name: branch(chance, 40, 2, seed)
        for seed, (name, chance) in enumerate((("a", 0.5), ("b", 0.9), ("c", 1.3)))
    }
    prices = {"a": 1, "b": 5, "c": 25}
    priced = {name: {"path": price} for name, price in prices.items()}
    found = keff.mix(
        *map(np.array, tries.values()), names=[*tries], prices=priced, cap=2, value_per_correct=1000
    )
    assert found.advice.plan.branches == ("a", "b", "c")
    three = [line for line in plans(found).values() if len(line.branches) == 3]
    for line in three[:3]:
        solved, spent = by_enumeration(tries, prices, line.policy)
        assert line.accuracy.value == pytest.approx(solved, abs=1e-6)
        assert line.cost.value == pytest.approx(spent, rel=1e-6)
    reach = found.escalation.reach if found.escalation else ()
    assert reach[0] == 1 and reach[0] > reach[1] > reach[2] > 0


@pytest.mark.parametrize(("ended", "options"), [(False, {}), (True, {}), (False, {"false_accept": 0.05})])
def test_tries_of_one_branch_are_what_an_analysis_of_it_says(
    ended: bool, options: dict[str, Any], tmp_path: Path
) -> None:
    """What they solve, and how many are made: measured up to the six recorded tries, predicted beyond."""
    files = [tmp_path / "small.jsonl", tmp_path / "large.jsonl"]
    for seed, file in enumerate(files):
        rows = [row[: row.index(1) + 1 if ended and 1 in row else 6] for row in branch(0.7, 40, 6, seed)]
        file.write_text(
            "".join(json.dumps({"id": i, "all_correct": row}) + "\n" for i, row in enumerate(rows))
        )
    alone = keff.analyze(files[0], cap=12, **options).tries
    assert alone is not None
    lines = {f"cascade:small(retry:{line.tries})": line for line in alone.lines}
    own = [line for line in keff.mix(*files, cap=12, **options).singles if line.branches == ("small",)]
    assert [line.policy.split(":")[2] for line in own] == ["1)", "2)", "3)", "4)", "5)", "6)", "8)", "12)"]
    for line in own:
        for here, there in ((line.accuracy, lines[line.policy].right), (line.cost, lines[line.policy].paths)):
            told = (here.value, *(here.limits or ()))
            assert told == pytest.approx((there.value, *(there.limits or ())), rel=1e-6)
    if not options:  # a try is made where those before it failed
        for before, after in pairwise(alone.lines):
            assert after.paths.value - before.paths.value == pytest.approx(1 - before.right.value)


def test_the_worth_of_a_right_answer_says_how_far_to_go() -> None:
    small, large = branch(0.6, 120, 8, 1), branch(1.1, 120, 8, 2)
    prices = {"small": {"path": 1}, "large": {"path": 20}}
    cheap = mixed(small, large, prices=prices, value_per_correct=10)
    dear = mixed(small, large, prices=prices, value_per_correct=1000)
    assert cheap.advice.plan.branches == ("small",)
    assert "large" in dear.advice.plan.branches
    assert dear.advice.plan.cost.value > cheap.advice.plan.cost.value
    worths = [line.worth for line in dear.by_worth]
    assert worths == sorted(worths) and dear.by_worth[0].plan.cost.value < dear.by_worth[-1].plan.cost.value


def test_of_a_small_model_that_passes_wrong_answers_less_is_tried(tmp_path: Path) -> None:
    """Each try of the small model may take a question from the large one by a wrong answer."""
    rng = np.random.default_rng(9)
    n, k = 300, 8
    right = {"small": np.array(branch(0.4, n, k, 1)), "large": np.array(branch(1.2, n, k, 2))}
    tries: list[int] = []
    for false_accept in (0.0, 0.3):
        files = [tmp_path / f"{name}.jsonl" for name in right]
        for file, own in zip(files, right.values(), strict=True):
            passed = np.where(own == 1, 1, rng.random((n, k)) < false_accept).astype(int)
            rows = (
                {
                    "id": str(i),
                    "gold_answer": "x",
                    "all_answers": [f"{file.stem}-{j}" for j in range(k)],
                    "all_correct": own[i].tolist(),
                    "all_confidences": passed[i].tolist(),
                }
                for i in range(n)
            )
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        plan = keff.mix(*files, value_per_correct=300, cost_per_path=1).advice.plan
        stages = plan.policy.removeprefix("cascade:").split("/")
        small = [stage for stage in stages if stage.startswith("small")]
        tries.append(parse_policy(f"cascade:{small[0]}").cap if small else 0)
    assert tries[1] < tries[0]


def test_verdicts_beside_answers_and_a_share_without_a_checker_are_refused(tmp_path: Path) -> None:
    verdicts = np.array(branch(0.7, 20, 3, 1))
    answers = [["a", "b", "a"]] * 20
    file = tmp_path / "answers.jsonl"
    file.write_text(
        "".join(
            json.dumps({"id": str(i), "gold_answer": "a", "all_answers": row}) + "\n"
            for i, row in enumerate(answers)
        )
    )
    other = tmp_path / "verdicts.jsonl"
    other.write_text(
        "".join(
            json.dumps({"id": str(i), "all_correct": row}) + "\n" for i, row in enumerate(verdicts.tolist())
        )
    )
    with pytest.raises(KeffError, match="holds verdicts only, and other branches hold answers"):
        keff.mix(file, other)
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text(other.read_text().replace('"id": "', '"id": "other '))
    with pytest.raises(KeffError, match="share no question id"):
        keff.mix(other, elsewhere)
    second = tmp_path / "second.jsonl"
    second.write_text(file.read_text().replace('"a", "b", "a"', '"b", "b", "a"'))
    third = tmp_path / "third.jsonl"
    third.write_text(
        "".join(
            json.dumps({"id": str(i), "all_correct": row}) + "\n"
            for i, row in enumerate(branch(0.9, 20, 3, 5))
        )
    )
    sure, unsure = (keff.mix(other, third, false_accept=share) for share in (None, 0.2))
    assert unsure.best_single.accuracy.value < sure.best_single.accuracy.value
    with pytest.raises(KeffError, match="false-accept is only for"):
        keff.mix(file, second, false_accept=0.1)


@pytest.mark.parametrize(("right", "said"), [(0, "no try of b passed"), (1, "every try of b passed")])
def test_a_checker_that_never_or_always_passes_is_named(tmp_path: Path, right: int, said: str) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, rows in zip(files, (branch(0.7, 20, 3, 1), [[right] * 3] * 20), strict=True):
        lines = (json.dumps({"id": str(i), "all_correct": list(row)}) for i, row in enumerate(rows))
        file.write_text("\n".join(lines) + "\n")
    found = keff.mix(*files)
    assert any(said in note.message for note in found.warnings)
    assert "-0.0" not in found.line()
