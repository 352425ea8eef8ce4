"""Several cells on one engine, which starts once; a cell begins when the one before leaves capacity.

Without that an engine would load its model for each cell, and stand idle while the last long paths of a cell
are drawn and the next run folder is opened.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from keff.engine import Capabilities, Engine
from keff.errors import EngineError, KeffError
from keff.policy import cancel_running
from keff.records import Completion, Message, Sampling
from keff.sampling.job import Job, draw
from keff.sampling.orders import Progress, advised

# Run folders open at once, however small they are: each holds a database and a thread.
OPEN_CELLS = 64

# Cells in a row that an engine failed without one path between them: then the engine is given up.
DEAD_AFTER = 3


@dataclass(slots=True)
class JobResult:
    """Result of one job: its counts, or why it failed."""

    progress: Progress | None = None
    error: KeffError | None = None


# Is told of a job (its place) and its counts so far.
OnJobProgress = Callable[[int, Progress], None]


@dataclass(slots=True)
class Seats:
    """Semaphore over an engine's capacity, with priority for earlier jobs.

    ``waiting`` says how many ask for a seat. One that wants more than there are waits for all.
    """

    capacity: int
    busy: int = 0
    _queue: list[tuple[int, int, int, asyncio.Future[None]]] = field(
        default_factory=list[tuple[int, int, int, "asyncio.Future[None]"]]
    )
    _serial: count[int] = field(default_factory=count)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def waiting(self) -> int:
        """Return the seats requested and not yet granted."""
        return sum(cost for _, _, cost, seat in self._queue if not seat.done())

    async def take(self, rank: int, cost: int) -> None:
        """Acquire ``cost`` seats; lower ranks come first."""
        seat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (rank, next(self._serial), cost, seat))
        self._grant()
        try:
            await seat
        except asyncio.CancelledError:
            if seat.done() and not seat.cancelled():
                self.leave(cost)
            raise

    def leave(self, cost: int) -> None:
        """Release seats."""
        self.busy -= cost
        self._grant()

    def _grant(self) -> None:
        while self._queue:
            _, _, cost, seat = self._queue[0]
            if seat.done():  # cancelled while it waited
                heapq.heappop(self._queue)
            elif self.busy and self.busy + cost > self.capacity:
                break
            else:
                heapq.heappop(self._queue)
                self.busy += cost
                seat.set_result(None)
        self._changed.set()

    async def few_wait(self) -> None:
        """Wait until fewer seats are requested than exist, so that the next job can begin."""
        while self.waiting >= self.capacity:
            self._changed.clear()
            await self._changed.wait()


class SharedEngine:
    """An engine as seen by one job: requests wait for seats; start and close do nothing."""

    def __init__(self, engine: Engine, seats: Seats, rank: int) -> None:
        self.name, self.local, self.needs_gpu = engine.name, engine.local, engine.needs_gpu
        self._engine, self._seats, self._rank = engine, seats, rank
        self.asked = asyncio.Event()

    @property
    def capabilities(self) -> Capabilities:
        """The engine's capabilities, which may change while a cluster runs."""
        return self._engine.capabilities

    async def start(self) -> None:
        """Do nothing: the engine is running."""

    def identity(self) -> dict[str, object]:
        """Return the engine's identity."""
        return self._engine.identity()

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        """Draw n paths once seats are free."""
        self.asked.set()
        cost = n if self.capabilities.by_paths else 1
        await self._seats.take(self._rank, cost)
        try:
            return await self._engine.generate(messages, sampling, n)
        finally:
            self._seats.leave(cost)

    async def close(self) -> None:
        """Do nothing: other jobs may still draw."""


async def draw_all(
    engine: Engine, jobs: Sequence[Job], watch: OnJobProgress | None = None
) -> list[JobResult]:
    """Start the engine, draw all jobs, close it; a failing job does not stop the others.

    The engines of the jobs are replaced by ``engine``. Returns one outcome per job, in order. When the engine
    cannot start, or fails several jobs in a row without one path, the jobs that are left carry that error.
    """
    outcomes = [JobResult() for _ in jobs]
    try:
        await engine.start()
        await _Pool(engine, jobs, outcomes, watch).run()
    except KeffError as error:
        for outcome in outcomes:
            if outcome.progress is None and outcome.error is None:
                outcome.error = error
    finally:
        await engine.close()
    return outcomes


class _Pool:
    """State of one ``draw_all`` call while the engine runs."""

    def __init__(
        self, engine: Engine, jobs: Sequence[Job], outcomes: list[JobResult], watch: OnJobProgress | None
    ) -> None:
        self._engine, self._jobs, self._outcomes, self._watch = engine, jobs, outcomes, watch
        self._seats = Seats(max(_seats_of(engine.capabilities, job) for job in jobs))
        self._room = asyncio.Semaphore(OPEN_CELLS)
        self._failed_in_row = 0
        self._dead: EngineError | None = None

    async def run(self) -> None:
        """Start jobs one after the other, each as soon as there is capacity."""
        running: set[asyncio.Task[None]] = set()
        try:
            for place, job in enumerate(self._jobs):
                await self._room.acquire()
                await self._seats.few_wait()
                if self._dead:
                    break
                seated = SharedEngine(self._engine, self._seats, place)
                task = asyncio.ensure_future(self._draw(place, replace(job, engine=seated), seated))
                running.add(task)
                task.add_done_callback(running.discard)
                await seated.asked.wait()
            await asyncio.gather(*running)
        finally:
            await cancel_running(running)
        if self._dead:
            raise self._dead

    async def _draw(self, place: int, job: Job, seated: SharedEngine) -> None:
        outcome = self._outcomes[place]
        try:
            outcome.progress = await draw(job, self._progress_of(place))
            self._failed_in_row = 0
        except KeffError as error:
            outcome.error = error
            if isinstance(error, EngineError):
                self._count_failure(error)
        finally:
            seated.asked.set()
            self._room.release()

    def _progress_of(self, place: int) -> Callable[[Progress], None]:
        drawn = 0

        def tell(progress: Progress) -> None:
            nonlocal drawn
            if progress.done > drawn:
                drawn = progress.done
                self._failed_in_row = 0
            if self._watch:
                self._watch(place, progress)

        return tell

    def _count_failure(self, error: EngineError) -> None:
        self._failed_in_row += 1
        if self._failed_in_row >= DEAD_AFTER:
            self._dead = EngineError(f"not drawn: the engine failed {DEAD_AFTER} cells in a row: {error}")


def _seats_of(can: Capabilities, job: Job) -> int:
    """Return a job's seats: its requests, or its paths where the engine counts those."""
    if job.order.concurrency:
        return job.order.concurrency * (can.max_n if can.by_paths else 1)
    return can.parallel * can.max_n if can.by_paths else advised(can, job.order)
