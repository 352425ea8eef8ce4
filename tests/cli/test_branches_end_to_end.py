"""Two branches from the command line to the plan, each from a server: drawn, dropped, mixed, followed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import command_line
from fault_server import Script, running
from keff.plan import Plan

QUESTIONS = 30


def right_in(share: float) -> Callable[[list[dict[str, Any]], int], str]:
    """Answer the sum that is asked for, rightly in about ``share`` of the paths."""

    def answer(messages: list[dict[str, Any]], seed: int) -> str:
        asked = messages[-1]["content"]
        number = int(asked.partition("+")[0].split()[-1])
        luck = int(hashlib.sha256(f"{share}|{asked}|{seed}".encode()).hexdigest()[:6], 16) / 16**6
        wrong = 1 + int(luck * 100) % 3
        return f"So the final answer is {2 * number + (0 if luck < share else wrong)}."

    return answer


def drawn_from(
    folder: Path, shares: dict[str, float], *more: str, n: int = QUESTIONS
) -> tuple[dict[str, Any], str, list[int]]:
    """Draw a pilot of ``n`` questions from a server for each branch, with ``more`` options.

    Return what was found, what was said, and the requests to each server.
    """
    questions, prices = folder / "q.jsonl", folder / "prices.toml"
    rows = [{"id": str(i), "question": f"{i}+{i}?", "answer": str(2 * i)} for i in range(n)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prices.write_text('["small"]\npath = 0.001\n["large"]\npath = 0.02\n')
    files: list[object] = []
    scripts = {name: Script(answer=right_in(share), models=(name,)) for name, share in shares.items()}
    with ExitStack() as stack:
        for name, script in scripts.items():
            file = folder / f"{name}.toml"
            url = stack.enter_context(running(script))
            file.write_text(f'model = "{name}"\nbase_url = "{url}"\ntemperature = 0.8\n')
            files += ["--branch", file]
        wishes = [
            "pilot",
            questions,
            "--answer-space",
            "numeric",
            *files,
            "--run",
            folder / "run",
            "--n",
            n,
            *more,
        ]
        done = command_line.keff(*wishes, "--prices", prices, "-o", folder / "plan.json", "--json")
        assert done.returncode == 0, done.stderr
        plan = Plan.read(folder / "plan.json")
        asks = [
            questions,
            "--answer-space",
            "numeric",
            *files,
            "--run",
            folder / "follow",
            "--policy",
            plan.policy,
        ]
        if "/" in plan.policy:
            followed = command_line.keff("sample", *asks, "--n", "6", "--json")
            assert followed.returncode == 0, followed.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr, [len(script.requests) for script in scripts.values()]


@pytest.mark.slow
def test_two_servers_are_drawn_mixed_and_planned(tmp_path: Path) -> None:
    """Small is right in most paths at a twentieth of the price: the plan knows its servers and costs."""
    found, _, requests = drawn_from(tmp_path, {"small": 0.7, "large": 0.97}, "--k", "8")
    assert found["n"] == QUESTIONS and found["cost_unit"] == "dollars" and min(requests) >= QUESTIONS
    # The dear one gets half the paths.
    assert found["pilot_cost"] == pytest.approx(QUESTIONS * (8 * 0.001 + 4 * 0.02))
    by_name = {branch["name"]: branch for branch in found["branches"]}
    assert by_name["small"]["p"] == pytest.approx(0.7, abs=0.12)
    assert by_name["large"]["p"] == pytest.approx(0.97, abs=0.06)
    worths = [line["from"] for line in found["by_worth"]]
    assert worths == sorted(worths) and "small" in found["by_worth"][0]["branches"]
    assert "large" in found["by_worth"][-1]["branches"]
    plan = Plan.read(tmp_path / "plan.json")
    for branch in plan.branches:
        assert f'base_url = "{branch.upstream}"' in (tmp_path / f"{branch.name}.toml").read_text()
        assert branch.temperature == 0.8 and branch.cost_per_path == by_name[branch.name]["cost"]


@pytest.mark.slow
def test_a_dear_server_that_is_worse_is_asked_no_further(tmp_path: Path) -> None:
    found, said, requests = drawn_from(tmp_path, {"small": 0.95, "large": 0.4})
    # One line for each branch, whatever the number of rounds.
    assert said.count(" paths drawn, 0 kept from before, ") == 2
    assert f"small: {4 * QUESTIONS} paths drawn" in said and f"large: {4 * 12} paths drawn" in said
    assert "drops large after 12 questions: small" in said
    assert [branch["name"] for branch in found["branches"]] == ["small"]
    assert found["dropped"][0]["spent"] == pytest.approx(12 * 4 * 0.02)
    assert requests[1] < requests[0]


@pytest.mark.slow
def test_a_spent_budget_leaves_the_branches_level(tmp_path: Path) -> None:
    """A pilot of 100 questions whose money ends after some 70 has asked both branches nearly as many.

    ``keff mix`` of the folder reads its branches.
    """
    spent = ("--keep-all", "--max-cost", "6")
    found, said, requests = drawn_from(tmp_path, {"small": 0.7, "large": 0.97}, *spent, n=100)
    assert "the cost limit of $6 is reached" in said and 50 < found["n"] < 100
    assert max(requests) <= 1.3 * min(requests)
    again = command_line.keff("mix", tmp_path / "run", "--prices", tmp_path / "prices.toml", "--json")
    assert again.returncode == 0, again.stderr
    mixed = json.loads(again.stdout)
    assert [branch["name"] for branch in mixed["branches"]] == ["large", "small"]
    assert mixed["n"] == found["n"]
