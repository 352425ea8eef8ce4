"""Paths in flight and in few slots, against closed forms, values by hand and a plain event simulation."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.stats.flights import fly
from keff.stats.votes import FloatArray, IntArray


def asking(sizes: list[int], cap: int) -> IntArray:
    """Return what a policy asks for that draws rounds of these sizes, whatever the votes."""
    ahead = np.zeros(cap + 1, np.int64)
    at = 0
    for size in sizes:
        ahead[at] = size
        at += size
    return ahead


def simulated(
    sizes: list[int], seconds: list[float], in_flight: int, slots: int
) -> tuple[float, list[float]]:
    """Send one course path by path through a queue; return the seconds and what was in vain."""
    cap, now, at = len(seconds), 0.0, 0
    free = [0.0] * slots
    heapq.heapify(free)
    begun: list[float] = []
    for size in sizes:
        while len(begun) < max(at + size, min(cap, at + in_flight)):
            begun.append(max(now, heapq.heappop(free)))
            heapq.heappush(free, begun[-1] + seconds[len(begun) - 1])
        at += size
        now = max([now, *(begun[i] + seconds[i] for i in range(at))])
    vain = [min(max(now - begun[i], 0) / seconds[i], 1.0) for i in range(at, len(begun))]
    return now, vain


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    seconds=st.lists(st.floats(0.1, 9), min_size=16, max_size=16),
    in_flight=st.integers(1, 16),
    slots=st.integers(1, 16),
)
@settings(max_examples=examples(80), deadline=None)
def test_flights_are_those_of_an_event_simulation(
    sizes: list[int], seconds: list[float], in_flight: int, slots: int
) -> None:
    wait, vain = simulated(sizes, seconds, in_flight, slots)
    other = [1, 1, 1]
    flown = fly(
        np.array([asking(sizes, 16), asking(other, 16)]), np.array([seconds, seconds[::-1]]), in_flight, slots
    )
    assert flown.wait[0] == pytest.approx(wait)
    at = sum(sizes)
    assert flown.in_vain[0, :at].tolist() == [0.0] * at
    assert flown.in_vain[0, at : at + len(vain)].tolist() == pytest.approx(vain)
    assert flown.in_vain[0, at + len(vain) :].sum() == 0
    assert flown.wait[1] == pytest.approx(simulated(other, seconds[::-1], in_flight, slots)[0])


def exponential(count: int, cap: int) -> FloatArray:
    return np.random.default_rng(4).exponential(1.0, (count, cap))


def test_exponential_paths_in_few_slots_meet_the_closed_form() -> None:
    """K paths in C slots: (K - C) / C until the last begins, then the longest of C: 1 + 1/2 + ... + 1/C."""
    ahead = np.tile(asking([12], 12), (40_000, 1))
    for slots in (1, 3, 12):
        flown = fly(ahead, exponential(40_000, 12), 1, slots)
        expected = (12 - slots) / slots + sum(1 / i for i in range(1, slots + 1))
        assert flown.wait.mean() == pytest.approx(expected, abs=4 * flown.wait.std() / 200)


def test_a_round_never_takes_less_than_its_work_over_the_slots() -> None:
    seconds = exponential(500, 9)
    wait = fly(np.tile(asking([9], 9), (500, 1)), seconds, 1, 4).wait
    floor = np.maximum(seconds.sum(axis=1) / 4, seconds.max(axis=1))
    assert np.all(wait >= floor - 1e-9) and wait.mean() < 1.5 * floor.mean()


def test_memoryless_paths_lose_as_many_as_end_in_vain() -> None:
    """One path is needed and 5 fly: when it ends, each of the 4 others has ended with probability 1/2."""
    flown = fly(np.tile(asking([1], 5), (40_000, 1)), exponential(40_000, 5), 5)
    assert flown.wait.mean() == pytest.approx(1, abs=0.02)
    assert (flown.in_vain[:, 1:] == 1).mean() == pytest.approx(0.5, abs=0.01)


def test_paths_that_run_alone_are_faster() -> None:
    seconds = np.full((1, 8), 6.0)
    assert fly(asking([1, 1], 8)[None], seconds, 1, 4, 0.5).wait == pytest.approx(6)
    assert fly(asking([4], 8)[None], seconds, 1, 4, 0.5).wait == pytest.approx(6)
    assert fly(asking([3], 8)[None], seconds, 1, 4, 0.5).wait == pytest.approx(6 * (0.5 + 0.5 * 2 / 3))
    assert fly(asking([8], 8)[None], seconds, 1, 4, 0.5).wait == pytest.approx(12)


def test_paths_that_share_their_time_go_together() -> None:
    """Correlated paths: the longest of a round is their common time, and a queue of two rounds doubles it."""
    common = exponential(20_000, 1).repeat(8, axis=1)
    ahead = np.tile(asking([4, 4], 8), (20_000, 1))
    assert fly(ahead, common).wait == pytest.approx(2 * common[:, 0])
    assert fly(ahead, common, 8).wait == pytest.approx(common[:, 0])
    assert fly(ahead, common, 1, 2).wait == pytest.approx(4 * common[:, 0])
