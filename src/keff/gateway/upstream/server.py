"""The server that draws the paths: pooled connections, bytes in, choices out."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import cast

from keff.errors import EngineError
from keff.gateway.http.errors import Problem
from keff.gateway.upstream.client import BROKEN, Client, UnreachableError, limited, plain
from keff.gateway.upstream.connection import Call
from keff.narrow import entries, fields
from keff.protocol.reply import Assembler, RepeatedError, choices_of
from keff.protocol.responses import chat_usage, choice_of
from keff.protocol.server import UNKNOWN, Mask, Refusal, refusal_of
from keff.protocol.values import DONE, ENCODINGS, Events, Object, data_of, decoded

# What a streamed call says at the end of its body.
STREAMED = b',"stream":true,"stream_options":{"include_usage":true}}'

KNOWN_STATUSES = frozenset(HTTPStatus)
JSON_TYPE = "application/json"
TOLD_BACK = "x-ratelimit-"
# Listing models is a small request: a server that takes longer is not ready.
MODELS_SECONDS = 10.0
Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the upstream is: its base URL (with ``/v1``), the gateway's own key there, limits and times.

    ``more`` are other servers of the same models and key. ``path_seconds`` bound one call from its start to
    its last byte. ``ca_file`` holds certificates that are trusted beside the system's.
    """

    url: str
    more: tuple[str, ...] = ()
    key: str = field(default="", repr=False)
    connections: int = 512
    path_seconds: float = 600.0
    connect_seconds: float = 5.0
    ca_file: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of all servers."""
        return (self.url, *self.more)


@dataclass(frozen=True, slots=True)
class ClientHeaders:
    """What a client sent that the upstream gets too.

    Its key (where the gateway has none), and some headers.
    """

    keys: Headers = field(default_factory=dict[str, str], repr=False)
    headers: Headers = field(default_factory=dict[str, str])
    query: str = ""

    def at(self, *, trusted: bool) -> ClientHeaders:
        """Return the caller as a server gets to know it: without its key where that may not go there."""
        return self if trusted else replace(self, keys={})


NOBODY = ClientHeaders()


class UpstreamError(Exception):
    """One upstream call failed.

    ``refusal`` is what it answered (status 0: nothing over HTTP). ``transient`` says whether the same call
    may work later, ``repeated`` that it gave one path twice, ``unreachable`` that no connection could be
    made; ``usage`` is what a useless answer was billed at.
    """

    def __init__(
        self,
        message: str,
        refusal: Refusal | None = None,
        *,
        transient: bool = True,
        repeated: bool = False,
        unreachable: bool = False,
        usage: object = None,
    ) -> None:
        super().__init__(message)
        self.refusal = refusal or Refusal(0, message)
        self.transient, self.repeated, self.usage = transient, repeated, usage
        self.unreachable = unreachable

    @property
    def status(self) -> int:
        """The HTTP status, or 0."""
        return self.refusal.status

    @property
    def lacks_path(self) -> bool:
        """Whether the server knows no such path, rather than no such model."""
        unknown = self.status in (404, 405, 501)
        return unknown and "model" not in f"{self.refusal.code} {self.refusal.message}".lower()

    def problem(self) -> Problem:
        """Return what the client is told: its own faults as the upstream said them, all else as 502."""
        said = self.refusal
        if said.status == 429:
            wait = None if said.wait is None else {"retry-after": f"{max(1, round(said.wait))}"}
            return Problem(
                429, said.message, code=said.code or "upstream_rate_limit", kind=said.kind, headers=wait
            )
        if self.transient or not 400 <= said.status < 500:
            return Problem(502, f"the upstream failed: {self}", code="upstream_failed")
        status = said.status if said.status in KNOWN_STATUSES else 400
        return Problem(
            status, said.message, code=said.code or "upstream_refused", kind=said.kind, param=said.param
        )


@dataclass(frozen=True, slots=True)
class Api:
    """One of the two ways to ask for a path: its address below the base, and how its answers are read.

    ``read`` gives the choices in the words of chat, and what else the answer says (``usage`` in the words of
    chat too); it raises EngineError.
    """

    path: str
    read: Callable[[Object], tuple[list[Object], Object]]


def _chat(body: Object) -> tuple[list[Object], Object]:
    return [dict(choice) for choice in choices_of(body)], body


def _response(body: Object) -> tuple[list[Object], Object]:
    usage = chat_usage(body.get("usage"))
    return [choice_of(body)], {"usage": usage, "model": body.get("model"), "response": body}


CHAT, RESPONSES = Api("/chat/completions", _chat), Api("/responses", _response)


@dataclass(frozen=True, slots=True)
class Answer:
    """One upstream response: the choices, in order of their indices, the whole body, and its rate limits."""

    choices: list[Object]
    body: Object
    limits: Headers = field(default_factory=dict[str, str])


class StreamedPath:
    """A streamed answer as it comes: ``began`` with its first bytes, and some ``tokens`` so far.

    A token is an event with words, or an entry of log-probabilities where an event has several.
    """

    def __init__(self) -> None:
        self._events, self._parts = Events(), Assembler()
        self.began, self.tokens = False, 0

    def feed(self, part: bytes) -> None:
        """Take some bytes; raises ValueError and EngineError for what is no stream of a path."""
        self.began = True
        for event in self._events.feed(part):
            data = data_of(event)
            if not data or data == DONE:
                continue
            chunk = fields(decoded(data))
            self._parts.take(chunk)
            for choice in entries(chunk.get("choices")):
                spoke = any(value for name, value in fields(choice.get("delta")).items() if name != "role")
                self.tokens += max(int(spoke), len(entries(fields(choice.get("logprobs")).get("content"))))

    def response(self) -> Object:
        """Return the whole answer; raises EngineError where it broke off."""
        return self._parts.response()


class Upstream:
    """Calls one server. ``start`` and ``close`` belong to one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.client = Client(
            address.url, address.connections, address.connect_seconds, address.path_seconds, address.ca_file
        )
        self._chat = self.client.target(CHAT.path)

    @property
    def path_seconds(self) -> float:
        """The most seconds of one path."""
        return self.address.path_seconds

    async def start(self) -> None:
        """Make the pool of connections ready."""
        self.client.start()

    async def close(self) -> None:
        """Close the pool."""
        await self.client.close()

    def headers(self, caller: ClientHeaders) -> dict[str, str]:
        """Return the headers of a call: the gateway's own key, or what the client sent if there is none."""
        sent = {
            "content-type": JSON_TYPE,
            "accept": JSON_TYPE,
            "accept-encoding": ENCODINGS,
            **caller.headers,
        }
        return sent | self.keys(caller)

    def keys(self, caller: ClientHeaders) -> dict[str, str]:
        """Return the headers by which a call shows who makes it."""
        return {"authorization": f"Bearer {self.address.key}"} if self.address.key else dict(caller.keys)

    async def draw(
        self,
        body: bytes,
        headers: Headers,
        query: str = "",
        api: Api = CHAT,
        streamed: StreamedPath | None = None,
    ) -> Answer:
        """Make one call; raises UpstreamError. Cancelling closes the connection.

        ``streamed``: as a stream, which it takes, so that what came of a path that is cancelled is known.
        """
        if streamed is not None:
            return await self._streamed(body, headers, query, streamed)
        target = self._chat if api is CHAT and not query else self.client.target(api.path, query)
        response, raw = await self._whole("POST", target, headers, body)
        return self._answer(parsed(raw), _limits(response.headers), headers, api)

    async def _whole(
        self, method: str, target: str, headers: Headers, body: bytes = b""
    ) -> tuple[Call, bytes]:
        """Make one call and take its body; raises UpstreamError for a broken one and any status but 200."""
        try:
            response = await self.client.request(method, target, headers, body)
            try:
                raw = await limited(response)
            finally:
                response.close()
        except BROKEN as error:
            raise broken(error) from None
        if response.status != 200:
            raise self.refusal(response.status, raw, response.headers, headers)
        return response, raw

    async def _streamed(self, body: bytes, headers: Headers, query: str, path: StreamedPath) -> Answer:
        async with Upstream.relay(self, body[:-1] + STREAMED, headers, query) as response:
            try:
                async for part in response.parts():
                    path.feed(part)
            except BROKEN as error:
                raise broken(error) from None
            except EngineError as error:
                raise UpstreamError(str(error), transient=error.transient) from None
            try:
                whole = path.response()
            except EngineError as error:
                repeated = isinstance(error, RepeatedError)
                raise UpstreamError(str(error), transient=error.transient, repeated=repeated) from None
        return self._answer(whole, _limits(response.headers), headers, CHAT)

    def refusal(self, status: int, raw: bytes, headers: Headers, sent: Headers) -> UpstreamError:
        """Return the error for a response that is not 200.

        What a server says about a key may repeat the key, so of that nothing is handed on.
        """
        if status in (401, 403) and self.address.key:
            return UpstreamError("it refused the gateway's key", transient=False)
        said = refusal_of(status, raw, headers, self._mask(sent))
        if status in (401, 403):
            said = replace(said, message="the upstream refused the key")
        return UpstreamError(f"{said.message} (HTTP {status})", said, transient=said.transient)

    def _mask(self, sent: Headers) -> Mask:
        keys = (sent.get(name, "") for name in ("authorization", "api-key", "x-api-key"))
        return Mask([self.address.key, *(key.rpartition(" ")[2] for key in keys)])

    def _answer(self, body: Object, limits: Headers, sent: Headers, api: Api) -> Answer:
        try:
            return Answer(*api.read(body), limits)
        except EngineError as error:
            line = self._mask(sent)(str(error), 500)
            repeated = isinstance(error, RepeatedError)
            raise UpstreamError(
                line, transient=error.transient, repeated=repeated, usage=chat_usage(body.get("usage"))
            ) from None

    @contextlib.asynccontextmanager
    async def relay(
        self, body: bytes, headers: Headers, query: str = "", api: Api = CHAT
    ) -> AsyncGenerator[Call]:
        """Open a streamed call and give its response; raises UpstreamError when that is not a stream."""
        asked = {**headers, "accept-encoding": "identity"}
        try:
            response = await self.client.request("POST", self.client.target(api.path, query), asked, body)
        except BROKEN as error:
            raise broken(error) from None
        try:
            raw = b"" if _is_stream(response) else await self._read(response)
            if response.status != 200:
                raise self.refusal(response.status, raw, response.headers, headers)
            if not _is_stream(response):
                raise self._unstreamed(raw, headers)
            yield response
        finally:
            response.close()

    @staticmethod
    async def _read(response: Call) -> bytes:
        try:
            return await limited(response)
        except BROKEN as error:
            raise broken(error) from None

    def _unstreamed(self, raw: bytes, sent: Headers) -> UpstreamError:
        reason = refusal_of(200, raw, {}, self._mask(sent)).message
        return UpstreamError("its answer is not a stream of events" if reason == UNKNOWN else reason)

    async def call(
        self, method: str, path: str, headers: Headers, body: bytes, query: str = ""
    ) -> tuple[Upstream, Call]:
        """Make a call of any kind, and return it with the server that answers; raises UpstreamError."""
        try:
            return self, await self.client.request(method, self.client.target(path, query), headers, body)
        except BROKEN as error:
            raise broken(error) from None

    async def ready(self) -> bool:
        """Return whether the server answers."""
        try:
            await Upstream.models(self, NOBODY)
        except UpstreamError as error:
            return 400 <= error.status < 500
        return True

    async def models(self, caller: ClientHeaders) -> bytes:
        """Return the list of models as the upstream gives it; raises UpstreamError."""
        headers = self.headers(caller)
        target = self.client.target("/models", caller.query)
        try:
            async with asyncio.timeout(MODELS_SECONDS):
                _, raw = await self._whole("GET", target, headers)
        except TimeoutError as error:
            raise broken(error) from None
        parsed(raw)
        return raw


def broken(error: Exception) -> UpstreamError:
    """Return the error for what went wrong on the wire; TLS that fails will not do better the next time."""
    return UpstreamError(
        plain(error),
        transient=not isinstance(error, ssl.SSLError),
        unreachable=isinstance(error, UnreachableError),
    )


def _is_stream(response: Call) -> bool:
    return response.status == 200 and response.kind == "text/event-stream"


def _limits(headers: Headers) -> Headers:
    return {name: value for name, value in headers.items() if name.startswith(TOLD_BACK)}


def parsed(raw: bytes) -> Object:
    """Return the JSON object that an answer holds; raises UpstreamError."""
    try:
        body = decoded(raw)
    except ValueError:
        raise UpstreamError("its answer is not JSON") from None
    if not isinstance(body, dict):
        raise UpstreamError("its answer is not a JSON object")
    return fields(cast("object", body))
