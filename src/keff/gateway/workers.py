"""Worker processes of ``keff serve --workers N``, whose parent process keeps the traffic ledger.

A worker sends batches of what it saw, and asks for the pages that this process shows. Notes of all workers
are entered in order of time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import multiprocessing
import pickle
import signal
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

import numpy as np
import uvicorn

from keff.errors import RunError
from keff.gateway.deployment import Deployment, ledger_of, service_of, summary
from keff.gateway.server import listeners, log_to_stderr, moved, run, shown_url, steady_heap, warn
from keff.gateway.service import Service
from keff.gateway.traffic.ledger import LedgerEntry, OwnLedger, RemoteLedger
from keff.gateway.traffic.live import Numbers, PageView, States, Views
from keff.gateway.traffic.metrics import Metrics, series
from keff.gateway.upstream.answer import Address

log = logging.getLogger("keff.gateway")

# Between two batches; so old at most is what another process shows of this one.
SEND_SECONDS = 0.2
# Notes are held so long, for those of other workers that came before them.
ORDER_SECONDS = 0.5
# Seconds that a page may wait for the process that keeps the counts.
SHOW_SECONDS = 60.0

# A worker that ends within so many seconds of its start, so often in a row, will do so again: all stop.
SHORT_LIFE, MOST_SHORT_LIVES = 10.0, 3
# Requests in flight may end; orchestrators kill after 30 s.
LAST_SECONDS = 10


class Batch(NamedTuple):
    """Records and metrics of a worker since its last batch."""

    notes: list[LedgerEntry]
    metrics: Metrics
    in_flight: int
    states: States


class ShowPage(NamedTuple):
    """A worker's numbered request for a page."""

    number: int
    path: str
    accept: str


class ShownPage(NamedTuple):
    """The reply to ``ShowPage`` of the same number."""

    number: int
    view: PageView


class FewShadows(NamedTuple):
    """Message: shadow requests are needed for the profile only."""

    few: bool


@dataclass(slots=True)
class Link:
    """One end of the pipe between two processes of a gateway."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    @classmethod
    async def of(cls, end: socket.socket) -> Link:
        """Return the link over one end of a socket pair."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: object) -> None:
        """Send one message; dropped if the other end is closed."""
        if not self._writer.is_closing():
            raw = pickle.dumps(message)
            self._writer.write(len(raw).to_bytes(8) + raw)

    async def messages(self) -> AsyncIterator[Any]:
        """Yield messages until the other end closes."""
        while True:
            try:
                size = int.from_bytes(await self._reader.readexactly(8))
                raw = await self._reader.readexactly(size)
            except (OSError, EOFError):
                return
            yield pickle.loads(raw)

    async def close(self) -> None:
        """Flush, and close."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class WorkerEnd:
    """A worker's end of the pipe: sends batches, and requests pages from the parent."""

    # Opened by ``at_work``, which belongs to the loop that serves.
    _link: Link

    def __init__(self, end: socket.socket, service: Service, ledger: RemoteLedger) -> None:
        self._end, self._service, self._ledger = end, service, ledger
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[PageView]] = {}

    @contextlib.asynccontextmanager
    async def at_work(self, server: uvicorn.Server) -> AsyncGenerator[None]:
        """Talk to the parent while ``server`` serves; stop the server if the parent is gone."""
        self._link = await Link.of(self._end)
        tasks = [asyncio.create_task(work) for work in (self._sending(server), self._listening(server))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            if server.started:
                self._send()
            await self._link.close()

    async def show(self, path: str, accept: str) -> PageView:
        """Return a page from the parent process; raises OSError when it is gone."""
        self._send()
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._link.send(ShowPage(number, path, accept))
            async with asyncio.timeout(SHOW_SECONDS):
                return await answer
        finally:
            del self._asked[number]

    def _send(self) -> None:
        notes, self._ledger.notes = self._ledger.notes, []
        service = self._service
        self._link.send(Batch(notes, service.metrics, service.in_flight, service.states()))

    async def _sending(self, server: uvicorn.Server) -> None:
        while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        while True:
            self._send()
            await asyncio.sleep(SEND_SECONDS)

    async def _listening(self, server: uvicorn.Server) -> None:
        async for message in self._link.messages():
            if isinstance(message, FewShadows):
                self._ledger.few_shadows = message.few
            elif (answer := self._asked.get(message.number)) is not None and not answer.done():
                answer.set_result(message.view)
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the process that keeps the ledger is gone"))
        server.should_exit = True


def work(deployment: Deployment, listener: socket.socket, end: socket.socket) -> None:
    """Serve one worker's share in this process, until told to stop or orphaned."""
    steady_heap()
    # A terminal sends its interrupt to all; the process that keeps the ledger passes it on, once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log_to_stderr(deployment.options.quiet)
    ledger = RemoteLedger()
    service = service_of(deployment, np.random.default_rng(), ledger)
    worker = WorkerEnd(end, service, ledger)
    run(deployment, service, listener, worker.show, around=worker.at_work)


class WorkerLedgers:
    """Traffic ledger of all workers, with each worker's latest batch and pipe."""

    def __init__(self, ledger: OwnLedger, workers: int) -> None:
        self.ledger = ledger
        self.views = Views(ledger, self._counted, self._joined_states)
        self.all_ready = asyncio.Event()
        self._workers = workers
        self._waiting: list[LedgerEntry] = []
        self._links: dict[int, Link] = {}
        self._latest: dict[int, Batch] = {}
        self._shown: set[asyncio.Task[None]] = set()

    async def serve(self, worker: int, link: Link) -> None:
        """Handle a worker's messages until it disconnects; ``worker`` is its unique number."""
        self._links[worker] = link
        link.send(FewShadows(self.ledger.few_shadows))
        async for message in link.messages():
            if isinstance(message, Batch):
                self._waiting += message.notes
                self._latest[worker] = message
                # A worker's first batch says that it serves.
                if len(self._latest) >= self._workers:
                    self.all_ready.set()
            else:
                task = asyncio.create_task(self._show(link, message))
                self._shown.add(task)
                task.add_done_callback(self._shown.discard)
        del self._links[worker]
        if worker in self._latest:
            # What it counted stays counted.
            self._latest[worker] = self._latest[worker]._replace(in_flight=0, states={})
        await link.close()

    async def _show(self, link: Link, asked: ShowPage) -> None:
        self.enter(float("inf"))
        link.send(ShownPage(asked.number, await self.views.show(asked.path, asked.accept)))

    def enter(self, before: float) -> None:
        """Enter the workers' records up to a time, in order of time."""
        due = sorted((note for note in self._waiting if note.at < before), key=lambda note: note.at)
        self._waiting = [note for note in self._waiting if note.at >= before]
        few = self.ledger.few_shadows
        for note in due:
            self.ledger.take(note)
        if self.ledger.few_shadows != few:
            for link in self._links.values():
                link.send(FewShadows(self.ledger.few_shadows))

    async def entering(self) -> None:
        """Enter new records as soon as their order is certain."""
        while True:
            await asyncio.sleep(ORDER_SECONDS)
            self.enter(time.time() - ORDER_SECONDS)

    def _joined_states(self) -> States:
        """Return the state of each branch and server; down if any worker finds it down."""
        told: dict[str, dict[str, str]] = {}
        for batch in self._latest.values():
            for kind, states in batch.states.items():
                known = told.setdefault(kind, {})
                known |= {name: state for name, state in states.items() if known.get(name, "up") == "up"}
        return told

    def _counted(self) -> Numbers:
        total = Metrics()
        for batch in self._latest.values():
            total.add(batch.metrics)
        flying = sum(batch.in_flight for batch in self._latest.values())
        return total, {
            series("keff_requests_in_flight"): float(flying),
            series("keff_workers"): float(len(self._links)),
        }


@dataclass(slots=True)
class _Place:
    """One worker slot: its socket, and its current process."""

    number: int
    listener: socket.socket
    process: SpawnProcess | None = None
    born: float = 0.0
    short_lives: int = 0


def serve_with_workers(deployment: Deployment, workers: int) -> None:
    """Serve until SIGTERM or SIGINT, then let requests in flight end in all workers.

    Raises RunError when the port is taken, or when workers cannot start.
    """
    steady_heap()
    ledger = ledger_of(deployment)
    # Made once here, so that whatever is wrong is said once, and before any worker starts.
    options = deployment.options.model_copy(update={"vote_log": None, "otlp": None})
    service = service_of(replace(deployment, options=options), np.random.default_rng(), ledger)
    warn(deployment)
    with listeners(deployment.host, deployment.port, workers) as listening:
        told = {"event": "listening", "url": shown_url(listening[0]), "workers": workers}
        places = [_Place(number, listener) for number, listener in enumerate(listening)]
        joint = WorkerLedgers(ledger, workers)
        supervisor = WorkerSupervisor(_worker_deployment(deployment, workers), joint, places)
        asyncio.run(supervisor.run({**told, **summary(service)}))


def _worker_deployment(given: Deployment, workers: int) -> Deployment:
    """Return one worker's deployment: a share of the upstream connections, and no state file."""

    def part(address: Address | None) -> Address | None:
        return address and replace(address, connections=-(-address.connections // workers))

    return replace(given, state=None, address=part(given.address), fallback=part(given.fallback))


@dataclass
class WorkerSupervisor:
    """Starts, watches and stops the workers; ``share`` is each one's deployment."""

    share: Deployment
    joint: WorkerLedgers
    places: list[_Place]
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: str | None = None
    _started: int = 0

    async def run(self, told: dict[str, object]) -> None:
        """Serve until told to stop; logs ``told`` once all workers do; raises RunError if they cannot."""
        loop, joint = asyncio.get_running_loop(), self.joint
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        try:
            beside = (joint.entering, *joint.views.beside, partial(self._tell, told))
            tasks = [asyncio.create_task(work()) for work in beside]
            await asyncio.gather(*map(self._keep_running, self.places))
            for task in tasks:
                task.cancel()
        finally:
            joint.enter(float("inf"))
            await joint.ledger.close()
        if self._failed is not None:
            raise RunError(self._failed)

    async def _tell(self, told: dict[str, object]) -> None:
        await self.joint.all_ready.wait()
        log.info(json.dumps(told))

    def _stop(self) -> None:
        """Tell all workers to drain; a second time, to answer the rest with 503."""
        self._stopping.set()
        for place in self.places:
            if place.process is not None and place.process.is_alive():
                place.process.terminate()
                # Each worker closes its own: nothing comes any more that nobody would take.
                place.listener.close()

    async def _keep_running(self, place: _Place) -> None:
        """Restart the worker of one slot until the gateway stops."""
        while not self._stopping.is_set():
            code = await self._one_life(place)
            if self._stopping.is_set():
                return
            place.short_lives = place.short_lives + 1 if time.monotonic() - place.born < SHORT_LIFE else 0
            log.warning(json.dumps({"event": "worker ended", "worker": place.number, "code": code}))
            if place.short_lives >= MOST_SHORT_LIVES:
                self._failed = "a worker ended again and again right after its start: see its lines above"
                self._stop()

    async def _one_life(self, place: _Place) -> int | None:
        mine, theirs = socket.socketpair()
        self._started += 1
        number, given = self._started, (self.share, place.listener, theirs)
        process = place.process = multiprocessing.get_context("spawn").Process(target=work, args=given)
        place.born = time.monotonic()
        await asyncio.to_thread(process.start)
        theirs.close()
        if self._stopping.is_set():
            process.terminate()
        await self.joint.serve(number, await Link.of(mine))
        # It hung up, or died: its last batch is in. What does not end now is ended.
        if not self._stopping.is_set():
            place.listener = moved(place.listener)
        await asyncio.to_thread(process.join, LAST_SECONDS)
        if process.is_alive():
            process.kill()
            await asyncio.to_thread(process.join)
        return process.exitcode
