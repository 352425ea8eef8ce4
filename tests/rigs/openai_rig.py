"""The openai engine before a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from fault_server import Script, default_answer
from keff.engines.openai import OpenAI
from keff.records import Completion, Sampling

PROMPT = [{"role": "user", "content": "How many?"}]
SAMPLING = Sampling(seed=5, max_tokens=64)
Serve = Callable[[Script], str]


def using(made: OpenAI, work: Callable[[OpenAI], Coroutine[Any, Any, Any]]) -> Any:
    """Start an engine, let ``work`` use it, and close it."""

    async def run() -> Any:
        await made.start()
        try:
            return await work(made)
        finally:
            await made.close()

    return asyncio.run(run())


async def all_of(made: OpenAI, n: int, sampling: Sampling = SAMPLING) -> list[Completion]:
    """Ask as the sampler does, until all n paths are there."""
    drawn: list[Completion] = []
    while len(drawn) < n:
        more = await made.generate(PROMPT, replace(sampling, seed=sampling.seed + len(drawn)), n - len(drawn))
        assert more
        drawn += more
    return drawn


def ask(made: OpenAI, n: int = 3, sampling: Sampling = SAMPLING) -> list[Completion]:
    return using(made, lambda e: all_of(e, n, sampling))


def texts(n: int = 3) -> list[str]:
    return [default_answer(PROMPT, 5 + i) for i in range(n)]


def once(fault: str, number: int = 0) -> Callable[[int, dict[str, Any]], str | None]:
    return lambda n, _: fault if n == number else None
