"""Requests that are drawn on after their reply: which, how far, and how many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import numpy as np

from keff.gateway.options import Options
from keff.gateway.traffic.ledger import VoteLedger
from keff.gateway.traffic.monitor import SHADOW_DRAWS

# Shadow requests drawn on at once; while there are as many, no new request becomes one.
MOST_SHADOWS = 16


class Shadows:
    """Chooses the shadow requests, before any of their votes is seen, and runs them."""

    def __init__(self, options: Options, books: VoteLedger, rng: np.random.Generator) -> None:
        self._options, self._books, self._rng = options, books, rng
        self._votes = self._paths = 0
        self.running: set[asyncio.Task[None]] = set()

    @property
    def wanted(self) -> int:
        """The paths to which a shadow request is drawn."""
        return SHADOW_DRAWS if self._books.few_shadows else self._options.shadow_paths

    def chosen(self) -> bool:
        """Return whether the next request is one.

        On average shadows cost ``shadow_budget`` of what the replies cost.
        """
        if len(self.running) >= MOST_SHADOWS:
            return False
        mean = self._paths / self._votes if self._votes else 1.0
        return float(self._rng.random()) * (self.wanted - mean) < self._options.shadow_budget * mean

    def count(self, paths: int) -> None:
        """Take what a reply cost, of those among which shadow requests are chosen."""
        self._votes += 1
        self._paths += paths

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Draw a request on, beside all others."""
        task = asyncio.create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def close(self) -> None:
        """Cancel what is drawn for nobody."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
