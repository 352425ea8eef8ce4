"""Who may ask, from where, how much and how slowly. TLS and rate limits are a reverse proxy's work."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from keff.errors import UsageError
from keff.gateway.errors import Gone, Problem
from keff.gateway.upstream import Caller

Receive = Callable[[], Any]

KEY_HEADERS = (b"api-key", b"x-api-key")
"""Where some clients put their key instead of ``Authorization``: those of Azure, and of Anthropic."""

HANDED_ON = frozenset({b"traceparent", b"tracestate", b"openai-organization", b"openai-project"})

DISCARD = 8
"""A body up to this many times too large is read to its end and refused; beyond, the connection closes."""


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether a host names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, token: str) -> None:
    """Raise UsageError when others could reach the gateway without a token."""
    if not token and not is_loopback(host):
        raise UsageError(f"--host {host} can be reached by others: require a token with --token-env NAME")


class Guard:
    """The bearer token, kept as a hash only; without one, only callers that name this machine may ask.

    A web page cannot pass: it may not send JSON across origins without a consent that is never given, and a
    name of its own that resolves to 127.0.0.1 is not accepted as a host.
    """

    def __init__(self, token: str, admin: str = "") -> None:
        self._hash = _digest(token)
        self._admin = _digest(admin)

    @property
    def has_token(self) -> bool:
        """Whether callers must show a token."""
        return self._hash is not None

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise Problem unless the caller may ask."""
        if self._hash is None:
            _check_local(headers)
            return
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        shown = [
            token if kind.lower() == b"bearer" else b"",
            *(headers.get(name, b"") for name in KEY_HEADERS),
        ]
        if not any(self._is_token(given.strip()) for given in shown):
            raise Problem(401, "the token is missing or wrong", code="invalid_api_key")

    def check_operator(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise Problem unless the caller is the operator: a client's token is not enough.

        A browser may send the token as the password of any name.
        """
        if self._admin is None:
            if self._hash is not None:
                raise Problem(403, "this page is the operator's: start keff serve with --admin-token-env")
            _check_local(headers)
            return
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        shown = _password(token) if kind.lower() == b"basic" else token if kind.lower() == b"bearer" else b""
        if not hmac.compare_digest(hashlib.sha256(shown.strip()).digest(), self._admin):
            asks = {"www-authenticate": 'Basic realm="keff"'}
            raise Problem(401, "the operator's token is missing or wrong", headers=asks)

    def _is_token(self, given: bytes) -> bool:
        return hmac.compare_digest(hashlib.sha256(given).digest(), self._hash or b"")

    def caller(self, headers: Mapping[bytes, bytes], query: bytes, forwarded: Collection[str]) -> Caller:
        """Return what the upstream gets of a client.

        Some headers, the query, and its key unless that is for us.
        """
        keys = () if self.has_token else (b"authorization", *KEY_HEADERS)
        if not forwarded and not query and not (HANDED_ON & headers.keys()):
            more: dict[str, str] = {}
        else:
            names = [*HANDED_ON, *(name.encode() for name in forwarded)]
            more = {name.decode(): headers[name].decode("latin-1") for name in names if name in headers}
        shown = {name.decode(): headers[name].decode("latin-1") for name in keys if name in headers}
        return Caller(shown, more, query.decode("latin-1"))


def _digest(token: str) -> bytes | None:
    return hashlib.sha256(token.encode()).digest() if token else None


def _check_local(headers: Mapping[bytes, bytes]) -> None:
    if not is_loopback(_hostname(headers.get(b"host", b""))):
        raise Problem(403, "without a token the gateway answers to 127.0.0.1 and localhost only")


def _password(token: bytes) -> bytes:
    try:
        return base64.b64decode(token, validate=True).partition(b":")[2]
    except ValueError:
        return b""


@lru_cache(maxsize=64)
def _hostname(host: bytes) -> str:
    try:
        return urlsplit("//" + host.decode("latin-1")).hostname or ""
    except ValueError:
        return ""


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], most: int, seconds: float) -> bytes:
    """Return the body.

    Raises Problem for what is not JSON, too large or too slow, Gone when the client left.
    """
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "send the request as content-type: application/json")
    return await received(receive, most, seconds)


async def received(receive: Receive, most: int, seconds: float) -> bytes:
    """Return a body of any type; raises Problem for one too large or too slow, Gone when the client left."""
    try:
        async with asyncio.timeout(seconds):
            return await _received(receive, most)
    except TimeoutError:
        raise Problem(408, f"the request body did not arrive within {seconds:g} seconds") from None


async def _received(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= DISCARD * most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        size += len(message.get("body", b""))
        if size <= most:
            parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    if size > most:
        raise Problem(413, f"the body is larger than {most} bytes", code="request_too_large")
    return b"".join(parts)
