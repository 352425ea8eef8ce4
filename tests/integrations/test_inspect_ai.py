"""keff's solver, reducer and metrics in the real inspect_ai, before a stub server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import openai
import pytest

import keff
from gateway_rig import make_plan
from raw_server import given, http, raw_server

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("KEFF_TOOLS", ROOT / ".venv-tools" / "bin" / "python"))
pytestmark = [
    pytest.mark.integration,
    pytest.mark.xdist_group("inspect"),
    pytest.mark.skipif(not PYTHON.exists(), reason="no inspect_ai: make test-integration installs it"),
]
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
ASKED: list[dict[str, Any]] = []


def give(number: int, body: dict[str, Any]) -> list[bytes]:
    """Answer by the seed of a path, where it has one; first call the tool, where there is one."""
    ASKED.append(body)
    last, turn = body["messages"][-1], body.get("seed", number)
    if body["model"] == "limited":
        return http(b'{"error": {"message": "slow down", "type": "rate_limit"}}', 429)
    if body.get("tools") and last["role"] == "user":
        function = {"name": "multiply", "arguments": json.dumps({"a": 6, "b": 7})}
        called = {"id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [called]}
        return given(
            created=1, usage=USAGE, choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        )
    text = f"The answer is {41 if turn % 3 == 0 else 42}."
    if "response_format" in body:
        text = json.dumps({"total": 42})
    elif "ANSWER: $LETTER" in json.dumps(body):
        text = f"ANSWER: {'A' if turn % 3 == 0 else 'B'}"
    return given(created=1, usage=USAGE, text=text)


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each evaluation found, all in one process: inspect_ai is slow to import."""
    folder = tmp_path_factory.mktemp("inspect")
    make_plan("fixed:3", profile=None).write(folder / "plan.json")
    script = Path(__file__).with_name("ask_inspect.py")
    # Its cache is kept in the folder of the test.
    environment = os.environ | {"PYTHONPATH": "", "INSPECT_CACHE_DIR": str(folder), "NO_PROXY": "127.0.0.1"}
    with raw_server(give) as url:
        command = [str(PYTHON), str(script), url, str(folder / "plan.json")]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.anyio
@pytest.mark.parametrize(("how", "policy"), [("seeded", "lead_k:3"), ("plan", "fixed:3")])
async def test_votes_paths_and_usage_are_those_of_the_library(
    got: dict[str, Any], how: str, policy: str
) -> None:
    with raw_server(give) as url:
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            found = await keff.self_consistency(
                client, "How many is 6 times 7?", policy, space="numeric", model="stub", seed=0
            )
    vote = got[how]["keff"]
    votes = {key: found.keys.count(key) for key in set(found.keys)}
    assert (vote["answer"], vote["votes"], vote["paths"]) == (found.answer, votes, len(found.keys))
    assert vote["stop_reason"] == found.verdict.reason
    assert got[how]["text"] == found.text and got[how]["right"] == 1
    assert got[how]["usage"] == [sum(path.prompt_tokens for path in found.completions), found.tokens]


def test_a_plan_brings_its_sampling_and_names_another_model(got: dict[str, Any]) -> None:
    planned = [body for body in ASKED if body.get("temperature") == 0.7 and body["model"] == "stub"]
    assert len(planned) == 3 and {body["max_tokens"] for body in planned} == {64}
    assert got["plan"]["keff"]["stale_plan"] == [] and got["other model"]["keff"]["stale_plan"] == ["model"]


def test_tools_choices_and_objects(got: dict[str, Any]) -> None:
    assert got["tools"]["keff"]["paths"] == 4 and got["tools"]["usage"] == [8 * 7, 8 * 5]
    assert got["choices"]["keff"]["paths"] == 3
    assert got["choices"]["keff"]["answer"] == got["choices"]["text"].removeprefix("ANSWER: ")
    assert got["schema"]["keff"]["votes"] == {'{"total":42}': 3}


def test_one_completion_again_is_one_path(got: dict[str, Any]) -> None:
    cached = got["cached"]["keff"]
    assert (cached["paths"], cached["repeated"]) == (1, 3)
    assert (got["past the cache"]["keff"]["paths"], got["past the cache"]["keff"]["repeated"]) == (4, 0)


def test_epochs_are_reduced_and_measured_as_keff_does(got: dict[str, Any]) -> None:
    found, noise = got["epochs"], keff.noise(got["epochs"]["rows"])
    assert len(found["rows"]) == 5 and {len(row) for row in found["rows"]} == {6}
    for name, answers in found["answers"].items():
        won = keff.vote(answers, "numeric")
        assert found["reduced"][name] == [won.answer, won.weight]
    assert found["metrics"]["run_to_run_sd"] == noise.run_to_run_sd.value  # type: ignore[union-attr]
    assert found["metrics"]["k_eff"] == keff.k_eff(6, noise.c).value  # type: ignore[arg-type]
    right = [won == "42" for won, _ in found["reduced"].values()]
    assert found["metrics"]["accuracy"] == pytest.approx(sum(right) / 5)
    assert got["by name"] == "success"


def test_a_limit_of_the_host_ends_all_calls_and_its_errors_are_its_own(got: dict[str, Any]) -> None:
    assert got["stopped"] is True
    assert "RateLimitError" in got["rate limit"]["error"]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("no space", "UsageError: say how answers are read"),
        ("no policy", "UsageError: say what to draw"),
        ("branches", "PolicyError: cascade"),
        ("no plan", "PlanError: none.json"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(got: dict[str, Any], how: str, says: str) -> None:
    assert got[how].startswith(says) and "\n" not in got[how]
