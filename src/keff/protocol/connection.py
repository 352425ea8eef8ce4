"""HTTP/1.1 client connection, on which one call follows another.

Why not a client library: a vote makes three to eight calls for one request, so their processor time is most
of a gateway's. A library spends .2 ms and more on each (aiohttp: sessions, cookies, redirects, traces, a task
per body); here httptools, the parser of uvicorn, reads the bytes and next to nothing else is done, in a fifth
of that (``python -m benchmarks.gateway.gateway``).
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, Callable
from typing import cast

import httptools

from keff.protocol.values import LARGEST, BodyError

# So much of a body is held for who reads it part by part; then the upstream waits.
HELD = 256 * 1024

# The type of a stream of events, and how its bytes begin.
EVENTS, _EVENT = "text/event-stream", re.compile(rb"\s*(?:data|event|id|retry)?:")

GIVEN_UP = "it was given up"


class BrokenError(ConnectionError):
    """The connection ended within a response, or the bytes are not HTTP."""


class Call:
    """One request and its response: status, headers (lower case) and body as they arrive."""

    def __init__(self, loop: asyncio.AbstractEventLoop, method: str, ended: Callable[[Call], None]) -> None:
        self.status, self.headers = 0, dict[str, str]()
        self.method, self._loop, self._ended = method, loop, ended
        self._parts: list[bytes] = []
        self._size, self._most = 0, HELD
        self._connection: Connection | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._over = self._whole = False

    @property
    def kind(self) -> str:
        """The content type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def length(self) -> int | None:
        """The Content-Length, if valid."""
        stated = self.headers.get("content-length", "")
        return int(stated) if stated.isascii() and stated.isdigit() else None

    async def head(self) -> None:
        """Wait for status and headers; raises the call's error."""
        while not self.status:
            self._check()
            await self._wait()

    async def streams(self) -> bool:
        """Return whether the body is a stream of events: by its type, else by its first bytes.

        Some servers name no type, or another one. What was looked at stays to be read.
        """
        if self.kind == EVENTS:
            return True
        while not self._parts and not self._over:
            await self._wait()
        return _EVENT.match(b"".join(self._parts)) is not None

    async def read(self, most: int = LARGEST) -> bytes:
        """Return the whole body undecoded; raises BodyError above the limit, or the call's error."""
        self._most = most
        self._go_on()
        while not self._whole and self._size <= most:
            self._check()
            await self._wait()
        if self._size > most:
            raise BodyError(f"it is larger than {most} bytes")
        return self._taken()

    async def parts(self) -> AsyncGenerator[bytes]:
        """Yield parts of the body as they arrive; raises the call's error."""
        while True:
            if self._parts:
                yield self._taken()
                self._go_on()
            elif self._whole:
                return
            else:
                self._check()
                await self._wait()

    def close(self) -> None:
        """End the call; a connection with an unfinished response is closed."""
        if not self._over:
            self.fail(BrokenError(GIVEN_UP))

    def carried(self, connection: Connection) -> None:
        """Attach the connection whose next response belongs to this call."""
        self._connection = connection
        if self._over:
            connection.abort()

    def began(self, status: int) -> None:
        """Set the status, once all headers have arrived."""
        self.status = status
        self._wake()

    def take(self, part: bytes) -> None:
        """Add a part of the body; above the buffer limit, reading pauses."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most and self._connection is not None:
            self._connection.pause()
        self._wake()

    def end(self) -> None:
        """Mark the response as complete."""
        self._whole = True
        self._finish()

    def fail(self, error: Exception) -> None:
        """Fail a call that is not complete."""
        if self._over:
            return
        self._error = error
        if self._connection is not None:
            self._connection.abort()
        self._finish()

    def _finish(self) -> None:
        self._over, self._connection = True, None
        self._ended(self)
        self._wake()

    def _taken(self) -> bytes:
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts, self._size = [], 0
        return body

    def _go_on(self) -> None:
        if self._connection is not None:
            self._connection.go_on()

    def _check(self) -> None:
        if self._error is not None:
            # Kept, it would hold by its traceback the frames that hold this call.
            error, self._error = self._error, BrokenError(GIVEN_UP)
            raise error

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


# Bytes of the head of an answer, and of its trailers.
LARGEST_HEAD = 64 * 1024

CUT = "it closed before its answer was whole"


class Connection(asyncio.BufferedProtocol):
    """One client connection, which carries calls one after the other.

    ``free`` takes it back when it can carry another call, ``lost`` hears that it is closed. All connections
    of a client read into one ``buffer``: what came is parsed before the next one reads.
    """

    def __init__(
        self,
        free: Callable[[Connection], None],
        lost: Callable[[Connection], None],
        buffer: memoryview,
    ) -> None:
        self._free, self._lost, self._buffer = free, lost, buffer
        self._call: Call | None = None
        self._transport: asyncio.Transport | None = None
        self._parser = parser = httptools.HttpResponseParser(self)
        # What servers get away with elsewhere, as in aiohttp and browsers.
        parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._headers: dict[str, str] = {}
        self._head, self._paused = 0, False

    @property
    def usable(self) -> bool:
        """Whether another call can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, call: Call, data: bytes) -> None:
        """Send a call's request, and attach its response."""
        assert self._transport is not None, "it is connected"
        self._call, self._head = call, 0
        call.carried(self)
        self._transport.write(data)

    def abort(self) -> None:
        """Close at once."""
        self._call = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Pause reading."""
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Resume reading."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)
        # A model may think for minutes: without a sign of life some routers forget the connection.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse received bytes; unsolicited ones close the connection."""
        call = self._call
        if call is None:
            self.abort()
            return
        if not call.status:
            self._head += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._broken(call, "what came is not an answer in HTTP/1.1")
            return
        if not call.status and self._head > LARGEST_HEAD:
            self._broken(call, "the head of its answer is too large")

    def eof_received(self) -> None:
        """Complete a response without a length, which the end of the connection delimits."""
        call, framed = self._call, {"content-length", "transfer-encoding"} & self._headers.keys()
        if call is not None and call.status and not framed:
            self._call = None
            call.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the call whose response is incomplete."""
        call, self._call = self._call, None
        if call is not None:
            # A network that gave up is no answer that is late.
            late = isinstance(exc, TimeoutError)
            call.fail(exc if isinstance(exc, OSError) and not late else BrokenError(CUT))
        self._lost(self)
        # They hold each other, and a garbage collection is far away.
        del self._parser

    def _broken(self, call: Call, why: str) -> None:
        self.abort()
        call.fail(BrokenError(why))

    def on_message_begin(self) -> None:
        """Start a response (a callback of httptools, as those below)."""
        self._headers = {}
        if self._call is None:
            # An answer to nothing: the next call would take it for its own.
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; repeated ones are joined by commas."""
        self._head += len(name) + len(value)
        if self._head > 2 * LARGEST_HEAD:
            raise ValueError("too many headers")
        told, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        before = self._headers.get(told)
        self._headers[told] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """Pass the head to the call; interim responses (1xx) are skipped."""
        status, call = self._parser.get_status_code(), self._call
        if call is None or status < 200:
            return
        call.headers = self._headers
        call.began(status)
        if call.method == "HEAD":
            # The parser waits for a body that never comes.
            self.abort()
            call.end()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body to the call."""
        if self._call is not None:
            self._call.take(body)

    def on_message_complete(self) -> None:
        """Complete the call, and pool the connection if it can be reused."""
        call, transport = self._call, self._transport
        if call is None or transport is None or not call.status:
            return
        self._call = None
        self.go_on()
        # A server that answered before it had read everything does not read the next call.
        keeps = self._parser.should_keep_alive() and not transport.get_write_buffer_size()
        call.end()
        if keeps:
            self._free(self)
        else:
            transport.close()
