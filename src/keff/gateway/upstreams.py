"""Several servers behind one gateway: what is known of the health of each, and a fallback for one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from keff.gateway.call import Call
from keff.gateway.upstream import CHAT, Address, Answer, Api, Caller, Headers, Upstream, UpstreamError

FAILURES = 3
"""Failed calls in a row after which a server is taken to be down."""

REST, LONGEST_REST = 5.0, 60.0
"""Seconds without a call to a server that is down: at first, and at most (they double)."""

TRIAL = 2.0
"""Seconds that one call gets to show that a server is back, before another is let through."""

DOWN_STATUSES = frozenset({0, 408})
"""What says that a server serves nobody, beside every 5xx; 0 is nothing over HTTP, or the gateway's own key
refused. What a request brought about itself (a prompt, a model or a client's key that is refused) says
nothing about others, so no client can take a server down."""

ELSEWHERE = frozenset({502, 503, 504})
"""With these a server says that another one may answer what it passes on."""

KEYS = ("authorization", "api-key", "x-api-key")


@dataclass(slots=True)
class Health:
    """Whether a server may be asked: down after some failures in a row, then tried again by single calls."""

    clock: Callable[[], float] = time.monotonic
    why: str = ""
    _failures: int = 0
    _rest: float = REST
    _until: float = field(default=0.0)

    @property
    def down(self) -> bool:
        """Whether the last calls failed."""
        return self._failures >= FAILURES

    def admits(self) -> bool:
        """Return whether a call may be made now; of a server that is down one after each rest."""
        if not self.down:
            return True
        if self.clock() < self._until:
            return False
        self._until = self.clock() + TRIAL
        return True

    def answered(self) -> None:
        """Note that a call came back."""
        self._failures, self._rest, self.why = 0, REST, ""

    def failed(self, error: UpstreamError) -> None:
        """Note a call that failed."""
        self.why = str(error)
        self._failures += 1
        if self.down:
            self._until = self.clock() + self._rest
            self._rest = min(2 * self._rest, LONGEST_REST)


class Watched(Upstream):
    """An upstream whose health is known, with another server of the same models to fall back on.

    A call that fails here is made there at once; while this server is down, calls go there directly. Without
    a fallback, calls to a server that is down fail without being made, and are not made again. The fallback
    gets its own key only, never the one that was meant for this server.
    """

    def __init__(self, address: Address, fallback: Watched | None = None) -> None:
        super().__init__(address)
        self.fallback = fallback
        self.health = Health()

    async def start(self) -> None:
        """Open the pools of connections."""
        await super().start()
        if self.fallback is not None:
            await self.fallback.start()

    async def close(self) -> None:
        """Close the pools."""
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
        refused = self._refused()
        if refused is None:
            try:
                answer = await super().draw(body, headers, query, api)
            except UpstreamError as error:
                refused = self._noted(error)
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
        refused = self._refused()
        if refused is None:
            try:
                response = await stack.enter_async_context(super().relay(body, headers, query, api))
            except UpstreamError as error:
                refused = self._noted(error)
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
        return kept | self.keys(Caller())

    async def models(self, caller: Caller) -> bytes:
        """Return the list of models, here or at the fallback; raises UpstreamError."""
        try:
            return await super().models(caller)
        except UpstreamError:
            if self.fallback is None:
                raise
        return await self.fallback.models(replace(caller, keys={}))

    def _refused(self) -> UpstreamError | None:
        if self.health.admits():
            return None
        return UpstreamError(f"it is down ({self.health.why})", transient=False)

    def _noted(self, error: UpstreamError) -> UpstreamError:
        if _serves_nobody(error):
            self.health.failed(error)
        # A server that is down is not asked again by the same request: the next branch, or the reply, waits.
        error.transient = error.transient and not self.health.down
        return error


def _serves_nobody(error: UpstreamError) -> bool:
    return error.status in DOWN_STATUSES or error.status >= 500


def _may_elsewhere(error: UpstreamError) -> bool:
    """Return whether another server of the same models may do what this one did not."""
    return error.transient or _serves_nobody(error)
