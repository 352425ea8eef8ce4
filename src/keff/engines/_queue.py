"""Requests that wait for a batch of a model in this process."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from keff.records import Completion, Message, Sampling


@dataclass(slots=True, eq=False)
class Waiting:
    """One request that waits for its batch: its prompt in tokens once read, and where its paths go."""

    messages: list[Message]
    sampling: Sampling
    n: int
    stop: threading.Event = field(default_factory=threading.Event)
    result: Future[list[Completion]] = field(default_factory=Future[list[Completion]])

    def alike(self, other: Waiting) -> bool:
        """Return whether both can stand in one batch: they differ in prompts and seeds only."""
        return replace(self.sampling, seed=0, thinking=None) == replace(other.sampling, seed=0, thinking=None)


class Queue:
    """Waiting requests in the order of their coming. ``most``: paths that one batch may hold."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[Waiting] = deque()

    def add(self, waiting: Waiting) -> None:
        """Let a request wait."""
        self._waiting.append(waiting)

    def take(self) -> list[Waiting]:
        """Take the requests of the next batch: the first, and what may join it; cancelled ones go."""
        taken: list[Waiting] = []
        rows, left = 0, deque[Waiting]()
        while self._waiting:
            waiting = self._waiting.popleft()
            if waiting.stop.is_set():
                waiting.result.cancel()
            elif not taken or (rows + waiting.n <= self._most and taken[0].alike(waiting)):
                taken.append(waiting)
                rows += waiting.n
            else:
                left.append(waiting)
        self._waiting.extendleft(reversed(left))
        return taken
