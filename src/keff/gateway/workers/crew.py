"""``keff serve --workers N``: N processes on one port, and this one, which keeps their books.

Their notes are entered in order of time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import multiprocessing
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.context import SpawnProcess

import numpy as np

from keff.errors import RunError
from keff.gateway.deployment import Deployment, books_of, kept_of, policy_of, service_of, summary
from keff.gateway.http.app import told_hourly
from keff.gateway.http.security import check_exposure
from keff.gateway.server import listeners, log_to_stderr, moved, run, shown_url, steady_heap, warn
from keff.gateway.traffic.ledger import OwnBooks
from keff.gateway.traffic.live import Numbers, States, TrafficTerms, Views
from keff.gateway.traffic.metrics import Labels, Metrics, series
from keff.gateway.upstream.answer import Address
from keff.gateway.workers.worker import NOTES, Link, Note, RemoteBooks, Staff, enter
from keff.narrow import fields
from keff.protocol.values import Object

# Notes are held so long, for those of other workers that came before them.
ORDER_SECONDS = 0.5


class WorkerSupervisor:
    """The books, what each worker counted, and the lines to the workers."""

    def __init__(self, books: OwnBooks, kept: TrafficTerms, workers: int) -> None:
        self.books = books
        self.views = Views(books, kept, self._counted, self._joined)
        self._states: dict[int, Object] = {}
        self.all_ready = asyncio.Event()
        self._missing = workers
        self._waiting: list[Note] = []
        self._links: dict[int, Link] = {}
        self._metrics: dict[int, Mapping[str, object]] = {}
        self._flying: dict[int, float] = {}
        self._shown: set[asyncio.Task[None]] = set()

    async def serve(self, worker: int, link: Link) -> None:
        """Take what a worker says until it hangs up; ``worker`` is a number that no other ever has."""
        self._links[worker] = link
        link.send({"few_shadows": self.books.few_shadows})
        async for message in link.messages():
            if "ready" in message:
                self._missing -= 1
                if self._missing <= 0:
                    self.all_ready.set()
            elif "show" in message:
                task = asyncio.create_task(self._show(link, message))
                self._shown.add(task)
                task.add_done_callback(self._shown.discard)
            else:
                self._take(worker, message)
        del self._links[worker]
        self._flying.pop(worker, None)
        self._states.pop(worker, None)
        await link.close()

    def _take(self, worker: int, message: Object) -> None:
        self._waiting += NOTES.validate_python(message["notes"])
        self._metrics[worker] = fields(message.get("metrics"))
        self._states[worker] = fields(message.get("states"))
        self._flying[worker] = float(str(message.get("in_flight")))

    async def _show(self, link: Link, message: Object) -> None:
        self.enter(float("inf"))
        view = await self.views.show(str(message.get("path")), str(message.get("accept")))
        body = base64.b64encode(view.body).decode()
        link.send({"shown": message["show"], "status": view.status, "kind": view.kind, "body": body})

    def enter(self, before: float) -> None:
        """Write the notes of before that time into the books, in order of time."""
        due = sorted((note for note in self._waiting if note.at < before), key=lambda note: note.at)
        self._waiting = [note for note in self._waiting if note.at >= before]
        few = self.books.few_shadows
        for note in due:
            enter(note, self.books)
        if self.books.few_shadows != few:
            for link in self._links.values():
                link.send({"few_shadows": self.books.few_shadows})

    def _joined(self) -> States:
        """Return the state of each branch and server; one that a worker finds down is said to be down."""
        told: dict[str, dict[str, str]] = {}
        for worker in self._states.values():
            for kind, states in worker.items():
                known = told.setdefault(kind, {})
                for name, state in fields(states).items():
                    known[name] = str(state) if known.get(name, "up") == "up" else known[name]
        return told

    def _counted(self) -> Numbers:
        total = Metrics()
        for snapshot in self._metrics.values():
            total.add(snapshot)
        now: dict[tuple[str, Labels], float] = {
            series("keff_requests_in_flight"): sum(self._flying.values()),
            series("keff_workers"): float(len(self._links)),
        }
        return total, now


log = logging.getLogger("keff.gateway")

# A worker that ends within so many seconds of its start, three times in a row, ends the gateway.
SHORT_LIFE = 10.0

# A worker that dies so often within seconds will die again: all stop, and say so.
MOST_SHORT_LIVES = 3
# Requests in flight may end; orchestrators kill after 30 s.
LAST_SECONDS = 10


@dataclass(slots=True)
class _Hand:
    """One worker's place: its socket, and the process that has it now."""

    place: int
    listener: socket.socket
    process: SpawnProcess | None = None
    born: float = 0.0
    short_lives: int = 0


def serve_with_workers(deployment: Deployment, workers: int, quiet: bool) -> None:
    """Serve until SIGTERM or SIGINT, then let requests in flight end in all workers.

    Raises RunError when the port is taken, or when workers cannot start.
    """
    check_exposure(deployment.host, deployment.options)
    steady_heap()
    books = books_of(deployment, policy_of(deployment))
    # Made once here, so that whatever is wrong is said once, and before any worker starts.
    checked = replace(deployment, vote_log=None, otlp=None)
    service = service_of(checked, np.random.default_rng(), books)
    warn(deployment)
    with listeners(deployment.host, deployment.port, workers) as listening:
        told = {"event": "listening", "url": shown_url(listening[0]), "workers": workers}
        crew = _Crew(deployment, WorkerSupervisor(books, kept_of(service), workers), listening, quiet)
        asyncio.run(crew.run({**told, **summary(service)}))


class _Crew:
    """The workers, started, watched and stopped."""

    def __init__(
        self,
        deployment: Deployment,
        supervisor: WorkerSupervisor,
        listeners: list[socket.socket],
        quiet: bool,
    ) -> None:
        self._deployment, self._supervisor, self._quiet = deployment, supervisor, quiet
        self._hands = [_Hand(place, listener) for place, listener in enumerate(listeners)]
        self._stopping = asyncio.Event()
        self._failed: str | None = None
        self._started = 0

    async def run(self, told: dict[str, object]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        try:
            hands = [asyncio.create_task(self._keep(hand)) for hand in self._hands]
            entering = asyncio.create_task(self._enter())
            hourly = asyncio.create_task(told_hourly(self._supervisor.views))
            turns = asyncio.create_task(self._supervisor.views.turns())
            telling = asyncio.create_task(self._tell(told))
            await asyncio.gather(*hands)
            for task in (entering, hourly, turns, telling):
                task.cancel()
        finally:
            self._supervisor.enter(float("inf"))
            await self._supervisor.books.close()
        if self._failed is not None:
            raise RunError(self._failed)

    async def _tell(self, told: dict[str, object]) -> None:
        await self._supervisor.all_ready.wait()
        log.info(json.dumps(told))

    async def _enter(self) -> None:
        while True:
            await asyncio.sleep(ORDER_SECONDS)
            self._supervisor.enter(time.time() - ORDER_SECONDS)

    def _stop(self) -> None:
        """Tell all workers to drain; a second signal makes them answer what is left with 503."""
        self._stopping.set()
        for hand in self._hands:
            if hand.process is not None and hand.process.is_alive():
                hand.process.terminate()
                # Each worker closes its own: nothing comes any more that nobody would take.
                hand.listener.close()

    async def _keep(self, hand: _Hand) -> None:
        """Keep one place filled until the gateway stops."""
        while not self._stopping.is_set():
            code = await self._one_life(hand)
            if self._stopping.is_set():
                return
            hand.short_lives = hand.short_lives + 1 if time.monotonic() - hand.born < SHORT_LIFE else 0
            log.warning(json.dumps({"event": "worker ended", "worker": hand.place, "code": code}))
            if hand.short_lives >= MOST_SHORT_LIVES:
                self._failed = "a worker ended again and again right after its start: see its lines above"
                self._stop()

    async def _one_life(self, hand: _Hand) -> int | None:
        mine, theirs = socket.socketpair()
        self._started += 1
        number = self._started
        context = multiprocessing.get_context("spawn")
        target = (self._share(), hand.listener, theirs, self._quiet)
        process = hand.process = context.Process(target=work, args=target, daemon=False)
        hand.born = time.monotonic()
        await asyncio.to_thread(process.start)
        theirs.close()
        if self._stopping.is_set():
            process.terminate()
        await self._supervisor.serve(number, await Link.of(mine))
        # It hung up, or died: its last batch is in. What does not end now is ended.
        if not self._stopping.is_set():
            hand.listener = moved(hand.listener)
        await asyncio.to_thread(process.join, LAST_SECONDS)
        if process.is_alive():
            process.kill()
            await asyncio.to_thread(process.join)
        return process.exitcode

    def _share(self) -> Deployment:
        """Return what one worker serves: its share of the upstream connections, and no state of its own."""
        given = self._deployment
        address, fallback = (_part(each, len(self._hands)) for each in (given.address, given.fallback))
        return replace(given, state=None, address=address, fallback=fallback)


def _part(address: Address | None, workers: int) -> Address | None:
    return address and replace(address, connections=-(-address.connections // workers))


def work(deployment: Deployment, listener: socket.socket, end: socket.socket, quiet: bool) -> None:
    """Serve one worker's share, in a process of its own, until told to stop or left alone."""
    steady_heap()
    # A terminal sends its interrupt to all; the process that keeps the books passes it on, once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log_to_stderr(quiet)
    books = RemoteBooks()
    service = service_of(deployment, np.random.default_rng(), books)

    staff = Staff(end, service, books)
    run(deployment, service, staff, listener, staff.at_work)
