"""One choice: whatever command names a rule for a record, it is the rule that the analysis names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import keff
from command_line import keff as run


def log(folder: Path, seed: int, *, gold: bool) -> Path:
    """A log of 80 questions x 8 answers of a random workload."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(*rng.uniform(0.5, 3, 2), 80)
    rivals = int(rng.integers(1, 6))
    file = folder / f"{seed}.jsonl"
    rows = []
    for i, p in enumerate(chance):
        answers = np.where(rng.random(8) < p, 0, rng.integers(1, rivals + 1, 8))
        row = {
            "id": i,
            "all_answers": [str(a) for a in answers],
            "all_tokens": rng.integers(50, 500, 8).tolist(),
        }
        rows.append(row | ({"gold_answer": "0"} if gold else {}))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("gold", [True, False])
@pytest.mark.parametrize("options", [(), ("--now", "4"), ("--slower", "any"), ("--retain", "0.95")])
def test_replay_names_the_rule_that_analyze_names(
    tmp_path: Path, gold: bool, options: tuple[str, ...]
) -> None:
    file = log(tmp_path, len(options) + 7 * gold, gold=gold)
    decided = json.loads(run("analyze", file, *options, "--json").stdout)["decision"]
    replayed = json.loads(run("replay", file, "fixed:8", "lead_k:2,cap=8", *options, "--json").stdout)
    assert replayed["decision"] == decided
    row = next(row for row in replayed["policies"] if row["policy"] == decided["policy"])
    if gold:
        assert row["expected_kept"] == pytest.approx(decided["kept"]["value"])
    first = run("analyze", file, *options).stdout.splitlines()
    told = run("replay", file, "fixed:8", *options).stdout
    headline = next(line for line in first if line.startswith(("Draw", "Ask", "Start", "Keep")))
    assert told.startswith(headline)
    assert f"Recommended, as by keff analyze: {decided['policy']}" in told


@pytest.mark.slow
def test_a_cheaper_row_that_is_not_recommended_says_why(tmp_path: Path) -> None:
    """Over some workloads: each row that is cheaper and kept the share here has a sentence."""
    sentences = 0
    rules = [f"lead_k:2,cap={cap}" for cap in (4, 5, 6, 8)] + ["fixed:1", "fixed:3", "fixed:5"]
    for seed in range(4):
        file = log(tmp_path, seed, gold=True)
        found = json.loads(run("replay", file, *rules, "--retain", "0.999", "--json").stdout)
        rows = {row["policy"]: row for row in found["policies"]}
        limit = rows[found["decision"]["policy"]]["mean_tokens"]
        cheaper = [
            row for row in rows.values() if row["mean_tokens"] < limit and row["kept"]["value"] >= 0.999
        ]
        told = run("replay", file, *rules, "--retain", "0.999").stdout
        assert " ".join(told.split()).count(" is cheaper and kept ") == len(cheaper)
        sentences += len(cheaper)
    assert sentences


@pytest.mark.slow
def test_no_vote_is_recommended_where_voting_did_not_help_here() -> None:
    """Random pilots of coins, weak models and confusing rivals: a vote has gained on these questions."""
    votes = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 3])
        p = rng.uniform(0.3, 0.7)
        right = rng.random((60, 8)) < rng.beta(30 * p, 30 * (1 - p), (60, 1))
        answers = np.where(right, "a", "b").tolist()
        found = keff.analyze(answers, gold_answer=["a"] * 60)
        decision = found.decision
        if decision.verdict == "vote":
            votes += 1
            rows = keff.replay(answers, [decision.policy, "fixed:1"], gold_answer=["a"] * 60)
            policy, once = rows[decision.policy].accuracy, rows["fixed:1"].accuracy
            assert policy is not None and once is not None and policy.value > once.value
            assert "helped" in decision.because
    assert votes
