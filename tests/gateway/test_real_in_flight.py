"""Paths in flight before the real llama.cpp server: what a cancelled path costs there, by its own count."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from app_rig import until
from gateway_rig import gateway

pytestmark = pytest.mark.integration

RULE, TOKENS = "lead_k:2,cap=8,in_flight=8,order=arrival", 40

# Tokens of a path that are on their way when the gateway leaves.
UNHEARD = 4
QUESTION = [
    {"role": "user", "content": "What is 2 + 1? Reply with: The answer is <number>. Then count to 90."}
]


@pytest.fixture
def server(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that counts what it does."""
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    from keff.engines import llamacpp

    start = llamacpp.xllamacpp.Server

    def counting(params: object) -> object:
        params.endpoint_metrics = True  # type: ignore[attr-defined]
        return start(params)

    monkeypatch.setattr(llamacpp.xllamacpp, "Server", counting)
    held = llamacpp.open_server(smollm2, llamacpp.LlamaCppSettings(n_ctx=256, n_parallel=8, threads=1))
    yield str(held.listening_address)


def counted(address: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as reply:
        text = reply.read().decode()
    return {name: float(value) for name, value in re.findall(r"^llamacpp:(\w+) ([\d.e+]+)$", text, re.M)}


def test_a_cancelled_path_costs_what_the_server_had_said(server: str) -> None:
    """The server stops a word or two after the gateway leaves, and the gateway counts what it heard."""
    before = counted(server)
    with gateway(f"{server}/v1", planless=True, policy=RULE, path_seconds=120) as rig:
        reply = rig.client(timeout=120).chat.completions.create(
            model="m",
            messages=QUESTION,  # type: ignore[arg-type]
            max_tokens=TOKENS,
            temperature=0.8,
            seed=3,
        )
        told = reply.model_extra["keff"]  # type: ignore[index]
        until(lambda: counted(server)["requests_processing"] == 0)
    cost, cancelled = told["cost"], told["cancelled"]
    # A path may end at the very moment of the stop: paid, and not counted.
    ended = told["paths"] + told["unused"]
    assert cancelled >= 1 and ended + cancelled == 8
    prompt = cost["prompt_tokens"] // ended
    heard = cost["completion_tokens"] + cost["cancelled"]["tokens"] - cancelled * prompt
    said = counted(server)["tokens_predicted_total"] - before["tokens_predicted_total"]
    assert 0 <= said - heard <= UNHEARD * cancelled < cancelled * TOKENS / 4
