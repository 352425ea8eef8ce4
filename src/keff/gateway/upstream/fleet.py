"""Several servers behind one gateway: what is known of the health of each, and a fallback for one."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from keff.gateway.upstream.call import Call
from keff.gateway.upstream.server import (
    CHAT,
    Address,
    Answer,
    Api,
    ClientHeaders,
    Headers,
    Upstream,
    UpstreamError,
)
from keff.narrow import fields
from keff.protocol.values import Object, decoded, encoded

# Requests that differ and failed in a row after which a trial decides whether a server is down.
FAILURES = 3

# Seconds between two trials of a server: at first, and at most while it is down (they double).
REST, LONGEST_REST = 5.0, 60.0

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

    @property
    def due(self) -> bool:
        """Whether it is time for a trial: of a server that fails, or that rested."""
        asked = self.down or len(self._failed) + self._unreachable >= FAILURES
        return asked and self.clock() >= self._until

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

    def tried(self, failure: str | None) -> None:
        """Take what a trial came to: why it failed, or None."""
        self._failed.clear()
        self._unreachable = 0
        self.down, self.why = failure is not None, failure or ""
        self._until = self.clock() + self._rest
        self._rest = min(2 * self._rest, LONGEST_REST) if self.down else REST


class Watched(Upstream):
    """An upstream whose health is known, with another server of the same models to fall back on.

    A call that fails here is made there at once; while this server is down, calls go there directly. Without
    a fallback, calls to a server that is down wait for the trial where one is due, and fail without being
    made while it is down. The fallback gets its own key only, never the one meant for this server.
    """

    def __init__(self, address: Address, fallback: Watched | None = None) -> None:
        super().__init__(address)
        self.fallback = fallback
        self.health = CircuitBreaker()
        self._trial: asyncio.Task[None] | None = None
        self._model: object = None

    async def start(self) -> None:
        """Open the pools of connections."""
        await super().start()
        if self.fallback is not None:
            await self.fallback.start()

    async def close(self) -> None:
        """Close the pools."""
        if self._trial is not None:
            self._trial.cancel()
        await super().close()
        if self.fallback is not None:
            await self.fallback.close()

    @property
    def path_seconds(self) -> float:
        """The most seconds of one path: here, and then at the fallback."""
        spare = 0.0 if self.fallback is None else self.fallback.path_seconds
        return super().path_seconds + spare

    @property
    def serves(self) -> bool:
        """Whether this server or its fallback is not known to be down."""
        return not self.health.down or (self.fallback is not None and self.fallback.serves)

    async def draw(self, body: bytes, headers: Headers, query: str = "", api: Api = CHAT) -> Answer:
        """Make one call, here or at the fallback; raises UpstreamError."""
        refused = await self._refused()
        if refused is None:
            try:
                answer = await super().draw(body, headers, query, api)
            except UpstreamError as error:
                refused = self._noted(error, body)
            else:
                self.health.answered()
                return answer
        if self.fallback is None or not _may_elsewhere(refused):
            raise refused
        return await self.fallback.draw(body, self.fallback.own(headers), query, api)

    @contextlib.asynccontextmanager
    async def relay(
        self, body: bytes, headers: Headers, query: str = "", api: Api = CHAT
    ) -> AsyncGenerator[Call]:
        """Open a streamed call, here or at the fallback; raises UpstreamError."""
        async with contextlib.AsyncExitStack() as stack:
            yield await self._opened(stack, body, headers, query, api)

    async def _opened(
        self, stack: contextlib.AsyncExitStack, body: bytes, headers: Headers, query: str, api: Api
    ) -> Call:
        refused = await self._refused()
        if refused is None:
            try:
                response = await stack.enter_async_context(super().relay(body, headers, query, api))
            except UpstreamError as error:
                refused = self._noted(error, body)
            else:
                self.health.answered()
                return response
        if self.fallback is None or not _may_elsewhere(refused):
            raise refused
        return await self.fallback._opened(stack, body, self.fallback.own(headers), query, api)

    async def call(
        self, method: str, path: str, headers: Headers, body: bytes, query: str = ""
    ) -> tuple[Upstream, Call]:
        """Make a call of any kind, here or at the fallback; raises UpstreamError.

        What it says of this server is not noted: a client may ask for an address that never works.
        """
        spare = self.fallback
        if spare is None:
            return await super().call(method, path, headers, body, query)
        if not self.health.down:
            try:
                server, response = await super().call(method, path, headers, body, query)
            except UpstreamError as error:
                if not _may_elsewhere(error):
                    raise
            else:
                if response.status not in ELSEWHERE:
                    return server, response
                response.close()
        return await spare.call(method, path, spare.own(headers), body, query)

    def own(self, headers: Headers) -> dict[str, str]:
        """Return the headers of a call to this server, without the key of another."""
        kept = {name: value for name, value in headers.items() if name.lower() not in KEYS}
        return kept | self.keys(ClientHeaders())

    async def models(self, caller: ClientHeaders) -> bytes:
        """Return the list of models, here or at the fallback; raises UpstreamError."""
        try:
            return await super().models(caller)
        except UpstreamError:
            if self.fallback is None:
                raise
        return await self.fallback.models(replace(caller, keys={}))

    async def ready(self) -> bool:
        """Return whether this server or its fallback answers, and is not known to be down."""
        if await self._refused() is None and await super().ready():
            return True
        return self.fallback is not None and await self.fallback.ready()

    async def _refused(self) -> UpstreamError | None:
        """Return why no call is made here now, else None; a server that rested is tried first."""
        if not self.health.down:
            return None
        if self.health.due:
            self._try()
        if self.fallback is None and self._trial is not None:
            await asyncio.wait([self._trial])
        if not self.health.down:
            return None
        return UpstreamError(f"it is down ({self.health.why})", transient=False)

    def _noted(self, error: UpstreamError, body: bytes) -> UpstreamError:
        if _serves_nobody(error):
            self.health.failed(error, hash(_alike(body)))
            if self.health.due and not self.health.down:
                with contextlib.suppress(ValueError):
                    self._model = fields(decoded(body)).get("model")
                self._try()
        # A server that is down is not asked again by the same request: the next branch, or the reply, waits.
        error.transient = error.transient and not self.health.down
        return error

    def _try(self) -> None:
        if self._trial is None or self._trial.done():
            self._trial = asyncio.create_task(self._tried())

    async def _tried(self) -> None:
        """Ask for one token, and let that decide; a refusal is an answer too."""
        named = {} if self._model is None else {"model": self._model}
        try:
            async with asyncio.timeout(TRIAL_SECONDS):
                sent = self.headers(ClientHeaders())
                _, response = await super().call("POST", CHAT.path, sent, encoded({**named, **TRIAL}))
                status = response.status
                response.close()
        except TimeoutError:
            self.health.tried("it did not answer in time")
        except UpstreamError as error:
            self.health.tried(str(error))
        else:
            keyless = status in (401, 403) and bool(self.address.key)
            fails = status in DOWN_STATUSES or status >= 500 or keyless
            self.health.tried(f"it answers with HTTP {status}" if fails else None)


def _alike(body: bytes) -> bytes:
    """Return what the calls for all paths of one request, and of the same one asked again, have in common."""
    return _PLACE.sub(b"", body)


def _serves_nobody(error: UpstreamError) -> bool:
    return error.status in DOWN_STATUSES or error.status >= 500


def _may_elsewhere(error: UpstreamError) -> bool:
    """Return whether another server of the same models may do what this one did not."""
    return error.transient or _serves_nobody(error)
