"""Several servers of the same models: load balancing, health, and a fallback."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from keff.gateway.upstream.answer import (
    CHAT,
    LONGEST_ASKED,
    NOBODY,
    Address,
    Answer,
    StreamedPath,
    UpstreamCall,
    UpstreamError,
)
from keff.gateway.upstream.server import Upstream, serves_nobody
from keff.protocol.client import Call
from keff.protocol.server import Parameters

log = logging.getLogger("keff.gateway")

# With these a server says that another one may answer what it passes on.
ELSEWHERE = frozenset({502, 503, 504})

# How many more calls than the least busy server has, the server of a request's first path may have before
# its other paths go elsewhere: together they share the prompt in its cache, and a batch of 8 decodes in
# hardly more time than one; beyond that they would wait beside a server that is idle.
TOGETHER = 8


# Models of which something is kept, the latest: clients name them, and some servers answer to any name.
MOST_MODELS = 1000

T = TypeVar("T")


class Fleet:
    """The servers of one address, and a ``fallback`` with its own key; the least busy server draws.

    If a call fails, keff makes it once more at another server: the least busy that is up, else the
    fallback. A server that is down gets no calls until its trial. If none is up, a call waits for a trial
    under way; without one it fails at once.
    """

    def __init__(self, address: Address, fallback: Address | None = None) -> None:
        self.address = address
        self.servers = tuple(Upstream(replace(address, url=url, more=())) for url in address.urls)
        self.fallback = None if fallback is None else Upstream(fallback)
        self._all = self.servers if self.fallback is None else (*self.servers, self.fallback)
        self._turn = 0
        # What the server taught about the fields of requests, by model.
        self.taught = dict[object, Parameters]()
        # Models whose calls to ``/responses`` found no such path, and those whose calls are refused as
        # streams: one address may stand before different servers.
        self.chat_only, self.whole = deque[object](maxlen=MOST_MODELS), deque[object](maxlen=MOST_MODELS)
        # Another name than the measured model's, under which it answered.
        self.answered_as: str | None = None

    @property
    def path_seconds(self) -> float:
        """The longest one path may take, with a second try at another server."""
        return sum(server.address.path_seconds for server in self._all[:2])

    def teach(self, model: object, parameters: Parameters) -> None:
        """Remember what the server taught about the fields of a request to a model."""
        if model not in self.taught and len(self.taught) >= MOST_MODELS:
            del self.taught[next(iter(self.taught))]
        self.taught[model] = {**self.taught.get(model, {}), **parameters}

    def note_model(self, measured: object, answered: object) -> None:
        """Remember, and log once, that another model answered than the one that a plan was measured on."""
        if not isinstance(measured, str) or not isinstance(answered, str) or same_model(measured, answered):
            return
        if self.answered_as is None:
            told = {"event": "another model", "asked": measured, "answered": answered[:200]}
            log.warning(json.dumps(told))
        self.answered_as = answered[:200]

    async def start(self) -> None:
        """Open the connection pools."""
        for server in self._all:
            server.client.start()

    async def close(self) -> None:
        """Close the connection pools."""
        for server in self._all:
            await server.close()

    def home(self) -> Upstream:
        """Return the server for all paths of one request: the least busy, ties in turn."""
        self._turn += 1
        turned = self.servers[self._turn % len(self.servers) :] + self.servers
        return min(turned, key=lambda server: (server.health.down, server.client.running))

    async def draw(
        self, call: UpstreamCall, home: Upstream | None = None, streamed: StreamedPath | None = None
    ) -> Answer:
        """Make one call; raises UpstreamError."""
        path = streamed if call.api is CHAT and call.model not in self.whole else None
        try:
            return await self._call_in_turn(lambda server, sent: server.draw(sent, path), call, home)
        except UpstreamError as error:
            if path is None or path.began or error.status not in (400, 422):
                raise
        # A server that does not stream, or not with its usage, is asked as others are from now on.
        answer = await self._call_in_turn(Upstream.draw, call, home)
        self.whole.append(call.model)
        return answer

    async def relay(self, call: UpstreamCall) -> Call | Answer:
        """Open a streamed call: its response, which the caller closes, or an answer; or UpstreamError."""
        return await self._call_in_turn(Upstream.relay, call)

    async def call(self, method: str, path: str, call: UpstreamCall) -> tuple[Upstream, Call]:
        """Make a call of any kind; returns it with the server that answered; raises UpstreamError.

        What it says of a server is not noted: a client may ask for an address that never works.
        """
        left = min(2, sum(not server.health.down for server in self._all))

        async def called(server: Upstream, sent: UpstreamCall) -> tuple[Upstream, Call]:
            nonlocal left
            left -= 1
            response = await server.call(method, path, sent)
            if response.status in ELSEWHERE and left:
                response.close()
                raise UpstreamError(f"it answers with HTTP {response.status}")
            return server, response

        return await self._call_in_turn(called, call)

    async def ready(self) -> bool:
        """Return whether any server not marked down answers."""
        for server in self._all:
            server.try_again(UpstreamCall(b"", self.address.headers(NOBODY)))
        up = [server.ready() for server in self._all if not server.health.down]
        return any(await asyncio.gather(*up))

    def states(self) -> dict[str, str]:
        """Return each server's state by address: ``up``, or why it is down."""
        return {
            server.address.url: f"down: {server.health.why}" if server.health.down else "up"
            for server in self._all
        }

    async def _call_in_turn(
        self,
        ask: Callable[[Upstream, UpstreamCall], Awaitable[T]],
        call: UpstreamCall,
        home: Upstream | None = None,
    ) -> T:
        """Call one server, and another if the first cannot answer."""
        refused: UpstreamError | None = None
        alone = len(self._all) == 1 and not self.servers[0].health.down
        for server in self.servers if alone else await self._server_and_alternative(call, home):
            try:
                return await ask(server, self._sent(server, call))
            except UpstreamError as error:
                refused = error
                error.server = server.address.url
                if not (error.transient or serves_nobody(error.status)):
                    raise
        assert refused is not None, "there is a server"
        # What is down is not asked again by the same request: the next branch, or the reply, waits.
        refused.transient = (
            refused.transient
            and any(not server.health.down for server in self._all)
            and (refused.refusal.wait or 0) <= LONGEST_ASKED
        )
        try:
            raise refused
        finally:
            # It holds this frame, which would hold it in turn until the next garbage collection.
            refused = None

    def _sent(self, server: Upstream, call: UpstreamCall) -> UpstreamCall:
        """Return a call as a server gets it: the fallback with no key but its own."""
        return call._replace(headers=server.own(call.headers)) if server is self.fallback else call

    async def _server_and_alternative(self, call: UpstreamCall, home: Upstream | None) -> list[Upstream]:
        """Return the server to call and its alternative; raises UpstreamError where all are down."""
        for server in self._all:
            if server.health.down:
                server.try_again(self._sent(server, call))
        if all(server.health.down for server in self._all):
            await self._wait_for_trial()
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
            down = UpstreamError(f"it is down ({self._all[-1].health.why})", transient=False)
            down.server = self._all[-1].address.url
            raise down
        return ways

    async def _wait_for_trial(self) -> None:
        """Wait until one running health probe has ended."""
        trials = [server.trial for server in self._all if server.trial is not None]
        if under_way := [trial for trial in trials if not trial.done()]:
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)


def same_model(asked: str, answered: str) -> bool:
    """Return whether two names denote one model: equal, or differing by a date or a path prefix."""
    a, b = (name.removesuffix(".gguf").rpartition("/")[2] for name in (asked, answered))
    return a == b or b.startswith((f"{a}-20", f"{a}:", f"{a}@"))
