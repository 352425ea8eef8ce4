"""Limits on a request before anyone reads it, and the end of a body that nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import cast

import h11
from starlette.responses import Response

from keff.gateway.http.errors import Problem
from keff.gateway.http.exchange import JSON, Receive, Scope, Send
from keff.gateway.http.protocol import CONNECTION, ClientConnection

# Bytes of the headers of a request; of its trailers too.
LARGEST_HEAD = 32 * 1024

# So long an answer waits for the rest of a body that nobody reads. A system that has data for nobody resets
# the connection when it is closed, and the client may lose the answer with it (RFC 9112, 9.6).
LINGER_SECONDS = 0.5

Headers = list[tuple[bytes, bytes]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def response_of(problem: Problem) -> Response:
    """Return the response to a request that ends with a problem."""
    return Response(problem.body(), problem.status, problem.headers, media_type=JSON)


@dataclass(slots=True)
class RequestBounds:
    """ASGI application that refuses doubtful heads, and closes a connection whose body is still coming."""

    app: App

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of a connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        connection: ClientConnection = scope["state"][CONNECTION]
        bounded = BoundedRequest(scope["headers"], receive, send)
        with connection.answering():
            if bounded.refusal is None:
                await self.app(scope, bounded.receive, bounded.send)
            else:
                await response_of(bounded.refusal)(scope, bounded.receive, bounded.send)


class BoundedRequest:
    """Both directions of one request: whether its body has ended, and its answer."""

    def __init__(self, headers: Headers, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        # Who waits for a word before the body has not sent it.
        self._skips = b"expect" not in (names := {name for name, _ in headers})
        self._whole = False
        self.refusal: Problem | None = None
        if {b"content-length", b"transfer-encoding"} <= names:
            line = "send content-length or transfer-encoding, not both"
            self.refusal = Problem(400, f"it is not clear where this request ends: {line}")
        elif sum(len(name) + len(value) for name, value in headers) > LARGEST_HEAD:
            self.refusal = Problem(431, f"the headers of a request may have {LARGEST_HEAD} bytes")

    async def receive(self) -> MutableMapping[str, object]:
        """Return the next part of the body."""
        message = await self._receive()
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: MutableMapping[str, object]) -> None:
        """Send a part of the answer; its head once the body has ended, or is late."""
        if message["type"] == "http.response.start":
            await self._skip_body()
            if self.refusal is not None or not self._whole:
                headers = cast("Headers", message["headers"])
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
        with contextlib.suppress(h11.LocalProtocolError):  # uvicorn has refused a faulty body meanwhile
            await self._send(message)

    async def _skip_body(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while self._skips and not self._whole:
                    await self.receive()
