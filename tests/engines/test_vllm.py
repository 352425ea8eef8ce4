"""The vllm engine's own part, batching and reading, against a stand-in for the library's LLM class.

The real library is checked by tests/test_every_engine.py where it is installed.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from keff.errors import EngineError, UsageError
from keff.records import Completion, Logprobs, Sampling


class StandIn:
    """Answers as vLLM does: choice i of a request comes from seed + i, and a long prompt is a ValueError."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.batches: list[int] = []
        self.keywords: list[dict[str, Any]] = []
        self.ended = 0
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=self.end))

    def end(self) -> None:
        self.ended += 1

    def chat(self, conversations: list, params: list, **keywords: Any) -> list[SimpleNamespace]:
        self.batches.append(len(conversations))
        self.keywords.append(keywords)
        if any(len(one[0]["content"]) > 50 for one in conversations):
            raise ValueError("the prompt is longer than the maximum model length")
        assert all(one.n == 1 or one.temperature > 0 for one in params)
        return [self.answer(one[0]["content"], how) for one, how in zip(conversations, params, strict=True)]

    def answer(self, question: str, how: Any) -> SimpleNamespace:
        outputs = [
            SimpleNamespace(
                index=i,
                text=f"{question} {how.seed + i}",
                token_ids=(1, 2),
                logprobs=[
                    {1: SimpleNamespace(logprob=-1.0, decoded_token=" 4")},
                    {2: SimpleNamespace(logprob=-3.0, decoded_token="2")},
                ],
                finish_reason="stop",
            )
            for i in reversed(range(how.n))
        ]
        return SimpleNamespace(outputs=outputs, prompt_token_ids=(5, 6, 7), num_cached_tokens=None)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    stand_in = ModuleType("vllm")
    stand_in.LLM, stand_in.SamplingParams = StandIn, SimpleNamespace
    monkeypatch.setitem(sys.modules, "vllm", stand_in)
    sys.modules.pop("keff.engines.vllm", None)
    yield importlib.import_module("keff.engines.vllm")
    sys.modules.pop("keff.engines.vllm", None)


def ask(made: Any, *requests: tuple[str, Sampling, int]) -> list[Any]:
    async def work() -> list[Any]:
        await made.start()
        tasks = [made.generate([{"role": "user", "content": text}], how, n) for text, how, n in requests]
        try:
            return list(await asyncio.gather(*tasks, return_exceptions=True))
        finally:
            made.seen = made._model
            await made.close()

    return asyncio.run(work())


def test_waiting_requests_are_one_batch(module: ModuleType) -> None:
    made = module.engine(model="m", llm='{"seed": 1}')
    drawn = ask(made, *((f"q{i}", Sampling(seed=10 * i), 3) for i in range(5)))
    assert made.seen.batches == [5]
    assert made.seen.arguments["enable_prefix_caching"]
    assert not made.seen.arguments["trust_remote_code"]
    assert [[one.text for one in paths] for paths in drawn] == [
        [f"q{i} {10 * i + j}" for j in range(3)] for i in range(5)
    ]
    first: Completion = drawn[0][0]
    assert (first.tokens, first.prompt_tokens, first.finish) == (2, 3, "stop")
    assert first.logprobs == Logprobs(-2.0, -3.0, -4.0)


def test_temperature_zero_asks_path_by_path(module: ModuleType) -> None:
    drawn = ask(module.engine(model="m"), ("q", Sampling(seed=4, temperature=0.0), 2))
    assert [one.text for one in drawn[0]] == ["q 4", "q 5"]


def test_one_bad_prompt_spoils_no_other(module: ModuleType) -> None:
    good, bad, other = ask(
        module.engine(model="m"), ("q", Sampling(), 1), ("x" * 99, Sampling(), 1), ("r", Sampling(), 1)
    )
    assert (good[0].text, other[0].text) == ("q 0", "r 0")
    assert isinstance(bad, EngineError)
    assert not bad.transient


def test_thinking_is_a_switch_of_the_template_and_splits_batches(module: ModuleType) -> None:
    made = module.engine(model="m")
    ask(made, ("a", Sampling(thinking=0), 1), ("b", Sampling(), 1), ("c", Sampling(thinking=0), 1))
    assert made.seen.batches == [2, 1]
    assert made.seen.keywords[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_model_must_be_named_and_arguments_must_be_an_object(module: ModuleType) -> None:
    with pytest.raises(UsageError, match="name a model"):
        module.engine()
    with pytest.raises(UsageError, match="llm must be a JSON object"):
        module.engine(model="m", llm="[]")


def test_closing_ends_the_core_once_so_that_another_model_fits(module: ModuleType) -> None:
    for name in ("first", "second"):
        made = module.engine(model=name)
        ask(made, ("q", Sampling(seed=1), 2))
        assert (made.seen.arguments["model"], made.seen.ended) == (name, 1)


def test_what_the_library_wrote_is_read_with_its_log_probabilities(module: ModuleType) -> None:
    """Outputs of vLLM's own output processor, in place of a run of the model: an accelerator's part."""
    folder = Path(__file__).parents[1] / "logs" / "fixtures" / "real"
    told = json.loads((folder / "vllm.truth").read_text("utf-8"))
    outputs = [json.loads(line) for line in (folder / "vllm_outputs.jsonl").read_text("utf-8").splitlines()]
    for output in outputs:
        output["outputs"] = [
            SimpleNamespace(**path | {"logprobs": list(map(by_token, path["logprobs"]))})
            for path in output["outputs"]
        ]
    made = module.engine(model="m")
    made._model = SimpleNamespace(chat=lambda *_, **__: [SimpleNamespace(**output) for output in outputs])
    waiting = [
        module.WaitingRequest([{"role": "user", "content": one["prompt"]}], Sampling(), 3) for one in outputs
    ]
    for output, paths in zip(outputs, made.draw(waiting), strict=True):
        for path, raw, (answer, mean) in zip(paths, output["outputs"], told[output["prompt"]], strict=True):
            assert path.logprobs.mean == pytest.approx(mean)
            assert path.logprobs.total == pytest.approx(raw.cumulative_logprob)
            assert (path.tokens, path.prompt_tokens) == (len(raw.token_ids), 6)
            assert (path.text.split()[-1], path.finish) == ((answer, "stop") if answer else ("is", "length"))


def by_token(entry: dict[str, dict[str, Any]]) -> dict[int, SimpleNamespace]:
    return {int(token): SimpleNamespace(**one) for token, one in entry.items()}
