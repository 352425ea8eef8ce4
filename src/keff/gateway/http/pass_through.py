"""Pass-through of requests that are not voted on: single streamed chats, and all other API routes.

The upstream's bytes pass unchanged, and are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from keff.gateway.billing import NOTHING, RequestSpending, estimated, no_price, paths_asked
from keff.gateway.http.errors import Problem
from keff.gateway.http.exchange import Exchange, cancel_on_disconnect
from keff.gateway.http.security import check_type, receive_body
from keff.gateway.http.stream import NOT_HELD, events_of, failure
from keff.gateway.service import Service
from keff.gateway.upstream.answer import CHAT, Address, Answer, ClientHeaders, UpstreamCall, UpstreamError
from keff.gateway.upstream.server import Upstream, body_of, broken
from keff.gateway.vote.job import RequestJob
from keff.gateway.vote.vote import rest_after
from keff.narrow import Fields, entries, fields
from keff.protocol.client import BROKEN, CUT, EVENTS, BrokenError, Call
from keff.protocol.reply import body_error, error_in, fault_in, note_usage
from keff.protocol.server import Mask, hidden, redirected
from keff.protocol.values import Events, Object, data_of, decoded, is_error_event, picked

# A call that fails before its first byte costs its client nothing but time.
TRIES = 3

# Bytes of an answer that are kept to read its usage; a larger one counts as what was reserved for it.
MOST_JSON = 8 * 2**20

# How an event begins that holds a piece of an answer: of chat and completions, of responses and messages.
_DELTA = re.compile(rb"data:(?! ?\[DONE\])|event: ?[\w.]{1,64}[._]delta\b")


# What a stream that is whole holds in one of its events: of chat, of responses, and an error of either.
_ENDS = re.compile(
    rb'"(?:finish_reason": ?"(?!(?i:null|none)?")|error": ?\{)|\[DONE\]|'
    rb"event: (?:error|response\.(?:completed|incomplete|failed))"
)


async def relay(service: Service, job: RequestJob, exchange: Exchange) -> None:
    """Relay a streamed call; retried until its first byte, within the deadline."""
    until = asyncio.get_running_loop().time() + service.deadline(job)
    options: Object = {**(job.ask.stream_options or {}), "include_usage": True}
    # Responses always tell their usage at the end.
    metered = job.ask.api is CHAT
    tries = 0
    while True:
        tries += 1
        # Without its options where a server does not know them: then the events are counted.
        given = options if metered else job.ask.stream_options
        more: Object = {"stream": True, **({"stream_options": given} if given else {})}
        head = job.head_for(job.first)
        try:
            await _relay_path(service, job, exchange, more, until)
            return
        except UpstreamError as error:
            service.metrics.count("keff_upstream_failures_total")
            job.failed += 1
            service.charge(job, error.usage, branch=job.first)
            if service.learn(job, job.first, head, error):
                continue
            if error.status in (400, 422) and metered and not job.ask.include_usage:
                metered, tries = False, tries - 1
            elif tries == TRIES or not error.transient:
                raise
            else:
                await asyncio.sleep(rest_after(error, tries))


async def _relay_path(
    service: Service, job: RequestJob, exchange: Exchange, more: Fields, until: float
) -> None:
    call = job.call(0, 1, job.first)
    traced: Mapping[str, str] = {} if job.span is None else job.span.headers()
    body = call.body[:-1] + b"," + json.dumps(more).encode()[1:]
    call = call._replace(body=body, headers={**call.headers, **traced})
    upstream = service.upstream if job.first is None else job.first.upstream
    try:
        async with asyncio.timeout_at(until):
            response = await upstream.relay(call)
    except TimeoutError:
        raise Problem(504, "no path began before the deadline", code="deadline") from None
    except asyncio.CancelledError:
        job.lost += 1
        raise
    job.stop, job.paths, job.drawn = "off", 1, 1
    if isinstance(response, Answer):
        said = response.body
        service.charge(job, said.get("usage"), said.get("model"), branch=job.first, paths=1)
        await exchange.begin(200, EVENTS, NOT_HELD)
        events = events_of(fields(said.get("response")) or said, include_usage=job.ask.include_usage)
        await exchange.part(events, last=True)
    else:
        with contextlib.closing(response):
            meter = Meter(EVENTS, pass_usage=job.ask.include_usage)
            try:
                await _stream(response, exchange, meter)
                _note_error(exchange, meter, upstream.address)
            finally:
                # However it ends: a client that leaves has cost what was generated for it.
                service.charge(job, meter.cost(), meter.model, branch=job.first, paths=1)
    service.metrics.count("keff_paths_total", became="relayed")


async def _stream(response: Call, exchange: Exchange, meter: Meter) -> None:
    await exchange.begin(200, EVENTS, NOT_HELD)
    try:
        async for part in response.parts():
            if passed := meter.feed(part):
                await exchange.part(passed)
        if not (meter.ended or _ENDS.search(meter.rest())):
            raise BrokenError(CUT)
        await exchange.part(meter.rest(), last=True)
    except BROKEN as error:
        problem = exchange.note_failure(broken(error))
        await exchange.part(b"\n\n" + failure(problem), last=True)


def _note_error(exchange: Exchange, meter: Meter, address: Address) -> None:
    """Note an error within a stream for the operator: the client has it as the server told it."""
    if meter.error is not None:
        error = UpstreamError(Mask([address.key])(str(body_error(meter.error)), 200))
        error.server = address.url
        exchange.note_failure(error)


PREFIX = "/v1"
# Unquoted once; what is quoted twice goes nowhere.
_PATH = re.compile(r"/v1(/[\w.:~@+-]+)+/?", re.ASCII)

MESSAGES = "/v1/messages"
# How routes end that generate nothing and are free of charge.
NO_ANSWER = frozenset(
    {"apply-template", "count_tokens", "detokenize", "input_tokens", "moderations", "render", "tokenize"}
    | {"cancel", "complete", "files", "load_lora_adapter", "parts", "unload_lora_adapter", "uploads"}
)
# And those that cost what they read.
READS = frozenset({"classify", "embeddings", "pooling", "rerank", "score"})
SENT_UP = (b"content-type", b"accept")
BROUGHT_BACK = frozenset({"content-type", "content-disposition", "retry-after", "etag"})
FAMILIES = ("x-ratelimit-", "openai-")


def passes(path: str) -> bool:
    """Return whether a route belongs to the API and stays below its base."""
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


async def pass_on(
    service: Service,
    exchange: Exchange,
    method: str,
    path: str,
    caller: ClientHeaders,
    body: bytes | None = None,
) -> None:
    """Make one call for a client and forward the answer as it comes; raises UpstreamError or Problem.

    ``body`` where it was read already.
    """
    options = service.options
    if body is None:
        body = await receive_body(exchange.receive, options.max_body, options.body_seconds)
    if body:
        check_type(exchange.headers)
    demand = _demand_of(service, exchange, method, path, body)
    sent = picked(exchange.headers, SENT_UP)
    traced: Mapping[str, str] = {} if exchange.span is None else exchange.span.headers()
    # A server that a plan names gets no key of a client.
    keys = service.upstream.address.keys(caller.at(trusted=service.trusted))
    if path.startswith(MESSAGES) and "authorization" in keys:
        # Who speaks this protocol may want the key in its own header.
        keys = {**keys, "x-api-key": keys["authorization"].partition(" ")[2]}
    headers = {**sent, **caller.headers, **traced, **keys, "accept-encoding": "identity"}
    call = UpstreamCall(body, headers, caller.query)
    await cancel_on_disconnect(exchange, _call(service, exchange, method, path, call, demand))


class Demand(NamedTuple):
    """What a key's request that is passed through asks for: its model, and the number of answers."""

    model: object
    paths: int


def _demand_of(service: Service, exchange: Exchange, method: str, path: str, body: bytes) -> Demand | None:
    """Return what a key's request asks for, with its estimated cost; None without a key. Raises Problem.

    A request without a body asks for nothing new and draws nothing.
    """
    if exchange.fuse is None:
        return None
    asked: Object = {}
    with contextlib.suppress(ValueError):
        asked = fields(decoded(body))
    model, key = asked.get("model"), exchange.fuse.key
    price = service.billing.prices.of(model)
    route = path.rstrip("/").rpartition("/")[2]
    spends = (bool(body) or method == "POST") and route not in NO_ANSWER
    if price is None and spends and key.dollars_per_day is not None:
        raise no_price(key, model)
    estimate = estimated(asked, body, price, reads=route in READS) if price and spends else NOTHING
    exchange.spent = RequestSpending(estimate=estimate)
    return Demand(model, paths_asked(asked) if spends else 0)


async def _call(
    service: Service,
    exchange: Exchange,
    method: str,
    path: str,
    call: UpstreamCall,
    demand: Demand | None,
) -> None:
    if demand is not None:
        # A client that leaves before it is known what it cost has cost what it may.
        exchange.spent.lost = demand.paths
    try:
        server, response = await service.upstream.call(method, path.removeprefix(PREFIX), call)
    except UpstreamError:
        exchange.spent.lost = 0
        raise
    try:
        if not 100 <= response.status < 600:
            raise UpstreamError(f"it answered with the HTTP status {response.status}", transient=False)
        if 300 <= response.status < 400 and "location" in response.headers:
            mask = Mask([server.address.key])
            raise UpstreamError(redirected(response.headers, mask), transient=False)
        if response.status >= 400:
            exchange.spent.lost = 0
            await _refused(server, exchange, response)
        elif demand is None and response.kind != EVENTS:
            await _copy(exchange, response, None)
        else:
            meter = Meter(response.kind)
            try:
                await _copy(exchange, response, meter)
                _note_error(exchange, meter, server.address)
            finally:
                if demand is not None:
                    _settle(service, exchange, demand, meter)
    finally:
        response.close()


def _settle(service: Service, exchange: Exchange, demand: Demand, meter: Meter) -> None:
    """Charge the usage the answer stated; else its streamed events, or the estimate."""
    meter.end()
    spent, billing, paths = exchange.spent, service.billing, meter.paths or demand.paths
    if not meter.usage and not meter.deltas:
        spent.lost = paths
        return
    spent.lost, spent.drawn = 0, paths
    price = billing.prices.of(meter.model, demand.model)
    billing.charge(spent, meter.cost(), price, paths)


async def _refused(server: Upstream, exchange: Exchange, response: Call) -> None:
    """Forward an upstream error, with the gateway's own key removed."""
    key = server.address.key
    if response.status in (401, 403) and key:
        raise UpstreamError("it refused the gateway's key", transient=False)
    raw = await body_of(response)
    raw = hidden(raw.decode("latin-1"), key).encode("latin-1")
    kind, told = _headers_for_client(response)
    await exchange.begin(response.status, kind, told, len(raw))
    await exchange.part(raw, last=True)


async def _copy(exchange: Exchange, response: Call, meter: Meter | None) -> None:
    kind, told = _headers_for_client(response)
    await exchange.begin(response.status, kind, told, response.length)
    try:
        async for part in response.parts():
            if passed := part if meter is None else meter.feed(part):
                await exchange.part(passed)
    except BROKEN as error:
        # The head is gone: only a connection that ends early tells the client.
        raise broken(error) from None
    await exchange.part(b"" if meter is None else meter.rest(), last=True)


def _headers_for_client(response: Call) -> tuple[str, dict[str, str]]:
    told = {
        name: value
        for name, value in response.headers.items()
        if name in BROUGHT_BACK or name.startswith(FAMILIES)
    }
    return told.pop("content-type", "application/octet-stream"), told


class Meter:
    """Reads usage from an answer's bytes as they pass: an event stream, JSON, or neither.

    keff always asks the upstream for usage. Unless ``pass_usage``, the client does not get the event that
    holds it. A stream that ends before its usage is counted by its events, about one per token. ``paths``
    are the choices of JSON (None: not known), ``error`` is what a failed event says, ``ended`` whether one
    says that the stream is whole.
    """

    def __init__(self, kind: str, *, pass_usage: bool = True) -> None:
        self._events = Events() if kind == EVENTS else None
        self._is_json, self._raw = kind == "application/json", bytearray()
        self._pass_usage = pass_usage
        self.usage: Object = {}
        self.model: object = None
        self.paths: int | None = None
        self.error: object = None
        self.ended, self.deltas = False, 0

    def feed(self, part: bytes) -> bytes:
        """Return the part of these bytes that is forwarded to the client."""
        if self._events is not None:
            return b"".join(event for event in self._events.feed(part) if self._goes_on(event))
        if self._is_json and len(self._raw) <= MOST_JSON:
            self._raw += part
        return part

    def rest(self) -> bytes:
        """Return the bytes of an unfinished last event."""
        return b"" if self._events is None else self._events.rest

    def end(self) -> None:
        """Parse the complete JSON; a truncated one states no usage."""
        if self._raw and len(self._raw) <= MOST_JSON:
            with contextlib.suppress(ValueError):
                body = fields(decoded(bytes(self._raw)))
                self.note(body)
                self.paths = len(entries(body.get("choices"))) or None

    def _goes_on(self, event: bytes) -> bool:
        ends, metered, said = _ENDS.search(event) is not None, b'"usage"' in event, Object()
        self.ended = self.ended or ends
        if ends or metered or b'"error"' in event or is_error_event(event):
            with contextlib.suppress(ValueError):
                said = fields(decoded(data_of(event)))
                told = error_in(said) or fault_in(entries(said.get("choices")))
                self.error = self.error or told or (said if is_error_event(event) else None)
        if not (metered and said):
            self.deltas += _DELTA.match(event) is not None
            return True
        self.note(said)
        empty = said.get("choices") == []
        self.deltas += not empty and "response" not in said
        return self._pass_usage or not empty

    def note(self, said: Fields) -> None:
        """Record usage and model from an answer or a stream event."""
        note_usage(self.usage, said)
        for holder in (said, fields(said.get("response")), fields(said.get("message"))):
            self.model = holder.get("model") or self.model

    def cost(self) -> object:
        """Return the usage stated upstream, else estimated from stream events."""
        return self.usage or {"completion_tokens": self.deltas}
