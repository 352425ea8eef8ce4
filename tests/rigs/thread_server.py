"""uvicorn in a thread, for tests: it starts and stops when told, not at its next tenth of a second."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

SECONDS = 60.0
"""How long a server may take to start, and to stop."""

PATIENCE = 0.1
"""How long a server that leaves its requests alone lets the connections of clients that left close."""


class Server(uvicorn.Server):
    """uvicorn's server, which by itself looks ten times a second whether to stop, and then waits again."""

    def __init__(self, config: uvicorn.Config, started: threading.Event) -> None:
        super().__init__(config)
        self._ready, self._told = started, asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready.set()

    async def main_loop(self) -> None:
        """Serve until told."""
        await self.on_tick(0)
        await self._told.wait()

    def stop(self) -> None:
        """Stop serving; from any thread."""
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._told.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the open requests (where ``force_exit`` does not leave them) and close."""
        del sockets
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        seconds = PATIENCE if self.force_exit else self.config.timeout_graceful_shutdown or SECONDS
        deadline = self._loop.time() + seconds
        state = self.server_state
        # uvicorn tells nobody when a connection ends.
        while (state.connections or state.tasks) and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        for task in self.server_state.tasks:
            task.cancel()
        if not self.force_exit:
            await self.lifespan.shutdown()
        # Their loop ends here: what it does not close is left to the garbage collector.
        for connection in state.connections:
            connection.transport.abort()


@contextmanager
def serving(configure: Callable[[], uvicorn.Config], *, finish: bool = True) -> Iterator[str]:
    """Run an application on a free port and give its address; it is made in the thread that serves it.

    ``finish`` waits for open requests at the end. What ``configure`` raises is raised here.
    """
    started = threading.Event()
    servers: list[Server] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            servers.append(Server(configure(), started))
            servers[0].run()
        except Exception as error:
            errors.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(SECONDS), "the server does not start"
    if errors:
        raise errors[0]
    server = servers[0]
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.force_exit = not finish
        server.stop()
        thread.join(SECONDS)
