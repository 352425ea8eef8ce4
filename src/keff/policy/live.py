"""One live vote under a policy, drawn concurrently: by the library, by sampling and by the gateway.

In: a policy, a view of the paths so far, and the calls that draw paths. Out: the paths that counted, and the
stop. A policy draws in rounds, each of which is complete before the policy is asked again; or it keeps paths
in flight (``in_flight=W``) and is asked after every vote.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from keff.policy.drawing import in_flight_of
from keff.policy.view import Policy, Stop, View, decided

if TYPE_CHECKING:
    import asyncio

# The calls that draw paths at some launch positions, each with the positions that it draws.
Calls = Callable[[Sequence[int]], Iterable[tuple[Sequence[int], Coroutine[Any, Any, None]]]]


@dataclass
class RunningVote:
    """State of one vote, free of I/O: which paths to launch, which count, and when to stop.

    ``view`` gives the votes of launch positions, in the order in which they count; what it raises ends the
    vote. Paths that are ``held`` already count without being launched. ``round_limit`` is the most paths of
    the next round, by the number counted. ``branches`` names the branch of each launched path where the
    policy asks several.
    """

    policy: Policy
    view: Callable[[Sequence[int]], View]
    held: Callable[[int], bool] = lambda _: False
    round_limit: Callable[[int], int] | None = None
    counted: list[int] = field(default_factory=list[int])
    branches: list[str] = field(default_factory=list[str])
    launched: int = 0
    stop: Stop | None = None

    def __post_init__(self) -> None:
        self.flight = in_flight_of(self.policy)
        self._running, self._waiting = 0, set[int]()

    def launch(self) -> list[int]:
        """Return the launch positions of paths to start now; none while it waits for others."""
        places: list[int] = []
        while self.stop is None and (more := self._more()):
            self._running += more
            self.launched += more
            for place in range(self.launched - more, self.launched):
                if self.held(place):
                    self.end(place)
                else:
                    places.append(place)
        return places

    def end(self, place: int) -> None:
        """Record a finished path, and ask the policy after each vote in flight that counts now."""
        self._running -= 1
        self._waiting.add(place)
        if self.flight is None:
            if not self._running:
                self._waiting.clear()
                self.counted = list(range(self.launched))
            return
        while self.stop is None and (first := self._next_to_count()) is not None:
            self._waiting.remove(first)
            self.counted.append(first)
            self._ask()

    def _more(self) -> int:
        """Return how many paths to launch now; in rounds the policy says it, once the last round ended."""
        if self.flight is not None:
            return min(self.flight.width - self._running, self.policy.cap - self.launched)
        return 0 if self._running else self._ask()

    def _ask(self) -> int:
        """Ask the policy, and return the paths of its next round; 0 at its stop."""
        decision = decided(self.policy, replace(self.view(self.counted), launched=tuple(self.counted)))
        if isinstance(decision, Stop):
            self.stop = decision
            return 0
        most = decision.m if self.round_limit is None else self.round_limit(len(self.counted))
        self.branches += decision.branches[:most]
        return min(decision.m, most)

    def _next_to_count(self) -> int | None:
        assert self.flight is not None
        if self.flight.order == "arrival":
            return min(self._waiting, default=None)
        return len(self.counted) if len(self.counted) in self._waiting else None


async def run_vote(vote: RunningVote, calls: Calls, running: dict[asyncio.Task[None], Sequence[int]]) -> None:
    """Run a vote to its stop: make the calls for the paths it launches, and record those that finish.

    ``calls`` gets the paths of a round together, and each path in flight alone; what a call raises ends the
    vote. ``running`` are the open calls with their positions: the caller cancels them, however the vote ends
    (``cancel_running``).
    """
    import asyncio  # a replay needs no event loop

    until = asyncio.FIRST_EXCEPTION if vote.flight is None else asyncio.FIRST_COMPLETED
    while True:
        places = vote.launch()
        if vote.stop is not None:
            return
        for together in [places] if vote.flight is None else [[place] for place in places]:
            for own, call in calls(together):
                running[asyncio.create_task(call)] = own
        done, _ = await asyncio.wait(running, return_when=until)
        # Of paths that are heard of together the first launched counts first.
        for task in sorted(done, key=lambda one: running[one][0]):
            own = running.pop(task)
            task.result()
            for place in own:
                vote.end(place)


async def cancel_running(running: Iterable[asyncio.Future[Any]]) -> int:
    """Cancel running tasks and await their end; returns how many."""
    import asyncio

    tasks = list(running)
    if open_ := [task for task in tasks if task.cancel()]:
        await asyncio.wait(open_)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # heard of, though it no longer counts
    return sum(task.cancelled() for task in tasks)
