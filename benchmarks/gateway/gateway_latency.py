"""What the gateway adds where it does not vote.

``python -m benchmarks.gateway.gateway_latency [--requests 300]``

The median of a request that is passed through (``/v1/embeddings``) and the time to the first token of a
streamed single path, each beside the same request sent to the upstream itself, in turns, one at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gateway.gateway import (
    CORES,
    REQUEST,
    Http,
    cpu,
    pinned,
    reachable,
    started_gateway,
)

PORT = 18994
LATENCY = 0.02
STREAM = {**REQUEST, "stream": True, "keff": {"k": 1}}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n"


class Quick(Http):
    """Answers embeddings at once, and streams after the fixed time."""

    def whole(self, head: bytes, body: bytes) -> None:
        del head
        if b"stream" not in body:
            answer = json.dumps({"data": [{"embedding": [0.1] * 256}]}).encode()
            length = b"content-length: %d\r\n\r\n" % len(answer)
            self.transport.write(HEAD % b"application/json" + length + answer)
            return
        self.transport.write(HEAD % b"text/event-stream" + b"transfer-encoding: chunked\r\n\r\n")
        loop = asyncio.get_running_loop()
        loop.call_later(LATENCY, self.say, {"choices": [{"index": 0, "delta": {"content": "42"}}]})
        loop.call_later(LATENCY + 0.01, self.end)

    def say(self, event: dict[str, Any]) -> None:
        """Send one event as a chunk."""
        text = b"data: " + json.dumps(event).encode() + b"\n\n"
        self.transport.write(b"%x\r\n%s\r\n" % (len(text), text))

    def end(self) -> None:
        """End the stream."""
        self.say({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
        self.transport.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def stub() -> None:
    """Serve until told to stop."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Quick, "127.0.0.1", PORT)
        await server.serve_forever()

    asyncio.run(run())


async def seconds(
    port: int, path: str, body: dict[str, Any], until: Callable[[bytes], bool], last: bytes
) -> float:
    """Return how long one request takes until what came satisfies ``until``; it is read on to ``last``."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    raw = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    begun, came = time.perf_counter(), b""
    writer.write(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)
    while not until(came):
        part = await reader.read(65536)
        if not part:
            raise SystemExit(f"port {port} closed the connection: {came[:200]!r}")
        came += part
    took = time.perf_counter() - begun
    # Who leaves in the middle of a stream makes the gateway break off its own call, and connect anew.
    while last not in came and (part := await reader.read(65536)):
        came += part
    writer.close()
    return took


async def added(
    gateway: int, path: str, body: dict[str, Any], mark: bytes, last: bytes, requests: int
) -> tuple[float, float]:
    """Return the median direct time and what the gateway adds to it, in milliseconds."""
    times: dict[int, list[float]] = {PORT: [], gateway: []}
    for _ in range(requests):
        for port, mine in times.items():
            mine.append(await seconds(port, path, body, lambda came: mark in came, last))
    direct, through = (statistics.median(mine) * 1000 for mine in times.values())
    return direct, through - direct


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=300)
    arguments = parser.parse_args()
    upstream = pinned(
        [sys.executable, "-m", "benchmarks.gateway.gateway_latency"],
        server=False,
        env={**os.environ, "KEFF_STUB": "1"},
    )
    reachable(PORT, upstream)
    os.sched_setaffinity(0, {CORES[-1]})
    with tempfile.TemporaryDirectory() as name:
        server = started_gateway(Path(name), "fixed:4", f"http://127.0.0.1:{PORT}/v1")
        passed = ("/v1/embeddings", {"input": "x"}, b"embedding", b"}")
        direct, more = asyncio.run(added(server.port, *passed, arguments.requests))
        what = "what the gateway adds to a request that is passed through, median"
        print(f"claim: {what} | {more:.2f} ms (direct {direct:.2f} ms) | under 1 ms")
        streamed = ("/v1/chat/completions", STREAM, b"data: {", b"[DONE]")
        direct, more = asyncio.run(added(server.port, *streamed, arguments.requests))
        what = "what it adds to the first token of a streamed single path, median"
        print(f"claim: {what} | {more:.2f} ms (direct {direct:.2f} ms) | at most 2 ms")
        print(f"processor of the gateway: {cpu(server.process.pid) if server.process else 0:.1f} s")


if __name__ == "__main__":
    stub() if os.environ.get("KEFF_STUB") else main()
