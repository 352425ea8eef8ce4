"""Usage is added up alike in every dialect: the truth is drawn first, and then written as servers do."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from gateway_rig import QUESTION, Options, gateway
from keff.protocol.reply import counts_of
from keff.sampling.cost import Price
from raw_server import http, raw_server

Truth = tuple[int, int, int, int]
"""Tokens of the prompt (cached ones in it), the cached ones, the text, and the hidden reasoning."""


def openai(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens": text + thought,
        "completion_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + text + thought,
    }


def responses(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    names = {"prompt": "input", "completion": "output"}
    told = openai(prompt, cached, text, thought)
    return {
        next((name.replace(a, b) for a, b in names.items() if name.startswith(a)), name): value
        for name, value in told.items()
    }


def apart(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    """xAI, and Gemini behind its OpenAI route without the detail: reasoning is in the total only."""
    return openai(prompt, cached, text, thought) | {"completion_tokens": text}


def apart_silently(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    told = apart(prompt, cached, text, thought)
    del told["completion_tokens_details"]
    return told


def deepseek(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    told = openai(prompt, cached, text, thought)
    del told["prompt_tokens_details"]
    return told | {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": prompt - cached}


def moonshot(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    told = openai(prompt, cached, text, thought)
    del told["prompt_tokens_details"]
    return told | {"cached_tokens": cached}


def anthropic(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    written = (prompt - cached) // 2
    return {
        "input_tokens": prompt - cached - written,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": text + thought,
    }


def proxied(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    """LiteLLM before Anthropic: chat's names, the prompt whole, Anthropic's own counts beside them."""
    told = openai(prompt, cached, text, thought)
    return told | {"cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}


def beside(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    """Chat's names, the prompt without what came from the cache; the total holds both."""
    return openai(prompt, cached, text, thought) | {"prompt_tokens": prompt - cached}


def without_total(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    """The cache beside the prompt, where it is larger: without a total nothing else says so."""
    told = (
        beside(prompt, cached, text, thought)
        if 2 * cached > prompt
        else openai(prompt, cached, text, thought)
    )
    del told["total_tokens"]
    return told


def perplexity(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    """Reasoning apart, beside the other counts, where it is longer than the text."""
    told = openai(prompt, cached, text, thought) | {"reasoning_tokens": thought}
    del told["completion_tokens_details"]
    apart = thought > text
    return told | ({"completion_tokens": text, "total_tokens": prompt + text} if apart else {})


def mistral(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    told = openai(prompt, cached, text, thought)
    details = told.pop("prompt_tokens_details")
    return told | ({"prompt_token_details": details} if prompt % 2 else {"num_cached_tokens": cached})


def under_both_names(prompt: int, cached: int, text: int, thought: int) -> dict[str, Any]:
    """A proxy that fills in one interface's names and leaves the other's empty."""
    empty = {0: None, 1: 0}[prompt % 2]
    told = responses(prompt, cached, text, thought)
    return told | {"prompt_tokens": empty, "completion_tokens": empty, "prompt_tokens_details": None}


DIALECTS = (
    openai,
    responses,
    apart,
    apart_silently,
    deepseek,
    moonshot,
    anthropic,
    proxied,
    beside,
    without_total,
    perplexity,
    mistral,
    under_both_names,
)


def truth(rng: random.Random) -> Truth:
    prompt = rng.randrange(20, 5000)
    return prompt, rng.choice((0, rng.randrange(prompt))), rng.randrange(1, 900), rng.choice((0, 7, 4000))


@pytest.mark.parametrize("write", DIALECTS)
@pytest.mark.parametrize("seed", range(20))
def test_every_dialect_says_what_was_billed(write: Any, seed: int) -> None:
    prompt, cached, text, thought = told = truth(random.Random(seed))
    counts = counts_of(write(*told))
    assert (counts.prompt, counts.cached, counts.output, counts.odd) == (
        prompt,
        cached,
        text + thought,
        False,
    )


@pytest.mark.parametrize("write", [*((each,) * 3 for each in DIALECTS), (openai, anthropic, apart)])
def test_a_vote_costs_what_its_paths_were_billed(write: tuple[Any, ...]) -> None:
    """Over HTTP: three paths of different usage, at prices that keep prompt, cache and output apart.

    A proxy may give each from another server, in its own dialect.
    """
    rng = random.Random(write[0].__name__)
    paths = [truth(rng) for _ in range(3)]

    def reply(number: int, _: Any) -> list[bytes]:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "It is 7."},
            "finish_reason": "stop",
        }
        body = {"id": f"c{number}", "object": "chat.completion", "choices": [choice]}
        return http(json.dumps(body | {"usage": write[number](*paths[number])}).encode())

    price = Price(prompt=1e6, cached=1e3, output=1e9)
    with (
        raw_server(reply) as url,
        gateway(url, planless=True, options=Options(prices={"": price})) as rig,
    ):
        told = rig.post({"model": "m", "messages": QUESTION, "keff": {"policy": "fixed:3"}}).json()
    prompt, cached, text, thought = (sum(part) for part in zip(*paths, strict=True))
    cost = told["keff"]["cost"]
    assert (cost["prompt_tokens"], cost["completion_tokens"]) == (prompt, text + thought)
    assert cost["dollars"] == pytest.approx(prompt - cached + cached * 1e-3 + 1e3 * (text + thought))
    totals = {"prompt_tokens": prompt, "completion_tokens": text + thought}
    assert told["usage"].items() >= (totals | {"total_tokens": sum(totals.values())}).items()
    assert cost["uncounted_answers"] == 0
