"""The live vote of one request: paths are drawn and counted until the policy stops, or a limit is met."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from keff.gateway.http.errors import Problem
from keff.gateway.traffic.metrics import Metrics
from keff.gateway.upstream.answer import LONGEST_ASKED, Answer, UpstreamError
from keff.gateway.vote.kinds import SETTLED, Settlement, holds
from keff.narrow import entries
from keff.policy import (
    Branching,
    Policy,
    RunningVote,
    Stop,
    View,
    cancel_running,
    gave_up,
    in_flight_of,
    run_vote,
    tally,
    undecided,
    weighs,
)
from keff.protocol.reply import repeats, source_of
from keff.protocol.server import Sharing, pause
from keff.protocol.values import Object, sendable
from keff.records import frozen

# Paths that say whether a text has an answer, at least: one without may be an accident.
FEWEST_READ = 2

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0

Cause = Literal["policy", "deadline", "failures", "free_text", "no_agreement"]


class PathResult(NamedTuple):
    """One drawn path: choice, upstream response, vote key (None abstains) and confidence.

    ``readings`` are its keys by kind of answer, where the kind is found per request (``kinds``). ``branch``
    drew it, where the policy asks several. ``unread``: nobody knows what its answer means, so it has no key.
    ``cached``: a cache gave it. ``repeated``: it is an earlier path again, and no vote of its own.
    """

    choice: Object
    body: Object
    key: str | None
    truncated: bool = False
    confidence: float = float("nan")
    readings: Mapping[str, str] | None = None
    unread: bool = False
    branch: str = ""
    cached: bool = False
    repeated: bool = False

    @property
    def vote(self) -> str | None:
        """The key that it votes for."""
        return None if self.repeated else self.key


@frozen
class Outcome:
    """Result of a vote.

    ``paths`` are those that were counted, in the order in which they counted; ``unused`` came back but were
    not needed; ``failed`` counts upstream calls that failed, ``cancelled`` those that were cancelled, and
    ``repeats`` are paths that were given before: each is one path with that one. ``weighted``: some votes
    count more than others.
    """

    stop: Stop
    cause: Cause
    paths: tuple[PathResult, ...]
    unused: tuple[PathResult, ...]
    failed: int
    cancelled: int
    repeats: tuple[PathResult, ...] = ()
    weighted: bool = False

    @property
    def repeated(self) -> int:
        """Paths that were given before."""
        return len(self.repeats)

    @property
    def returned(self) -> tuple[PathResult, ...]:
        """All paths that came back."""
        return (*self.paths, *self.unused, *self.repeats)

    @property
    def unread(self) -> int:
        """Counted paths whose answer was given up before it was read."""
        return sum(path.unread for path in self.paths)

    @property
    def abstentions(self) -> int:
        """Counted paths that were read and gave no answer."""
        return sum(path.key is None and not path.unread for path in self.paths)

    @property
    def undecided(self) -> bool:
        """Whether the unread paths could have turned the vote."""
        return undecided(
            [path.key for path in self.paths], self.unread, self.stop.answer, weighted=self.weighted
        )

    def count(self, metrics: Metrics) -> None:
        """Add the outcome's paths to the metrics."""
        for became, paths in (
            ("voted", len(self.paths) - self.abstentions - self.unread),
            ("abstained", self.abstentions),
            ("unread", self.unread),
            ("unused", len(self.unused)),
            ("repeated", self.repeated),
            ("cancelled", self.cancelled),
        ):
            metrics.count("keff_paths_total", paths, became=became)
        metrics.count("keff_votes_total", stop=self.cause)
        metrics.count("keff_undecided_votes_total", int(self.undecided))
        metrics.count("keff_upstream_failures_total", self.failed)
        metrics.observe("keff_request_paths", len(self.paths))


def cut_short(paths: Sequence[PathResult], cause: Cause) -> Stop:
    """Return the plurality of a vote that ended before its policy stopped; no winner where none can agree."""
    if cause == "no_agreement":
        return Stop(None, 0.0, "vote_share", REASONS[cause])
    seen = tally([path.key for path in paths])
    return Stop(seen.leader, seen.share, "vote_share", REASONS[cause])


REASONS: dict[Cause, str] = {
    "deadline": "the deadline came: the paths drawn by then voted",
    "failures": "too many paths failed: the others voted",
    "no_agreement": "no agreement: the first paths hold no answer that could repeat",
    "free_text": "free text: no path of the first round holds an answer",
}


# Draw paths ``start`` to ``start + n - 1`` in one call, of the branch if one is named; may give fewer.
DrawCall = Callable[[int, int, str], Awaitable[Answer]]

Judge = Callable[[Answer], Awaitable[list[PathResult]]]


class EndedError(Exception):
    """Raised to end a vote before its policy stops, for ``cause``."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause: Cause = cause


@dataclass(slots=True)
class Vote:
    """One live vote under a policy and the limits of ``Options``; ``run`` it once.

    ``drawn`` fills up while it runs, by launch position. ``asked`` names the branch of each where the policy
    asks several, and ``shares`` how many paths a call to each may ask for.

    ``give_up`` stops where the first paths show that they hold no answer which could repeat.
    ``probe`` waits for the first path before the rest of the first round: free text ends there. ``skip``: a
    path that a branch cannot draw abstains, so that the policy goes on without it; else the request fails.
    ``keep``: what is in flight at the stop goes on, for ``extend``: no path is left out for its length.
    ``greedy`` branches give the same path again and again. Fewer than ``least`` paths are no answer.
    ``given_up`` says of branches that lost a path why: their other paths are tried once.
    ``replacements``: a path is given up once it was drawn again so often while no path of the request came.
    """

    policy: Policy
    call: DrawCall
    judge: Judge
    sharing: Sharing
    shares: Mapping[str, Sharing] = field(default_factory=dict[str, Sharing])
    asked: list[str] = field(default_factory=list[str])
    drawn: dict[int, PathResult] = field(default_factory=dict[int, PathResult])
    given_up: dict[str, str] = field(default_factory=dict[str, str])
    failed: int = 0
    _launched: int = 0
    _lost: set[int] = field(default_factory=set[int])
    _running: dict[asyncio.Task[None], Sequence[int]] = field(
        default_factory=dict[asyncio.Task[None], Sequence[int]]
    )
    _error: UpstreamError | None = None
    _seen: int = 0
    settlement: Settlement = field(default_factory=Settlement)
    deadline: float | None = None
    replacements: int = 4
    free_text: Literal["pass", "refuse", "draw"] = "draw"
    give_up: bool = False
    probe: bool = False
    skip: bool = True
    keep: bool = False
    greedy: Collection[str] = ()
    least: int = 1

    async def run(self) -> Outcome:
        """Draw paths until the policy stops, the deadline passes or too many fail.

        Answers with what is there; raises UpstreamError or Problem (504) when that is nothing. However it
        ends, cancelled too, every call in flight is cancelled first.
        """
        vote = RunningVote(self.policy, self._view, round_limit=self._most_of_next_round, branches=self.asked)
        cause: Cause = "deadline"
        try:
            async with asyncio.timeout(self.deadline):
                await run_vote(vote, self._calls, self._running)
            cause = "no_agreement" if gave_up(self.policy, self._keys(vote.counted)) else "policy"
        except EndedError as ended:
            cause = ended.cause
        except TimeoutError:
            pass
        finally:
            cancelled = 0 if self.keep and cause == "policy" else await self._cancel()
        counted = sorted(self.drawn) if cause in ("deadline", "failures") else vote.counted
        return self._outcome(counted, vote.stop, cause, cancelled)

    async def extend(self, paths: int) -> list[str | None]:
        """Draw up to ``paths`` after ``run``; returns the keys in launch order.

        To a lost, unread or repeated one.
        """
        try:
            await self._wait()
            while self._launched < paths and not self._lost:
                most = min(self._launched + self.sharing.most * 4, paths)
                for places, call in self._calls(range(self._launched, most)):
                    self._running[asyncio.create_task(call)] = places
                await self._wait()
        finally:
            await self._cancel()
        self._compare_paths(range(len(self.drawn)))
        keys: list[str | None] = []
        while len(keys) < paths and (path := self.drawn.get(len(keys))) is not None:
            if path.unread or path.repeated:
                break
            keys.append(path.key)
        return keys

    async def _cancel(self) -> int:
        """Cancel calls in flight and return how many; a task that is kept holds this vote by its error."""
        running, self._running = self._running, {}
        return await cancel_running(running)

    async def _wait(self) -> None:
        """Wait for every call in flight."""
        for task in list(self._running):
            await task
            del self._running[task]

    def _view(self, places: Sequence[int]) -> View:
        """Return the policy's view of some paths; raises EndedError where the vote ends without it."""
        self._check_lost(places)
        self._compare_paths(places)
        paths = [self.drawn.get(place) for place in places]
        if cause := self._cause_to_end(self._at(places)):
            raise EndedError(cause)
        confidence = [float("nan") if path is None else path.confidence for path in paths]
        return View(
            [path and path.vote for path in paths],
            confidence if "confidence" in self.policy.needs else (),
            self.asked[: len(paths)] if isinstance(self.policy, Branching) else (),
            unread=sum(path is not None and path.unread for path in paths),
        )

    def _most_of_next_round(self, counted: int) -> int:
        """Return how many paths to draw before the vote may end without its policy."""
        if self.probe and not counted:
            return 1
        return SETTLED - counted if self.give_up and 1 < counted < SETTLED else self.policy.cap

    def _cause_to_end(self, paths: Sequence[PathResult]) -> Cause | None:
        """Return the cause to end the vote before its policy does (free text, no agreement), else None.

        That is where none of the first paths holds an answer, or the very first where it is drawn alone. Cut
        paths do not speak against that; but where a plan says that answers are there, nothing but cut ones
        does not speak for it. Where one branch finds no answer, the next may.
        """
        enough = FEWEST_READ if in_flight_of(self.policy) is None else min(SETTLED, self.policy.cap)
        is_first, self._seen = self._seen < enough <= len(paths), len(paths)
        if self.free_text != "draw" and self.policy.cap > 1 and not self.asked:
            if self.probe and len(paths) == 1 and not holds(paths[0].readings or {}):
                return "free_text"
            whole = any(not path.truncated or path.readings is not None for path in paths)
            if is_first and whole and all(path.vote is None and not path.unread for path in paths):
                return "free_text"
        gives_up = self.give_up and self.settlement.agrees_on_nothing([path.vote for path in paths])
        return "no_agreement" if gives_up else None

    def _check_lost(self, places: Sequence[int]) -> None:
        """Raise EndedError where a path is lost, unless a branch may be skipped; else raise what it met."""
        if self._lost.isdisjoint(places):
            return
        if not self.asked:
            raise EndedError("failures")
        if not self.skip and self._error is not None:
            raise self._error

    def _compare_paths(self, places: Sequence[int]) -> None:
        """Mark repeats, determine the kind of answer from the first paths, and set all vote keys by it."""
        self._mark_repeats()
        paths = self._at(places)
        if not paths or paths[0].readings is None:
            return
        self.settlement.settle([path.readings or {} for path in paths if not path.repeated])
        for index, path in self.drawn.items():
            self.drawn[index] = path._replace(key=self.settlement.key(path.readings or {}))

    def _at(self, places: Iterable[int]) -> list[PathResult]:
        """Return the paths at some launch positions, as far as they are there."""
        return [self.drawn[place] for place in places if place in self.drawn]

    def _keys(self, places: Iterable[int]) -> list[str | None]:
        return [path.vote for path in self._at(places)]

    def _calls(self, places: Sequence[int]) -> Iterator[tuple[Sequence[int], Coroutine[None, None, None]]]:
        """Yield the calls that draw some paths in a row, each of one branch and of as many as it takes."""
        start, end = places[0], places[-1] + 1
        self._launched = max(self._launched, end)
        while start < end:
            n = min(self._sharing(start).most, self._paths_of_one_branch(start, end))
            yield range(start, start + n), self._span(start, n)
            start += n

    def _paths_of_one_branch(self, start: int, target: int) -> int:
        """Return how many paths in a row, from ``start`` to below ``target``, one branch draws."""
        if not self.asked:
            return target - start
        other = (place for place in range(start, target) if self.asked[place] != self.asked[start])
        return next(other, target) - start

    def _sharing(self, start: int) -> Sharing:
        return self.shares.get(self.asked[start], self.sharing) if self.asked else self.sharing

    async def _span(self, start: int, n: int) -> None:
        """Draw paths ``start`` to ``start + n - 1``, failed ones again in their place."""
        tries = came = 0
        while n:
            most = min(n, self._sharing(start).most)
            try:
                got = await self._draw(start, most)
            except UpstreamError as error:
                self.failed += 1
                # Without its traceback, which holds this vote and with it every response.
                self._error = self._error or error.with_traceback(None)
                # What came since the last try shows that the server works.
                tries, came = (tries + 1 if len(self.drawn) == came else 1), len(self.drawn)
                branch = self.asked[start] if self.asked else ""
                if not error.transient or tries > self.replacements or branch in self.given_up:
                    self._error = error.with_traceback(None)
                    self._lost.update(range(start, start + n))
                    if branch:
                        self.given_up[branch] = str(error)
                        error.args = (f"branch {branch}: {error}",)
                    return
                await asyncio.sleep(rest_after(error, tries))
            else:
                start, n = start + got, n - got

    async def _draw(self, start: int, n: int) -> int:
        """Make one call and store its paths; returns their number.

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
        # Those of its choices that the server ended by a fault.
        self.failed += max(0, len(entries(answer.body.get("choices"))) - len(answer.choices))
        paths = await self.judge(answer)
        for place, path in enumerate(paths[:n]):
            self.drawn[start + place] = path._replace(branch=branch, cached=answer.cached)
        return min(len(paths), n)

    def _mark_repeats(self) -> None:
        """Mark the paths that a cache gave again, and those of a greedy branch after its first.

        A cache may give an answer a new id: then its headers say that it is one that was given before.
        """
        places = sorted(self.drawn)
        again = repeats([source_of(path.body, path.choice, path.branch) for path in self._at(places)])
        seen = set[str]()
        said = set[tuple[str, bytes]]()
        for place, repeated in zip(places, again, strict=True):
            path = self.drawn[place]
            same = path.branch in self.greedy and path.branch in seen
            seen.add(path.branch)
            message = (path.branch, sendable(path.choice.get("message")))
            same = same or (path.cached and message in said)
            said.add(message)
            self.drawn[place] = path._replace(repeated=repeated or same)

    def _outcome(self, counted: Sequence[int], stop: Stop | None, cause: Cause, cancelled: int) -> Outcome:
        self._compare_paths(counted)
        drawn = self._at(counted)
        paths, again = (tuple(path for path in drawn if path.repeated is same) for same in (False, True))
        if len(self.drawn) < self.least or not paths:
            error, self._error = self._error, None
            few = f"{len(self.drawn)} of {self.least} choices" if self.drawn else "no path"
            raise error or Problem(504, f"{few} finished before the deadline", code="deadline")
        unused = tuple(path for index, path in self.drawn.items() if index not in counted)
        stop = stop or cut_short(paths, cause)
        return Outcome(stop, cause, paths, unused, self.failed, cancelled, again, weighs(self.policy))


def rest_after(error: UpstreamError, tries: int) -> float:
    """Return the seconds to wait before retrying a failed call."""
    return pause(tries, error.refusal.wait, first=FIRST_PAUSE, longest=LONGEST_PAUSE, obeyed=LONGEST_ASKED)
