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
@pytest.mark.parametrize(
    ("gold", "options"),
    [(True, ()), (False, ()), (True, ("--now", "4", "--retain", "0.95")), (True, ("--slower", "any"))],
)
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
    headline = next(line for line in first if line.startswith(("Stop early", "Ask", "Run", "Keep")))
    assert told.startswith(headline)
    assert f"keff analyze recommends {decided['policy']}." in told


def test_a_cheaper_row_that_is_not_recommended_says_why(tmp_path: Path) -> None:
    """Each question twice, with the other answer as gold: every rule is right half of the time here."""
    rng = np.random.default_rng(0)
    answers = np.where(rng.random((40, 8)) < 0.7, "a", "b").tolist()
    file = tmp_path / "mirrored.jsonl"
    rows = [
        {"id": f"{gold}{i}", "all_answers": row, "gold_answer": gold}
        for i, row in enumerate(answers)
        for gold in "ab"
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = keff.replay(str(file), ["fixed:1", "fixed:3"])
    decision = found.decision
    assert decision is not None and decision.verdict == "undecided"
    assert found[decision.policy].mean_paths > 3
    for row in found.policies:
        assert row.kept is not None and row.kept.value == pytest.approx(1, abs=0.01)  # of random orders
    told = [line for line in found.statements() if " is cheaper and kept 100.0%" in line]
    assert [line.split()[0] for line in told] == ["fixed:1", "fixed:3"]
    assert all(line.endswith("less than you asked for.") for line in told)


@pytest.mark.slow
def test_no_vote_is_recommended_where_voting_did_not_help_here() -> None:
    """Random pilots of coins, weak models and confusing rivals: a vote has gained on these questions."""
    votes = 0
    for seed in range(16):
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
