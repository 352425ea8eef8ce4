"""Answers that a checker passes or fails are tried again: how often, and what that reaches."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import command_line
import keff
from keff.errors import KeffError


def verdicts(n: int = 60, k: int = 6, seed: int = 1, never: float = 0.2) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    theta = np.where(rng.random(n) < never, 0.0, rng.beta(1, 1, n))
    return (rng.random((n, k)) < theta[:, None]).astype(int).tolist()


def by_all_orders(rows: list[list[int]], tries: int) -> tuple[float, float]:
    """Return the share solved and the tries made on average, by running every order of every question."""
    runs = [order for row in rows for order in permutations(row, tries)]
    made = [order.index(1) + 1 if 1 in order else tries for order in runs]
    return float(np.mean([max(order) for order in runs])), float(np.mean(made))


def test_tries_within_the_record_are_averages_over_all_orders() -> None:
    rows = verdicts(n=12, k=5)
    found = keff.analyze(np.array(rows)).tries
    assert found is not None
    for line in found.lines:
        solved, made = by_all_orders(rows, line.tries)
        assert line.right.value == pytest.approx(solved)
        assert line.paths.value == pytest.approx(made)


def test_analyze_replay_and_noise_say_the_same_of_a_number_of_tries() -> None:
    rows = np.array(verdicts())
    found, noise = keff.analyze(rows).tries, keff.noise(rows)
    assert found is not None and noise.pass_at_k is not None
    replayed = keff.replay(rows, ["retry:2", "retry:6"])
    for row in replayed.policies[:2]:
        line = found.lines[keff.parse_policy(row.policy).cap - 1]
        assert row.accuracy is not None
        assert row.accuracy.value == pytest.approx(line.right.value, abs=1e-6)
        assert row.mean_paths == pytest.approx(line.paths.value, abs=0.01)
        assert noise.pass_at_k[line.tries] == line.right
    assert replayed.decision is not None
    assert replayed.decision.policy == keff.analyze(rows).policy


@pytest.mark.parametrize(("worth", "bound"), [(3.0, 1 / 3), (30.0, 1 / 30)])
def test_tries_stop_where_the_next_is_worth_less_than_it_costs(worth: float, bound: float) -> None:
    found = keff.analyze(np.array(verdicts(n=200)), value_per_correct=worth, cost_per_path=1, cap=64)
    assert found.tries is not None
    chosen = keff.parse_policy(found.policy).cap
    assert found.tries.lines[chosen - 1].next_right.value < bound
    assert chosen == 1 or found.tries.lines[chosen - 2].next_right.value > bound


def test_whether_a_fourth_trial_of_an_agent_pays_is_told_from_four_trials(tmp_path: Path) -> None:
    """150 tasks as beta(1, 2) gives them in four trials: after three failures 1 in 6 is right."""
    tasks = [right for right, times in enumerate((50, 40, 30, 20, 10)) for _ in range(times)]
    runs = [
        {"task_id": task, "trial": trial, "reward": float(trial < right), "info": {}, "traj": []}
        for task, right in enumerate(tasks)
        for trial in range(4)
    ]
    (tmp_path / "agent.json").write_text(json.dumps(runs))
    found = keff.analyze(tmp_path / "agent.json").tries
    assert found is not None and found.k == 4
    third = found.lines[2]
    # Of those with one right trial a quarter have it fourth.
    assert third.right.value == pytest.approx(1 - (50 + 40 / 4) / 150)
    assert third.next_right.value == pytest.approx(1 / 6, abs=0.03)
    lo, hi = third.next_right.limits or (1, 0)
    assert lo < 1 / 6 < hi
    assert third.worth == pytest.approx(1 / third.next_right.value)


def test_an_aim_by_budget_and_by_share_are_kept() -> None:
    rows = np.array(verdicts(n=200))
    budgeted = keff.analyze(rows, budget=2).decision
    assert budgeted.expected_paths is not None and budgeted.expected_paths.value <= 2
    kept = keff.analyze(rows, retain=0.9).decision
    assert kept.kept is not None and kept.kept.value >= 0.9
    assert kept.verdict == "retry" and kept.change.paths is not None and kept.change.paths.value < 0


def test_false_accepts_are_measured_by_gold_answers_and_never_help() -> None:
    rng = np.random.default_rng(5)
    right = np.array(verdicts(n=400, k=8))
    passed = np.where(right == 1, 1, rng.random(right.shape) < 0.1).astype(float)
    answers = [[f"{i}-{j}" for j in range(8)] for i in range(400)]
    given = {"gold_answer": ["x"] * 400, "correct": right.tolist(), "confidence": passed.tolist()}
    found = keff.analyze(answers, **given)
    assert found.tries is not None and found.tries.false_accept is not None
    assert found.tries.false_accept.lo < 0.1 < found.tries.false_accept.hi
    wrong = [line.wrong for line in found.tries.lines]
    assert wrong == sorted(wrong)
    # What passes first is right or wrong as it happened, over all orders.
    first = sum(
        np.mean([right[i, j] for j in range(8) if passed[i, j]]) if passed[i].any() else 0 for i in range(400)
    )
    assert found.tries.lines[7].right.value == pytest.approx(first / 400)
    # The same verdicts without gold answers, and their share of false accepts stated.
    stated = keff.analyze(passed.astype(int), false_accept=found.tries.false_accept.value).tries
    assert stated is not None
    for line, truth in zip(stated.lines, found.tries.lines, strict=True):
        assert line.right.lo < truth.right.value < line.right.hi


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([[0, 0, 0]] * 20, {}, "no try passed"),
        ([[1, 1, 1]] * 20, {}, "check that the checker can fail an answer"),
        ([[0], [1]] * 10, {}, "record two or more"),
        ([[0, 1, 1]] * 5, {}, "5 independent questions cannot decide: record at least 10"),
    ],
)
def test_a_checker_that_says_nothing_is_named(rows: list[list[int]], options: dict, said: str) -> None:
    assert said in keff.analyze(np.array(rows), **options).decision.because


def test_verdicts_that_contradict_gold_decide_nothing() -> None:
    right = np.array(verdicts(n=50))
    answers = [[f"{i}-{j}" for j in range(6)] for i in range(50)]
    given = {"gold_answer": ["x"] * 50, "correct": right.tolist(), "confidence": (1.0 - right).tolist()}
    found = keff.analyze(answers, **given).decision
    assert found.verdict is None and "verdicts contradict the gold answers" in found.because


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.9, "only 50.0% of all tries passed"), (1.0, "at least 0 and below 1")],
)
def test_a_share_of_false_accepts_that_cannot_be_is_refused(share: float, said: str) -> None:
    rows = np.array([[0, 1], [1, 0]] * 10)
    with pytest.raises(KeffError, match=said):
        keff.analyze(rows, false_accept=share)


def test_false_accepts_need_a_checker() -> None:
    with pytest.raises(KeffError, match="this one has none"):
        keff.analyze([["a", "b"]] * 12, gold_answer=["a"] * 12, false_accept=0.1)


def test_the_command_line_decides_on_verdicts_scores_and_informative_confidences(tmp_path: Path) -> None:
    rows = verdicts(n=60, k=6)
    log = tmp_path / "log.jsonl"
    for field in ("all_correct", "all_scores"):
        log.write_text("".join(json.dumps({"id": f"q{i}", field: row}) + "\n" for i, row in enumerate(rows)))
        told = command_line.keff("analyze", log, "-o", tmp_path / "plan.json").stdout
        assert told.startswith(("Try up to", "Keep trying up to"))
        assert json.loads((tmp_path / "plan.json").read_text())["policy"].startswith("retry:")
    rng = np.random.default_rng(3)
    rated = [
        {
            "id": f"q{i}",
            "gold_answer": "x",
            "all_answers": [f"{i}-{j}" for j in range(6)],
            "all_correct": row,
            "all_confidences": [each + 0.9 * rng.random() for each in row],
        }
        for i, row in enumerate(rows)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in rated))
    told = command_line.keff("analyze", log).stdout.splitlines()
    assert told[0].startswith("Stop early") and any("switch:" in line for line in told[:5])
    assert any(line.startswith("Retry: no two answers agree") for line in told)


@pytest.mark.parametrize("field", ["all_correct", "all_scores"])
def test_tries_that_ended_at_the_first_pass_are_read_as_such(tmp_path: Path, field: str) -> None:
    """A log of retries has more paths of hard questions: the first of each is the score, m of them pass@m."""
    rows = verdicts(n=300, k=4)
    made = [row.index(1) + 1 if 1 in row else 4 for row in rows]
    files = [tmp_path / name for name in ("ended.jsonl", "whole.jsonl")]
    for file, cut in zip(files, (made, [4] * len(rows)), strict=True):
        lines = (
            {"id": f"q{i}", field: row[:end]} for i, (row, end) in enumerate(zip(rows, cut, strict=True))
        )
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ended, whole = (keff.analyze(file).tries for file in files)
    assert ended is not None and whole is not None
    for one, other in zip(ended.lines, whole.lines, strict=True):
        tries = one.tries
        assert one.right.value == pytest.approx(np.mean([max(row[:tries]) for row in rows]))
        assert one.paths.value == pytest.approx(np.mean(np.minimum(made, tries)))
        # Both records are of the same questions: the laws agree within their limits.
        assert other.next_right.lo < one.next_right.value < other.next_right.hi  # type: ignore[operator]
    first = np.mean([row[0] for row in rows])
    for options in ({}, {"trim": 3}):
        noise = keff.noise(files[0], **options)
        assert noise.score.value == pytest.approx(first)
        assert "stopped_run" in {note.code for note in noise.warnings}
    pooled = tmp_path / "pooled.jsonl"
    command_line.keff("join", *files, "--pool", "-o", pooled)
    kept = [json.loads(line)["all_correct"] for line in pooled.read_text().splitlines()]
    assert kept == [[row[0], *row] for row in rows]
    other = enumerate(verdicts(n=300, k=4, seed=2, never=0.05))
    files[1].write_text("".join(json.dumps({"id": f"q{i}", field: row}) + "\n" for i, row in other))
    mixed = keff.mix(*files, value_per_correct=50, cost_per_path=1)
    assert {branch.name: branch.p.value for branch in mixed.branches}["ended"] == pytest.approx(first)


def test_confidences_alone_are_verdicts_where_they_are_said_to_be(tmp_path: Path) -> None:
    rows = verdicts(n=40)
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(json.dumps({"id": f"q{i}", "all_confidences": row}) + "\n" for i, row in enumerate(rows))
    )
    done = command_line.keff("analyze", log)
    assert done.returncode == 2 and "--columns correct=all_confidences" in " ".join(done.stderr.split())
    told = command_line.keff("analyze", log, "--columns", "correct=all_confidences").stdout
    assert told.startswith("Keep trying up to 6 times")


def test_more_tries_than_recorded_are_refused_with_what_can_be_replayed() -> None:
    rows = np.array(verdicts(n=20, k=2))
    with pytest.raises(KeffError, match=r"retry:4 may draw 4 paths and the records hold 2: write retry:2"):
        keff.replay(rows, ["retry:4"])
    replayed = keff.replay(rows, ["retry:2"])
    assert replayed.policies[0].policy == "retry:2"
