"""Several servers of the same models: which one draws, which is left alone, and a fallback."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from keff.gateway.upstream.connection import Call
from keff.gateway.upstream.server import (
    CHAT,
    Address,
    Answer,
    Api,
    ClientHeaders,
    Headers,
    StreamedPath,
    Upstream,
    UpstreamError,
)
from keff.narrow import fields
from keff.protocol.values import Object, decoded, encoded

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

# What says that a server serves nobody, beside every 5xx; 0 is nothing over HTTP, or the gateway's own key
# refused. What a request brought about itself (a prompt, a model or a client's key that is refused) says
# nothing about others.
DOWN_STATUSES = frozenset({0, 408})

# With these a server says that another one may answer what it passes on.
ELSEWHERE = frozenset({502, 503, 504})

# How many more calls than the least busy server has, the server of a request's first path may have before
# its other paths go elsewhere: together they share the prompt in its cache, and a batch of 8 decodes in
# hardly more time than one; beyond that they would wait beside a server that is idle.
TOGETHER = 8

# What differs between the calls of one request.
_PLACE = re.compile(rb',"(?:n|seed)":-?\d+')

KEYS = ("authorization", "api-key", "x-api-key")

T = TypeVar("T")


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


class Watched(Upstream):
    """An upstream whose health is known: calls that fail for different requests bring about a trial.

    The trial shows the key of the call that brought it about, which is the gateway's own or the client's:
    without one, a server that wants keys would refuse it, and that says nothing.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.health = CircuitBreaker()
        self.trial: asyncio.Task[None] | None = None
        self._model: object = None

    async def close(self) -> None:
        """Close the pool."""
        if self.trial is not None:
            self.trial.cancel()
        await super().close()

    async def draw(
        self,
        body: bytes,
        headers: Headers,
        query: str = "",
        api: Api = CHAT,
        streamed: StreamedPath | None = None,
    ) -> Answer:
        """Make one call; raises UpstreamError."""
        try:
            answer = await super().draw(body, headers, query, api, streamed)
        except UpstreamError as error:
            raise self._noted(error, body, headers) from None
        self.health.answered()
        return answer

    @contextlib.asynccontextmanager
    async def relay(
        self, body: bytes, headers: Headers, query: str = "", api: Api = CHAT
    ) -> AsyncGenerator[Call]:
        """Open a streamed call; raises UpstreamError."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(super().relay(body, headers, query, api))
            except UpstreamError as error:
                raise self._noted(error, body, headers) from None
            self.health.answered()
            yield response

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
        if error.status in DOWN_STATUSES or error.status >= 500:
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
            if status in DOWN_STATUSES or status >= 500 or keyless:
                failure = f"it answers with HTTP {status}"
        self.health.tried(failure, time.monotonic() - begun)


class Fleet:
    """The servers of an address, of which the least busy draws, and a ``fallback`` with its own key.

    A call that fails at one of them is made at one other at once: the least busy that is up, else the
    fallback. What is down is not asked until its trial; where nothing is up, trials follow each other sooner,
    and a call that meets none fails without being made.
    """

    def __init__(self, address: Address, fallback: Address | None = None) -> None:
        self.address = address
        self.servers = tuple(Watched(replace(address, url=url, more=())) for url in address.urls)
        self.fallback = None if fallback is None else Watched(fallback)
        self._all = self.servers if self.fallback is None else (*self.servers, self.fallback)
        self._turn = 0
        # Known once a call to ``/responses`` found no such path.
        self.chat_only = False
        self.streams = True

    @property
    def path_seconds(self) -> float:
        """The most seconds of one path: at a server, and then at another."""
        return sum(server.path_seconds for server in self._all[:2])

    async def start(self) -> None:
        """Make the pools of connections ready."""
        for server in self._all:
            await server.start()

    async def close(self) -> None:
        """Close the pools."""
        for server in self._all:
            await server.close()

    def headers(self, caller: ClientHeaders) -> dict[str, str]:
        """Return the headers of a call to these servers."""
        return self.servers[0].headers(caller)

    def keys(self, caller: ClientHeaders) -> dict[str, str]:
        """Return the headers by which a call shows who makes it."""
        return self.servers[0].keys(caller)

    def home(self) -> Watched:
        """Return the server for the paths of one request: the least busy, of equals each in turn."""
        self._turn += 1
        turned = self.servers[self._turn % len(self.servers) :] + self.servers
        return min(turned, key=lambda server: (server.health.down, server.client.running))

    async def draw(
        self,
        body: bytes,
        headers: Headers,
        query: str = "",
        api: Api = CHAT,
        home: Watched | None = None,
        streamed: StreamedPath | None = None,
    ) -> Answer:
        """Make one call; raises UpstreamError."""
        path = streamed if api is CHAT and self.streams else None

        async def drawn(server: Watched, sent: Headers) -> Answer:
            return await server.draw(body, sent, query, api, path)

        try:
            return await self._asked(drawn, headers, home)
        except UpstreamError as error:
            if (
                path is None
                or path.began
                or (error.status not in (400, 422) and "not a stream" not in str(error))
            ):
                raise
        # A server that does not stream, or not with its usage, is asked as others are from now on.
        path = None
        answer = await self._asked(drawn, headers, home)
        self.streams = False
        return answer

    @contextlib.asynccontextmanager
    async def relay(
        self, body: bytes, headers: Headers, query: str = "", api: Api = CHAT
    ) -> AsyncGenerator[Call]:
        """Open a streamed call; raises UpstreamError."""
        async with contextlib.AsyncExitStack() as stack:

            async def opened(server: Watched, sent: Headers) -> Call:
                return await stack.enter_async_context(server.relay(body, sent, query, api))

            yield await self._asked(opened, headers)

    async def call(
        self, method: str, path: str, headers: Headers, body: bytes, query: str = ""
    ) -> tuple[Upstream, Call]:
        """Make a call of any kind, and return it with the server that answers; raises UpstreamError.

        What it says of a server is not noted: a client may ask for an address that never works.
        """
        left = min(2, sum(not server.health.down for server in self._all))

        async def called(server: Watched, sent: Headers) -> tuple[Upstream, Call]:
            nonlocal left
            left -= 1
            found, response = await server.call(method, path, sent, body, query)
            if response.status in ELSEWHERE and left:
                response.close()
                raise UpstreamError(f"it answers with HTTP {response.status}")
            return found, response

        return await self._asked(called, headers)

    async def models(self, caller: ClientHeaders) -> bytes:
        """Return the list of models; raises UpstreamError."""

        async def listed(server: Watched, sent: Headers) -> bytes:
            del sent
            return await server.models(replace(caller, keys={}) if server is self.fallback else caller)

        return await self._asked(listed, self.headers(caller), every=True)

    async def ready(self) -> bool:
        """Return whether a server answers that is not known to be down."""
        for server in self._all:
            server.try_again(self.headers(ClientHeaders()))
        up = [server.ready() for server in self._all if not server.health.down]
        return any(await asyncio.gather(*up))

    def states(self) -> dict[str, str]:
        """Return ``up``, or why it is down, of each server by its address."""
        return {
            server.address.url: f"down: {server.health.why}" if server.health.down else "up"
            for server in self._all
        }

    async def _asked(
        self,
        ask: Callable[[Watched, Headers], Awaitable[T]],
        headers: Headers,
        home: Watched | None = None,
        *,
        every: bool = False,
    ) -> T:
        """Ask one server, and where it cannot answer another; ``every``: whatever went wrong."""
        refused: UpstreamError | None = None
        for server in await self._ways(headers, home):
            try:
                return await ask(server, server.own(headers) if server is self.fallback else headers)
            except UpstreamError as error:
                refused = error
                if not (every or error.transient or error.status in DOWN_STATUSES or error.status >= 500):
                    raise
        assert refused is not None, "there is a server"
        # What is down is not asked again by the same request: the next branch, or the reply, waits.
        refused.transient = refused.transient and any(not server.health.down for server in self._all)
        try:
            raise refused
        finally:
            # It holds this frame, which would hold it in turn until the next garbage collection.
            refused = None

    async def _ways(self, headers: Headers, home: Watched | None) -> list[Watched]:
        """Return the server to ask and the one to ask next; raises UpstreamError where all are down."""
        if len(self._all) == 1 and not self.servers[0].health.down:
            return [self.servers[0]]
        alone = all(server.health.down for server in self._all)
        for server in self._all:
            if server.health.down:
                sent = server.own(headers) if server is self.fallback else headers
                server.try_again(sent, alone=alone)
        if alone:
            await self._trials()
        up = sorted(
            (server for server in self.servers if not server.health.down),
            key=lambda server: server.client.running,
        )
        if home is not None and home in up:
            busy = home.client.running - up[0].client.running > TOGETHER
            up.remove(home)
            up.insert(int(busy), home)
        spare = [] if self.fallback is None or self.fallback.health.down else [self.fallback]
        if not (ways := [*up, *spare][:2]):
            raise UpstreamError(f"it is down ({self._all[-1].health.why})", transient=False)
        return ways

    async def _trials(self) -> None:
        """Wait until a trial that is under way has ended."""
        trials = [server.trial for server in self._all if server.trial is not None]
        if under_way := [trial for trial in trials if not trial.done()]:
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
