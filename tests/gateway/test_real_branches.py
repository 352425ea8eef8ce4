"""The whole way with two real branches: one small model under two prompts, piloted, compared and served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import command_line
from gateway_rig import Rig, gateway
from keff.plan import Plan
from keff.policy import parse_policy

pytestmark = pytest.mark.integration

TOKENS = 5
PROMPTS = {
    "terse": "Answer with a number only.",
    "adding": "You add numbers. Reply with: The answer is <number>.",
}


@pytest.fixture(scope="module")
def drawn(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    from real_server import real_base_url

    folder = tmp_path_factory.mktemp("branches")
    rows = [{"id": f"q{i}", "question": f"Say the number {i}.", "answer": str(i)} for i in range(1, 17)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files: list[object] = []
    for (name, system), temperature in zip(PROMPTS.items(), (0.7, 1.0), strict=True):
        file = folder / f"{name}.toml"
        file.write_text(
            f'engine = "openai"\nbase_url = "{real_base_url(smollm2)}"\nsystem = "{system}"\n'
            f"temperature = {temperature}\nmax_tokens = {TOKENS}\n"
        )
        files += ["--branch", file]
    made = folder / "plan.json"
    done = command_line.keff(
        "pilot", folder / "own.jsonl", "--answer-space", "numeric", *files, "--run", folder / "run",
        "--n", "16", "--k", "2", "--token-budget", "100000", "-o", made, "--keep-all", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [branch["name"] for branch in found["branches"]] == sorted(PROMPTS) and found["n"] == 16
    # 16 questions are the fewest of which a choice is claimed.
    assert found["recommendation"]["verdict"] != "pilot too small" and found["cost_unit"] == "tokens"
    again = command_line.keff("mix", folder / "run", "--json")
    assert json.loads(again.stdout)["recommendation"]["policy"] == found["recommendation"]["policy"]
    return Plan.read(made), folder


@pytest.fixture(scope="module")
def served(drawn: tuple[Plan, Path]) -> Iterator[Rig]:
    """Serve a cascade of both, whichever the small pilot recommends: both branches must be asked."""
    plan, folder = drawn
    both = [Plan.model_validate_json(plan.model_dump_json()).branches[0]]
    other = next(name for name in PROMPTS if name != both[0].name)
    both.append(both[0].model_copy(update={"name": other, "system": PROMPTS[other]}))
    policy = "cascade:terse(lead_k:2,cap=2)/adding(lead_k:2,cap=3)"
    assert parse_policy(policy).cap == 5 and folder.exists()
    cascade = plan.model_copy(update={"policy": policy, "branches": tuple(both)})
    with gateway(None, cascade, path_seconds=120) as rig:
        yield rig


def test_a_pilot_of_two_prompts_gives_a_plan_that_can_be_served(drawn: tuple[Plan, Path]) -> None:
    plan, _ = drawn
    assert plan.branches and all(branch.upstream and branch.max_tokens == TOKENS for branch in plan.branches)
    assert all(branch.system == PROMPTS[branch.name] for branch in plan.branches)


def test_two_prompts_of_one_real_model_answer_as_a_cascade(served: Rig) -> None:
    asked = set[str]()
    for number in range(6):
        messages = [{"role": "user", "content": f"What is {number} + {number}?"}]
        reply = served.post({"messages": messages, "seed": 7 * number})
        assert reply.status_code == 200, reply.text
        told = reply.json()["keff"]
        lines = told["branches"]
        asked |= {line["name"] for line in lines}
        assert lines[0]["name"] == "terse" and 1 <= told["paths"] <= 5
        assert told["escalated"] == (len(lines) == 2)
        assert sum(line["paths"] for line in lines) == told["paths"]
        assert all(line["completion_tokens"] <= TOKENS * line["paths"] for line in lines)
        assert all(line["down"] is None for line in lines)
    assert "terse" in asked
