"""One path, streamed as it comes: nothing is voted on, so the upstream's bytes pass unchanged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp

from keff.gateway import stream
from keff.gateway.errors import Problem
from keff.gateway.service import Job, Service
from keff.gateway.upstream import UpstreamError
from keff.gateway.vote import BACKOFF

TRIES = 3


class Sink(Protocol):
    """Where the response goes."""

    async def begin(self, status: int, kind: str, more: Mapping[str, str], size: int | None = None) -> None:
        """Send the status and the headers."""
        ...

    async def part(self, body: bytes, *, last: bool = False) -> None:
        """Send one part of the body."""
        ...


async def relay(service: Service, job: Job, sink: Sink) -> None:
    """Relay a streamed call; a call that fails before its first byte is made again."""
    more: dict[str, Any] = {"stream": True}
    if job.ask.stream_options is not None:
        more["stream_options"] = job.ask.stream_options
    body = job.body(0, 1)[:-1] + b"," + json.dumps(more).encode()[1:]
    for tries in range(1, TRIES + 1):
        try:
            async with service.upstream.relay(body, job.headers) as response:
                job.stop, job.paths = "off", 1
                await _copied(response, sink)
                service.metrics.count("keff_paths_total", became="relayed")
                return
        except UpstreamError as error:
            service.metrics.count("keff_upstream_failures_total")
            if tries == TRIES or not error.transient:
                raise
            await asyncio.sleep(error.wait or BACKOFF * tries)


async def _copied(response: aiohttp.ClientResponse, sink: Sink) -> None:
    kind = response.headers.get("content-type", "text/event-stream")
    await sink.begin(200, kind, {"cache-control": "no-cache", "x-accel-buffering": "no"})
    try:
        async for part in response.content.iter_any():
            await sink.part(part)
        await sink.part(b"", last=True)
    except (aiohttp.ClientError, OSError):
        broken = Problem(
            502, "the upstream closed the connection in the middle of its answer", code="upstream_failed"
        )
        await sink.part(b"\n\n" + stream.failure(broken), last=True)
