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
from jumping import on_a_clock
from keff.stats.time import Crowding, in_rounds, stop_at, timetable
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


async def answer(server: Batching, tokens: IntArray, in_flight: int, votes: int) -> FloatArray:
    """Count so many votes as they arrive, with paths in flight; return the seconds."""
    loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    left = [int(count) for count in tokens]
    running = {asyncio.create_task(server.path(left.pop(0))) for _ in range(min(in_flight, len(left)))}
    while votes > 0:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        votes -= len(done)
        running |= {asyncio.create_task(server.path(left.pop(0))) for _ in done if left and votes > 0}
    seconds = loop.time() - begun
    for path in running:
        path.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return np.array([seconds])


@given(in_flight=st.integers(1, 6), votes=st.integers(1, 8), **SERVERS)
@settings(max_examples=examples(60), deadline=None)
def test_a_vote_takes_as_long_as_at_a_server_that_batches(
    slots: int, fixed: float, each: float, seed: int, in_flight: int, votes: int
) -> None:
    tokens = np.random.default_rng(seed).integers(1, 15, 8)
    server = Batching(slots, fixed, each)
    seen = on_a_clock(among(server, answer(server, tokens, in_flight, votes)))
    table = timetable(tokens[None] * server.full, min(in_flight, slots))
    told = stop_at(table, np.array([votes - 1]), Crowding(slots, server.alone))
    assert told.time == pytest.approx(seen)


def in_one_round(seconds: FloatArray, crowding: Crowding) -> FloatArray:
    """Return how long all paths take that are drawn at once [m]."""
    ahead = np.zeros((len(seconds), seconds.shape[1] + 1), np.int64)
    ahead[:, 0] = seconds.shape[1]
    _, _, wait = in_rounds(ahead, seconds, crowding)
    assert wait is not None
    return wait


def test_a_fixed_speed_that_is_shared_out_does_its_work_in_the_same_time_however_many_run() -> None:
    """Where a path alone takes 1 / slots, a round takes its work over the slots, whichever is longest."""
    seconds = np.random.default_rng(3).gamma(1.0, 1.0, (200, 6))
    assert in_one_round(seconds, Crowding(3, 1 / 3)) == pytest.approx(seconds.sum(axis=1) / 3)


def test_a_rule_of_one_path_after_the_other_is_followed_as_by_its_rounds() -> None:
    """Whoever times the rounds follows them one by one; who does not, looks for the first stop."""
    rng = np.random.default_rng(6)
    for first in (1, 2, 5):
        ahead = (rng.random((500, 8)) < 0.7).astype(np.int16)
        ahead[:, 0], ahead[:, 7] = first, 0
        at, rounds, _ = in_rounds(ahead)
        by_rounds = in_rounds(ahead, np.ones((500, 7)))
        assert np.array_equal(at, by_rounds[0])
        assert np.array_equal(rounds, by_rounds[1])
        assert len(np.unique(at)) == 8 - first


def test_the_last_of_two_goes_on_alone() -> None:
    """Two exponential paths end after 1/2 of a mean and then a whole one, which runs at the pace of one."""
    seconds = np.random.default_rng(5).exponential(1.0, (40_000, 2))
    wait = in_one_round(seconds, Crowding(2, 0.6))
    assert wait.mean() == pytest.approx(0.5 + 0.6, abs=4 * wait.std() / 200)


def test_in_between_the_pace_is_proportional() -> None:
    assert Crowding(5, 0.2).pace(np.arange(1, 6)) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
