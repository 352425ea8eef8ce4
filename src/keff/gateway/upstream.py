"""The server that draws the paths: pooled connections, bytes in, choices out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from yarl import URL

from keff.engines._response import entries, fields
from keff.errors import UsageError
from keff.gateway.errors import Problem

LARGEST_ANSWER = 64 * 2**20
TRANSIENT = frozenset({408, 409, 425, 429})
DECODER = json.JSONDecoder()
KNOWN_STATUSES = frozenset(HTTPStatus)
LONGEST_WAIT = 10.0
JSON_TYPE = "application/json"
UNKNOWN = "no reason given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the upstream is: its base URL (with ``/v1``), the gateway's own key there, limits and times."""

    url: str
    key: str = ""
    connections: int = 512
    path_seconds: float = 600.0
    connect_seconds: float = 5.0


def base_url(url: str) -> str:
    """Return a base URL with ``/v1`` where it has no path; raises UsageError for what is not http(s)."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--upstream {url!r} is not an http address")
    if parts.username or parts.password:
        raise UsageError("--upstream: put the key into the environment (--upstream-key-env)")
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/v1", query="", fragment=""))


class UpstreamError(Exception):
    """One upstream call failed.

    ``status`` is 0 when there was no HTTP answer. ``transient`` says whether the same call may work later;
    ``wait`` how long the server asks to wait.
    """

    def __init__(self, message: str, status: int = 0, *, transient: bool = True, wait: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.transient, self.wait = status, transient, wait

    def problem(self) -> Problem:
        """Return what the client is told: its own faults with the upstream's status, all else as 502."""
        if self.status == 429:
            return Problem(429, f"the upstream is at its rate limit: {self}", code="upstream_rate_limit")
        if self.transient or not 400 <= self.status < 500:
            return Problem(502, f"the upstream failed: {self}", code="upstream_failed")
        status = self.status if self.status in KNOWN_STATUSES else 400
        return Problem(status, str(self), code="upstream_refused")


@dataclass(frozen=True, slots=True)
class Answer:
    """One upstream response: the choices, in order of their indices, and the whole body."""

    choices: list[dict[str, Any]]
    body: dict[str, Any]


class Upstream:
    """Calls one server. ``start`` and ``close`` belong to one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._chat = URL(f"{address.url}/chat/completions")
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the pool of connections."""
        limits = aiohttp.TCPConnector(limit=self.address.connections, keepalive_timeout=30)
        times = aiohttp.ClientTimeout(
            total=self.address.path_seconds, sock_connect=self.address.connect_seconds
        )
        self._session = aiohttp.ClientSession(
            connector=limits, timeout=times, cookie_jar=aiohttp.DummyCookieJar(), raise_for_status=False
        )

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The HTTP session of the running loop."""
        assert self._session is not None, "start() comes first"
        return self._session

    def headers(self, client: str | None) -> dict[str, str]:
        """Return the headers of a call: the gateway's own key, or what the client sent if there is none."""
        found = {"content-type": JSON_TYPE, "accept": JSON_TYPE}
        if self.address.key:
            found["authorization"] = f"Bearer {self.address.key}"
        elif client is not None:
            found["authorization"] = client
        return found

    async def draw(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Make one chat call; raises UpstreamError. Cancelling closes the connection."""
        try:
            async with self.session.post(
                self._chat, data=aiohttp.BytesPayload(body), headers=headers, allow_redirects=False
            ) as response:
                status, waits = response.status, response.headers.get("retry-after")
                raw = await _limited(response)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise UpstreamError(_plain(error)) from None
        if status != 200:
            raise self.refusal(status, raw, waits)
        return _answer(raw)

    def refusal(self, status: int, raw: bytes, waits: str | None = None) -> UpstreamError:
        """Return the error for a response that is not 200.

        What a server says about a key may repeat the key, so of that nothing is handed on.
        """
        transient = status in TRANSIENT or not 400 <= status < 500
        if status in (401, 403) and self.address.key:
            return UpstreamError("it refused the gateway's key", transient=False)
        if status in (401, 403):
            return UpstreamError("the upstream refused the key", status, transient=False)
        message = _message(raw).replace(self.address.key or "\0", "***")
        return UpstreamError(f"{message} (HTTP {status})", status, transient=transient, wait=_seconds(waits))

    @contextlib.asynccontextmanager
    async def relay(self, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open a streamed chat call and give its response; raises UpstreamError when that is not a stream."""
        times = aiohttp.ClientTimeout(
            total=None, sock_connect=self.address.connect_seconds, sock_read=self.address.path_seconds
        )
        try:
            response = await self.session.post(
                self._chat, data=body, headers=headers, timeout=times, allow_redirects=False
            )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise UpstreamError(_plain(error)) from None
        try:
            if response.status != 200:
                raise self.refusal(
                    response.status, await _limited(response), response.headers.get("retry-after")
                )
            if response.content_type != "text/event-stream":
                raise UpstreamError(_unstreamed(await _limited(response)))
            yield response
        finally:
            response.close()

    async def models(self, headers: Mapping[str, str]) -> bytes:
        """Return the list of models as the upstream gives it; raises UpstreamError."""
        times = aiohttp.ClientTimeout(total=10, sock_connect=self.address.connect_seconds)
        try:
            call = self.session.get(f"{self.address.url}/models", headers=headers, timeout=times)
            async with call as response:
                raw = await _limited(response)
                if response.status != 200:
                    raise self.refusal(response.status, raw)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise UpstreamError(_plain(error)) from None
        _parsed(raw)
        return raw


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    if response.content_length is not None and response.content_length <= LARGEST_ANSWER:
        return await response.read()
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > LARGEST_ANSWER:
            raise UpstreamError(f"its answer is larger than {LARGEST_ANSWER} bytes", transient=False)
        parts.append(part)
    return b"".join(parts)


def _plain(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return "it cannot be reached"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"the connection broke ({type(error).__name__})"


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        found: Any = DECODER.decode(raw.decode())
    except (ValueError, RecursionError):
        raise UpstreamError("its answer is not JSON") from None
    if not isinstance(found, dict):
        raise UpstreamError("its answer is not a JSON object")
    return cast("dict[str, Any]", found)


def _answer(raw: bytes) -> Answer:
    body = _parsed(raw)
    if body.get("error"):
        raise UpstreamError(_message(raw))
    choices = entries(body.get("choices"))
    if not choices or not all(fields(choice.get("message")) for choice in choices):
        raise UpstreamError("its answer is not a chat completion")
    if len(choices) > 1:
        choices.sort(key=_index)
    return Answer(choices, body)


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _message(raw: bytes) -> str:
    try:
        body = fields(json.loads(raw))
    except (ValueError, RecursionError):
        return UNKNOWN
    error = body.get("error") or body.get("detail") or body.get("message")
    text = fields(error).get("message") or (error if isinstance(error, str) else None)
    return " ".join(str(text).split())[:500] if text else UNKNOWN


def _unstreamed(raw: bytes) -> str:
    reason = _message(raw)
    return "its answer is not a stream of events" if reason == UNKNOWN else reason


def _seconds(waits: str | None) -> float:
    try:
        return min(max(float(waits or 0), 0.0), LONGEST_WAIT)
    except ValueError:
        return 0.0
