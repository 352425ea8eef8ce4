"""The real LiteLLM proxy, without a database, before and behind keff: its spend is the sum of all paths."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from app_rig import until
from fault_server import Script, running
from gateway_rig import QUESTION, gateway

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("clients")]

ROOT = Path(__file__).resolve().parents[2]
LITELLM = Path(os.environ.get("KEFF_CLIENTS", ROOT / ".venv-clients" / "bin" / "python")).with_name("litellm")
# It starts with no weak key.
KEY = "sk-" + "a1B2c3D4" * 5
PROMPT, OUTPUT = 0.001, 0.002
CONFIG = """
model_list:
  - model_name: stub
    litellm_params:
      {{model: openai/stub, api_base: "{url}", api_key: none, input_cost_per_token: {prompt},
        output_cost_per_token: {output}}}
  - model_name: voted
    litellm_params:
      {{model: keff/openai/stub, api_base: "{url}", api_key: none, input_cost_per_token: {prompt},
        output_cost_per_token: {output}}}
    model_info: {{keff: {{policy: "fixed:2", max_paths: 4}}}}
litellm_settings:
  num_retries: 0
  cache: false
  callbacks: [prometheus]
  custom_provider_map: [{{provider: keff, custom_handler: keff.integrations.litellm.provider}}]
general_settings: {{master_key: {key}}}
"""

if not LITELLM.exists():
    pytest.skip("no LiteLLM: make test-integration installs it", allow_module_level=True)


@contextmanager
def proxy(url: str, folder: Path) -> Iterator[str]:
    """Run the proxy before a server, and give its base URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    (folder / "config.yaml").write_text(CONFIG.format(url=url, prompt=PROMPT, output=OUTPUT, key=KEY))
    command = [LITELLM, "--config", folder / "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        until(lambda: alive(port), 240)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def alive(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=2).status_code == 200
    except httpx2.TransportError:
        return False


def spend(url: str) -> float:
    """Return the dollars that the proxy has counted."""
    metrics = url.removesuffix("v1") + "metrics/"
    text = httpx2.get(metrics, headers={"authorization": f"Bearer {KEY}"}, timeout=20).text
    return sum(
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("litellm_spend_metric_total")
    )


def drawn(script: Script) -> float:
    """Return what all paths that a server has drawn cost."""
    return len(script.requests) * (7 * PROMPT + 4 * OUTPUT)


def ask(client: openai.OpenAI, **more: Any) -> Any:
    request = {"model": "stub", "messages": QUESTION} | more
    return client.chat.completions.create(**request)  # type: ignore[call-overload]


def test_the_spend_of_litellm_is_the_sum_of_all_paths(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "behind").mkdir()
    script = Script(answer=lambda *_: "The answer is 7.")
    with ExitStack() as stack:
        stub = stack.enter_context(running(script))
        rig = stack.enter_context(gateway(stub, planless=True))
        before = stack.enter_context(proxy(rig.url, tmp_path / "before"))
        client = stack.enter_context(openai.OpenAI(base_url=before, api_key=KEY, max_retries=0))
        assert "7" in ask(client).choices[0].message.content
        until(lambda: spend(before) == pytest.approx(drawn(script)), 20)
        streamed = "".join(
            chunk.choices[0].delta.content or "" for chunk in ask(client, stream=True) if chunk.choices
        )
        assert "7" in streamed and len(script.requests) == 6, "no vote was asked for again"
        until(lambda: spend(before) == pytest.approx(drawn(script)), 20)
    script = Script(answer=lambda *_: "The answer is 7.")
    with running(script) as stub, proxy(stub, tmp_path / "behind") as behind:
        with gateway(behind, planless=True, key=KEY) as rig:
            assert ask(rig.client()).model_extra["keff"]["paths"] == 3
        assert len(script.requests) == 3
        until(lambda: spend(behind) == pytest.approx(drawn(script)), 20)
        with openai.OpenAI(base_url=behind, api_key=KEY, max_retries=0) as client:
            votes_within_the_proxy(client, script)
        until(lambda: spend(behind) == pytest.approx(drawn(script)), 20)


def votes_within_the_proxy(client: openai.OpenAI, script: Script) -> None:
    """Ask for votes by keff's provider: a client may choose within what the proxy's YAML allows."""
    before = len(script.requests)
    voted = ask(client, model="voted")
    assert voted.model_extra["keff"]["policy"] == "fixed:2" and "7" in voted.choices[0].message.content
    assert (voted.usage.prompt_tokens, voted.usage.completion_tokens) == (2 * 7, 2 * 4)
    stated = {"keff": {"k": 3}, "model_info": {"keff": {"plan": "/etc/passwd", "max_paths": 64}}}
    assert ask(client, model="voted", extra_body=stated).model_extra["keff"]["paths"] == 3
    with pytest.raises(openai.BadRequestError, match="more than the 4"):
        ask(client, model="voted", extra_body=stated | {"keff": {"k": 5}})
    options = {"include_usage": True}
    chunks = list(ask(client, model="voted", stream=True, stream_options=options))
    assert "7" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage.completion_tokens == 2 * 4
    assert len(script.requests) == before + 2 + 3 + 2
