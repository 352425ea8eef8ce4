"""One request on its connection: bytes sent so far, and detection of a client that left."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from keff.gateway.billing import RequestSpending
from keff.gateway.http.errors import ClientDisconnected, Problem
from keff.gateway.http.protocol import ClientConnection
from keff.gateway.keys import Fuse
from keff.gateway.upstream.answer import UpstreamError
from keff.gateway.vote.job import RequestJob

if TYPE_CHECKING:
    from keff.gateway.traffic.tracing import TraceSpan

# Where a connection scope has the fuse of the key that was shown.
FUSE = "keff.fuse"

JSON = "application/json"

# What a header may be called, and what it cannot hold (RFC 9110, 5.1 and 5.5).
_NAME, _CONTROL = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+"), re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, object]]]
Send = Callable[[MutableMapping[str, object]], Awaitable[None]]


@dataclass(slots=True)
class Exchange:
    """One request on its connection: what was sent so far, and its job once known.

    ``fuse`` is that of the caller's key; ``spent`` is what a request drew that is passed through.
    """

    name: str
    headers: dict[bytes, bytes]
    receive: Receive
    send: Send
    connection: ClientConnection
    fuse: Fuse | None = None
    spent: RequestSpending = field(default_factory=RequestSpending)
    status: int = 0
    job: RequestJob | None = None
    passed: bool = False
    code: str | None = None
    reason: str | None = None
    upstream: str = ""
    not_voted: str | None = None
    span: TraceSpan | None = None

    async def begin(self, status: int, kind: str, more: Mapping[str, str], size: int | None = None) -> None:
        """Send the head of the response."""
        self.status = status
        told = {"content-type": kind, "x-request-id": self.name, **more}
        if size is not None:
            told["content-length"] = str(size)
        if self.not_voted is not None:
            told["x-keff-not-voted"] = self.not_voted
        if self.job is not None:
            told |= self.job.reply_headers()
        # A name in a plan may be in any script; a header is Latin-1. What the upstream told may be anything.
        head = [
            (name.encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in told.items()
            if _NAME.fullmatch(name) and not _CONTROL.search(value)
        ]
        await self.send({"type": "http.response.start", "status": status, "headers": head})

    async def send_response(self, status: int, body: bytes, more: Mapping[str, str]) -> None:
        """Send a whole response."""
        await self.begin(status, JSON, more, len(body))
        await self.part(body, last=True)

    def note_failure(self, error: Problem | UpstreamError) -> Problem:
        """Record why a request failed, for the operator; returns the client's error."""
        problem = error if isinstance(error, Problem) else error.problem()
        self.code, self.reason = problem.code, str(error)[:200]
        if isinstance(error, UpstreamError):
            self.upstream = error.server
        return problem

    @property
    def failed(self) -> bool:
        """Whether the request failed by the upstream or the gateway, not by its client."""
        return self.reason is not None and (bool(self.upstream) or self.status == 200 or self.status >= 500)

    async def fail(self, error: Problem | UpstreamError) -> None:
        """Send an error; once a response has begun, close the connection instead."""
        problem = self.note_failure(error)
        if not self.status:
            await self.send_response(problem.status, problem.body(), problem.headers)

    async def part(self, body: bytes, *, last: bool = False) -> None:
        """Send a piece of the body."""
        await self.send({"type": "http.response.body", "body": body, "more_body": not last})


async def cancel_on_disconnect(exchange: Exchange, work: Coroutine[object, object, T]) -> T:
    """Await ``work`` while the client is connected; else cancel it, and wait for its end.

    Then raises ClientDisconnected.
    """
    me, connection = cast("asyncio.Task[object]", asyncio.current_task()), exchange.connection
    if connection.lost:
        work.close()
        raise ClientDisconnected
    connection.work = me
    try:
        return await work
    except asyncio.CancelledError:
        if not connection.lost or me.uncancel():
            raise
        raise ClientDisconnected from None
    finally:
        if connection.work is me:
            connection.work = None
