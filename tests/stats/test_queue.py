"""A queue for few places, against closed forms and against asyncio's own semaphores on a clock that jumps."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from jumping import in_rooms, on_a_clock
from keff.stats.queue import serve
from keff.stats.votes import FloatArray, IntArray


def asking(n: int, cap: int, rng: np.random.Generator) -> IntArray:
    """Return what a policy asks for that draws rounds of random sizes."""
    ahead = np.zeros((n, cap + 1), np.int64)
    for row in ahead:
        at = 0
        while at < cap and rng.random() < 0.8:
            row[at] = rng.integers(1, cap - at + 1)
            at += row[at]
    return ahead


async def sampled(ahead: IntArray, seconds: FloatArray, places: int, rooms: int) -> tuple[FloatArray, float]:
    """Draw as the sampler does: a semaphore for open questions, and one for requests in flight."""
    loop, flight = asyncio.get_running_loop(), asyncio.Semaphore(places)
    took = np.zeros(len(ahead))

    async def path(question: int, number: int) -> None:
        async with flight:
            await asyncio.sleep(float(seconds[question, number]))

    async def answer(question: int) -> None:
        begun, at = loop.time(), 0
        while step := int(ahead[question, at]):
            await asyncio.gather(*(path(question, at + i) for i in range(step)))
            at += step
        took[question] = loop.time() - begun

    await in_rooms(len(ahead), rooms, answer)
    return took, loop.time()


@given(seed=st.integers(0, 10**6), places=st.integers(1, 5), rooms=st.integers(1, 8))
@settings(max_examples=examples(60), deadline=None)
def test_it_is_what_semaphores_do(seed: int, places: int, rooms: int) -> None:
    rng = np.random.default_rng(seed)
    ahead, seconds = asking(12, 6, rng), rng.exponential(1.0, (12, 6))
    took, last = on_a_clock(sampled(ahead, seconds, places, rooms))
    served = serve(ahead, seconds, places, rooms)
    assert served.last == pytest.approx(last)
    assert served.answered - served.opened == pytest.approx(took)


def test_one_place_adds_up_all_paths_and_places_for_all_take_the_longest() -> None:
    rng = np.random.default_rng(4)
    seconds = rng.gamma(2.0, 1.0, (30, 4))
    ahead = np.zeros((30, 5), np.int64)
    ahead[:, 0] = 4
    assert serve(ahead, seconds, 1, 2).last == pytest.approx(seconds.sum())
    assert serve(ahead, seconds, 120, 30).answered == pytest.approx(seconds.max(axis=1))
    even = serve(ahead, np.full((30, 4), 3.0), 8, 16)
    assert even.last == 30 * 4 * 3 / 8
    assert serve(ahead[:0], seconds[:0], 2, 4).last == 0


def test_no_batch_ends_before_its_work_over_the_places() -> None:
    rng = np.random.default_rng(6)
    ahead, seconds = asking(200, 8, rng), rng.gamma(2.0, 1.0, (200, 8))
    stop = np.zeros(200, np.int64)
    while (step := ahead[np.arange(200), stop]).any():
        stop += step
    work = (seconds * (np.arange(8) < stop[:, None])).sum()
    last = serve(ahead, seconds, 6, 12).last
    # Kept busy to the end but for the last questions: at most a longest path or so more per round of theirs.
    assert work / 6 <= last <= work / 6 + 8 * seconds.max()


def test_times_of_a_markov_queue_follow_its_law() -> None:
    """The last of n exponentials through C places ends after (n - C) / C + H_C of their means."""
    n, places = 500, 5
    ahead = np.tile([1, 0], (n, 1))
    draws = [np.random.default_rng(seed).exponential(1.0, (n, 1)) for seed in range(60)]
    ends = [serve(ahead, seconds, places, n).last for seconds in draws]
    harmonic = sum(1 / i for i in range(1, places + 1))
    expected = (n - places) / places + harmonic
    assert np.mean(ends) == pytest.approx(expected, abs=4 * np.std(ends) / 60**0.5)
