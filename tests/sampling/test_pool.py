"""Many cells on one engine: it starts once, its seats stay taken, and a cell that fails stops no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from keff import plugins
from keff.engine import Capabilities
from keff.engines.fake import engine as fake
from keff.errors import EngineError
from keff.records import Completion, Message, Sampling
from keff.sampling.job import Job, execute
from keff.sampling.pool import Seats, draw_all
from keff.sampling.sampler import Order
from keff.sampling.store import Run

SEATS = 8


class Stub:
    """An engine of fixed speed that counts its starts and adds up how long its seats stood empty."""

    name, local, needs_gpu = "stub", True, False

    def __init__(self, seconds: float = 0.02, refuses: str = "") -> None:
        self.capabilities = Capabilities(4, SEATS)
        self.starts = self.closes = self.busy = 0
        self.seconds, self.refuses = seconds, refuses
        self.most = 0
        self._inner = fake()

    async def start(self) -> None:
        self.starts += 1

    def identity(self) -> dict[str, Any]:
        return {"engine": "stub"}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        if self.refuses and self.refuses in messages[-1]["content"]:
            raise EngineError("no such model", transient=False)
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await asyncio.sleep(self.seconds)
            return await self._inner.generate(messages, sampling, n)
        finally:
            self.busy -= 1

    async def close(self) -> None:
        self.closes += 1


def jobs(folder: Path, cells: int, engine: Any, n: int = 5, k: int = 8) -> list[Job]:
    made: list[Job] = []
    for cell in range(cells):
        data = folder / f"cell{cell}.jsonl"
        rows = ({"id": f"{i}", "question": f"cell {cell}: {i} + 1?", "answer": str(i + 1)} for i in range(n))
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        task = plugins.load("task", "jsonl", data=str(data))
        made.append(Job(task, engine, folder / f"run{cell}", Order(Sampling(seed=cell), k, backoff=0.01)))
    return made


def test_one_start_draws_every_cell_as_its_own_run_would(tmp_path: Path) -> None:
    stub = Stub()
    outcomes = asyncio.run(draw_all(stub, jobs(tmp_path, 6, stub)))
    assert (stub.starts, stub.closes, stub.most) == (1, 1, SEATS)
    assert [outcome.progress and outcome.progress.done for outcome in outcomes] == [40] * 6
    alone = tmp_path / "alone"
    alone.mkdir()
    plain = jobs(alone, 6, Stub())[3]
    asyncio.run(execute(plain))
    texts: list[list[tuple[object, object]]] = []
    for folder in (tmp_path / "run3", alone / "run3"):
        with Run.open(folder) as run:
            texts.append(
                [(one.path, one.completion.text) for item in run.items() for one in run.kept(item.id)]
            )
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_a_cell_that_fails_stops_no_other_and_a_dead_engine_stops_at_the_third(tmp_path: Path) -> None:
    stub = Stub(refuses="cell 1:")
    outcomes = asyncio.run(draw_all(stub, jobs(tmp_path, 4, stub)))
    assert [outcome.error is None for outcome in outcomes] == [True, False, True, True]
    assert str(outcomes[1].error) == "no such model"
    (tmp_path / "dead").mkdir()
    dead = Stub(refuses="cell")
    outcomes = asyncio.run(draw_all(dead, jobs(tmp_path / "dead", 80, dead, n=40)))
    assert all(outcome.error is not None for outcome in outcomes)
    assert "the engine failed 3 cells in a row: no such model" in str(outcomes[-1].error)
    assert not (tmp_path / "dead" / "run79").exists()


def test_an_engine_that_cannot_start_fails_every_cell_and_is_closed(tmp_path: Path) -> None:
    class Unloadable(Stub):
        async def start(self) -> None:
            raise EngineError("no weights", transient=False)

    stub = Unloadable()
    outcomes = asyncio.run(draw_all(stub, jobs(tmp_path, 2, stub)))
    assert [str(outcome.error) for outcome in outcomes] == ["no weights"] * 2
    assert stub.closes == 1


def test_cancelling_keeps_what_was_received_and_resuming_draws_the_rest(tmp_path: Path) -> None:
    async def interrupted(stub: Stub) -> None:
        work = asyncio.ensure_future(draw_all(stub, jobs(tmp_path, 4, stub)))
        await asyncio.sleep(0.15)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (stub.busy, stub.closes) == (0, 1)

    asyncio.run(interrupted(Stub(seconds=0.03)))
    held = 0
    for folder in tmp_path.glob("run*"):
        with Run.open(folder) as run:
            held += run.count()["paths"]
    outcomes = asyncio.run(draw_all(Stub(0), jobs(tmp_path, 4, None)))
    assert sum(outcome.progress.kept for outcome in outcomes if outcome.progress) == held
    assert sum(outcome.progress.done for outcome in outcomes if outcome.progress) == 160 - held


def test_seats_go_to_the_lowest_rank_and_cancelled_waiters_hold_none() -> None:
    async def check() -> None:
        seats, order = Seats(2), []

        async def sit(rank: int, cost: int = 1) -> None:
            await seats.take(rank, cost)
            order.append(rank)

        await sit(0, 2)
        late, early, gone = (asyncio.ensure_future(sit(rank)) for rank in (9, 1, 0))
        await asyncio.sleep(0)
        assert seats.waiting == 3
        gone.cancel()
        await asyncio.sleep(0)
        seats.leave(2)
        await asyncio.gather(late, early)
        assert order == [0, 1, 9]
        assert (seats.busy, seats.waiting) == (2, 0)
        greedy = asyncio.ensure_future(sit(3, 5))
        await asyncio.sleep(0)
        assert seats.waiting == 5
        seats.leave(2)
        await greedy
        assert seats.busy == 5

    asyncio.run(check())
