"""Paths in flight and rounds along many courses, against a plain queue of events for each."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from how_many import examples
from keff.stats.time import NO_CONTENTION, Crowding, in_rounds, stop_at, timetable
from keff.stats.votes import FloatArray, IntArray

Stops = Callable[[int], bool]
"""Whether the rule stops after so many counted votes."""


@dataclass
class Queue:
    """One question, event by event: what runs at each moment, and how far each path is."""

    work: list[float]
    in_flight: int
    arrival: bool
    crowding: Crowding
    now: float = 0.0
    clock: float = 0.0
    launched: int = 0
    running: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    began: dict[int, float] = field(default_factory=dict[int, float])
    ended: list[int] = field(default_factory=list[int])

    def launch(self) -> None:
        heapq.heappush(self.running, (self.now + self.work[self.launched], self.launched))
        self.began[self.launched] = self.now
        self.launched += 1

    def counted(self) -> int:
        if self.arrival:
            return len(self.ended)
        return next(n for n in range(len(self.work) + 1) if n not in self.ended)

    def run(self, stops: Stops) -> tuple[float, int, list[float]]:
        """Return the time of the stop, the paths launched, and the work that each path has done."""
        at_once = min(self.in_flight, self.crowding.slots, len(self.work))
        for _ in range(at_once):
            self.launch()
        asked = 0
        while True:
            pace = float(self.crowding.pace(np.array([len(self.running)]))[0])
            end, path = heapq.heappop(self.running)
            self.clock += (end - self.now) * pace
            self.now = end
            self.ended.append(path)
            while asked < self.counted():
                asked += 1
                if stops(asked) or asked == len(self.work):
                    return self.clock, self.launched, self.done()
            if self.launched < len(self.work):
                self.launch()

    def done(self) -> list[float]:
        return [
            0.0
            if path not in self.began
            else length
            if path in self.ended
            else min(length, self.now - self.began[path])
            for path, length in enumerate(self.work)
        ]


# Quarters, so that paths end at the same moment and sums are exact; none takes no time at all.
LENGTHS = drawn.lists([quarters / 4 for quarters in range(13)], 1, 9)


@pytest.mark.slow
@given(
    work=LENGTHS,
    in_flight=st.integers(1, 10),
    arrival=st.booleans(),
    end=st.integers(1, 9),
    slots=st.integers(1, 10),
    alone=st.sampled_from([1.0, 0.5, 0.25]),
)
@settings(max_examples=examples(400), deadline=None)
def test_paths_in_flight_equal_a_plain_queue_of_events_to_the_token(
    work: list[float], in_flight: int, arrival: bool, end: int, slots: int, alone: float
) -> None:
    n, crowding = min(end, len(work)), Crowding(slots, alone)
    clock, launched, done = Queue(work, in_flight, arrival, crowding).run(lambda counted: counted >= n)
    table = timetable(np.array([work, work]), min(in_flight, slots))
    event = np.array([n - 1, n - 1]) if arrival else table.in_launch_order[:, n - 1]
    stopped = stop_at(table, event, crowding)
    assert stopped.time[1] == pytest.approx(clock, abs=1e-12)
    assert stopped.launched[1] == launched
    # A path without length has run whenever it was begun.
    assert (stopped.ran[1] * work).tolist() == pytest.approx(done, abs=1e-12)
    assert ((stopped.ran[1] > 0) <= (np.arange(len(work)) < launched)).all()


@given(work=LENGTHS, in_flight=st.integers(1, 10))
@settings(max_examples=examples(200), deadline=None)
def test_votes_arrive_in_the_order_of_the_queue(work: list[float], in_flight: int) -> None:
    queue = Queue(work, in_flight, True, NO_CONTENTION)
    queue.run(lambda _: False)
    assert timetable(np.array([work]), in_flight).arrival[0].tolist() == queue.ended


def rounds(sizes: list[int]) -> IntArray:
    """Return what a rule asks for that draws rounds of these sizes."""
    ahead = np.zeros((1, sum(sizes) + 1), np.int64)
    ahead[0, np.cumsum([0, *sizes[:-1]])] = sizes
    return ahead


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=examples(100), deadline=None)
def test_a_round_ends_with_its_slowest_path(sizes: list[int], seed: int) -> None:
    work: FloatArray = np.random.default_rng(seed).integers(1, 9, (1, sum(sizes))).astype(np.float64)
    ends = np.split(work[0], np.cumsum(sizes)[:-1])
    stop, count, times = in_rounds(rounds(sizes), work)
    assert (stop[0], count[0]) == (sum(sizes), len(sizes))
    assert times is not None and times[0] == sum(part.max() for part in ends)
    _, _, lone = in_rounds(rounds(sizes), work, Crowding(1))
    assert lone is not None and lone[0] == work.sum()
