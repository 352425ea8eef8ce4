"""What a server teaches about the fields of a request is learnt by pilot and gateway, and kept."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from command_line import keff
from gateway_rig import QUESTION, gateway, make_plan
from keff.plan import BranchPlan, Plan
from raw_server import http, raw_server

REFUSALS = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "max_completion_tokens": "Unrecognized request argument supplied: max_completion_tokens",
    "top_p": "Unsupported parameter: 'top_p' is not supported with this model.",
    "presence_penalty": "presence_penalty: Extra inputs are not permitted",
    "top_k": "Unknown parameter: 'top_k'.",
    "logprobs": "logprobs are not supported by this model",
    "seed": "Unknown parameter: 'seed'.",
    "temperature": "Unsupported value: 'temperature' does not support 0.7 with this model.",
}


class Strict:
    """A server that refuses some fields, by name, and remembers what it was asked."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.bodies, self.answered = refused, list[dict[str, Any]](), list[dict[str, Any]]()

    def __call__(self, number: int, body: dict[str, Any]) -> list[bytes]:
        self.bodies.append(body)
        for name in self.refused:
            if name in body:
                error = {"message": REFUSALS[name], "type": "invalid_request_error", "param": name}
                return http(json.dumps({"error": error}).encode(), 400)
        self.answered.append(body)
        text = f"So the answer is {number % 2}."
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
        whole = {"id": f"c{number}", "object": "chat.completion", "model": "m", "choices": [choice]}
        return http(json.dumps(whole | {"usage": usage}).encode())


def pilot(url: str, folder: Path) -> Plan:
    rows = [{"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(8)]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = keff(
        *(
            "sample",
            folder / "own.jsonl",
            "--run",
            folder / "run",
            "--k",
            4,
            "--max-tokens",
            33,
            "--model",
            "m",
        ),
        *("--base-url", url, "--top-p", 1, "--answer-space", "numeric", "--yes"),
    )
    assert done.returncode == 0, done.stderr
    done = keff("analyze", folder / "run", "-o", folder / "plan.json")
    assert (folder / "plan.json").exists(), done.stderr
    return Plan.read(folder / "plan.json")


@pytest.mark.parametrize("refused", [("max_tokens",), ("max_tokens", "logprobs", "seed", "top_p")])
def test_a_plan_asks_as_the_pilot_learnt_to_ask(refused: tuple[str, ...], tmp_path: Path) -> None:
    server = Strict(*refused)
    with raw_server(server) as url:
        plan = pilot(url, tmp_path)
        assert plan.parameters.get("max_tokens") == "max_completion_tokens"
        assert {name for name, other in plan.parameters.items() if other is None} >= set(refused) - {
            "max_tokens"
        }
        server.bodies.clear()
        with gateway(url, plan) as rig:
            reply = rig.post({"model": "m", "messages": QUESTION, "keff": {"k": 3}})
    assert reply.status_code == 200, reply.text
    # Not one call is refused: the gateway knows from the first on.
    assert len(server.bodies) == 3
    assert all(body["max_completion_tokens"] == 33 and "max_tokens" not in body for body in server.bodies)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_learns_from_refusals(seed: int, stream: bool) -> None:
    """Fields that do nothing, and the two names of the limit on length; all other fields stay."""
    rng = random.Random(seed)
    length = rng.choice(("max_tokens", "max_completion_tokens"))
    neutral: dict[str, Any] = {"top_p": 1, "presence_penalty": 0, "top_k": -1}
    refused = rng.sample([length, *neutral], rng.randrange(1, 4))
    asked = {"model": "m", "messages": QUESTION, length: 50, "temperature": 0.7, "user": "u"} | neutral
    more: dict[str, Any] = {"stream": True, "keff": {"k": 1}} if stream else {"keff": {"k": 3}}
    server = Strict(*refused)
    with raw_server(server) as url, gateway(url, planless=True) as rig:
        first = rig.post(asked | more)
        before = len(server.bodies)
        second = rig.post(asked | more)
    assert (first.status_code, second.status_code) == (200, 200), first.text
    assert len(server.bodies) - before == more["keff"]["k"], "what was learnt is kept"
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
    right = {
        other[name] if name == length else name: asked[name]
        for name in asked
        if name not in refused or name == length
    }
    if length not in refused:
        right[length] = right.pop(other[length], 50)
    for body in server.answered:
        assert {
            name: value for name, value in body.items() if name not in ("stream", "stream_options")
        } == right


def test_a_field_that_changes_paths_is_the_clients_error() -> None:
    server = Strict("temperature")
    with raw_server(server) as url, gateway(url, planless=True) as rig:
        reply = rig.post({"model": "m", "messages": QUESTION, "temperature": 0.7})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "temperature")


def test_a_branch_is_asked_as_its_server_taught() -> None:
    server = Strict("max_tokens")
    branches = tuple(BranchPlan(name=name, model=name, max_tokens=9) for name in ("a", "b"))
    plan = make_plan("cascade:a(fixed:2)/b(fixed:2)", branches=branches, config=None, profile=None)
    with raw_server(server) as url, gateway(url, plan) as rig:
        for _ in range(2):
            assert rig.post({"messages": QUESTION, "model": "keff"}).status_code == 200
    assert all(body["max_completion_tokens"] == 9 for body in server.answered)
    refused = [body["model"] for body in server.bodies if "max_tokens" in body]
    assert len(refused) <= 4 and len(server.answered) >= 4
