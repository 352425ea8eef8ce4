"""One server that draws paths: its calls, and whether it may be asked."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from typing import cast

from keff.errors import EngineError
from keff.gateway.upstream.answer import (
    CHAT,
    NOBODY,
    Address,
    Answer,
    Api,
    ClientHeaders,
    Headers,
    StreamedPath,
    UpstreamError,
)
from keff.narrow import fields
from keff.protocol.client import BROKEN, Client, UnreachableError, limited, plain
from keff.protocol.connection import Call
from keff.protocol.reply import RepeatedError
from keff.protocol.responses import chat_usage
from keff.protocol.server import UNKNOWN, Mask, refusal_of
from keff.protocol.values import ENCODINGS, Object, decoded, encoded

# Requests that differ and failed in a row after which a trial decides whether a server is down.
FAILURES = 3

# Seconds between two trials of a server: at first, and at most while it is down (they double).
REST, LONGEST_REST = 5.0, 60.0

# Where no other server is up, the next trial may follow after so many times what the last one took: at once
# on a connection that is refused, after the full rest where a server hangs, so that few requests wait for it.
ALONE = 10

# So long a trial may take.
TRIAL_SECONDS = 5.0

# What a trial asks: nothing of a client's, which may be what brings a server to fail.
TRIAL: Object = {"messages": [{"role": "user", "content": "Say ok."}], "max_tokens": 1}

# What differs between the calls of one request.
_PLACE = re.compile(rb',"(?:n|seed)":-?\d+')

KEYS = ("authorization", "api-key", "x-api-key")


@dataclass(slots=True)
class CircuitBreaker:
    """Whether a server may be asked.

    Requests that fail make a trial due once enough of them differ: one prompt on which servers fail says
    nothing of others, however often it is asked. The trial, a request of the gateway's own, decides.
    """

    clock: Callable[[], float] = time.monotonic
    why: str = ""
    down: bool = False
    _failed: set[int] = field(default_factory=set[int])
    _unreachable: int = 0
    _rest: float = REST
    _until: float = field(default=-math.inf)
    _alone: float = field(default=-math.inf)

    @property
    def due(self) -> bool:
        """Whether it is time for a trial: of a server that fails, or that rested."""
        asked = self.down or len(self._failed) + self._unreachable >= FAILURES
        return asked and self.clock() >= self._until

    @property
    def due_alone(self) -> bool:
        """Whether it is time for a trial where no other server is up."""
        return self.due or (self.down and self.clock() >= self._alone)

    def answered(self) -> None:
        """Note that a request came back."""
        if not self.down:
            self._failed.clear()
            self._unreachable = 0

    def failed(self, error: UpstreamError, request: int) -> None:
        """Note a request that failed; what cannot be reached at all, no request brings about."""
        self.why = str(error)
        self._unreachable += error.unreachable
        self._failed.add(request)

    def tried(self, failure: str | None, took: float = 0.0) -> None:
        """Take what a trial came to, why it failed or None, and how many seconds it took."""
        self._failed.clear()
        self._unreachable = 0
        self.down, self.why = failure is not None, failure or ""
        self._until = self.clock() + self._rest
        self._alone = self.clock() + ALONE * took
        self._rest = min(2 * self._rest, LONGEST_REST) if self.down else REST


# What a streamed call says at the end of its body.
STREAMED = b',"stream":true,"stream_options":{"include_usage":true}}'
JSON_TYPE = "application/json"
TOLD_BACK = "x-ratelimit-"
# Listing models is a small request: a server that takes longer is not ready.
MODELS_SECONDS = 10.0


class Upstream:
    """Calls one server, whose health is known: calls that fail for different requests bring about a trial.

    The trial shows the key of the call that brought it about, which is the gateway's own or the client's:
    without one, a server that wants keys would refuse it, and that says nothing. ``start`` and ``close``
    belong to one event loop.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.client = Client(
            address.url, address.connections, address.connect_seconds, address.path_seconds, address.ca_file
        )
        self._chat = self.client.target(CHAT.path)
        self.health = CircuitBreaker()
        self.trial: asyncio.Task[None] | None = None
        self._model: object = None

    async def start(self) -> None:
        """Make the pool of connections ready."""
        self.client.start()

    async def close(self) -> None:
        """Close the pool."""
        if self.trial is not None:
            self.trial.cancel()
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
        try:
            if streamed is not None:
                answer = await self._streamed(body, headers, query, streamed)
            else:
                target = self._chat if api is CHAT and not query else self.client.target(api.path, query)
                response, raw = await self._whole("POST", target, headers, body)
                answer = self._answer(parsed(raw), _limits(response.headers), headers, api)
        except UpstreamError as error:
            raise self._noted(error, body, headers) from None
        self.health.answered()
        return answer

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
        response = await self._opened(body[:-1] + STREAMED, headers, query)
        try:
            async for part in response.parts():
                path.feed(part)
            whole = path.response()
        except BROKEN as error:
            raise broken(error) from None
        except EngineError as error:
            repeated = isinstance(error, RepeatedError)
            raise UpstreamError(str(error), transient=error.transient, repeated=repeated) from None
        finally:
            response.close()
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
        try:
            response = await self._opened(body, headers, query, api)
        except UpstreamError as error:
            raise self._noted(error, body, headers) from None
        self.health.answered()
        try:
            yield response
        finally:
            response.close()

    async def _opened(self, body: bytes, headers: Headers, query: str, api: Api = CHAT) -> Call:
        asked = {**headers, "accept-encoding": "identity"}
        try:
            response = await self.client.request("POST", self.client.target(api.path, query), asked, body)
        except BROKEN as error:
            raise broken(error) from None
        if _is_stream(response):
            return response
        try:
            raw = await limited(response)
        except BROKEN as error:
            raise broken(error) from None
        finally:
            response.close()
        if response.status != 200:
            raise self.refusal(response.status, raw, response.headers, headers)
        reason = refusal_of(200, raw, {}, self._mask(headers)).message
        raise UpstreamError("its answer is not a stream of events" if reason == UNKNOWN else reason)

    async def call(
        self, method: str, path: str, headers: Headers, body: bytes, query: str = ""
    ) -> tuple[Upstream, Call]:
        """Make a call of any kind, and return it with the server that answers; raises UpstreamError."""
        try:
            return self, await self.client.request(method, self.client.target(path, query), headers, body)
        except BROKEN as error:
            raise broken(error) from None

    def own(self, headers: Headers) -> dict[str, str]:
        """Return the headers of a call to this server, without the key of another."""
        kept = {name: value for name, value in headers.items() if name.lower() not in KEYS}
        return kept | self.keys(ClientHeaders())

    def try_again(self, headers: Headers, *, alone: bool = False) -> None:
        """Begin a trial where one is due; it shows the key of these headers."""
        if (self.health.due_alone if alone else self.health.due) and (
            self.trial is None or self.trial.done()
        ):
            self.trial = asyncio.create_task(self._tried(headers))

    def _noted(self, error: UpstreamError, body: bytes, headers: Headers) -> UpstreamError:
        if serves_nobody(error.status):
            self.health.failed(error, hash(_PLACE.sub(b"", body)))
            if self.health.due and not self.health.down:
                with contextlib.suppress(ValueError):
                    self._model = fields(decoded(body)).get("model")
                self.try_again(headers)
        return error

    async def _tried(self, headers: Headers) -> None:
        """Ask for one token, and let that decide; a refusal of a prompt is an answer too."""
        named = {} if self._model is None else {"model": self._model}
        failure, begun = None, time.monotonic()
        try:
            async with asyncio.timeout(TRIAL_SECONDS):
                _, response = await self.call("POST", CHAT.path, headers, encoded({**named, **TRIAL}))
                status = response.status
                response.close()
        except TimeoutError:
            failure = "it did not answer in time"
        except UpstreamError as error:
            failure = str(error)
        else:
            # A key that is refused, of whichever client, does not say that what was down serves others again.
            keyless = status in (401, 403) and (self.health.down or bool(self.address.key))
            if serves_nobody(status) or keyless:
                failure = f"it answers with HTTP {status}"
        self.health.tried(failure, time.monotonic() - begun)

    async def ready(self) -> bool:
        """Return whether the server answers."""
        try:
            await self.models(NOBODY)
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


def serves_nobody(status: int) -> bool:
    """Return whether a status says that a server serves nobody; 0: nothing over HTTP, or our key refused.

    What a request brought about itself (a prompt, a model or a client's key that is refused) says nothing
    about others.
    """
    return status in (0, 408) or status >= 500


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
