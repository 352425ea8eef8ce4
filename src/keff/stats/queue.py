"""Many questions that share few places: when each is begun and answered, by simulation of the queue."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.stats.crowding import Crowding
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
    """Questions that are open, the paths that wait, first come first served, and those that run.

    All paths that run are slowed down alike, so each ends when ``work``, the clock in recorded seconds, has
    gone on by its own.
    """

    def __init__(self, ahead: NDArray[Any], seconds: NDArray[Any], crowding: Crowding) -> None:
        self.ahead, self.seconds = ahead, seconds
        self.paces = crowding.pace(np.arange(crowding.slots + 1))
        self.free, self.now, self.work = crowding.slots, 0.0, 0.0
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

    def fill(self) -> None:
        """Let paths run while there are places."""
        while self.free and self.waiting:
            question, path = self.waiting.popleft()
            heapq.heappush(self.running, (self.work + float(self.seconds[question, path]), question, path))
            self.free -= 1

    def next(self) -> int:
        """Go on until a path ends; return its question."""
        pace = float(self.paces[len(self.running)])
        ends, question, _ = heapq.heappop(self.running)
        self.now += (ends - self.work) * pace
        self.work = ends
        self.free += 1
        self.missing[question] -= 1
        return question


def serve(
    ahead: NDArray[Any], seconds: NDArray[Any], places: int, open_at_once: int, alone: float = 1.0
) -> Served:
    """Answer n questions in order under a policy, at most ``places`` paths at once.

    ``ahead`` [n, cap + 1] are the paths that the policy asks for after each number of them, 0 to stop;
    ``seconds`` [n, cap] is how long each path runs once it has a place, among as many as there are places;
    one that runs alone takes ``alone`` of that (``Crowding``). ``open_at_once`` questions are worked on
    together; the paths of their rounds wait in one queue, first come first served.
    """
    n = len(ahead)
    desk = _Desk(ahead, seconds, Crowding(places, alone))
    opened, answered = np.zeros(n), np.zeros(n)
    begun, going = 0, 0
    while True:
        while begun < n and going < open_at_once:
            opened[begun] = answered[begun] = desk.now
            going += desk.ask(begun)
            begun += 1
        desk.fill()
        if not desk.running:
            return Served(opened, answered)
        question = desk.next()
        if not desk.missing[question] and not desk.ask(question):
            answered[question] = desk.now
            going -= 1
