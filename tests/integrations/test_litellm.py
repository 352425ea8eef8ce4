"""keff's provider in the real LiteLLM: votes, paths and usage are those of the library."""

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
PYTHON = Path(os.environ.get("KEFF_CLIENTS", ROOT / ".venv-clients" / "bin" / "python"))
pytestmark = [
    pytest.mark.integration,
    pytest.mark.xdist_group("clients"),
    pytest.mark.skipif(not PYTHON.exists(), reason="no LiteLLM: make test-integration installs it"),
]
QUESTION = "How many is 6 times 7?"
PROMPT, OUTPUT = 0.15e-6, 0.6e-6
"""Dollars of a token of gpt-4o-mini in the price list that LiteLLM brings."""


def give(number: int, body: dict[str, Any]) -> list[bytes]:
    """Answer by the seed of a path, where it has one."""
    model, turn = body["model"], body.get("seed", number)
    if model == "limited" or (model == "flaky" and number % 4 == 0):
        return http(b'{"error": {"message": "slow down", "type": "rate_limit"}}', 429, retry_after="7")
    if body.get("tools"):
        function = {"name": "report", "arguments": json.dumps({"total": 42})}
        called = {"id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [called]}
        return given(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])
    if "response_format" in body:
        return given(text=json.dumps({"total": 42}))
    more = {"id": "the-one"} if model == "same" else {}
    return given(text=f"The answer is {41 if turn % 3 == 0 and model != 'same' else 42}.", **more)


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each request got, all in one process: LiteLLM is slow to import."""
    folder = tmp_path_factory.mktemp("litellm")
    make_plan("fixed:3", profile=None).write(folder / "plan.json")
    checker = 'def check(messages, text):\n    return float("42" in text)\n'
    (folder / "checker.py").write_text(checker)
    script = Path(__file__).with_name("ask_litellm.py")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["NO_PROXY"] = "127.0.0.1"
    with raw_server(give) as url:
        files = [str(folder / "plan.json"), f"{folder / 'checker.py'}:check"]
        command = [str(PYTHON), str(script), url, *files]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


async def library(policy: str) -> keff.Consensus:
    with raw_server(give) as url:
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            return await keff.self_consistency(
                client, QUESTION, policy, space="numeric", model="stub", seed=0
            )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("how", "policy"), [("whole", "lead_k:3"), ("stream", "lead_k:3"), ("plan", "fixed:3")]
)
async def test_votes_paths_and_usage_are_those_of_the_library(
    got: dict[str, Any], how: str, policy: str
) -> None:
    found, vote = await library(policy), got[how]["keff"]
    votes = {key: found.keys.count(key) for key in set(found.keys)}
    assert (vote["answer"], vote["votes"], vote["paths"]) == (found.answer, votes, len(found.keys))
    assert vote["stop_reason"] == found.verdict.reason and vote["policy"].startswith(policy)
    assert got[how]["text"] == found.text
    assert got[how]["usage"] == [sum(path.prompt_tokens for path in found.completions), found.tokens]


def test_the_price_is_litellms_own_for_all_paths(got: dict[str, Any]) -> None:
    for how in ("whole", "stream", "several"):
        prompt, output = got[how]["usage"]
        assert prompt >= 3 * 7 and output >= 3 * 5
        if how != "several":
            assert got[how]["cost"] == pytest.approx(prompt * PROMPT + output * OUTPUT, rel=1e-9)
    assert got["plan"]["cost"] in (None, 0), "a model without a price has none"


def test_tools_objects_and_several_choices(got: dict[str, Any]) -> None:
    for how in ("tool", "tool stream"):
        assert got[how]["tools"] == [{"total": 42}] and got[how]["keff"]["paths"] == 3
    assert json.loads(got["schema"]["text"]) == {"total": 42} and got["schema"]["keff"]["paths"] == 3
    assert got["several"]["choices"] == got["several"]["keff"]["paths"] == 3
    assert got["greedy"]["keff"]["paths"] == 1 and got["greedy"]["keff"]["greedy"] == "temperature 0"
    assert got["within a loop"] >= 3
    assert got["synchronous"] == [2, 2] and got["synchronous stream"]["usage"] == [14, 10]


def test_a_request_that_differs_from_the_plan_says_so_or_is_refused(got: dict[str, Any]) -> None:
    assert got["plan"]["keff"]["stale_plan"] == []
    assert got["other temperature"]["keff"]["stale_plan"] == ["temperature"]
    kind, line = got["strict"]
    assert kind == "BadRequestError" and "differs in temperature" in line


def test_one_completion_again_is_one_path_and_litellms_cache_gives_none(got: dict[str, Any]) -> None:
    vote = got["one completion"]["keff"]
    assert (vote["votes"], vote["paths"], vote["repeated"]) == ({"42": 1}, 1, 3)
    assert got["cached"] == [4, 4]


def test_a_checker_of_the_yaml_rates_paths(got: dict[str, Any]) -> None:
    checked = got["checked"]
    # The path with seed 0 is wrong, that with seed 1 right.
    assert "42" in checked["text"] and checked["keff"]["paths"] == 2
    kind, line = got["no checker"]
    assert kind == "BadRequestError" and "retry:3" in line


def test_errors_are_litellms_own(got: dict[str, Any]) -> None:
    kind, line = got["rate limit"]
    assert kind == "RateLimitError" and "slow down" in line
    assert got["some fail"]["keff"]["stop"] == "failures" and 0 < got["some fail"]["keff"]["paths"] < 4
    for how, says in (
        ("bad policy", "unknown policy"),
        ("no plan", "none.json"),
        ("bad setting", "odd"),
    ):
        kind, line = got[how]
        assert kind == "BadRequestError" and says in line, how


def test_a_cancelled_vote_leaves_no_call_running(got: dict[str, Any]) -> None:
    assert got["cancelled"] is True


def test_no_price_list_is_fetched_at_import(got: dict[str, Any]) -> None:
    assert got["network"] == []
