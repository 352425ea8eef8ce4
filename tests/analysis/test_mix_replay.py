"""Replay of plans over branches: exact accuracies and costs, predicted paths, the frontier."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import keff
from keff.analysis.mix.orders import draw_orders
from keff.analysis.mix.prices import Costs, path_costs
from keff.analysis.mix.search import CandidatePlan, pairs, replay_cascade, singles, triples, undominated
from keff.analysis.mix.study import escalation
from keff.analysis.money import Tariff
from keff.analysis.replay import Replaying
from keff.policies.cascade import Cascade
from keff.policy import Sample, View, parse_policy
from keff.reading.join import Aligned, AlignedBranch
from keff.sampling.cost import Price
from keff.stats.votes import Votes
from mix_rig import group, plan_table

pytestmark = pytest.mark.slow


def by_hand(policy: Cascade, aligned: Aligned, item: int) -> tuple[float, float]:
    """Average a cascade over every order of every branch's few paths, live."""
    spent: list[float] = []
    right: list[float] = []
    codes = [branch.votes.answered()[item].tolist() for branch in aligned.branches]
    from itertools import permutations

    for small, large in product(permutations(codes[0]), permutations(codes[1])):
        queues = {"small": list(small), "large": list(large)}
        keys: list[str | None] = []
        asked: list[str] = []
        while isinstance(decision := policy.decide(View(keys, branches=asked)), Sample):
            for branch in decision.branches:
                keys.append(str(queues[branch].pop(0)))
                asked.append(branch)
        spent.append(sum(1.0 if name == "small" else 10.0 for name in asked))
        right.append(float(decision.answer == "0"))
    return float(np.mean(right)), float(np.mean(spent))


@pytest.mark.parametrize("keep", ["votes", "fresh"])
def test_a_replayed_cascade_is_the_average_over_all_orders(keep: str) -> None:
    aligned = group(6, 3, seed=1)
    policy = parse_policy(f"cascade:small(lead_k:2,cap=2)/large(lead_k:2,cap=3),keep={keep}")
    assert isinstance(policy, Cascade)
    costs = Costs(tuple(np.full((6, 3), price) for price in (1.0, 10.0)), "tokens")
    orders = draw_orders(aligned, costs, 3, np.random.default_rng(0))
    accuracy, cost = replay_cascade(policy, orders, aligned.names)
    for item in range(6):
        right, spent = by_hand(policy, aligned, item)
        assert cost[item] == pytest.approx(spent, abs=0.15 * spent + 1e-9)
        assert accuracy[item] == pytest.approx(right, abs=0.15)


def test_the_search_replays_as_each_policy_does_alone() -> None:
    aligned = group(30, 8, seed=2, p=(0.6, 0.7, 0.85), tokens=(100, 300, 1000))
    costs = path_costs(aligned, None)
    orders = draw_orders(aligned, costs, 8, np.random.default_rng(0))
    plans = list(pairs(orders, aligned.names))
    plans += triples(orders, aligned.names, [*singles(aligned, costs, orders), *plans])
    assert {plan.kind for plan in plans} == {"cascade"} and max(len(p.branches) for p in plans) == 3
    for plan in plans[:: max(1, len(plans) // 40)]:
        policy = parse_policy(plan.spec)
        assert isinstance(policy, Cascade)
        accuracy, cost = replay_cascade(policy, orders, aligned.names)
        np.testing.assert_allclose(accuracy, plan.accuracy, rtol=1e-5)
        np.testing.assert_allclose(cost, plan.cost, rtol=1e-5)


@pytest.mark.parametrize("priced", ["dollars", "paths"])
def test_a_plan_of_one_branch_is_what_a_replay_of_its_rule_says(priced: str, tmp_path: Path) -> None:
    """In passages of three questions, with paths that give no answer, and prompts billed once a request."""
    rng = np.random.default_rng(11)
    files: list[Path] = []
    spent = 0.0
    for name, chance in (("small", 0.5), ("large", 0.7)):
        rows: list[dict[str, object]] = []
        for item in range(60):
            theta = rng.beta(3 * chance, 3 * (1 - chance))
            answers = np.where(rng.random(8) < theta, "0", rng.integers(1, 4, 8).astype(str))
            made: dict[str, object] = {
                "id": str(item),
                "cluster": item // 3,
                "model": name,
                "gold_answer": "0",
                "all_answers": [None if rng.random() < 0.1 else answer for answer in answers],
            }
            if priced != "paths":
                tokens, prompt = rng.integers(50, 500, 8).tolist(), int(rng.integers(100, 3000))
                made |= {"all_tokens": tokens, "all_prompt_tokens": [prompt, *[0] * 7]}
                spent += (3 * prompt + 15 * sum(tokens)) / 1e6
            rows.append(made)
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    prices = dict.fromkeys(("small", "large"), Price(prompt=3, output=15)) if priced == "dollars" else None
    found = keff.mix(*files, prices=prices)
    assert found.cost_unit == priced
    for file, branch in zip(files, found.branches, strict=True):
        lines = [line for line in found.singles if line.branches == (branch.name,)]
        rules = [line.policy.partition("(")[2].rstrip(")") for line in lines]
        tariff = None if prices is None else Tariff(prices)
        told = keff.replay(file, rules, Replaying(tariff=tariff, model=branch.name))
        for line, row in zip(lines, told.policies, strict=True):
            assert row.accuracy is not None
            own = (line.accuracy.value, *(line.accuracy.limits or ()))
            assert own == pytest.approx((row.accuracy.value, *(row.accuracy.limits or ())), rel=1e-6)
            dollars = row.dollars and row.dollars.value
            assert line.cost.value == pytest.approx(dollars if prices else row.mean_paths, rel=1e-6)
        assert lines[0].accuracy.value == pytest.approx(branch.p.value, rel=1e-6)
    assert found.pilot_cost == pytest.approx(spent if prices else 2 * 60 * 8)


def drawn_from_an_urn(n: int, k: int, p: float, c: float, seed: int) -> Aligned:
    """One branch twice over: right by a beta law of mean p and correlation c, wrong answers of a urn too."""
    rng = np.random.default_rng(seed)
    theta = rng.beta(p * (1 - c) / c, (1 - p) * (1 - c) / c, n)
    right = rng.random((n, k)) < theta[:, None]
    # Wrong answers scatter as tables of a Chinese restaurant, seat by seat.
    answers = np.zeros((n, k), int)
    for row in range(n):
        seated: list[int] = []
        for at in np.flatnonzero(~right[row]):
            alone = rng.random() * (len(seated) + (1 - p) * (1 - c) / c) >= len(seated)
            seated.append(1 + len(set(seated)) if alone else seated[rng.integers(len(seated))])
            answers[row, at] = seated[-1]
    votes = Votes(answers, right.astype(int), tokens=np.full((n, k), 10.0))
    keys = tuple(tuple(map(str, row)) for row in answers.tolist())
    branch = AlignedBranch("small", None, votes, keys, ())
    credit = np.eye(1, k + 1).repeat(n, axis=0)
    return Aligned(tuple(map(str, range(n))), (branch,), credit, np.arange(n), "exact", ())


def test_predicted_paths_vote_as_drawn_ones_do() -> None:
    """Of 4 paths of each question, plans of 8 are judged as by all 8, within what 3,000 questions tell."""
    whole = drawn_from_an_urn(3000, 8, 0.55, 0.4, seed=5)
    (branch,) = whole.branches
    pilot = replace(whole, branches=(replace(branch, votes=branch.votes.paths(np.arange(4))),))
    tables: list[dict[str, CandidatePlan]] = []
    for given in (whole, pilot):
        costs = path_costs(given, None)
        orders = draw_orders(given, costs, 32, np.random.default_rng(0))
        tables.append({plan.spec: plan for plan in singles(given, costs, orders)})
    true, predicted = tables
    assert true.keys() == predicted.keys() and "cascade:small(lead_k:4,cap=8)" in true
    for spec, plan in true.items():
        gap = predicted[spec].accuracy - plan.accuracy
        error = gap.std() / len(gap) ** 0.5
        assert abs(gap.mean()) < 3 * error + 1e-3, spec
        assert predicted[spec].cost.mean() == pytest.approx(plan.cost.mean(), rel=0.02)
    gain = (
        true["cascade:small(lead_k:4,cap=8)"].accuracy.mean() - true["cascade:small(fixed:1)"].accuracy.mean()
    )
    assert gain > 0.03  # there is something to predict


def test_paths_are_predicted_from_4_to_8_and_recorded_ones_stay() -> None:
    for k, cap in ((3, 3), (4, 8), (7, 8), (9, 9)):
        given = group(50, k, seed=4)
        costs = path_costs(given, None)
        orders = draw_orders(given, costs, 32, np.random.default_rng(0))
        assert {order.cap for order in orders.branches} == {cap}
        plain = draw_orders(given, costs, k, np.random.default_rng(0)).branches[0]
        np.testing.assert_array_equal(orders.branches[0].codes[:, :k], plain.codes)
        assert (np.diff(orders.branches[0].spent, axis=1) > 0).all()


def test_the_frontier_holds_no_dominated_plan() -> None:
    table = plan_table([[1.0, 1.0], [1.0, 0.0], [1.0, 0.5], [0.0, 0.0]], [10.0, 2.0, 3.0, 4.0])
    assert [plan.branches for plan in undominated(table.plans)] == [(1,), (2,), (0,)]
    # Of equal cost, up to single precision, the more accurate one stays.
    table = plan_table([[1.0, 0.0], [1.0, 0.5], [0.0, 0.0]], [2.0, 2.0 + 1e-7, 1.0])
    assert [plan.branches for plan in undominated(table.plans)] == [(2,), (1,)]


def test_where_a_cascade_passes_questions_on() -> None:
    """Questions on which the first branch never agrees with itself all go on; those it knows stay."""
    aligned = group(60, 8, seed=3)
    orders = draw_orders(aligned, path_costs(aligned, None), 8, np.random.default_rng(4))
    found = escalation("cascade:small(lead_k:2,cap=4)/large(fixed:1),keep=fresh", orders, aligned)
    assert found.branches == ("small", "large") and found.reach[0] == 1
    passed = {row.lo: row.passed for row in found.by_difficulty if row.passed is not None}
    weights = [row.questions for row in found.by_difficulty if row.passed is not None]
    assert found.reach[1] == pytest.approx(np.average(list(passed.values()), weights=weights))
    assert passed[0.8] < 0.1 < max(passed.values())


def test_a_rule_at_its_usual_cap_says_how_many_paths_it_draws() -> None:
    given = group(10, 33, seed=6)
    costs = path_costs(given, None)
    plans = list(singles(given, costs, draw_orders(given, costs, 32, np.random.default_rng(0))))
    assert max(plan.most[0] for plan in plans) == 32
    assert all(plan.within([33, 33]) and not plan.within([1, 1]) for plan in plans if plan.most != (1,))
