"""What stands in one batch: equal settings, at most so many paths, in the order of coming."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from keff.engines._local import BatchEngine, WaitingRequest
from keff.records import Completion, Sampling

SAMPLING = Sampling(temperature=0.7, seed=1)


class Batches(BatchEngine):
    """Draws prompts as they are; the prompt ``bad`` fails the batch that it stands in."""

    name = "batches"

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.drawn: list[int] = []
        self.freed = 0

    def load(self) -> str:
        return "model"

    def shared(self, sampling: Sampling) -> object:
        return replace(sampling, seed=0)

    def draw(self, batch: list[WaitingRequest]) -> list[list[Completion]]:
        self.drawn.append(len(batch))
        texts = [str(one.messages[0]["content"]) for one in batch]
        if "bad" in texts:
            raise ValueError("bad")
        return [[Completion(text)] * one.n for text, one in zip(texts, batch, strict=True)]

    def free(self) -> None:
        self.freed += 1
        super().free()


def test_a_batch_is_the_first_request_and_what_may_join_it() -> None:
    engine = Batches(8)
    seeds = [WaitingRequest([], replace(SAMPLING, seed=seed), 3) for seed in range(3)]
    hot = WaitingRequest([], replace(SAMPLING, temperature=1.0), 1)
    small, gone = WaitingRequest([], SAMPLING, 2), WaitingRequest([], SAMPLING, 1)
    gone.stop.set()
    engine._waiting.extend((seeds[0], hot, seeds[1], gone, seeds[2], small))
    assert engine.take() == [seeds[0], seeds[1], small]
    assert engine.take() == [hot]
    assert engine.take() == [seeds[2]]
    assert engine.take() == []
    assert gone.result.cancelled()
    large = WaitingRequest([], SAMPLING, 9)
    engine._waiting.extend((large, WaitingRequest([], SAMPLING, 1)))
    assert engine.take() == [large]


def test_a_bad_prompt_fails_alone_and_the_others_stay_together() -> None:
    async def work() -> Batches:
        engine = Batches(64)
        await engine.start()
        texts = ["bad" if i == 5 else str(i) for i in range(8)]
        asked = (engine.generate([{"role": "user", "content": text}], SAMPLING, 2) for text in texts)
        drawn = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(each) if isinstance(each, BaseException) else each[0].text for each in drawn] == texts
        await engine.close()
        await engine.close()
        return engine

    engine = asyncio.run(work())
    assert engine.drawn == [8, 4, 4, 2, 1, 1, 2]
    assert engine.freed == 1


def test_closing_cancels_what_waits() -> None:
    async def work() -> None:
        engine = Batches(64)
        await engine.start()
        asked = asyncio.ensure_future(engine.generate([{"role": "user", "content": "q"}], SAMPLING, 1))
        await asyncio.sleep(0)
        engine._thread.shutdown()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(work())
