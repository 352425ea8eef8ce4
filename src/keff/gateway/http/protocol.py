"""Connections of clients: uvicorn's HTTP/1.1, with limits on the time of a head and of a client's reading."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

# Where the state of a request has the connection of its client.
CONNECTION = "keff.connection"

# Within this time a connection must have sent the head of a request.
HEAD_SECONDS = 15.0

# Within this time a client must take some of what was sent to it.
STALLED_SECONDS = 15.0


class ClientConnection(asyncio.Protocol):
    """One connection of a client: uvicorn's protocol within a limit on the time of each head.

    Requests find it in their state. ``work`` is the task to cancel when the client is ``lost``.
    """

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], **more: Any
    ) -> None:
        self._http = H11Protocol(config, server_state, {**app_state, CONNECTION: self}, **more)
        self._timer: asyncio.TimerHandle | None = None
        self._answering = False
        self.lost = False
        self.work: asyncio.Task[object] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout for the first head."""
        self._transport = cast("asyncio.Transport", transport)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: the system lets go of a client that reads nothing
            taken: socket.socket = transport.get_extra_info("socket")
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * STALLED_SECONDS))
        self._http.connection_made(self._transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; those of a head start its timeout."""
        if not self._answering:
            self._watch_head()
        try:
            self._http.data_received(data)
        except h11.LocalProtocolError:
            self._transport.close()  # rubbish behind a request that was answered: there is nothing to say

    def pause_writing(self) -> None:
        """Hold the answer while the client does not take it."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel work for the client."""
        self._stop_timer()
        self._http.connection_lost(exc)
        self.lost = True
        if self.work is not None:
            self.work.cancel()

    @contextlib.contextmanager
    def answering(self) -> Generator[None]:
        """Return a context in which a request is answered, and no head is awaited."""
        self._stop_timer()
        self._answering = True
        try:
            yield
        finally:
            self._answering = False

    def _watch_head(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(HEAD_SECONDS, self._transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
