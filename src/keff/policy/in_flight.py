"""Any stopping rule with paths in flight: ``in_flight=W,order=arrival|launch``.

W paths run at once. On arrival each counts when it ends, in launch order when all launched before it have
ended too. The rule is asked after every vote; while it goes on, the next path starts. At the stop what still
runs is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keff.errors import PolicyError
from keff.policy.log_odds import Answering, Calibrated
from keff.policy.over import Over, WeighingAsRule, part_of
from keff.policy.view import Policy, Sample, Stop, View, Weighting, tally
from keff.policy.waves import everywhere, whole
from keff.stats.votes import IntArray
from keff.stats.voting.draws import Draws

VoteOrder = Literal["arrival", "launch"]
ORDERS: tuple[VoteOrder, ...] = ("arrival", "launch")

# On arrival no rule stops before so many votes, unless nothing can overtake the leader.
#
# The first two to arrive are the two shortest answers: with 8 in flight a lead of 2 taken at once kept 97.4%
# of the accuracy on the worst of 35 recorded workloads, from the third vote on 98.9%
# (``docs/in-flight.md``).
LEAST_VOTES = 3


@dataclass(frozen=True)
class InFlight(Over):
    """A rule that is asked after every vote while ``width`` paths run."""

    width: int
    order: VoteOrder

    @property
    def spec(self) -> str:
        """The string that makes this policy again."""
        return self.spelled(in_flight=self.width, order=self.order)

    def decide(self, view: View) -> Sample | Stop:
        """Stop, or go on to the next vote.

        Votes that tie are told apart as the whole vote in launch order would: whose first path was launched
        first.
        """
        keys = view.keys[: self.cap]
        decision = self.rule.decide(View(keys, view.confidence[: self.cap]))
        if isinstance(decision, Sample) or not self._enough(keys):
            return Sample(1)
        return self.settled(decision, keys, view.launched)

    @property
    def alone(self) -> bool:
        """Whether one path may end the vote by itself: it is judged by its confidence, not by its haste."""
        return isinstance(self.rule, Calibrated) and self.rule.alone

    def _enough(self, keys: Sequence[str | None]) -> bool:
        if self.order == "launch" or len(keys) == self.cap or self.alone:
            return True
        if sum(key is not None for key in keys) >= LEAST_VOTES:
            return True
        seen = tally(keys)
        return seen.v1 - seen.v2 > self.cap - len(keys)

    def settled(self, stop: Stop, keys: Sequence[str | None], launched: Sequence[int]) -> Stop:
        """Return the stop with the tie of the votes broken in launch order."""
        seen = tally(keys)
        if seen.leader is None or seen.v1 != seen.v2 or not launched:
            return stop
        tied = [(place, key) for place, key in zip(launched, keys, strict=False) if key is not None]
        first = min((place, key) for place, key in tied if seen.counts[key] == seen.v1)
        return replace(stop, answer=first[1])

    def stops(self, draws: Draws) -> NDArray[np.bool_]:
        """Return whether it stops after 0..cap votes of every order of counting [n, R, cap + 1]."""
        side = self.cap + 1
        asked = np.asarray(everywhere(self.rule, draws, "in flight"))
        stops = asked == 0
        if self.order == "arrival" and not self.alone:
            seen, codes = draws.tallies, draws.codes[..., : self.cap]
            cast: IntArray = (codes >= 0).cumsum(axis=2, dtype=np.int64)
            lead = seen.v1[..., 1:side].astype(np.int64) - seen.v2[..., 1:side]
            left = np.arange(self.cap - 1, -1, -1)
            stops[..., 1:] &= (cast >= LEAST_VOTES) | (lead > left)
        stops[..., 0], stops[..., self.cap] = False, True
        return stops

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return one more path wherever it goes on [n, R, cap + 1]; the votes as they count."""
        return (~self.stops(draws)).astype(np.int16)


class VoteInFlight(WeighingAsRule, InFlight):
    """The same for a rule that weighs its votes; its answer is its own."""

    def settled(self, stop: Stop, keys: Sequence[str | None], launched: Sequence[int]) -> Stop:  # noqa: ARG002
        """Return the stop of the rule."""
        return stop


def in_flight(rule: Policy, width: object, order: object = "launch") -> Policy:
    """Return a rule with ``width`` paths in flight, whose votes count on arrival or in launch order.

    Raises PolicyError for a width outside 1 to the cap, or another order.
    """
    paths = whole(rule, "in_flight", width)
    if paths > rule.cap:
        raise PolicyError(f"policy {rule.spec}: in_flight={paths} is above its cap: write {rule.cap} at most")
    for known in ORDERS:
        if order == known:
            kind = VoteInFlight if isinstance(rule, Weighting | Answering) else InFlight
            return kind(rule, paths, known)
    raise PolicyError(f"policy {rule.spec}: order is arrival or launch, not {order!s:.40}")


def in_flight_of(policy: Policy) -> InFlight | None:
    """Return how a policy keeps paths in flight; None for one that draws in rounds."""
    return part_of(policy, InFlight)


@dataclass
class RunningVote:
    """One vote with paths in flight, without any input or output: what starts, what counts, when it stops.

    ``view`` gives the votes of launch positions, in the order in which they count. The drivers (library,
    sampler, gateway) start the positions of ``launch`` and report each that ended to ``end``.
    """

    policy: Policy
    view: Callable[[Sequence[int]], View]
    counted: list[int] = field(default_factory=list[int])
    launched: int = 0
    stop: Stop | None = None

    def __post_init__(self) -> None:
        flight = in_flight_of(self.policy)
        assert flight is not None
        self._flight, self._running, self._waiting = flight, 0, set[int]()

    def launch(self) -> Iterator[int]:
        """Yield the launch positions that start now."""
        while self.stop is None and self._running < self._flight.width and self.launched < self.policy.cap:
            self._running += 1
            self.launched += 1
            yield self.launched - 1

    def end(self, position: int) -> None:
        """Take a path that ended, and ask the policy after each vote that counts now."""
        self._running -= 1
        self._waiting.add(position)
        while self.stop is None and (place := self._next()) is not None:
            self._waiting.remove(place)
            self.counted.append(place)
            view = replace(self.view(self.counted), launched=tuple(self.counted))
            decision = self.policy.decide(view)
            self.stop = decision if isinstance(decision, Stop) else None

    def _next(self) -> int | None:
        if self._flight.order == "arrival":
            return min(self._waiting, default=None)
        return len(self.counted) if len(self.counted) in self._waiting else None


async def fly(
    vote: RunningVote, draw: Callable[[int], Awaitable[None]], running: dict[asyncio.Task[None], int]
) -> None:
    """Run a vote until it stops: start the paths that it launches, and report those that end.

    ``draw`` draws the path of a launch position; what it raises ends the vote. ``running`` are the paths in
    flight by their position: the caller cancels them, however the vote ends (``cancel_running``).
    """

    async def path(place: int) -> None:
        await draw(place)

    while vote.stop is None:
        for place in vote.launch():
            running[asyncio.create_task(path(place))] = place
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        # Of paths that are heard of together the first launched counts first.
        for task in sorted(done, key=running.__getitem__):
            place = running.pop(task)
            task.result()
            vote.end(place)


async def cancel_running(running: dict[asyncio.Task[None], int]) -> int:
    """Cancel what still runs, wait for its end, and return how many paths were cancelled."""
    tasks = list(running)
    running.clear()
    if open_ := [task for task in tasks if task.cancel()]:
        await asyncio.wait(open_)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # heard of, though it no longer counts
    return sum(task.cancelled() for task in tasks)
