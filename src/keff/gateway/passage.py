"""All other paths of the API, passed through unchanged: embeddings, completions, files.

Nothing is voted on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from keff.gateway.call import Call
from keff.gateway.errors import Problem
from keff.gateway.exchange import Exchange, until_gone
from keff.gateway.security import received
from keff.gateway.service import Service
from keff.gateway.upstream import Caller, Upstream, UpstreamError, broken
from keff.gateway.wire import BROKEN, limited
from keff.protocol.address import SHOWN
from keff.protocol.unpack import ENCODINGS

PREFIX = "/v1"
_PATH = re.compile(r"/v1(/[\w.:~-]+)+/?", re.ASCII)
"""Unquoted once; what is quoted twice goes nowhere."""

SENT_UP = (b"content-type", b"accept")
BROUGHT_BACK = frozenset({"content-type", "content-encoding", "content-disposition", "retry-after", "etag"})
FAMILIES = ("x-ratelimit-", "openai-")


def passes(path: str) -> bool:
    """Return whether a path belongs to the API and stays below its base."""
    return _PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


async def passed(
    service: Service, exchange: Exchange, method: str, path: str, caller: Caller, body: bytes | None = None
) -> None:
    """Make one call for a client and give back what comes, as it comes; raises UpstreamError or Problem.

    ``body`` where it was read already.
    """
    options = service.options
    if body is None:
        body = await received(exchange.receive, options.max_body, options.body_seconds)
    sent = {
        name.decode(): exchange.headers[name].decode("latin-1")
        for name in SENT_UP
        if name in exchange.headers
    }
    traced: Mapping[str, str] = {} if exchange.span is None else exchange.span.headers()
    # A server that a plan names gets no key of a client.
    keys = service.upstream.keys(caller.at(trusted=service.trusted))
    headers = {**sent, **caller.headers, **traced, **keys, "accept-encoding": ENCODINGS}
    await until_gone(exchange, _call(service, exchange, method, path, caller, headers, body))


async def _call(
    service: Service,
    exchange: Exchange,
    method: str,
    path: str,
    caller: Caller,
    headers: Mapping[str, str],
    body: bytes,
) -> None:
    way = path.removeprefix(PREFIX)
    server, response = await service.upstream.call(method, way, headers, body, caller.query)
    try:
        if response.status >= 400:
            await _refused(server, exchange, response)
        else:
            await _copied(exchange, response)
    finally:
        response.close()


async def _refused(server: Upstream, exchange: Exchange, response: Call) -> None:
    """Hand an error on as it is, but for the gateway's own key."""
    key = server.address.key
    if response.status in (401, 403) and key:
        raise UpstreamError("it refused the gateway's key", transient=False)
    try:
        raw = await limited(response)
    except BROKEN as error:
        raise broken(error) from None
    raw = raw.replace(key.encode(), SHOWN.encode()) if key else raw
    kind, told = _told(response)
    told.pop("content-encoding", None)
    await exchange.begin(response.status, kind, told, len(raw))
    await exchange.part(raw, last=True)


async def _copied(exchange: Exchange, response: Call) -> None:
    kind, told = _told(response)
    await exchange.begin(response.status, kind, told, response.length)
    try:
        async for part in response.parts():
            await exchange.part(part)
    except BROKEN:
        # The head is gone: only a connection that ends early tells the client.
        raise Problem(502, "the upstream closed the connection in the middle of its answer") from None
    await exchange.part(b"", last=True)


def _told(response: Call) -> tuple[str, dict[str, str]]:
    told = {
        name: value
        for name, value in response.headers.items()
        if name in BROUGHT_BACK or name.startswith(FAMILIES)
    }
    return told.pop("content-type", "application/octet-stream"), told
