"""One upstream server: its calls, and a circuit breaker on its health."""

from __future__ import annotations

import asyncio
import math
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from keff.errors import EngineError
from keff.gateway.upstream.answer import (
    CHAT,
    NOBODY,
    Address,
    Answer,
    Headers,
    StreamedPath,
    UpstreamCall,
    UpstreamError,
)
from keff.narrow import fields
from keff.protocol.assembler import StreamEnds
from keff.protocol.client import BROKEN, EVENTS, Call, Client, UnreachableError, plain
from keff.protocol.reply import RepeatedError
from keff.protocol.responses import chat_usage
from keff.protocol.server import Mask, is_cached, refusal_of
from keff.protocol.values import LARGEST, Object, decoded, encoded

# Requests that differ and failed in a row after which a trial decides whether a server is down.
FAILURES = 3

# Seconds between two trials of a server.
REST = 1.0

# So long a trial may take.
TRIAL_SECONDS = 5.0

# What a trial asks: nothing of a client's, which may be what brings a server to fail.
TRIAL: Object = {"messages": [{"role": "user", "content": "Say ok."}], "max_tokens": 1}

# What differs between the calls of one request.
_PLACE = re.compile(rb',"(?:n|seed|random_seed)":-?\d+')

KEYS = ("authorization", "api-key", "x-api-key")

T = TypeVar("T")


@dataclass(slots=True)
class CircuitBreaker:
    """Health of one server, from failures and trial calls.

    Once enough different requests have failed, a trial is due: a request of the gateway's own, which
    decides. One prompt that fails again and again says nothing about other prompts, so it counts once.
    """

    clock: Callable[[], float] = time.monotonic
    why: str = ""
    down: bool = False
    _failed: set[object] = field(default_factory=set[object])
    _until: float = field(default=-math.inf)

    @property
    def due(self) -> bool:
        """Whether a trial call is due: the server fails, or has rested while down."""
        asked = self.down or len(self._failed) >= FAILURES
        return asked and self.clock() >= self._until

    def answered(self) -> None:
        """Record a successful request."""
        if not self.down:
            self._failed.clear()

    def failed(self, error: UpstreamError, request: int) -> None:
        """Record a failed request, or an unreachable server."""
        self.why = str(error)
        # What cannot be reached is no fault of a request: each time counts apart.
        self._failed |= {request, object()} if error.unreachable else {request}

    def tried(self, failure: str | None) -> None:
        """Record the result of a trial call: why it failed, or None."""
        self._failed.clear()
        self.down, self.why = failure is not None, failure or ""
        self._until = self.clock() + REST


# What a streamed call says at the end of its body.
STREAMED = b',"stream":true,"stream_options":{"include_usage":true}}'
TOLD_BACK = "x-ratelimit-"
# Listing models is a small request: a server that takes longer is not ready.
MODELS_SECONDS = 10.0


class Upstream:
    """One server with its health; failures of different requests trigger a trial call.

    The trial sends the key of the call that triggered it, the gateway's own or the client's. Without a
    key, a server that requires one would refuse, and that would say nothing about its health. ``close``
    belongs to the event loop of the client's ``start``.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.client = Client(
            address.url, address.connections, address.connect_seconds, address.path_seconds, address.ca_file
        )
        self.health, self.ends = CircuitBreaker(), StreamEnds()
        self.trial: asyncio.Task[None] | None = None
        # The model of the call that failed last, and of the one that was answered last.
        self._failed: object = None
        self._answered: tuple[object, ...] = ()

    async def close(self) -> None:
        """Close the connection pool."""
        if self.trial is not None:
            self.trial.cancel()
        await self.client.close()

    async def draw(self, call: UpstreamCall, streamed: StreamedPath | None = None) -> Answer:
        """Make one call; raises UpstreamError. Cancellation closes the connection.

        ``streamed`` asks for a stream, so that keff knows what a cancelled path has produced.
        """
        work = self._drawn(call) if streamed is None else self._streamed(call, streamed)
        return await self._heard(work, call)

    async def _drawn(self, call: UpstreamCall) -> Answer:
        response = await self.call("POST", call.api.path, call)
        if response.status < 300 and response.kind == EVENTS:  # some servers stream whatever is asked
            return await self._read(response, call, self._path())
        return await self._whole(response, call)

    def _path(self) -> StreamedPath:
        path = StreamedPath()
        path.restart(self.ends)
        return path

    async def _whole(self, response: Call, call: UpstreamCall) -> Answer:
        return self._answer(await self._body(response, call), response, call)

    async def _body(self, response: Call, call: UpstreamCall) -> Object:
        """Return the JSON of a response; raises UpstreamError unless complete and a success."""
        raw = await body_of(response)
        if response.status >= 300:
            raise self._refusal(response, raw, call)
        return parsed(raw)

    async def _streamed(self, call: UpstreamCall, path: StreamedPath) -> Answer:
        # What another server began is no part of this one's answer.
        path.restart(self.ends)
        response = await self._opened(call._replace(body=call.body[:-1] + STREAMED))
        return response if isinstance(response, Answer) else await self._read(response, call, path)

    async def _read(self, response: Call, call: UpstreamCall, path: StreamedPath) -> Answer:
        """Return the answer that a stream makes; raises UpstreamError unless it is complete."""
        try:
            async for part in response.parts(LARGEST):
                path.feed(part)
            whole = path.response(response.headers)
            whole["usage"] = whole["usage"] or {"completion_tokens": path.tokens}
        except BROKEN as error:
            raise broken(error) from None
        except EngineError as error:
            raise self._useless(error, call) from None
        finally:
            response.close()
        return self._answer(whole, response, call)

    def _refusal(self, response: Call, raw: bytes, call: UpstreamCall) -> UpstreamError:
        """Return the error for a response that is not 200.

        What a server says about a key may repeat the key, so of that nothing is handed on.
        """
        status = response.status
        if status in (401, 403) and self.address.key:
            return UpstreamError("it refused the gateway's key", transient=False)
        said = refusal_of(status, raw, response.headers, self._mask(call.headers))
        if status in (401, 403):
            said = replace(said, message="the upstream refused the key")
        return UpstreamError(f"{said.message} (HTTP {status})", said, transient=said.transient)

    def _mask(self, sent: Headers) -> Mask:
        keys = (sent.get(name, "") for name in KEYS)
        return Mask([self.address.key, *(key.rpartition(" ")[2] for key in keys)])

    def _answer(self, body: Object, response: Call, call: UpstreamCall) -> Answer:
        told = {name: value for name, value in response.headers.items() if name.startswith(TOLD_BACK)}
        try:
            return Answer(*call.api.read(body), told, is_cached(response.headers))
        except EngineError as error:
            raise self._useless(error, call, body.get("usage")) from None

    def _useless(self, error: EngineError, call: UpstreamCall, usage: object = None) -> UpstreamError:
        line, repeated = self._mask(call.headers)(str(error), 500), isinstance(error, RepeatedError)
        return UpstreamError(line, transient=error.transient, repeated=repeated, usage=chat_usage(usage))

    async def relay(self, call: UpstreamCall) -> Call | Answer:
        """Open a streamed call: its response, or its answer where the server gives that whole.

        Raises UpstreamError for what is neither.
        """
        return await self._heard(self._opened(call), call)

    async def _opened(self, call: UpstreamCall) -> Call | Answer:
        plain = call._replace(headers={**call.headers, "accept-encoding": "identity"})
        response = await self.call("POST", call.api.path, plain)
        if response.status < 300 and await response.streams():
            return response
        return await self._whole(response, call)

    async def call(self, method: str, path: str, call: UpstreamCall) -> Call:
        """Make a call of any kind, and return its response; raises UpstreamError."""
        target = self.client.target(path, call.query)
        try:
            return await self.client.request(method, target, call.headers, call.body)
        except BROKEN as error:
            raise broken(error) from None

    def own(self, headers: Headers) -> dict[str, str]:
        """Return the headers of a call to this server, without another server's key."""
        kept = {name: value for name, value in headers.items() if name.lower() not in KEYS}
        return {**kept, **self.address.keys(NOBODY)}

    def try_again(self, call: UpstreamCall) -> None:
        """Start a trial if one is due, with the model and the headers of this call."""
        if self.health.due and (self.trial is None or self.trial.done()):
            models = dict.fromkeys((call.model or self._failed, *self._answered))
            self.trial = asyncio.create_task(self._run_trials(models, call.headers))

    async def _heard(self, work: Coroutine[object, object, T], call: UpstreamCall) -> T:
        """Await a call, and record its success or failure in the server's health."""
        try:
            answer = await work
        except UpstreamError as error:
            self._noted(error, call)
            raise error from None
        self._answered = (call.model,)
        self.health.answered()
        return answer

    def _noted(self, error: UpstreamError, call: UpstreamCall) -> None:
        if serves_nobody(error.status):
            self.health.failed(error, hash(_PLACE.sub(b"", call.body)))
            if self.health.due and not self.health.down:
                self._failed = call.model
                self.try_again(call)

    async def _run_trials(self, models: Iterable[object], headers: Headers) -> None:
        """Set the health by trials; a server of several models is up while one of these answers."""
        failure = None
        for model in models:
            if (failure := await self._failure(model, headers)) is None:
                break
        self.health.tried(failure)

    async def _failure(self, model: object, headers: Headers) -> str | None:
        """Ask for one token and return what failed; a refused prompt counts as healthy."""
        try:
            async with asyncio.timeout(TRIAL_SECONDS):
                trial = UpstreamCall(encoded(TRIAL if model is None else {**TRIAL, "model": model}), headers)
                response = await self.call("POST", CHAT.path, trial)
                status = response.status
                response.close()
        except TimeoutError:
            return "it did not answer in time"
        except UpstreamError as error:
            return str(error)
        # A key that is refused, of whichever client, does not say that what was down serves others again.
        keyless = status in (401, 403) and (self.health.down or bool(self.address.key))
        return f"it answers with HTTP {status}" if serves_nobody(status) or keyless else None

    async def ready(self) -> bool:
        """Return whether the server responds to a request for its models, if only by a refusal."""
        try:
            async with asyncio.timeout(MODELS_SECONDS):
                call = UpstreamCall(b"", self.address.headers(NOBODY))
                await self._body(await self.call("GET", "/models", call), call)
        except TimeoutError:
            return False
        except UpstreamError as error:
            return 400 <= error.status < 500
        return True


def serves_nobody(status: int) -> bool:
    """Return whether a status means that the server fails for everyone.

    Status 0 is a server that cannot be reached, or that refused the gateway's own key. A refused prompt,
    model or client's key says nothing about other requests.
    """
    return status in (0, 408) or status >= 500


def broken(error: Exception) -> UpstreamError:
    """Return the UpstreamError for a connection error; a TLS failure is marked permanent."""
    return UpstreamError(
        plain(error),
        transient=not isinstance(error, ssl.SSLError),
        unreachable=isinstance(error, UnreachableError),
    )


async def body_of(response: Call) -> bytes:
    """Return a response's body and close it; raises UpstreamError."""
    try:
        return await response.read()
    except BROKEN as error:
        raise broken(error) from None
    finally:
        response.close()


def parsed(raw: bytes) -> Object:
    """Return an answer's JSON object; raises UpstreamError."""
    try:
        body = decoded(raw)
    except ValueError:
        raise UpstreamError("its answer is not JSON") from None
    if not isinstance(body, dict):
        raise UpstreamError("its answer is not a JSON object")
    return fields(cast("object", body))
