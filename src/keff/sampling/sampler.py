"""Sampling of the paths that a run lacks: many at once, resumable, for a fixed K or by a policy."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from keff.answers import SLOW_SPACES, UNREAD
from keff.engine import Engine
from keff.errors import EngineError, UsageError
from keff.policies.retry import reads_verdicts
from keff.policy import (
    Policy,
    RunningVote,
    View,
    cancel_running,
    confidence_of,
    in_flight_of,
    run_vote,
)
from keff.policy.weighting import logprob_of
from keff.protocol.reply import answer_logprob
from keff.protocol.server import pause
from keff.records import Completion, Item, Path, frozen
from keff.sampling.orders import OnProgress, Order, Progress, advised, paths_per_slot
from keff.sampling.selection import Selection
from keff.sampling.store import ANSWER, OwedPaths, Run
from keff.sampling.store.rows import SEEDS, path_seed
from keff.sampling.verifier import Verifier, rate_items
from keff.task import ScoredText, Task

# Failures in a row beyond those in flight, which fail together, that stop a run.
BEYOND_FLIGHT = 8
# Units of work for each request in flight: the next ones are ready, and the last ones are being kept.
PREPARED = 2

# Items that are looked up in the run at once: those that are complete need no look of their own.
TOGETHER = 500

# Seconds between two tries at the most.
LONGEST_BACKOFF = 30.0

# Different questions that the server refuses, before any path was drawn, after which it takes none.
REFUSED_QUESTIONS = 5


async def sample(
    run: Run,
    task: Task,
    engine: Engine,
    items: Sequence[Item],
    order: Order,
    watch: OnProgress | None = None,
    verifier: Verifier | None = None,
) -> Progress:
    """Draw every path that ``run`` owes for ``items``; returns the counts.

    No text is held once it is committed, so memory does not grow with the number of paths. A failed request
    is committed as an error row and tried again as a new attempt. Cancelling keeps all that was received. A
    question that the server refuses is not asked again in this session; the others go on. A policy that a
    checker ends is followed by the ratings of ``verifier``. Raises
    EngineError when the engine cannot work at all, refuses every question, or fails ``order.breaker`` times
    in a row.
    """
    if order.policy is not None:
        refuse_arrival(order.policy)
    session = Session(run, task, engine, order, watch, verifier)
    session.progress.total = None if order.policy else len(items) * order.k
    units = session.policy_units(items) if order.policy else session.units(items)
    await bounded(units, PREPARED * session.limit)
    session.end()
    return session.progress


def refuse_arrival(policy: Policy) -> None:
    """Raise UsageError for votes in order of arrival: the record would be biased to short paths."""
    flight = in_flight_of(policy)
    if flight is not None and flight.order == "arrival":
        raise UsageError(
            f"{policy.spec} would record the shortest paths only: sample with order=launch, or a fixed --k, "
            "and replay order=arrival on the record"
        )


async def bounded(units: Iterator[Coroutine[None, None, None]], limit: int) -> None:
    """Run tasks, at most ``limit`` at once; the first failure cancels the others and is raised."""

    async def work() -> None:
        for unit in units:
            await unit

    workers = [asyncio.ensure_future(work()) for _ in range(limit)]
    try:
        await asyncio.gather(*workers)
    finally:
        await cancel_running(workers)


class MissingPathError(Exception):
    """Raised where a path of a vote failed, or no more may be drawn."""


@frozen
class _Arrival:
    """The paths of one finished request for an item."""

    item: Item
    paths: list[Path]

    @property
    def slow(self) -> bool:
        """Whether reading the answers needs a worker process or may be slow."""
        return self.item.space in SLOW_SPACES

    def scored_paths(self, task: Task) -> list[tuple[Path, ScoredText]]:
        """Return the paths with extracted and scored answers."""
        return [
            (path, task.judge(self.item, path.completion))
            for path in self.paths
            if path.completion is not None
        ]


class Session:
    """One session of drawing into a run, with its counts."""

    def __init__(
        self,
        run: Run,
        task: Task,
        engine: Engine,
        order: Order,
        watch: OnProgress | None,
        verifier: Verifier | None = None,
    ) -> None:
        self.run, self.task, self.engine, self.order = run, task, engine, order
        self.watch: OnProgress = watch or (lambda _: None)
        self.verifier = verifier
        self.progress = Progress()
        self.failures_in_row = 0
        self.limit = order.concurrency or advised(engine.capabilities, order)
        self.flight = asyncio.Semaphore(self.limit)
        self.arrived = list[_Arrival]()
        self.next_keeping = asyncio.Event()
        self.breaker = order.breaker or self.limit + BEYOND_FLIGHT
        self.fruitful = run.has_paths()
        self.refused: dict[tuple[str, int], EngineError] = {}

    def units(self, items: Iterable[Item]) -> Iterator[Coroutine[None, None, None]]:
        """Yield one task per request of a fixed-K run."""
        shares = paths_per_slot(self.order.k, self.order.slots)
        items = Selection.of(items)
        if items.is_of_the_run and self.run.complete(shares) == len(items):
            self._count(len(items), self.order.k * len(items))
            return
        for rows in items.parts(TOGETHER):
            whole = self.run.complete_ids(rows, shares)
            self._count(len(whole), self.order.k * len(whole))
            left = [row for row in rows if row[0] not in whole]
            owed = self.run.owed([row[0] for row in left], shares)
            for row in left:
                item, spans = items.item(row), owed[row[0]]
                self.run.begin(row)
                self._count(1, self.order.k - sum(span.count for span in spans))
                for span in spans:
                    for part in _split(span, self.engine.capabilities.max_n):
                        if self.halted():
                            return
                        yield self._draw(item, part)

    def policy_units(self, items: Iterable[Item]) -> Iterator[Coroutine[None, None, None]]:
        """Yield one task per item whose policy has not stopped."""
        for item in items:
            if self.halted():
                return
            yield self._follow_policy(item)

    def halted(self) -> bool:
        """Return whether a limit of the order is reached."""
        if self.order.halt and not self.progress.stopped:
            self.progress.stopped = self.order.halt(self.progress)
        return self.progress.stopped is not None

    def begin(self, item: Item) -> None:
        """Add an item to the run, and count it with the paths it has."""
        self.run.put_items([item])
        self._count(1, len(self.run.kept(item.id)))

    def _count(self, items: int, kept: int) -> None:
        self.progress.items += items
        self.progress.kept += kept
        self.watch(self.progress)

    async def _follow_policy(self, item: Item) -> None:
        """Draw an item's paths under the policy; stored paths count without being drawn."""
        policy, slot = self.order.policy, self.order.slots[0]
        assert policy is not None
        self.begin(item)
        await self.rate(item, policy)
        owed = {place for span in self._owed(item, policy.cap) for place in _places(span)}

        def calls(places: Sequence[int]) -> Iterator[tuple[range, Coroutine[None, None, None]]]:
            if self.halted():
                raise MissingPathError
            for span in self._owed(item, places[-1] + 1):
                start = max(span.start, places[0])
                own = replace(span, start=start, count=span.start + span.count - start)
                for part in _split(own, self.engine.capabilities.max_n):
                    yield _places(part), self._draw_rated(item, part, policy)

        def view(places: Sequence[int]) -> View:
            seen = launch_view(self.run, self.task, item, slot, policy, len(places))
            if len(seen.keys) < len(places):
                raise MissingPathError
            return seen

        running: dict[asyncio.Task[None], Sequence[int]] = {}
        try:
            await run_vote(RunningVote(policy, view, lambda place: place not in owed), calls, running)
        except MissingPathError:
            self.progress.unfinished += self.progress.stopped is None
        finally:
            await cancel_running(running)

    async def _draw_rated(self, item: Item, span: OwedPaths, policy: Policy) -> None:
        """Draw one span, and rate its paths where a checker ends the policy."""
        await self._draw(item, span)
        await self.rate(item, policy)

    async def rate(self, item: Item, policy: Policy) -> None:
        """Rate an item's paths that a checker has not yet judged, where one ends the policy."""
        if self.verifier is not None and reads_verdicts(policy):
            # Read after the wait: other questions count meanwhile.
            rated = await rate_items(self.run, self.task, self.verifier, [item])
            self.progress.rated += rated

    def _owed(self, item: Item, paths: int) -> list[OwedPaths]:
        """Return what an item lacks of its first so many paths."""
        return self.run.owed([item.id], [(self.order.slots[0], paths)])[item.id]

    async def reach(self, item: Item, target: int) -> None:
        """Draw an item up to ``target`` paths."""
        await self._draw_all(item, self._owed(item, target))

    async def _draw_all(self, item: Item, spans: Iterable[OwedPaths], tries: int = 1) -> None:
        """Draw spans concurrently, in requests as large as the engine allows."""
        most = self.engine.capabilities.max_n
        parts = [part for span in spans for part in _split(span, most)]
        await bounded((self._draw(item, part, tries) for part in parts), min(self.limit, len(parts)))

    async def _draw(self, item: Item, span: OwedPaths, tries: int = 1) -> None:
        """Draw one span in one request, then what failed or did not fit."""
        if span.count > self.engine.capabilities.max_n:
            # The server has taught the engine a smaller n since this span was cut.
            await self._draw_all(item, [span], tries)
            return
        seed = path_seed(self.order.sampling.seed, item.id, span.slot, span.start)
        sampling = replace(self.order.sampling, seed=seed)
        try:
            async with self.flight:
                if self.halted() or (item.id, span.slot) in self.refused:
                    return
                drawn = await self.engine.generate(self.task.messages(item, span.slot), sampling, span.count)
                if not drawn:
                    raise EngineError("the engine gave no path and no reason")
        except EngineError as error:
            self._note_failure(span, error)
            if error.transient and tries < self.order.attempts:
                await asyncio.sleep(
                    pause(tries, None, first=2 * self.order.backoff, longest=2 * LONGEST_BACKOFF)
                )
                await self._draw_all(item, [replace(span, attempt=span.attempt + 1)], tries + 1)
        else:
            self.failures_in_row, self.fruitful = 0, True
            drawn = drawn[: span.count]
            await self._keep(item, span, drawn)
            if rest := span.count - len(drawn):
                await self._draw_all(item, [replace(span, start=span.start + len(drawn), count=rest)], tries)

    def _paths(
        self, span: OwedPaths, came: Iterable[Completion | None], error: str | None = None
    ) -> list[Path]:
        """Return the paths of a span, or the errors in their place."""
        item, slot, start = span.item, span.slot, span.start
        seed = path_seed(self.order.sampling.seed, item, slot, start)
        return [
            Path(item, slot, start + place, span.attempt, (seed + place) % SEEDS, done, error)
            for place, done in enumerate(came)
        ]

    def end(self) -> None:
        """Raise EngineError when every request was refused and the run is empty."""
        if self.refused and not self.fruitful:
            raise self._refuses_all(next(iter(self.refused.values())))

    def _refuses_all(self, error: EngineError) -> EngineError:
        return EngineError(
            f"the server refused {len(self.progress.refused)} different questions and answered none, "
            f"the last with: {error}",
            transient=False,
        )

    def _note_failure(self, span: OwedPaths, error: EngineError) -> None:
        if not error.transient and not error.refused and self.progress.done == 0:
            raise error
        self.run.add(self._paths(span, [None] * span.count, str(error)))
        self.progress.failed += span.count
        self.progress.why = str(error)
        if error.refused:
            self._note_refusal(span, error)
            return
        self.failures_in_row += 1
        self.watch(self.progress)
        if self.failures_in_row >= self.breaker:
            raise EngineError(
                f"{self.failures_in_row} requests failed in a row, the last with: {error}; paused, and all "
                "drawn paths are kept: run the same command again when the engine works",
                transient=False,
            )

    def _note_refusal(self, span: OwedPaths, error: EngineError) -> None:
        """Stop asking a refused question; stop the run if none was ever answered."""
        self.refused[span.item, span.slot] = error
        self.progress.refused.setdefault(span.item, str(error))
        self.watch(self.progress)
        if not self.fruitful and len(self.progress.refused) >= REFUSED_QUESTIONS:
            raise self._refuses_all(error)

    async def _keep(self, item: Item, span: OwedPaths, drawn: Sequence[Completion]) -> None:
        """Queue the paths of one request for storage.

        The network has its turn first: what comes meanwhile is kept with it, in one commit.
        """
        billed = [drawn[0], *(replace(done, prompt_tokens=0, cached_tokens=0) for done in drawn[1:])]
        arrival = _Arrival(item, self._paths(span, billed))
        # Counted before anybody has a turn: a budget that this path spends lets nothing more be asked for.
        self._count_paths(billed)
        self.arrived.append(arrival)
        if len(self.arrived) > 1:
            await self.next_keeping.wait()
        else:
            try:
                await asyncio.sleep(0)
            finally:
                self._keep_all()
        if arrival.slow:  # a process that is killed meanwhile has lost no path
            judged = await asyncio.to_thread(arrival.scored_paths, self.task)
            with self.run.committed():
                self._keep_scores(judged)

    def _keep_all(self) -> None:
        """Store all queued paths with the answers that are quick to read, in one commit."""
        arrived, self.arrived = self.arrived, []
        kept, self.next_keeping = self.next_keeping, asyncio.Event()
        judged: list[tuple[Path, ScoredText]] = []
        try:
            for each in arrived:
                judged += [] if each.slow else each.scored_paths(self.task)
        finally:
            with self.run.committed():
                self.run.add([path for each in arrived for path in each.paths])
                self._keep_scores(judged)
            kept.set()
        self.watch(self.progress)

    def _count_paths(self, drawn: Sequence[Completion]) -> None:
        progress = self.progress
        progress.done += len(drawn)
        progress.tokens += sum(done.tokens for done in drawn)
        progress.prompt_tokens += sum(done.prompt_tokens for done in drawn)
        progress.cached_tokens += sum(done.cached_tokens for done in drawn)
        progress.estimated += sum(done.estimated for done in drawn)
        progress.truncated += sum(done.finish == "length" for done in drawn)

    def _keep_scores(self, judged: Sequence[tuple[Path, ScoredText]]) -> None:
        """Store and count extracted answers, with each answer's log-probability."""
        self.run.add_scores(judged, self.task.version)
        told = [
            (path, answer_logprob(path.completion and path.completion.logprobs, one.answer))
            for path, one in judged
        ]
        self.run.add_ratings([(path, value, 0.0) for path, value in told if value is not None], ANSWER)
        self.progress.abstained += sum(score.key is None for _, score in judged)
        self.progress.rules.update(score.rule for _, score in judged)


def _places(span: OwedPaths) -> range:
    return range(span.start, span.start + span.count)


def _split(span: OwedPaths, most: int) -> Iterator[OwedPaths]:
    for start in range(span.start, span.start + span.count, most):
        yield replace(span, start=start, count=min(most, span.start + span.count - start))


def launch_view(
    run: Run, task: Task, item: Item, slot: int, policy: Policy, paths: int | None = None
) -> View:
    """Return the policy's view of an item's first stored paths, up to the first gap, rated where needed."""
    name = confidence_of(policy)
    verdicts = run.ratings(item.id) if reads_verdicts(policy) else None
    keys: list[str | None] = []
    confidence: list[float] = []
    unread = 0
    stored = (path for path in run.kept(item.id) if path.path.slot == slot)
    for index, scored in enumerate(islice(stored, paths)):
        if scored.path.index != index:
            break
        judged = scored.judged or task.judge(item, scored.completion)
        keys.append(judged.key)
        unread += judged.rule == UNREAD
        if verdicts is None:
            confidence.append(logprob_of(scored.completion.logprobs, name))
        else:
            place = (slot, index, scored.path.attempt)
            confidence.append(verdicts.get(place, (float("nan"), 0.0))[0])
    return View(tuple(keys), tuple(confidence), unread=unread)
