"""The vote of one request, live: paths in flight, votes consumed in launch order, until the policy stops.

Votes are never taken in order of arrival: short paths come first, and stopping on them is biased by length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from keff.gateway.errors import Problem
from keff.gateway.kinds import SETTLED, Settlement, holds
from keff.gateway.options import FreeText
from keff.gateway.outcome import Cause, Drawn, Outcome, cut_short
from keff.gateway.upstream import Answer, UpstreamError
from keff.policy import Policy, Stop, View
from keff.protocol.patience import pause
from keff.protocol.sharing import Sharing

HOPELESS = 8
"""Failed calls without one success after which a request is given up."""

FIRST_PAUSE, LONGEST_PAUSE, LONGEST_ASKED = 0.2, 2.0, 10.0


Call = Callable[[int, int, str], Awaitable[Answer]]
"""Draw paths ``start`` to ``start + n - 1`` in one call, of the branch if one is named; may give fewer."""

Judge = Callable[[Answer], Awaitable[list[Drawn]]]


@dataclass(frozen=True, slots=True)
class Rules:
    """How one vote is run: the policy and what bounds it; see ``Options``.

    ``give_up`` stops where the first paths show that they hold no answer which could repeat.
    ``probe`` waits for the first path before the rest of the first round: free text ends there. ``skip``: a
    path that a branch cannot draw abstains, so that the policy goes on without it; else the request fails.
    """

    policy: Policy
    deadline: float | None = None
    replacements: int = 16
    in_flight: int = 1
    free_text: FreeText = "draw"
    give_up: bool = False
    probe: bool = False
    skip: bool = True


@dataclass(slots=True)
class Vote:
    """One vote; ``run`` it once. ``drawn`` fills up while it runs, by launch position.

    ``asked`` names the branch of each launch position where the policy asks several, and ``shares`` how many
    paths a call to each may ask for.
    """

    rules: Rules
    call: Call
    judge: Judge
    sharing: Sharing
    shares: Mapping[str, Sharing] = field(default_factory=dict[str, Sharing])
    asked: list[str] = field(default_factory=list[str])
    drawn: dict[int, Drawn] = field(default_factory=dict[int, Drawn])
    failed: int = 0
    _launched: int = 0
    _lost: set[int] = field(default_factory=set[int])
    _running: dict[asyncio.Task[None], int] = field(default_factory=dict[asyncio.Task[None], int])
    _error: UpstreamError | None = None
    _stop: Stop | None = None
    settlement: Settlement = field(default_factory=Settlement)

    async def run(self) -> Outcome:
        """Draw until the policy stops, the deadline comes or too much fails.

        Answers with what is there; raises UpstreamError or Problem (504) when that is nothing. However it
        ends, cancelled too, every call in flight is broken off first.
        """
        consumed, cause = 0, "deadline"
        try:
            async with asyncio.timeout(self.rules.deadline):
                consumed, cause = await self._follow()
        except TimeoutError:
            consumed = self._launched
        finally:
            cancelled = await self._break_off()
        return self._outcome(consumed, cause, cancelled)

    async def extend(self, paths: int) -> list[str | None]:
        """Draw on to ``paths`` after ``run``; return the keys in launch order, up to the first lost path."""
        try:
            while self._launched < paths and not self._lost:
                self._launch(self._launched + min(self.sharing.most * 4, paths - self._launched))
                await self._settled(self._launched)
        finally:
            await self._break_off()
        self._read_as_one_kind(len(self.drawn))
        keys: list[str | None] = []
        while len(keys) < paths and len(keys) in self.drawn:
            keys.append(self.drawn[len(keys)].key)
        return keys

    async def _follow(self) -> tuple[int, Cause]:
        policy, consumed = self.rules.policy, 0
        while True:
            decision = policy.decide(self._view(consumed))
            if isinstance(decision, Stop):
                self._stop = decision
                return consumed, "policy"
            first = consumed == 0
            if first and self.rules.probe and decision.m > 1 and (early := await self._probed()):
                return 1, early
            m = decision.m
            if self.rules.give_up and consumed < SETTLED:
                m = min(m, SETTLED - consumed) if consumed else m
            consumed += m
            self.asked += decision.branches
            # Which branch comes next is known only where one is asked: nothing is drawn ahead of several.
            ahead = 0 if self.asked else self.rules.in_flight
            self._launch(max(consumed, min(policy.cap, consumed - m + ahead)))
            await self._settled(consumed)
            if self._failed_within(consumed):
                return consumed, "failures"
            self._read_as_one_kind(consumed)
            if first and self._is_free_text(consumed):
                return consumed, "free_text"
            if self.rules.give_up and self.settlement.agrees_on_nothing(self._keys(consumed)):
                return consumed, "no_agreement"

    def _failed_within(self, consumed: int) -> bool:
        """Return whether a path was lost that the policy cannot do without.

        Raises what a branch failed of where none may be skipped.
        """
        if not any(index < consumed for index in self._lost):
            return False
        if self.asked and not self.rules.skip and self._error is not None:
            raise self._error
        return not self.asked

    async def _probed(self) -> Cause | None:
        """Draw the first path (and what is kept in flight); return why that is enough, else None."""
        self._launch(max(1, min(self.rules.policy.cap, self.rules.in_flight)))
        await self._settled(1)
        if 0 in self._lost:
            return "failures"
        is_free = not holds(self.drawn[0].readings or {})
        return "free_text" if is_free and self.rules.free_text != "draw" else None

    def _is_free_text(self, consumed: int) -> bool:
        """Return whether no path of the first round holds an answer.

        Cut paths do not speak against that; but where a plan says that answers are there, a round of nothing
        else does not speak for it. Where one branch finds no answer, the next may.
        """
        if self.rules.free_text == "draw" or self.rules.policy.cap == 1 or self.asked:
            return False
        paths = [self.drawn[index] for index in range(consumed)]
        whole = any(not path.truncated or path.readings is not None for path in paths)
        return whole and all(path.key is None for path in paths)

    def _read_as_one_kind(self, consumed: int) -> None:
        """Settle what the first paths answer, and give all paths their keys of that kind."""
        paths = [self.drawn[index] for index in range(consumed) if index in self.drawn]
        if not paths or paths[0].readings is None:
            return
        self.settlement.settle([path.readings or {} for path in paths])
        for index, path in self.drawn.items():
            self.drawn[index] = replace(path, key=self.settlement.key(path.readings or {}))

    def _keys(self, consumed: int) -> list[str | None]:
        return [self.drawn[index].key for index in range(consumed) if index in self.drawn]

    def _view(self, consumed: int) -> View:
        if self.asked:
            seen = [self.drawn.get(index) for index in range(consumed)]
            return View([path and path.key for path in seen], branches=self.asked[:consumed])
        paths = [self.drawn[index] for index in range(consumed) if index in self.drawn]
        confidence = [path.confidence for path in paths] if "confidence" in self.rules.policy.needs else ()
        return View([path.key for path in paths], confidence)

    def _launch(self, target: int) -> None:
        while self._launched < target:
            n = min(self._sharing(self._launched).most, self._alike(self._launched, target))
            self._running[asyncio.create_task(self._span(self._launched, n))] = self._launched
            self._launched += n

    def _alike(self, start: int, target: int) -> int:
        """Return how many paths from ``start`` on, before ``target``, one branch draws."""
        if not self.asked:
            return target - start
        other = (place for place in range(start, target) if self.asked[place] != self.asked[start])
        return next(other, target) - start

    def _sharing(self, start: int) -> Sharing:
        return self.shares.get(self.asked[start], self.sharing) if self.asked else self.sharing

    async def _settled(self, consumed: int) -> None:
        """Wait for every path before ``consumed`` in launch order, however late, but for no other."""
        wanted = [task for task, start in self._running.items() if start < consumed]
        for task in wanted:
            await task
            del self._running[task]

    async def _span(self, start: int, n: int) -> None:
        """Draw paths ``start`` to ``start + n - 1``; what fails is drawn again, in its place."""
        tries = 0
        while n:
            most = min(n, self._sharing(start).most)
            try:
                got = await self._draw(start, most)
            except UpstreamError as error:
                self.failed += 1
                # Without its traceback, which holds this vote and with it every response.
                self._error = self._error or error.with_traceback(None)
                if not error.transient or self._spent():
                    self._error = error.with_traceback(None)
                    self._lost.update(range(start, start + n))
                    return
                tries += 1
                await asyncio.sleep(rest_after(error, tries))
            else:
                start, n = start + got, n - got

    def _spent(self) -> bool:
        return self.failed > self.rules.replacements or (not self.drawn and self.failed >= HOPELESS)

    async def _draw(self, start: int, n: int) -> int:
        """Make one call and keep its paths; returns how many came.

        A server that refuses several paths but gives one is asked for fewer from then on, as is one that
        gives fewer than asked again and again.
        """
        sharing, branch = self._sharing(start), self.asked[start] if self.asked else ""
        try:
            answer = await self.call(start, n, branch)
        except UpstreamError as error:
            if error.repeated:
                sharing.came(n, 0)
            if n == 1 or error.status not in (400, 422):
                raise
            answer = await self.call(start, 1, branch)
            sharing.refused(n)
        else:
            sharing.came(n, len(answer.choices))
        paths = await self.judge(answer)
        for place, path in enumerate(paths[:n]):
            self.drawn[start + place] = replace(path, branch=branch) if branch else path
        return min(len(paths), n)

    async def _break_off(self) -> int:
        tasks = list(self._running)
        self._running.clear()
        open_ = [task for task in tasks if task.cancel()]
        if open_:
            await asyncio.wait(open_)
        return sum(task.cancelled() for task in tasks)

    def _outcome(self, consumed: int, cause: Cause, cancelled: int) -> Outcome:
        self._read_as_one_kind(consumed)
        paths = tuple(self.drawn[index] for index in range(consumed) if index in self.drawn)
        if not paths:
            error, self._error = self._error, None
            raise error or Problem(504, "no path finished before the deadline", code="deadline")
        unused = tuple(path for index, path in self.drawn.items() if index >= consumed)
        stop = self._stop or cut_short(paths, cause)
        return Outcome(stop, cause, paths, unused, self.failed, cancelled)


def rest_after(error: UpstreamError, tries: int) -> float:
    """Return the seconds to wait before a failed call is made again."""
    return pause(tries, error.refusal.wait, first=FIRST_PAUSE, longest=LONGEST_PAUSE, obeyed=LONGEST_ASKED)
