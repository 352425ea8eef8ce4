"""One of several processes on a port, and what it says to the one that keeps the books: JSON lines."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import uvicorn
from pydantic import TypeAdapter

from keff.gateway.service import Service
from keff.gateway.traffic.ledger import Voted, VoteLedger, redacted
from keff.gateway.traffic.live import PageView
from keff.gateway.traffic.savings import Spent
from keff.narrow import fields
from keff.protocol.values import Object, decoded

LONGEST_LINE = 64 * 2**20


class Answered(NamedTuple):
    """How long a reply took and what it cost."""

    stop: str
    spent: Spent
    at: float


class DrawnOn(NamedTuple):
    """All votes of a regular request that was drawn on after its reply."""

    keys: tuple[str | None, ...]
    at: float


Note = Voted | Answered | DrawnOn


class Link:
    """One end of the line between two processes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, end: socket.socket) -> Link:
        """Return the link over one end of a socket pair."""
        return cls(*await asyncio.open_unix_connection(sock=end, limit=LONGEST_LINE))

    def send(self, message: Object) -> None:
        """Send one message; what the other end no longer takes is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def messages(self) -> AsyncIterator[Object]:
        """Yield what comes until the other end closes."""
        while True:
            try:
                line = await self._reader.readline()
            except (OSError, ValueError):
                return
            if not line.endswith(b"\n"):
                return
            yield fields(decoded(line))

    async def close(self) -> None:
        """Send what is left, and close."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return


NOTES: TypeAdapter[list[Note]] = TypeAdapter(list[Note])


def enter(note: Note, books: VoteLedger) -> None:
    """Write a note down."""
    if isinstance(note, Voted):
        books.voted(note)
    elif isinstance(note, Answered):
        books.answered(note.stop, note.spent)
    else:
        books.drawn_on(note.keys)


# Between two batches; so old at most is what another process shows of this one.
SEND_SECONDS = 0.2

# Seconds that a page may wait for the process that keeps the counts.
SHOW_SECONDS = 60.0


class RemoteBooks:
    """Books that are kept by another process: notes are gathered, without answers, and sent in batches."""

    def __init__(self) -> None:
        self.few_shadows = False
        self.notes: list[Note] = []

    def voted(self, note: Voted) -> None:
        """Take one request that was answered by a vote."""
        self.notes.append(replace(note, keys=tuple(redacted(note.keys))))

    def answered(self, stop: str, spent: Spent) -> None:
        """Take how long a reply took and what it cost."""
        self.notes.append(Answered(stop, spent, time.time()))

    def drawn_on(self, keys: Sequence[str | None]) -> None:
        """Take all votes of a regular request that was drawn on after its reply."""
        self.notes.append(DrawnOn(tuple(redacted(keys)), time.time()))

    async def close(self) -> None:
        """Leave the saving to the process that keeps the books."""


class Staff:
    """The worker's end of the line: sends batches, and asks for the pages that the other process shows."""

    def __init__(self, end: socket.socket, service: Service, books: RemoteBooks) -> None:
        self._end, self._service, self._books = end, service, books
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[PageView]] = {}
        self._line: Link | None = None

    @property
    def _link(self) -> Link:
        assert self._line is not None, "at_work() comes first"
        return self._line

    @contextlib.asynccontextmanager
    async def at_work(self, server: uvicorn.Server) -> AsyncGenerator[None]:
        """Talk to the process that keeps the books while ``server`` serves; without it, it stops."""
        self._line = await Link.of(self._end)
        tasks = [asyncio.create_task(work) for work in (self._sending(server), self._listening(server))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            self.send()
            await self._link.close()

    async def show(self, path: str, accept: str) -> PageView:
        """Return a page of the process that keeps the books; raises OSError when it is gone."""
        self.send()
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self._link.send({"show": number, "path": path, "accept": accept})
            async with asyncio.timeout(SHOW_SECONDS):
                return await answer
        finally:
            del self._asked[number]

    async def state(self) -> Object:
        """Return nothing: the hourly line is the other process's."""
        return {}

    async def turns(self) -> None:
        """Leave the sharing to the process that keeps the books."""

    def send(self) -> None:
        """Send what came since the last batch."""
        notes, self._books.notes = self._books.notes, []
        self._link.send(
            {
                "notes": NOTES.dump_python(notes, mode="json"),
                "metrics": self._service.metrics.snapshot(),
                "in_flight": self._service.in_flight,
                "states": self._service.states(),
            }
        )

    async def _sending(self, server: uvicorn.Server) -> None:
        while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        self._link.send({"ready": True})
        while True:
            await asyncio.sleep(SEND_SECONDS)
            self.send()

    async def _listening(self, server: uvicorn.Server) -> None:
        async for message in self._link.messages():
            if "few_shadows" in message:
                self._books.few_shadows = bool(message["few_shadows"])
            else:
                self._shown(message)
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the process that keeps the books is gone"))
        server.should_exit = True

    def _shown(self, message: Object) -> None:
        answer = self._asked.get(int(str(message.get("shown"))))
        if answer is not None and not answer.done():
            body = base64.b64decode(str(message["body"]))
            answer.set_result(PageView(int(str(message["status"])), str(message["kind"]), body))
