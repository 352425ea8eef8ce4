"""Paths that slow each other down, against a server that makes tokens in batches for clients of asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from jumping import in_rooms, on_a_clock
from keff.stats.crowding import Crowding
from keff.stats.flights import fly
from keff.stats.queue import serve
from keff.stats.votes import FloatArray, IntArray

SERVERS = {
    "slots": st.integers(1, 5),
    "fixed": st.floats(0, 3),
    "each": st.floats(0.05, 2),
    "seed": st.integers(0, 10**6),
}


class Batching:
    """A server of few slots: a step makes a token of each path in it in ``fixed + each * paths`` seconds."""

    def __init__(self, slots: int, fixed: float, each: float) -> None:
        self.slots, self.fixed, self.each = slots, fixed, each
        self.waiting: deque[tuple[asyncio.Event, int]] = deque()
        self.left: dict[asyncio.Event, int] = {}
        self.full = fixed + each * slots
        self.alone = (fixed + each) / self.full

    async def path(self, tokens: int) -> None:
        """Make a path, in its turn."""
        ended = asyncio.Event()
        self.waiting.append((ended, tokens))
        await ended.wait()

    async def run(self) -> None:
        """Make tokens for ever."""
        while True:
            # Clients hear that paths have ended, and ask for the next, before the step begins.
            for _ in range(30):
                await asyncio.sleep(0)
            while self.waiting and len(self.left) < self.slots:
                ended, tokens = self.waiting.popleft()
                self.left[ended] = tokens
            await asyncio.sleep(self.fixed + self.each * len(self.left))
            self.left = {ended: tokens - 1 for ended, tokens in self.left.items()}
            for ended in [ended for ended, tokens in self.left.items() if not tokens]:
                del self.left[ended]
                ended.set()


async def among(server: Batching, work: Coroutine[None, None, FloatArray]) -> FloatArray:
    """Do something while the server runs."""
    running = asyncio.create_task(server.run())
    try:
        return await work
    finally:
        running.cancel()


async def answer(server: Batching, ahead: IntArray, tokens: IntArray, in_flight: int) -> FloatArray:
    """Answer a question under a policy as a gateway does; return the seconds."""
    loop, at = asyncio.get_running_loop(), 0
    begun = loop.time()
    paths: list[asyncio.Task[None]] = []
    while step := int(ahead[at]):
        target = max(at + step, min(len(tokens), at + in_flight))
        paths += [asyncio.create_task(server.path(int(count))) for count in tokens[len(paths) : target]]
        await asyncio.gather(*paths[at : at + step])
        at += step
    seconds = loop.time() - begun
    for path in paths[at:]:
        path.cancel()
    await asyncio.gather(*paths[at:], return_exceptions=True)
    return np.array([seconds])


@given(in_flight=st.integers(1, 6), **SERVERS)
@settings(max_examples=examples(60), deadline=None)
def test_a_policy_takes_as_long_as_at_a_server_that_batches(
    slots: int, fixed: float, each: float, seed: int, in_flight: int
) -> None:
    rng, cap = np.random.default_rng(seed), 8
    ahead, tokens, at = np.zeros(cap + 1, np.int64), rng.integers(1, 15, cap), 0
    while at < cap and rng.random() < 0.8:
        ahead[at] = rng.integers(1, cap - at + 1)
        at += int(ahead[at])
    server = Batching(slots, fixed, each)
    seen = on_a_clock(among(server, answer(server, ahead, tokens, in_flight)))
    told = fly(ahead[None], tokens[None] * server.full, in_flight, slots, server.alone)
    assert told.wait == pytest.approx(seen)


async def batch(server: Batching, size: IntArray, tokens: IntArray, rooms: int) -> FloatArray:
    """Draw so many paths of each question as the sampler does; return when each is answered."""
    loop, flight = asyncio.get_running_loop(), asyncio.Semaphore(server.slots)
    answered = np.zeros(len(size))

    async def path(count: int) -> None:
        async with flight:
            await server.path(count)

    async def question(row: int) -> None:
        await asyncio.gather(*(path(int(count)) for count in tokens[row, : size[row]]))
        answered[row] = loop.time()

    await in_rooms(len(size), rooms, question)
    return answered


@given(rooms=st.integers(1, 6), **SERVERS)
@settings(max_examples=examples(40), deadline=None)
def test_a_batch_takes_as_long_as_at_a_server_that_batches(
    slots: int, fixed: float, each: float, seed: int, rooms: int
) -> None:
    rng = np.random.default_rng(seed)
    size, tokens = rng.integers(1, 6, 10), rng.integers(1, 15, (10, 5))
    ahead = np.zeros((10, 6), np.int64)
    ahead[:, 0] = size
    server = Batching(slots, fixed, each)
    seen = on_a_clock(among(server, batch(server, size, tokens, rooms)))
    told = serve(ahead, tokens * server.full, slots, rooms, server.alone)
    assert told.answered == pytest.approx(seen)


def test_a_fixed_speed_that_is_shared_out_does_its_work_in_the_same_time_however_many_run() -> None:
    """Where a path alone takes 1 / slots, a round takes its work over the slots, whichever is longest."""
    seconds = np.random.default_rng(3).gamma(1.0, 1.0, (200, 6))
    ahead = np.zeros((200, 7), np.int64)
    ahead[:, 0] = 6
    assert fly(ahead, seconds, 1, 3, 1 / 3).wait == pytest.approx(seconds.sum(axis=1) / 3)
    assert serve(ahead, seconds, 3, 4, 1 / 3).last == pytest.approx(seconds.sum() / 3)


def test_the_last_of_two_goes_on_alone() -> None:
    """Two exponential paths end after 1/2 of a mean and then a whole one, which runs at the pace of one."""
    seconds = np.random.default_rng(5).exponential(1.0, (40_000, 2))
    wait = fly(np.tile(np.array([2, 0, 0]), (40_000, 1)), seconds, 1, 2, 0.6).wait
    assert wait.mean() == pytest.approx(0.5 + 0.6, abs=4 * wait.std() / 200)


def test_in_between_the_pace_is_proportional() -> None:
    assert Crowding(5, 0.2).pace(np.arange(1, 6)) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
