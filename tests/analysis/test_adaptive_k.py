"""The paper's rule by name: K*, its cost and what it keeps, against plain loops and simulated truth."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import keff as facade
from command_line import keff
from keff.errors import UsageError
from keff.plan import Plan

Answers = list[list[str]]


def pilot(seed: int, n: int, k: int, a: float = 0.6, b: float = 0.5, wrong: int = 4) -> Answers:
    """Return answers of beta questions whose wrong answers scatter; "1" is right."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(a, b, n)
    return [
        ["1" if rng.random() < theta else str(2 + rng.integers(wrong)) for _ in range(k)] for theta in chance
    ]


def eq_3(answers: Answers) -> float:
    """Return the paper's c, averaged over all pairs of paths, by plain loops."""
    right = [[float(answer == "1") for answer in row] for row in answers]
    n, k = len(right), len(right[0])
    p = sum(map(sum, right)) / (n * k)
    pairs = [
        (sum(row[i] * row[j] for row in right) / n - p * p) / (p * (1 - p))
        for i, j in combinations(range(k), 2)
    ]
    return sum(pairs) / len(pairs)


def algorithm_1(answers: Answers, epsilon: float, k_max: int) -> int:
    """Return K* by searching the least K whose marginal gain is at most epsilon."""
    c = min(max(eq_3(answers), 0.05), 0.99)
    for k in range(1, k_max + 1):
        if (1 - c) / (1 + (k - 1) * c) ** 2 <= epsilon + 1e-12:
            return k
    return k_max


def asked(answers: Answers, **how: object) -> facade.Analysis:
    return facade.analyze(answers, gold_answer=["1"] * len(answers), rule="adaptive_k", **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_k_star_and_its_cost_are_the_papers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 7)), int(rng.integers(30, 90))
    epsilon, cap = float(rng.choice([0.01, 0.025, 0.1])), int(rng.integers(8, 33))
    answers = pilot(seed, n, k, *rng.uniform(0.3, 3, 2))
    rule = asked(answers, epsilon=epsilon, cap=cap).adaptive_k
    assert rule is not None
    star = algorithm_1(answers, epsilon, cap)
    assert (rule.policy, rule.k_star, rule.reference) == (f"fixed:{star}", star, cap)
    assert rule.lo <= star <= rule.hi <= cap
    # Pilot and served questions against the full vote, question by question.
    repaid = next((q for q in range(100_000) if n * k + q * star <= q * cap), math.inf)
    assert rule.repaid_after == repaid
    assert rule.net_cost == pytest.approx((star + k) / cap)
    assert rule.cost_at_1000 == pytest.approx((n * k + 1000 * star) / (1000 * cap))


def test_what_is_recorded_is_measured() -> None:
    """On many questions the posterior is the record: shrinkage towards other workloads has gone."""
    answers = pilot(3, 3000, 12)
    found = asked(answers, now=12, epsilon=0.1)
    rule, curve = found.adaptive_k, found.plurality
    assert rule is not None and rule.kept is not None and rule.accuracy is not None and curve is not None
    assert rule.k_star < 12
    assert rule.measured
    assert not asked(pilot(3, 60, 4)).adaptive_k.measured  # type: ignore[union-attr]
    assert rule.kept.value == pytest.approx(curve[rule.k_star] / curve[12], abs=0.005)
    assert rule.accuracy.value == pytest.approx(curve[rule.k_star], abs=0.005)


def test_it_is_compared_with_the_rule_that_is_drawn_today() -> None:
    answers, today = pilot(7, 80, 6, 2, 1), "lead_k:3,cap=6"
    found, gold = asked(answers, now=today, epsilon=0.1), ["1"] * 80
    rule = found.adaptive_k
    assert rule is not None and rule.kept is not None and rule.reference_accuracy is not None
    assert rule.kept.of == found.decision.reference == today
    row = facade.replay(answers, [today], gold_answer=gold).policies[0]
    assert rule.reference == pytest.approx(row.mean_paths, abs=0.01)
    assert (rule.follow == "no") >= (rule.k_star >= rule.reference)


def true_plurality(a: float, b: float, wrong: int, ks: list[int], seed: int) -> dict[int, float]:
    """Return the share of right pluralities by number of paths, on 20,000 new questions."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(a, b, 20_000)[:, None]
    law = np.hstack([chance, np.repeat((1 - chance) / wrong, wrong, axis=1)])
    right: dict[int, float] = {}
    for k in ks:
        votes = rng.multinomial(k, law)
        most = votes.max(axis=1)
        right[k] = float(np.mean((votes[:, 0] == most) / (votes == most[:, None]).sum(axis=1)))
    return right


@pytest.mark.parametrize("wrong", [1, 4, 20])
@pytest.mark.parametrize(("a", "b"), [(0.6, 0.5), (2.0, 1.5)])
def test_the_share_kept_covers_the_truth_of_simulated_pilots(a: float, b: float, wrong: int) -> None:
    pilots, held = 3, 0  # more of them: python -m benchmarks.analysis.beyond --shares
    for seed in range(pilots):
        rule = asked(pilot(5400 + seed, 100, 4, a, b, wrong)).adaptive_k
        assert rule is not None and rule.kept is not None and rule.kept.limits is not None
        truth = true_plurality(a, b, wrong, [rule.k_star, 32], seed)
        lo, hi = rule.kept.limits
        # The share stated is at most 1: a shorter vote may be right more often, which counts as all kept.
        held += lo <= min(truth[rule.k_star] / truth[32], 1.0) <= hi
    assert held >= binom.ppf(0.05, pilots, 0.95)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([["2", "3", "2", "4"]] * 20, "No path of the pilot was right"),
        ([["1", "1", "1", "1"]] * 20, "Every path of the pilot was right"),
        ([["1", "2", "1", "2"]] * 20, "the rule takes c = 0.05"),  # a tie in every question: c = -1/3
        (pilot(1, 40, 4, 300, 300), "K_max = 32 bounds it"),
    ],
)
def test_a_degenerate_pilot_gets_k_max_and_says_why(answers: Answers, says: str) -> None:
    rule = asked(answers).adaptive_k
    assert rule is not None
    assert rule.k_star == 32
    assert any(says in note for note in rule.notes)
    assert rule.follow == "no"
    assert rule.repaid_after == math.inf


@pytest.mark.parametrize(
    ("answers", "gold", "says"),
    [
        (pilot(1, 30, 1), True, "at least two of each"),
        (pilot(1, 1, 4), True, "at least two of each"),
        (pilot(1, 30, 4), False, "gold answers"),
    ],
)
def test_a_record_without_k_star_is_refused(answers: Answers, gold: bool, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        facade.analyze(answers, gold_answer=["1"] * len(answers) if gold else None, rule="adaptive_k")
    with pytest.raises(UsageError, match="rule is adaptive_k"):
        facade.analyze(answers, gold_answer=["1"] * len(answers), rule="k_star")  # type: ignore[arg-type]


def test_the_command_answers_in_words_in_json_and_in_a_plan(tmp_path: Path) -> None:
    log, plan = tmp_path / "pilot.jsonl", tmp_path / "plan.json"
    answers = pilot(5, 80, 4)
    lines = (
        json.dumps({"id": str(i), "gold_answer": "1", "all_answers": row}) for i, row in enumerate(answers)
    )
    log.write_text("\n".join(lines))
    star = algorithm_1(answers, 0.025, 32)
    done = keff("analyze", log, "--rule", "adaptive_k", "-o", plan)
    first = done.stdout.split("\n\n")[0]
    assert f"K* = {star}" in first
    assert "Follow it?" in first
    assert "keff's own decision" in first
    assert "paid back after" in first
    assert Plan.read(plan).policy == f"fixed:{star}"
    told = json.loads(keff("analyze", log, "--rule", "adaptive_k", "--json").stdout)["adaptive_k"]
    assert told["k_star"] == star
    assert told["follow"] in ("yes", "no", "undecided")


def test_who_names_the_rule_before_its_pilot_is_told_what_works(tmp_path: Path) -> None:
    for command in (
        ("sample", "starter", "--engine", "fake", "--run", tmp_path / "run"),
        ("serve", "--upstream", "http://127.0.0.1:9/v1", "--check"),
    ):
        done = keff(*command, "--policy", "adaptive_k")
        assert done.returncode == 2
        assert "--rule adaptive_k" in done.stderr
        assert "plan.json" in done.stderr
    done = keff(
        "pilot", "starter", "--engine", "fake", "--run", tmp_path / "one", "--k", "1", "--rule", "adaptive_k"
    )  # fmt: skip
    assert done.returncode == 2
    assert "--k 4" in done.stderr
    assert not (tmp_path / "one").exists()


def test_a_replay_names_the_fitted_k() -> None:
    answers = pilot(5, 60, 8)
    row = facade.replay(answers, ["adaptive_k:cap=8", "fixed:4"], gold_answer=["1"] * 60).policies[0]
    assert row.fitted == f"fixed:{algorithm_1(answers, 0.025, 8)}"
