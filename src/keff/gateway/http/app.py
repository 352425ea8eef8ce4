"""The ASGI application: authentication, routing, and the small routes (health, operator)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keff.gateway.http.bounds import response_of
from keff.gateway.http.errors import Problem
from keff.gateway.http.exchange import FUSE, JSON, Receive, Scope, Send
from keff.gateway.http.pass_through import passes
from keff.gateway.http.security import Guard
from keff.gateway.service import Service
from keff.gateway.traffic.pages import METRICS, OPERATOR, PLAN, POLICY, SAVED, Show, Work
from keff.gateway.vote.chat import CHAT_PATH, VOTED, Chat

# Orchestrators give a readiness probe about this long.
READY_SECONDS = 2.0


@dataclass(slots=True)
class Pages:
    """Routes for health and for the operator's pages."""

    service: Service
    show: Show
    _ready: tuple[float, bool] = (-READY_SECONDS, False)

    async def healthz(self, _: Request) -> Response:
        """Report that the process is alive."""
        return Response(b'{"status":"ok"}', media_type=JSON)

    async def readyz(self, _: Request) -> Response:
        """Report whether the upstream answers, probed at most every two seconds."""
        asked, ready = self._ready
        if time.monotonic() - asked >= READY_SECONDS:
            self._ready = (time.monotonic(), ready)
            ready = await self._upstream_answers()
            self._ready = (time.monotonic(), ready)
        body = b'{"status":"ready"}' if ready else b'{"status":"the upstream does not answer"}'
        return Response(body, 200 if ready else 503, media_type=JSON)

    async def _upstream_answers(self) -> bool:
        answers = await asyncio.gather(*(server.ready() for server in self.service.servers))
        served = self.service.served
        return all(answers) if served is None or not served.skip else any(answers)

    async def view(self, request: Request) -> Response:
        """Show metrics, what is saved, or the plan from traffic."""
        try:
            shown = await self.show(request.url.path, request.headers.get("accept", ""))
        except OSError:
            return response_of(Problem(503, "the gateway cannot read its traffic now: ask again"))
        return Response(
            shown.body, shown.status, {"content-type": shown.kind, "content-security-policy": POLICY}
        )


log = logging.getLogger("keff.gateway")

ALIVE = ("/healthz", "/health", "/health/liveliness", "/health/liveness")
READY = ("/readyz", "/health/readiness")
OPEN_PATHS = frozenset({*ALIVE, *READY})
# Headers in which a reply says what came of it.
TOLD = tuple(
    f"x-keff-{name}" for name in ("paths", "share", "change", "stale-plan", "not-voted", "branch-down")
)


@dataclass(slots=True)
class Front:
    """ASGI application: checks the caller, answers chat requests and passes on all others."""

    chat: Chat
    rest: Starlette
    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection; an unauthorised caller gets 401 or 403."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                headers = dict(scope["headers"])
                if scope["path"] in OPERATOR:
                    self.guard.check_operator(headers)
                elif scope["path"] == METRICS:
                    self.guard.check_metrics(headers)
                else:
                    scope[FUSE] = self.guard.check(headers)
            except Problem as problem:
                await self._refuse(problem, scope, receive, send)
                return
            # With a slash too many, or in other letters, it would be passed on, and silently not voted.
            if (path := scope["path"].rstrip("/").lower()) in VOTED:
                scope = {**scope, "path": path}
            if passes(scope["path"]) and (path != CHAT_PATH or scope["method"] == "POST"):
                await self.chat(scope, receive, send)
                return
        await self.rest(scope, receive, send)

    async def _refuse(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        self.chat.service.metrics.count("keff_requests_total", status=str(problem.status))
        if log.isEnabledFor(logging.INFO):
            caller = (scope.get("client") or ("",))[0]
            log.info(json.dumps({"event": "refused", "status": problem.status, "client": caller}))
        await response_of(problem)(scope, receive, send)


async def _no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it handles no other"
    status = error.status_code
    line = (
        "not found: use POST /v1/chat/completions or /v1/responses" if status == 404 else "method not allowed"
    )
    return response_of(Problem(status, line, headers=error.headers))


def with_cors(front: Front, origins: tuple[str, ...]) -> Front | CORSMiddleware:
    """Return the application with CORS for these origins; the token is still required."""
    if not origins:
        return front
    return CORSMiddleware(
        front,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["x-request-id", *TOLD],
    )


def application(service: Service, guard: Guard, show: Show, beside: Sequence[Work] = ()) -> Front:
    """Return the ASGI application of one process.

    ``show`` gives the operator's pages; ``beside`` runs as long as requests are served.
    """
    pages, chat = Pages(service, show), Chat(service, guard)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        for server in service.servers:
            await server.start()
        service.pool.warm(service.reader)
        tasks = [asyncio.create_task(work()) for work in beside]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await service.close()

    rest = Starlette(
        routes=[
            Route(CHAT_PATH, chat, methods=["POST"]),
            *(Route(path, pages.healthz) for path in ALIVE),
            *(Route(path, pages.readyz) for path in READY),
            *(Route(path, pages.view) for path in (METRICS, SAVED, PLAN)),
        ],
        exception_handlers={HTTPException: _no_route},
        lifespan=lifespan,
    )
    return Front(chat, rest, guard)
