"""What every engine promises, checked on each of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from keff.engine import Engine
from keff.plugins import declares, load, names
from keff.records import Completion, Sampling

PROMPT = [{"role": "user", "content": "Ann has 3 apples and buys 4 more. How many has she now?"}]
SAMPLING = Sampling(temperature=0.9, max_tokens=8, seed=11)


@dataclass(frozen=True)
class Case:
    """How to make one engine for a test.

    ``exact``: a path is the same text alone and in a group (not in bfloat16, where rounding depends on the
    batch). ``slow`` makes an engine whose requests take long.
    """

    make: Callable[[], Engine]
    exact: bool = True
    at_once: bool = True
    slow: Callable[[], Engine] | None = None


def _fake(**options: Any) -> Engine:
    return load("engine", "fake", **options)


def _real(request: pytest.FixtureRequest) -> Path:
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    return request.getfixturevalue("smollm2")


def _case(name: str, request: pytest.FixtureRequest) -> Case:
    if name == "fake":
        return Case(_fake, slow=lambda: _fake(latency=30))
    if name == "llamacpp":
        file = str(_real(request))
        return Case(lambda: load("engine", "llamacpp", model=file, n_ctx=256, threads=1))
    if name == "openai":
        from real_server import real_base_url

        url = real_base_url(_real(request))
        return Case(lambda: load("engine", "openai", base_url=url), at_once=False)
    if name not in ("transformers", "vllm"):
        return Case(lambda: load("engine", name))  # as it is by default
    pytest.importorskip(name, reason=f"{name} is not installed")
    from hf_model import as_folder

    folder = str(as_folder(request.getfixturevalue("smollm2")))
    return Case(lambda: load("engine", name, model=folder), exact=name != "vllm")


MARKS = {
    "transformers": pytest.mark.integration,
    "vllm": pytest.mark.integration,
    "llamacpp": pytest.mark.slow,
    "openai": pytest.mark.slow,
}
"""Engines that load a real model."""


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in sorted(names("engine"))])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Each engine in turn."""
    yield _case(request.param, request)


def drawn(case: Case, *requests: tuple[int, int]) -> list[list[Completion]]:
    """Start the engine, draw (offset, n) for each request at once, and close it twice."""

    async def work() -> list[list[Completion]]:
        engine = case.make()
        await engine.start()
        try:
            tasks = [engine.generate(PROMPT, replace(SAMPLING, seed=11 + at), n) for at, n in requests]
            return list(await asyncio.gather(*tasks))
        finally:
            await engine.close()
            await engine.close()

    return asyncio.run(work())


def test_n_paths_in_order_each_with_its_own_seed(case: Case) -> None:
    """Path i of a request is the path that seed + i draws alone, whatever else is in flight."""
    asked = ((0, 4), (0, 1), (3, 1))
    # A server that batches rounds by what else it computes at that moment: there one request at a time.
    together, *alone = drawn(case, *asked) if case.at_once else [drawn(case, one)[0] for one in asked]
    assert len(together) == 4
    assert len({one.text for one in together}) > 1
    assert [len(paths) for paths in alone] == [1, 1]
    if case.exact:
        assert [path[0].text for path in alone] == [together[i].text for i in (0, 3)]


def test_completions_are_counted(case: Case) -> None:
    for one in drawn(case, (0, 4))[0]:
        assert 0 < one.tokens <= SAMPLING.max_tokens
        assert one.prompt_tokens > 0
        assert one.finish in ("stop", "length")
        assert one.logprobs is None or one.logprobs.bottom <= one.logprobs.mean <= 0
        assert one.refusal is None


def test_identity_is_json_and_the_same_for_two_engines_of_one_kind(case: Case) -> None:
    async def identity() -> dict[str, Any]:
        engine = case.make()
        await engine.start()
        try:
            return engine.identity()
        finally:
            await engine.close()

    first, second = asyncio.run(identity()), asyncio.run(identity())
    assert json.loads(json.dumps(first)) == second
    assert first["engine"]
    assert first.get("model") or first["engine"] not in ("openai", "llamacpp", "transformers", "vllm")


def test_capabilities_and_name(case: Case) -> None:
    engine = case.make()
    assert engine.capabilities.max_n >= 1
    assert engine.capabilities.parallel >= 1
    assert engine.name in names("engine")
    assert engine.local is declares("engine", engine.name, "local")
    assert engine.needs_gpu is declares("engine", engine.name, "needs_gpu")
    asyncio.run(engine.close())


def test_a_cancelled_request_ends_at_once_and_the_engine_goes_on(case: Case) -> None:
    async def work() -> list[Completion]:
        engine = (case.slow or case.make)()
        await engine.start()
        try:
            long = replace(SAMPLING, max_tokens=200, temperature=2.0)
            request = asyncio.ensure_future(engine.generate(PROMPT, long, 8))
            await asyncio.sleep(0.05)
            request.cancel()
            await asyncio.wait([request], timeout=20)
            assert request.done()
            return [] if case.slow else await engine.generate(PROMPT, SAMPLING, 1)
        finally:
            await engine.close()

    assert len(asyncio.run(work())) == (case.slow is None)
