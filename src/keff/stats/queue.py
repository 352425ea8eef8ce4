"""Many questions that share few places: when each is begun and answered, by simulation of the queue."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.stats.votes import FloatArray


@dataclass(frozen=True)
class Served:
    """When each question was opened and answered [n], in seconds from the beginning of the batch."""

    opened: FloatArray
    answered: FloatArray

    @property
    def last(self) -> float:
        """When the whole batch is answered."""
        return float(self.answered.max(initial=0.0))


class _Desk:
    """Questions that are open, the paths that wait, first come first served, and those that run."""

    def __init__(self, ahead: NDArray[Any], seconds: NDArray[Any], places: int) -> None:
        self.ahead, self.seconds = ahead, seconds
        self.free = places
        self.at, self.missing = [0] * len(ahead), [0] * len(ahead)
        self.waiting: deque[tuple[int, int]] = deque()
        self.running: list[tuple[float, int, int]] = []

    def ask(self, question: int) -> bool:
        """Queue the next round of a question; False where it is answered."""
        at = self.at[question]
        step = int(self.ahead[question, at])
        self.waiting.extend((question, path) for path in range(at, at + step))
        self.at[question], self.missing[question] = at + step, step
        return step > 0

    def fill(self, now: float) -> None:
        """Let paths run while there are places."""
        while self.free and self.waiting:
            question, path = self.waiting.popleft()
            heapq.heappush(self.running, (now + float(self.seconds[question, path]), question, path))
            self.free -= 1

    def next(self) -> tuple[float, int]:
        """Return when a path ends next, and its question."""
        now, question, _ = heapq.heappop(self.running)
        self.free += 1
        self.missing[question] -= 1
        return now, question


def serve(ahead: NDArray[Any], seconds: NDArray[Any], places: int, open_at_once: int) -> Served:
    """Answer n questions in order under a policy, at most ``places`` paths at once.

    ``ahead`` [n, cap + 1] are the paths that the policy asks for after each number of them, 0 to stop;
    ``seconds`` [n, cap] is how long each path runs once it has a place. ``open_at_once`` questions are worked
    on together; the paths of their rounds wait in one queue, first come first served.
    """
    n = len(ahead)
    desk = _Desk(ahead, seconds, places)
    opened, answered = np.zeros(n), np.zeros(n)
    now, begun, going = 0.0, 0, 0
    while True:
        while begun < n and going < open_at_once:
            opened[begun] = answered[begun] = now
            going += desk.ask(begun)
            begun += 1
        desk.fill(now)
        if not desk.running:
            return Served(opened, answered)
        now, question = desk.next()
        if not desk.missing[question] and not desk.ask(question):
            answered[question] = now
            going -= 1
