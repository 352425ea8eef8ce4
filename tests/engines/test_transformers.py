"""The transformers engine: exact sampling by seed, and hidden states equal to an independent forward pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="pip install 'keff[hf]'")
pytest.importorskip("transformers", reason="pip install 'keff[hf]'")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hf_model import as_folder
from keff.engines.transformers import SeededChoice, Transformers, engine
from keff.errors import EngineError, UsageError
from keff.records import Completion, Sampling

pytestmark = pytest.mark.integration

PROMPT = [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many has he?"}]
SAMPLING = Sampling(temperature=0.9, max_tokens=10, seed=3)


@pytest.fixture(scope="module")
def folder(smollm2: Path) -> Path:
    return as_folder(smollm2)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="module")
def made(folder: Path, runner: asyncio.Runner) -> Iterator[Transformers]:
    opened = engine(model=str(folder), device="cpu", embedding="mean", layer=-1)
    runner.run(opened.start())
    yield opened
    runner.run(opened.close())


def draw(
    runner: asyncio.Runner, made: Transformers, n: int, sampling: Sampling = SAMPLING
) -> list[Completion]:
    return runner.run(made.generate(PROMPT, sampling, n))


def test_choices_follow_the_nucleus_distribution() -> None:
    """20,000 seeds against the exact truncated softmax; chi-square with 3 degrees of freedom below 20."""
    n, logits = 20_000, [1.0, 3.0, 2.0, -1.0, 0.5, 2.5]
    scores = torch.tensor([logits]).repeat(n, 1)
    left = SeededChoice(1.3, 0.9, range(1000, 1000 + n))(None, scores)
    counts = np.bincount(left.argmax(-1).numpy(), minlength=6)
    share = np.exp(np.array(logits) / 1.3)
    share /= share.sum()
    order = np.argsort(-share)
    kept = order[: int(np.searchsorted(share[order].cumsum(), 0.9)) + 1]
    assert len(kept) == 4
    assert set(np.flatnonzero(counts)) == set(kept)
    expected = n * share[kept] / share[kept].sum()
    assert ((counts[kept] - expected) ** 2 / expected).sum() < 20


def test_consecutive_seeds_and_steps_are_independent() -> None:
    """The 0/1 choices of neighbouring seeds, and of successive steps, are uncorrelated."""
    n = 20_000
    choice = SeededChoice(1.0, 1.0, range(n))
    steps = [choice(None, torch.zeros(n, 2)).argmax(-1).numpy() for _ in range(2)]
    assert abs(np.corrcoef(steps[0], steps[1])[0, 1]) < 4 / np.sqrt(n)
    assert abs(np.corrcoef(steps[0][1:], steps[0][:-1])[0, 1]) < 4 / np.sqrt(n)


def test_log_probabilities_come_from_the_untempered_model() -> None:
    choice = SeededChoice(0.0, 1.0, [0])
    choice(None, torch.tensor([[0.0, 1.0]]))
    assert choice.logprobs[0].item() == pytest.approx(-np.log(1 + np.exp(-1)), abs=1e-6)


@pytest.mark.parametrize(("which", "layer"), [("mean", -1), ("last", 12), ("mean", 0)])
def test_hidden_states_equal_an_independent_forward_pass(
    folder: Path, runner: asyncio.Runner, which: Any, layer: int
) -> None:
    opened = engine(model=str(folder), device="cpu", embedding=which, layer=layer)
    runner.run(opened.start())
    drawn = draw(runner, opened, 4)
    runner.run(opened.close())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, tokenize=False)
    start = len(tokenizer(prompt, add_special_tokens=False).input_ids)
    checked = 0
    for one in drawn:
        tokens = tokenizer(prompt + one.text, add_special_tokens=False).input_ids
        if len(tokens) - start != one.tokens - (one.finish == "stop"):
            continue
        with torch.no_grad():
            states = model(torch.tensor([tokens]), output_hidden_states=True).hidden_states[layer][0, start:]
        expected = (states.mean(0) if which == "mean" else states[-1]).numpy()
        saved = np.frombuffer(one.embedding or b"", "<f2").astype(float)
        assert saved == pytest.approx(expected, rel=2e-3, abs=2e-3)
        checked += 1
    assert checked >= 2


def test_stop_words_truncation_and_counts(runner: asyncio.Runner, made: Transformers) -> None:
    for one in draw(runner, made, 4):
        assert one.finish == "stop" or one.tokens == SAMPLING.max_tokens
        assert one.logprobs
        assert one.logprobs.total == pytest.approx(one.logprobs.mean * one.tokens)
    stopped = draw(runner, made, 4, replace(SAMPLING, stop=(" ",), max_tokens=20))
    assert all(" " not in one.text for one in stopped if one.finish == "stop")
    assert any(one.finish == "stop" for one in stopped)


def test_several_questions_in_one_batch_are_drawn_as_each_alone(folder: Path, runner: asyncio.Runner) -> None:
    """In double the precision that decides a token, neighbours and padding change no text."""
    opened = engine(model=str(folder), device="cpu", dtype="float32", batch=12)
    batches: list[int] = []
    prompts = [[{"role": "user", "content": "Say 7. " * repeats}] for repeats in (1, 9, 3)]

    async def draws() -> tuple[list[list[Completion]], list[list[Completion]]]:
        await opened.start()
        alone = [await opened.generate(prompt, SAMPLING, 3) for prompt in prompts]
        inner = opened.draw
        opened.draw = lambda batch: batches.append(len(batch)) or inner(batch)  # type: ignore
        together = await asyncio.gather(*(opened.generate(prompt, SAMPLING, 3) for prompt in prompts))
        return alone, together

    alone, together = runner.run(draws())
    runner.run(opened.close())
    assert batches == [3]
    assert [[path.text for path in paths] for paths in together] == [
        [path.text for path in paths] for paths in alone
    ]
    assert [paths[0].prompt_tokens for paths in together] == [paths[0].prompt_tokens for paths in alone]


def test_of_one_batch_only_the_request_that_is_cancelled_or_too_long_fails(
    runner: asyncio.Runner, made: Transformers
) -> None:
    long = replace(SAMPLING, max_tokens=24)

    async def draws() -> list[list[Completion] | BaseException]:
        kept = asyncio.create_task(made.generate(PROMPT, long, 2))
        gone = asyncio.create_task(made.generate(PROMPT, replace(long, seed=9), 2))
        refused = asyncio.create_task(made.generate([{"role": "user", "content": "word " * 9000}], long, 1))
        await asyncio.sleep(0.05)
        gone.cancel()
        return await asyncio.gather(kept, gone, refused, return_exceptions=True)

    kept, gone, refused = runner.run(draws())
    assert [path.text for path in kept] == [path.text for path in draw(runner, made, 2, long)]  # type: ignore
    assert isinstance(gone, asyncio.CancelledError)
    assert isinstance(refused, EngineError)


def test_a_prompt_that_does_not_fit(runner: asyncio.Runner, made: Transformers) -> None:
    with pytest.raises(EngineError, match="tokens") as caught:
        runner.run(made.generate([{"role": "user", "content": "word " * 9000}], SAMPLING, 1))
    assert not caught.value.transient


def test_a_folder_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot load") as caught:
        asyncio.run(engine(model=str(tmp_path)).start())
    assert not caught.value.transient
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"embedding": "all"}, {"dtype": "int8"}])
def test_wrong_options_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="engine transformers"):
        engine(model="x", **wrong)
