"""HTTP/1.1 on the socket: timeouts for request heads, and replies in one system call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from keff.gateway.http.exchange import LINE, Line, Scope

# Within this time a connection must have sent the head of a request.
HEAD_SECONDS = 15.0

# Within this time a client must take some of what was sent to it.
STALLED_SECONDS = 15.0

# So long a connection stays open whose request was answered before its body was there, and so long one that
# is closed then still takes the rest of the body: closed at once, the answer could be lost with it.
LINGER_SECONDS = 0.5

# Bytes of the head of a request, and of its trailers.
LARGEST_HEAD = 32 * 1024

BUFFER = memoryview(bytearray(128 * 1024))

# Headers that offer another protocol.
OFFERS = frozenset({b"connection", b"upgrade", b"http2-settings"})


class Corked:
    """Transport that joins all writes of one event-loop turn into one system call.

    Closed while ``unread`` says that a client is still sending, it ends what it sends, and for a while takes
    what comes: a system that has data for nobody resets the connection, and the client may lose the reply
    with it (RFC 9112, 9.6).
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, unread: Callable[[], bool]
    ) -> None:
        self._transport, self._loop, self._unread = transport, loop, unread
        self._held: list[bytes] = []
        self._closing = False

    def write(self, data: bytes) -> None:
        """Buffer the data until the loop turn ends; dropped after close."""
        if data and not self._closing:
            if not self._held:
                self._loop.call_soon(self._flush)
            self._held.append(data)

    def close(self) -> None:
        """Flush the buffer, then close."""
        self._flush()
        if self.is_closing():
            return
        self._closing = True
        if not self._unread():
            self._transport.close()
            return
        try:
            # Behind what the client has not taken yet, its end is sent with the close.
            if not self._transport.get_write_buffer_size():
                self._transport.write_eof()
        except OSError:
            # It reset the connection, which the loop has not heard of yet.
            self._transport.abort()
            return
        self._transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, self._transport.close)

    def is_closing(self) -> bool:
        """Return whether the transport is closing."""
        return self._closing or self._transport.is_closing()

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._transport.write(b"".join(held))

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


class TimedProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """HTTP/1.1 protocol that closes connections whose request head is late or too large.

    It also closes one whose client does not read. All connections read into one buffer: what came is parsed
    before the next one reads.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    # Of uvicorn, which takes it away when the connection is lost: nothing is parsed after that.
    parser: httptools.HttpRequestParser
    _head = _came = _begun = 0
    _in_head, _whole = False, True

    def connection_made(self, transport: Any) -> None:
        """Start the timeout for the first head."""
        # Nothing may wait in our memory unnoticed: whatever the system does not take at once counts as
        # paused.
        transport.set_write_buffer_limits(high=0)
        self._line = Line()
        super().connection_made(Corked(transport, self.loop, lambda: not self._whole))  # type: ignore[arg-type]
        self._watch_head()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._in_head, self._whole, self._came = True, False, 0
        self._begun += 1
        super().on_message_begin()
        cast("Scope", self.scope)[LINE] = self._line

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a header; trailers after the body are ignored."""
        self._grow(len(name) + len(value))
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the response task, unless the client offers an upgrade, which is removed first."""
        self._in_head, self._came = False, 0
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Handle the end of the request, whether or not it was answered already."""
        self._whole, self._head = True, 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _grow(self, size: int) -> None:
        self._head += size
        if self._head > LARGEST_HEAD:
            raise ValueError("the head of the request is too large")

    def on_response_complete(self) -> None:
        """Prepare for the next request; an unread rest of this one is not awaited."""
        super().on_response_complete()
        if not self._whole and self.cycle.response_complete:
            self.loop.call_later(LINGER_SECONDS, self._close_unread, self.cycle)

    def _close_unread(self, cycle: object) -> None:
        if self.cycle is cycle and not self._whole:
            self.transport.close()

    def _take(self, data: bytes | memoryview) -> None:
        """Parse received data; an offered upgrade (such as HTTP/2) is ignored.

        For the parser such a request ends with its head, and its body would be lost.
        """
        self._unset_keepalive_if_required()
        left: bytes | memoryview | None = data
        while left is not None and not self.transport.is_closing():
            left = self._parsed(left)

    def _parsed(self, data: bytes | memoryview) -> bytes | None:
        """Parse data; returns what must be parsed again after an offered upgrade."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method = self.parser.get_method()
            if method == b"CONNECT":
                self.send_400_response("This is no proxy.")
                return None
            head = [method + b" " + self.url + b" HTTP/1.1"]
            head += [name + b": " + value for name, value in self.headers if name not in OFFERS]
            return b"\r\n".join([*head, b"", data[offer.args[0] :]])
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("This is not a request in HTTP/1.1.")
        return None

    def pause_writing(self) -> None:
        """Start a timeout for a client that does not read."""
        super().pause_writing()
        self._watch_write(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop that timeout: the client has read everything."""
        super().resume_writing()
        self._stop_write_timer()

    def _watch_write(self, waiting: int) -> None:
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(STALLED_SECONDS, self._write_late, waiting)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _write_late(self, waiting: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < waiting:
            self._watch_write(left)
        else:
            # Closing would wait for the client too.
            self.transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        del sizehint
        return BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the bytes just read into the buffer."""
        self.data_received(BUFFER[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Handle received bytes, and stop the head timeout while a request is answered."""
        if self.transport.is_closing():
            return
        begun = self._begun
        self._take(data)
        # Of what holds the end of one request and the beginning of the next, nobody knows whose it is.
        if self._in_head and self._begun == begun:
            self._bound_head(len(data))
        if self._answering():
            self._stop_timer()
        else:
            self._watch_head()

    def _bound_head(self, size: int) -> None:
        """Refuse a head with an unfinished header beyond the size limit."""
        self._came += size
        if self._came <= LARGEST_HEAD:
            return
        if self._answering():
            self.transport.close()
        else:
            self.send_400_response("The head of the request is too large.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeouts, and cancel work for the client."""
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)
        self._line.lose()

    def _answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _watch_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        self._head_timer = None
        if not self._answering():
            self.transport.close()
