"""The process that keeps the books of several workers: their notes in order of time, and their pages."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping

from keff.gateway.traffic.ledger import OwnBooks
from keff.gateway.traffic.live import Numbers, States, TrafficTerms, Views
from keff.gateway.traffic.metrics import Labels, Metrics, series
from keff.gateway.workers.link import Link, Note, enter, unpacked
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
        self._waiting += unpacked(message.get("notes"))
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
