"""One path, streamed as it comes.

Nothing is voted on, so the upstream's events pass unchanged, and are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Protocol

from keff.gateway.accounts.metering import EventMeter
from keff.gateway.http import stream
from keff.gateway.http.errors import Problem
from keff.gateway.service import Service
from keff.gateway.upstream.call import Call
from keff.gateway.upstream.server import CHAT, UpstreamError
from keff.gateway.vote.job import RequestJob
from keff.gateway.vote.vote import rest_after
from keff.protocol.values import Object

TRIES = 3


class Sink(Protocol):
    """Where the response goes."""

    async def begin(self, status: int, kind: str, more: Mapping[str, str], size: int | None = None) -> None:
        """Send the status and the headers."""
        ...

    async def part(self, body: bytes, *, last: bool = False) -> None:
        """Send one part of the body."""
        ...


async def relay(service: Service, job: RequestJob, sink: Sink) -> None:
    """Relay a streamed call; a call that fails before its first byte is made again, within the deadline."""
    until = asyncio.get_running_loop().time() + service.deadline(job)
    options: Object = {**(job.ask.stream_options or {}), "include_usage": True}
    # Responses always tell their usage at the end.
    metered = job.ask.api is CHAT
    tries = 0
    while True:
        tries += 1
        # Without its options where a server does not know them: then the events are counted.
        more = {"stream": True, "stream_options": options if metered else job.ask.stream_options}
        try:
            await _relayed(service, job, sink, {name: value for name, value in more.items() if value}, until)
            return
        except UpstreamError as error:
            service.metrics.count("keff_upstream_failures_total")
            service.charge(job, error.usage, branch=job.first)
            if error.status in (400, 422) and metered and not job.ask.include_usage:
                metered, tries = False, tries - 1
            elif tries == TRIES or not error.transient:
                raise
            else:
                await asyncio.sleep(rest_after(error, tries))


async def _relayed(
    service: Service, job: RequestJob, sink: Sink, more: Mapping[str, object], until: float
) -> None:
    body = job.body(0, 1)[:-1] + b"," + json.dumps(more).encode()[1:]
    headers = job.headers if job.span is None else {**job.headers, **job.span.headers()}
    async with contextlib.AsyncExitStack() as stack:
        with job.launched(1):
            upstream = service.upstream if job.first is None else job.first.upstream
            call = upstream.relay(body, headers, job.caller.query, job.ask.api)
            try:
                async with asyncio.timeout_at(until):
                    response = await stack.enter_async_context(call)
            except TimeoutError:
                raise Problem(504, "no path began before the deadline", code="deadline") from None
        job.stop, job.paths, job.drawn = "off", 1, 1
        meter = EventMeter(pass_usage=job.ask.include_usage)
        try:
            await _copied(response, sink, meter)
            service.metrics.count("keff_paths_total", became="relayed")
            if job.first is not None:
                service.metrics.count("keff_branch_paths_total", branch=job.first.name)
        finally:
            # However it ends: a client that leaves has cost what was generated for it.
            service.charge(job, meter.cost(), meter.model, branch=job.first, paths=1)
            if not meter.usage:
                job.hidden_prompts += 1


async def _copied(response: Call, sink: Sink, meter: EventMeter) -> None:
    kind = response.headers.get("content-type", "text/event-stream")
    await sink.begin(200, kind, {"cache-control": "no-cache", "x-accel-buffering": "no"})
    try:
        async for part in response.parts():
            if passed := meter.feed(part):
                await sink.part(passed)
        await sink.part(meter.rest(), last=True)
    except OSError:
        line = "the upstream closed the connection in the middle of its answer"
        broken = Problem(502, line, code="upstream_failed")
        await sink.part(b"\n\n" + stream.failure(broken), last=True)
