"""One path, streamed as it comes.

Nothing is voted on, so the upstream's events pass unchanged, and are counted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Protocol

from keff.gateway import stream
from keff.gateway.call import Call
from keff.gateway.errors import Problem
from keff.gateway.job import Job
from keff.gateway.service import Service
from keff.gateway.upstream import CHAT, UpstreamError
from keff.gateway.vote import rest_after
from keff.narrow import fields
from keff.protocol.events import DONE, Events, data_of
from keff.protocol.responses import chat_usage
from keff.protocol.values import Object, decoded

TRIES = 3
RESPONSE_DELTA, LONGEST_NAME = b".delta", 80


class Sink(Protocol):
    """Where the response goes."""

    async def begin(self, status: int, kind: str, more: Mapping[str, str], size: int | None = None) -> None:
        """Send the status and the headers."""
        ...

    async def part(self, body: bytes, *, last: bool = False) -> None:
        """Send one part of the body."""
        ...


class Meter:
    """Passes the events of a stream on and counts what it cost.

    The upstream is always asked for its usage; the event that holds it is kept back from a client that did
    not ask. A stream that ends before its usage is counted by its events, about one per token.
    """

    def __init__(self, *, pass_usage: bool) -> None:
        self._events, self._pass_usage = Events(), pass_usage
        self.usage: object = None
        self.deltas = 0

    def feed(self, part: bytes) -> bytes:
        """Return what of the stream goes on to the client."""
        return b"".join(event for event in self._events.feed(part) if self._goes_on(event))

    def rest(self) -> bytes:
        """Return what is left of an event that never ended."""
        return self._events.rest

    def _goes_on(self, event: bytes) -> bool:
        if b'"usage"' not in event:
            said = event.startswith(b"data:") and DONE not in event[:16]
            self.deltas += said or RESPONSE_DELTA in event[:LONGEST_NAME]
            return True
        try:
            chunk = fields(decoded(data_of(event)))
        except ValueError:
            return True
        if "response" in chunk:
            self.usage = chat_usage(fields(chunk["response"]).get("usage")) or self.usage
            return True
        self.usage = chunk.get("usage") or self.usage
        empty = chunk.get("choices") == []
        self.deltas += not empty
        return self._pass_usage or not empty

    def cost(self) -> object:
        """Return the usage, the upstream's own or what the events tell."""
        return self.usage or {"completion_tokens": self.deltas}


async def relay(service: Service, job: Job, sink: Sink) -> None:
    """Relay a streamed call; a call that fails before its first byte is made again."""
    options: Object = {**(job.ask.stream_options or {}), "include_usage": True}
    # Responses always tell their usage at the end.
    metered = job.ask.api is CHAT
    tries = 0
    while True:
        tries += 1
        # Without its options where a server does not know them: then the events are counted.
        more = {"stream": True, "stream_options": options if metered else job.ask.stream_options}
        try:
            await _relayed(service, job, sink, {name: value for name, value in more.items() if value})
            return
        except UpstreamError as error:
            service.metrics.count("keff_upstream_failures_total")
            service.charge(job, error.usage, job.first)
            if error.status in (400, 422) and metered and not job.ask.include_usage:
                metered, tries = False, tries - 1
            elif tries == TRIES or not error.transient:
                raise
            else:
                await asyncio.sleep(rest_after(error, tries))


async def _relayed(service: Service, job: Job, sink: Sink, more: Mapping[str, object]) -> None:
    body = job.body(0, 1)[:-1] + b"," + json.dumps(more).encode()[1:]
    headers = job.headers if job.span is None else {**job.headers, **job.span.headers()}
    async with service.upstream_of(job).relay(body, headers, job.caller.query, job.ask.api) as response:
        job.stop, job.paths, job.drawn = "off", 1, 1
        meter = Meter(pass_usage=job.ask.include_usage)
        try:
            await _copied(response, sink, meter)
            service.metrics.count("keff_paths_total", became="relayed")
            if job.first is not None:
                service.metrics.count("keff_branch_paths_total", branch=job.first.name)
        finally:
            # However it ends: a client that leaves has cost what was generated for it.
            service.charge(job, meter.cost(), job.first)


async def _copied(response: Call, sink: Sink, meter: Meter) -> None:
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
