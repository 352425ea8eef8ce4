"""A server that never answers, in the event loop of who asks it; it counts calls that begin and end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[str, asyncio.Semaphore, asyncio.Semaphore]]:
    """Run the server; gives its URL, and counts of calls that began and that ended."""
    begun, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.release()
        while await reader.read(2**16):
            pass
        ended.release()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", begun, ended
    finally:
        server.close()
