"""Paths in flight along recorded courses: a policy's time when paths queue and slow each other down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keff.stats.crowding import Crowding
from keff.stats.votes import FloatArray, IntArray


@dataclass(frozen=True)
class Flights:
    """Votes whose paths fly ahead of what is needed [m]: the seconds to the answer, and what was in vain.

    ``in_vain`` [m, cap] is the part of each path that ran without being counted: 1 where it had ended, less
    where it was cancelled, 0 for paths that were counted or never begun.
    """

    wait: FloatArray
    in_vain: FloatArray


class _Courses:
    """Courses that are followed at once, each with a clock of its own.

    ``work`` counts recorded seconds: the paths of a course that run are slowed down alike, so each ends so
    many recorded seconds after it began. ``late`` is how far the real clock is ahead of it. ``slot`` holds
    when the path in each slot ends, infinity where it is free, and ``path`` which one it is.
    """

    def __init__(self, seconds: FloatArray, width: int, crowding: Crowding) -> None:
        courses, cap = seconds.shape
        self.seconds, self.crowding = seconds, crowding
        self.column: IntArray = np.arange(cap, dtype=np.int64)
        self.work, self.late = np.zeros(courses), np.zeros(courses)
        self.began, self.ends = np.full(seconds.shape, np.inf), np.full(seconds.shape, np.inf)
        self.slot, self.path = np.full((courses, width), np.inf), np.zeros((courses, width), np.int64)
        # Paths counted or waited for, kept asked for, begun; running now; and waited for but not ended.
        self.needed, self.asked, self.begun, self.running, self.open = np.zeros((5, courses), np.int64)
        self.ended, self.stopped = np.zeros(seconds.shape, np.bool_), np.zeros(courses, np.bool_)

    def ask(self, rows: IntArray, step: IntArray, in_flight: int) -> None:
        """Begin a round of so many paths, and keep as many as ``in_flight`` asked for."""
        counted = self.needed[rows]
        self.needed[rows] = needed = counted + step
        least = np.minimum(len(self.column), counted + in_flight)
        self.asked[rows] = np.maximum(self.asked[rows], np.maximum(needed, least))
        mine = (self.column >= counted[:, None]) & (self.column < needed[:, None])
        self.open[rows] = (mine & ~self.ended[rows]).sum(axis=1)

    def begin(self, rows: IntArray) -> None:
        """Let paths that are asked for run while there are slots."""
        width = self.slot.shape[1]
        while len(rows := rows[(self.begun[rows] < self.asked[rows]) & (self.running[rows] < width)]):
            path, free = self.begun[rows], self.slot[rows].argmax(axis=1)
            ends = self.work[rows] + self.seconds[rows, path]
            self.began[rows, path], self.ends[rows, path] = self.work[rows], ends
            self.slot[rows, free], self.path[rows, free] = ends, path
            self.begun[rows] += 1
            self.running[rows] += 1

    def advance(self, rows: IntArray) -> None:
        """Go on to the moment when the next path ends."""
        place = self.slot[rows].argmin(axis=1)
        ends, path = self.slot[rows, place], self.path[rows, place]
        self.late[rows] += (ends - self.work[rows]) * (self.crowding.pace(self.running[rows]) - 1)
        self.work[rows], self.slot[rows, place] = ends, np.inf
        self.ended[rows, path] = True
        self.running[rows] -= 1
        self.open[rows] -= path < self.needed[rows]

    def in_vain(self) -> FloatArray:
        """Return the part of each path that has run without being needed."""
        ran = np.minimum(self.work[:, None], self.ends) - self.began
        unneeded = (self.column >= self.needed[:, None]) & (self.began < np.inf)
        return np.where(unneeded, np.maximum(ran, 0.0) / np.maximum(self.seconds, 1e-12), 0.0)


def fly(
    ahead: NDArray[np.generic],
    seconds: ArrayLike,
    in_flight: int = 1,
    slots: int | None = None,
    alone: float = 1.0,
) -> Flights:
    """Follow a policy along m courses; ``ahead`` [m, cap + 1] are the paths that it asks for, 0 to stop.

    ``seconds`` [m, cap] is how long each path runs among as many as there are slots. Votes count in launch
    order. At least ``in_flight`` paths are kept asked for beyond those that were counted (1: whole rounds,
    one after the other); those that are not needed are cancelled with the answer. At most ``slots`` of them
    run at once (None: all), the others queue in launch order. How fast they run at each moment is
    ``Crowding``'s: when some paths of a round have ended, the others go on faster.
    """
    runs: FloatArray = np.asarray(seconds, np.float64)
    count, cap = runs.shape
    crowding = Crowding(cap if slots is None else slots, alone)
    courses = _Courses(runs, min(crowding.slots, cap), crowding)
    going: IntArray = np.arange(count, dtype=np.int64)
    while len(going):
        over = going[courses.open[going] == 0]
        step = ahead[over, courses.needed[over]].astype(np.int64)
        courses.ask(over[step > 0], step[step > 0], in_flight)
        courses.stopped[over] = step == 0
        going = going[~courses.stopped[going]]
        courses.begin(going)
        courses.advance(going[courses.open[going] > 0])
    return Flights(courses.work + courses.late, courses.in_vain())
