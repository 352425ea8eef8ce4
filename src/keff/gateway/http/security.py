"""Access control: tokens, keys, exposed addresses, and limits on bodies. TLS is a reverse proxy's work."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from keff.errors import UsageError
from keff.gateway.http.errors import ClientDisconnected, Problem
from keff.gateway.http.exchange import Receive
from keff.gateway.keys import ClientKey, Fuse
from keff.gateway.options import Options
from keff.gateway.upstream.answer import ClientHeaders
from keff.protocol.server import is_loopback
from keff.protocol.values import picked

# Where some clients put their key instead of ``Authorization``: those of Azure, and of Anthropic.
KEY_HEADERS = (b"api-key", b"x-api-key")

CALLER_KEYS = (b"authorization", *KEY_HEADERS)

HANDED_ON = frozenset(
    {
        b"traceparent",
        b"tracestate",
        b"openai-organization",
        b"openai-project",
        b"anthropic-version",
        b"anthropic-beta",
    }
)

# Types of bodies that any web page may send anywhere (multipart too, which uploads need).
NEEDS_NO_CONSENT = frozenset({b"", b"text/plain", b"application/x-www-form-urlencoded"})

# A host with a port, and nothing else: ``[::1].evil`` and ``evil@localhost`` are none.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?", re.I)

# A body up to this many times too large is read to its end and refused; beyond, the connection closes.
DISCARD = 8


def check_exposure(host: str, options: Options) -> None:
    """Raise UsageError when a public address would be served without a token or keys."""
    if not options.token and not options.client_keys and not is_loopback(host):
        raise UsageError(f"--host {host} can be reached by others: require a token (--token-env) or --keys")


class Guard:
    """Checks the bearer token and the named keys, of which it holds only hashes.

    Without token and keys, only callers that name this machine may ask, and no web page but those of
    ``origins``. A browser says which page a request comes from, or that it comes from another site. A
    host name of that page's own that resolves to 127.0.0.1 is refused.
    """

    def __init__(
        self,
        token: str,
        admin: str = "",
        keys: Collection[ClientKey] = (),
        origins: Collection[str] = (),
    ) -> None:
        self._origins = frozenset(origin.encode("latin-1", "replace") for origin in origins)
        self._hash = _digest(token)
        self._admin = _digest(admin)
        self._fuses = {key.digest: Fuse(key) for key in keys}

    @property
    def has_token(self) -> bool:
        """Whether callers must present a token."""
        return self._hash is not None or bool(self._fuses)

    def check(self, headers: Mapping[bytes, bytes]) -> Fuse | None:
        """Return the fuse of the caller's key (None: the token, or no check); raises Problem."""
        if not self.has_token:
            self._check_local(headers)
            return None
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        shown = [
            token if kind.lower() == b"bearer" else b"",
            *(headers.get(name, b"") for name in KEY_HEADERS),
        ]
        for given in filter(None, map(bytes.strip, shown)):
            digest = hashlib.sha256(given).digest()
            if hmac.compare_digest(digest, self._hash or b""):
                return None
            # By its hash: how long the look-up takes says nothing about a key.
            if digest in self._fuses:
                return self._fuses[digest]
        raise Problem(401, "the token is missing or wrong", code="invalid_api_key")

    def check_operator(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise Problem unless the caller is the operator; a client's token does not suffice.

        A browser may send the token as the password of any name.
        """
        if self._admin is None:
            if self.has_token:
                line = "only the operator may see this page: start keff serve with --set admin_token_env=NAME"
                raise Problem(403, line)
            self._check_local(headers)
            return
        if not self._is_operator(headers):
            asks = {"www-authenticate": 'Basic realm="keff"'}
            raise Problem(401, "the operator's token is missing or wrong", headers=asks)

    def check_metrics(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise Problem unless the caller is the operator or has the token.

        Metrics name all keys and what they spend, so a named key is not enough.
        """
        if self._is_operator(headers) or self.check(headers) is None:
            return
        line = "only the operator may read metrics: send the token of admin_token_env or --token-env"
        raise Problem(403, line)

    def _check_local(self, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host", b"")
        if not is_loopback(_hostname(host)):
            raise Problem(403, "without a token the gateway answers to 127.0.0.1 and localhost only")
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"none")
        own = (None, b"http://" + host)
        if origin in self._origins or (origin in own and site in (b"none", b"same-origin")):
            return
        line = "web pages of other origins may not ask: start keff serve with --set cors_origin=ORIGIN"
        raise Problem(403, line, code="foreign_origin")

    def _is_operator(self, headers: Mapping[bytes, bytes]) -> bool:
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        shown = _password(token) if kind.lower() == b"basic" else token if kind.lower() == b"bearer" else b""
        return hmac.compare_digest(hashlib.sha256(shown.strip()).digest(), self._admin or b"")

    def caller(
        self, headers: Mapping[bytes, bytes], query: bytes, forwarded: Collection[str]
    ) -> ClientHeaders:
        """Return the client headers that go upstream.

        Some headers, the query, and the client's key unless it is a key of this gateway.
        """
        shown = picked(headers, () if self.has_token else CALLER_KEYS)
        names = [*HANDED_ON, *(name.encode() for name in forwarded)]
        return ClientHeaders(shown, picked(headers, names), query.decode("latin-1"))


def _digest(token: str) -> bytes | None:
    return hashlib.sha256(token.encode()).digest() if token else None


def _password(token: bytes) -> bytes:
    try:
        return base64.b64decode(token, validate=True).partition(b":")[2]
    except ValueError:
        return b""


@lru_cache(maxsize=64)
def _hostname(host: bytes) -> str:
    named = _HOST.fullmatch(host.decode("latin-1"))
    return "" if named is None else named[1].lower()


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], most: int, seconds: float) -> bytes:
    """Return the request body of a JSON type.

    Raises Problem for what is not JSON, too large or too slow, ClientDisconnected when the client left.
    """
    if _kind(headers) != b"application/json":
        raise Problem(415, "send the request as content-type: application/json")
    return await receive_body(receive, most, seconds)


def check_type(headers: Mapping[bytes, bytes]) -> None:
    """Raise Problem for a content type that web pages may send cross-site without a preflight."""
    if _kind(headers) in NEEDS_NO_CONSENT:
        raise Problem(415, "send the request as content-type: application/json (multipart for files)")


def _kind(headers: Mapping[bytes, bytes]) -> bytes:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


async def receive_body(receive: Receive, most: int, seconds: float) -> bytes:
    """Return a request body; raises Problem if too large or too slow, ClientDisconnected without a client."""
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while more and size <= DISCARD * most:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                body = message.get("body", b"")
                assert isinstance(body, bytes)
                size += len(body)
                if size <= most:
                    parts.append(body)
                more = bool(message.get("more_body", False))
    except TimeoutError:
        raise Problem(408, f"the request body did not arrive within {seconds:g} seconds") from None
    if size > most:
        raise Problem(413, f"the body is larger than {most} bytes", code="request_too_large")
    return b"".join(parts)
