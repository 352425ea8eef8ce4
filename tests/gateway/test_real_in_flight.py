"""Paths in flight before the real llama.cpp server: what a cancelled path costs there, by its own count."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import numpy as np
import openai
import pytest

from app_rig import until
from benchmarks.gateway.live_gateway import Path, path, stated
from gateway_rig import gateway

pytestmark = pytest.mark.integration

RULE, TOKENS = "lead_k:2,cap=8,in_flight=8,order=arrival", 40

# Tokens of a path that are on their way when the gateway leaves.
UNHEARD = 4
QUESTION = [
    {"role": "user", "content": "What is 2 + 1? Reply with: The answer is <number>. Then count to 90."}
]


# A template without roles: prompts of a dozen tokens are read in no time.
BARE = "{{ messages[0].content }}"
EXACT = "curtailed:cap=4,in_flight=4,order=arrival"
SUMS = [f"Q: What is {a} + {b}?\nA:" for a in (2, 4) for b in (1, 5, 7)]


@pytest.fixture
def server(smollm2: File, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that counts what it does."""
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    from keff.engines import llamacpp

    start = llamacpp.xllamacpp.Server

    def counting(params: object) -> object:
        params.endpoint_metrics = True  # type: ignore[attr-defined]
        return start(params)

    monkeypatch.setattr(llamacpp.xllamacpp, "Server", counting)
    held = llamacpp.open_server(smollm2, llamacpp.LlamaCppSettings(256, 8, 1, request.param))
    yield str(held.listening_address)


def counted(address: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as reply:
        text = reply.read().decode()
    return {name: float(value) for name, value in re.findall(r"^llamacpp:(\w+) ([\d.e+]+)$", text, re.M)}


def generated(told: dict[str, Any]) -> int:
    """Return the tokens of all paths of a request, cancelled ones too, as the gateway counts them."""
    cost, cancelled = told["cost"], told["cancelled"]
    if not cancelled:
        return cost["completion_tokens"]
    prompt = cost["prompt_tokens"] // (told["paths"] + told["unused"])
    return cost["completion_tokens"] + cost["cancelled"]["tokens"] - cancelled * prompt


@pytest.mark.parametrize("server", [""], indirect=True)
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
    cancelled = told["cancelled"]
    # A path may end at the very moment of the stop: paid, and not counted.
    assert cancelled >= 1 and told["paths"] + told["unused"] + cancelled == 8
    heard = generated(told)
    said = counted(server)["tokens_predicted_total"] - before["tokens_predicted_total"]
    assert 0 <= said - heard <= UNHEARD * cancelled < cancelled * TOKENS / 4


async def in_parallel(url: str) -> list[list[Path]]:
    """Draw 4 paths of each sum at once, as clients do without keff."""
    async with openai.AsyncOpenAI(base_url=url, api_key="none", timeout=120) as client:
        return [
            await asyncio.gather(*(path(client, asked(place) | {"seed": 100 * place + i}) for i in range(4)))
            for place in range(len(SUMS))
        ]


def asked(place: int) -> dict[str, Any]:
    talk = [{"role": "user", "content": SUMS[place]}]
    return {"model": "m", "max_tokens": 12, "temperature": 0.8, "messages": talk, "seed": 100 * place}


@pytest.mark.parametrize("server", [BARE], indirect=True)
def test_the_tokens_of_a_rule_fall_into_the_interval_that_its_record_states(server: str) -> None:
    """The record had as many paths at once as the rule has in flight, with the same seeds."""
    limits = stated(asyncio.run(in_parallel(f"{server}/v1")), EXACT)[0].limits
    with gateway(
        f"{server}/v1", planless=True, policy=EXACT, path_seconds=120, answer_space="numeric"
    ) as rig:
        ask = rig.client(timeout=120).chat.completions.create
        told = [ask(**asked(place)).model_extra["keff"] for place in range(len(SUMS))]
    spent = float(np.mean([generated(each) for each in told]))
    assert limits is not None and limits[0] <= spent <= limits[1]
