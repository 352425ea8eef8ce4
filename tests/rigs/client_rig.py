"""A server that answers as it is told, byte for byte, and the gateway's own HTTP client before it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

from keff.protocol.client import Call, Client

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Told: a\r\nx-told: b\r\n\r\nok"


class Server:
    """Answers every request with the same bytes, and counts connections."""

    def __init__(self, *answers: bytes, close: bool = False) -> None:
        self.answers, self.close = answers, close
        self.opened = self.asked = 0
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(int(size or 0)))
                self.asked += 1
                for part in self.answers:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.01)
                if self.close:
                    break


@contextlib.asynccontextmanager
async def client_of(serve: Serve, *, connections: int = 4, seconds: float = 5.0) -> AsyncIterator[Client]:
    serving: dict[asyncio.Task[object], asyncio.StreamWriter] = {}

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving[cast("asyncio.Task[object]", asyncio.current_task())] = writer
        with contextlib.suppress(asyncio.CancelledError, OSError, EOFError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}/v1", connections, 2.0, seconds)
    client.start()
    try:
        yield client
    finally:
        await client.close()
        server.close()
        # Whom the loop has accepted begins to be served.
        await asyncio.sleep(0.02)
        for task, writer in serving.items():
            task.cancel()
            # A transport that wrote its last bytes after its close has no loop to abort by any more.
            with contextlib.suppress(AttributeError):
                writer.transport.abort()
        await asyncio.gather(*serving, return_exceptions=True)


async def ask(client: Client, body: bytes = b"{}", method: str = "POST") -> tuple[Call, bytes]:
    call = await client.request(method, client.target("/chat/completions"), {"a": "b"}, body)
    try:
        return call, await call.read()
    finally:
        call.close()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(bounded())
