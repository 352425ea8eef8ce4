"""The running vote in time: paths in flight or in rounds, along many orders of launching recorded paths.

An exact event simulator. As long as a vote goes on, which path starts when does not depend on the answers. So
the whole timetable of every course is laid out first and the stopping rule cuts it off: one pass over the
paths for all courses at once, instead of a queue of events for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.stats.time.latency import ALONE, Crowding
from keff.stats.votes import FloatArray, IntArray


@dataclass(frozen=True)
class Timetable:
    """When each of ``cap`` paths starts and ends if the vote never stops, [m, cap] by launch position.

    ``width`` paths run at once and the next starts when one ends. In units of recorded work (seconds, else
    tokens): all paths in flight slow each other down alike, so the order of events does not depend on the
    speed. ``arrival`` [m, cap] are the launch positions in the order of ending; of equals the first launched.
    """

    start: FloatArray
    end: FloatArray
    arrival: IntArray
    width: int

    def counted(self, *, arrival: bool) -> IntArray:
        """Return the event (from 0) at which the n-th vote counts [m, cap]: paths in order, n from 1.

        On arrival the n-th event is the n-th vote; in launch order a vote waits for all launched before it.
        """
        courses, cap = self.end.shape
        if arrival:
            return np.broadcast_to(np.arange(cap, dtype=np.int64), (courses, cap))
        event = np.empty((courses, cap), np.int64)
        np.put_along_axis(event, self.arrival, np.arange(cap, dtype=np.int64)[None], axis=1)
        return np.maximum.accumulate(event, axis=1)


@dataclass(frozen=True)
class Cut:
    """Courses [m] whose vote stopped.

    ``time`` until then, ``launched`` paths, and ``ran`` [m, cap], the share of its work that each path had
    done by then: 1 ended, between 0 and 1 cancelled, 0 never launched.
    """

    time: FloatArray
    launched: IntArray
    ran: FloatArray


def timetable(work: NDArray[Any], in_flight: int) -> Timetable:
    """Lay out the paths of many courses: ``work`` [m, cap] by launch position, ``in_flight`` at once.

    Ties: of paths that end at the same moment the first launched is heard first, and the next path starts
    when it is. ``work`` must be finite and not negative.
    """
    runs = np.asarray(work, np.float64)
    courses, cap = runs.shape
    width = min(in_flight, cap)
    start = np.zeros_like(runs)
    if width == 1:
        start[:, 1:] = runs[:, :-1].cumsum(axis=1)
    elif width < cap:
        busy: FloatArray = runs[:, :width].copy()
        rows: IntArray = np.arange(courses, dtype=np.int64)
        for path in range(width, cap):
            place = busy.argmin(axis=1)
            start[:, path] = busy[rows, place]
            busy[rows, place] += runs[:, path]
    end = start + runs
    return Timetable(start, end, end.argsort(axis=1, kind="stable").astype(np.int64), width)


def cut(table: Timetable, event: IntArray, crowding: Crowding = ALONE) -> Cut:
    """Stop every course at its ``event`` [m] (from 0), the ending of a path, and cancel what still runs.

    ``crowding`` says how long a unit of work takes by how many paths run; paths beyond its slots queue, so
    make the timetable for at most as many in flight.
    """
    courses, cap = table.end.shape
    ends = np.take_along_axis(table.end, table.arrival, axis=1)
    rows: IntArray = np.arange(courses, dtype=np.int64)
    now = ends[rows, event]
    launched = np.minimum(cap, table.width + event)
    # Before event j as many paths run as were launched and have not ended: the same in every course.
    running = np.minimum(table.width, cap - np.arange(cap, dtype=np.int64))
    clock = (np.diff(ends, axis=1, prepend=0.0) * crowding.pace(running)).cumsum(axis=1)
    length = table.end - table.start
    with np.errstate(divide="ignore", invalid="ignore"):
        ran = np.where(length > 0, (now[:, None] - table.start) / length, 1.0)
    begun = np.arange(cap, dtype=np.int64) < launched[:, None]
    return Cut(clock[rows, event], launched, np.where(begun, np.clip(ran, 0.0, 1.0), 0.0))


def in_rounds(
    ahead: NDArray[Any], work: NDArray[Any] | None = None, crowding: Crowding = ALONE
) -> tuple[IntArray, IntArray, FloatArray | None]:
    """Follow a rule that draws in rounds: where every course stops [m], after how many rounds, and when.

    ``ahead`` [m, cap + 1] is what the rule asks for after each number of paths, 0 to stop. A round ends with
    its slowest path; its paths run at once, as many as there are slots.
    """
    at, rounds = np.zeros(len(ahead), np.int64), np.zeros(len(ahead), np.int64)
    times = None if work is None else np.zeros(len(ahead))
    going = np.arange(len(ahead))
    while len(going):
        step = ahead[going, at[going]]
        going, step = going[step > 0], step[step > 0].astype(np.int64)
        if work is not None and times is not None:
            times[going] += _round_times(work, going, at[going], step, crowding)
        at[going] += step
        rounds[going] += 1
    return at, rounds, times


def _round_times(
    work: NDArray[Any], rows: IntArray, start: IntArray, size: IntArray, crowding: Crowding
) -> FloatArray:
    """Return how long a round of ``size`` paths from ``start`` takes in each row of ``work`` [m, cap]."""
    times = np.zeros(len(rows))
    for width in np.unique(size):
        some = np.flatnonzero(size == width)
        window = work[rows[some, None], start[some, None] + np.arange(int(width))]
        if crowding.slots >= width and crowding.alone == 1:
            times[some] = window.max(axis=1)
            continue
        table = timetable(window, crowding.slots)
        times[some] = cut(table, np.full(len(some), width - 1), crowding).time
    return times
