"""The Starlette application: routes, and the life of one chat request from its bytes to its reply."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keff.gateway import relay, stream
from keff.gateway.problem import Gone, Problem
from keff.gateway.request import read_ask
from keff.gateway.security import Guard, read_body
from keff.gateway.service import Job, Service
from keff.gateway.upstream import UpstreamError

log = logging.getLogger("keff.gateway")

CHAT = "/v1/chat/completions"
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
READY_SECONDS = 2.0
JSON, EVENTS = "application/json", "text/event-stream"

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class Exchange:
    """One chat request with its connection: what was sent so far, and the job once it is known."""

    name: str
    headers: dict[bytes, bytes]
    receive: Receive
    send: Send
    status: int = 0
    job: Job | None = None

    async def begin(self, status: int, kind: str, more: Mapping[str, str], size: int | None = None) -> None:
        """Send the head of the response."""
        self.status = status
        job = self.job
        told = {"content-type": kind, "x-request-id": self.name, **more}
        if size is not None:
            told["content-length"] = str(size)
        if job is not None and job.paths:
            told["x-keff-paths"] = str(job.paths)
        if job is not None and job.stale:
            told["x-keff-stale-plan"] = ", ".join(job.stale)
        head = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": head})

    async def whole(self, status: int, body: bytes, more: Mapping[str, str]) -> None:
        """Send a whole response."""
        await self.begin(status, JSON, more, len(body))
        await self.part(body, last=True)

    async def fail(self, problem: Problem) -> None:
        """Send an error, unless a response has begun: then the connection closes in its middle."""
        if not self.status:
            await self.whole(problem.status, problem.body(), problem.headers)

    async def part(self, body: bytes, *, last: bool = False) -> None:
        """Send a piece of the body."""
        await self.send({"type": "http.response.body", "body": body, "more_body": not last})

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


class Chat:
    """``POST /v1/chat/completions``."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self.service, self.guard = service, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: whatever happens, the client gets an answer in the OpenAI form."""
        exchange = Exchange(f"keff-{secrets.token_hex(12)}", dict(scope["headers"]), receive, send)
        service, begun = self.service, time.perf_counter()
        service.in_flight += 1
        try:
            await self._served(exchange)
        except Gone:
            exchange.status = 499
        except Problem as problem:
            await exchange.fail(problem)
        except UpstreamError as error:
            await exchange.fail(error.problem())
        except Exception:
            await exchange.fail(stumbled(exchange.name))
        finally:
            service.in_flight -= 1
            self._account(exchange, time.perf_counter() - begun)

    async def _served(self, exchange: Exchange) -> None:
        options = self.service.options
        if self.service.in_flight > options.max_requests:
            raise Problem(503, f"{options.max_requests} requests are being served: try again")
        raw = await read_body(exchange.receive, exchange.headers, options.max_body, options.body_seconds)
        ask = read_ask(raw, exchange.headers)
        sent = None if self.guard.has_token else exchange.headers.get(b"authorization")
        job = self.service.job(exchange.name, ask, sent.decode("latin-1") if sent else None)
        exchange.job = job
        if not ask.stream:
            reply = await until_gone(exchange, self.service.run(job))
            await exchange.whole(200, json.dumps(reply).encode(), {})
        elif job.policy.cap == 1:
            await until_gone(exchange, relay.relay(self.service, job, exchange))
        else:
            await until_gone(exchange, self._stream(exchange, job))

    async def _stream(self, exchange: Exchange, job: Job) -> None:
        """Stream the winner once it is decided; an early failure still has its own status."""
        options = self.service.options
        work = asyncio.ensure_future(self.service.run(job))
        try:
            await asyncio.wait([work], timeout=options.quiet_seconds)
            if work.done():
                work.result()
            await exchange.begin(200, EVENTS, {"cache-control": "no-cache", "x-accel-buffering": "no"})
            while not work.done():
                drawn = len(job.vote.drawn) if job.vote is not None else 0
                await exchange.part(stream.comment(f"{drawn} paths drawn"))
                await asyncio.wait([work], timeout=options.comment_seconds)
            await exchange.part(self._events(work, job), last=True)
        finally:
            await _ended(work)

    def _events(self, work: asyncio.Future[dict[str, Any]], job: Job) -> bytes:
        try:
            return b"".join(stream.chunks(work.result(), include_usage=job.ask.include_usage))
        except (Problem, UpstreamError) as error:
            problem = error if isinstance(error, Problem) else error.problem()
        except Exception:
            problem = stumbled(job.name)
        return stream.failure(problem)

    def _account(self, exchange: Exchange, seconds: float) -> None:
        metrics, job = self.service.metrics, exchange.job
        metrics.count("keff_requests_total", status=str(exchange.status))
        metrics.observe("keff_request_seconds", seconds)
        for name in job.stale if job is not None else ():
            metrics.count("keff_stale_total", by=1, differs=name if name.isidentifier() else "other")
        if log.isEnabledFor(logging.INFO):
            line: dict[str, Any] = {
                "event": "request",
                "id": exchange.name,
                "status": exchange.status,
                "seconds": round(seconds, 4),
            }
            if job is not None:
                line |= {"policy": job.policy.spec, "stream": job.ask.stream, "paths": job.paths}
                line |= {"stop": job.stop, "tokens": job.tokens, "stale": job.stale}
            log.info(json.dumps(line))


def stumbled(name: str) -> Problem:
    """Log the exception that is being handled, and return what the client is told."""
    log.exception(json.dumps({"event": "internal error", "id": name}))
    return Problem(500, "the gateway stumbled; its log says why", code="internal_error")


async def until_gone(exchange: Exchange, work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` while the client is there; else cancel it, wait for its end, and raise Gone."""
    me = cast("asyncio.Task[Any]", asyncio.current_task())
    gone = asyncio.create_task(exchange.gone())
    waiting = True

    def left(watch: asyncio.Task[None]) -> None:
        if waiting and not watch.cancelled():
            me.cancel()

    gone.add_done_callback(left)
    try:
        return await work
    except asyncio.CancelledError:
        if not gone.done() or me.uncancel():
            raise
        raise Gone from None
    finally:
        waiting = False
        gone.cancel()


async def _ended(task: asyncio.Future[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


class Front:
    """The application: lets pass who may ask, answers chat requests itself and hands on all others."""

    def __init__(self, chat: Chat, rest: Starlette, guard: Guard) -> None:
        self.chat, self.rest, self.guard = chat, rest, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection scope; a caller who may not ask gets 401 or 403."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                self.guard.check(dict(scope["headers"]))
            except Problem as problem:
                await self._refuse(problem, scope, receive, send)
                return
            if scope["path"] == CHAT and scope["method"] == "POST":
                await self.chat(scope, receive, send)
                return
        await self.rest(scope, receive, send)

    async def _refuse(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        self.chat.service.metrics.count("keff_requests_total", status=str(problem.status))
        if log.isEnabledFor(logging.INFO):
            caller = (scope.get("client") or ("",))[0]
            log.info(json.dumps({"event": "refused", "status": problem.status, "client": caller}))
        response = Response(problem.body(), problem.status, problem.headers, media_type=JSON)
        await response(scope, receive, send)


class Pages:
    """The small routes."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self.service, self.guard = service, guard
        self._ready: tuple[float, bool] = (-READY_SECONDS, False)

    async def models(self, request: Request) -> Response:
        """List the models of the upstream."""
        sent = None if self.guard.has_token else request.headers.get("authorization")
        try:
            found = await self.service.upstream.models(self.service.upstream.headers(sent))
            return Response(found, media_type=JSON)
        except UpstreamError as error:
            problem = error.problem()
            return Response(problem.body(), problem.status, media_type=JSON)

    async def healthz(self, _: Request) -> Response:
        """Say that the process is alive."""
        return Response(b'{"status":"ok"}', media_type=JSON)

    async def readyz(self, _: Request) -> Response:
        """Say whether the upstream answers; asked of it every two seconds at most."""
        asked, ready = self._ready
        if time.monotonic() - asked >= READY_SECONDS:
            self._ready = (time.monotonic(), ready)
            ready = await self._upstream_answers()
            self._ready = (time.monotonic(), ready)
        body = b'{"status":"ready"}' if ready else b'{"status":"the upstream does not answer"}'
        return Response(body, 200 if ready else 503, media_type=JSON)

    async def _upstream_answers(self) -> bool:
        try:
            await self.service.upstream.models(self.service.upstream.headers(None))
        except UpstreamError as error:
            return 400 <= error.status < 500
        return True

    async def metrics(self, _: Request) -> Response:
        """Return all numbers in the Prometheus text format."""
        body = self.service.metrics.render(self.service.gauges())
        return Response(body, media_type="text/plain; version=0.0.4")


async def _unrouted(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    line = (
        "there is no such address here: ask POST /v1/chat/completions"
        if status == 404
        else "this address does not take that method"
    )
    headers = error.headers if isinstance(error, HTTPException) else None
    return Response(Problem(status, line).body(), status, headers, media_type=JSON)


def application(service: Service, guard: Guard) -> Front:
    """Return the ASGI application of one gateway."""
    pages, chat = Pages(service, guard), Chat(service, guard)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        await service.upstream.start()
        try:
            yield
        finally:
            await service.close()

    rest = Starlette(
        routes=[
            Route(CHAT, chat, methods=["POST"]),
            Route("/v1/models", pages.models),
            Route("/healthz", pages.healthz),
            Route("/readyz", pages.readyz),
            Route("/metrics", pages.metrics),
        ],
        exception_handlers={HTTPException: _unrouted},
        lifespan=lifespan,
    )
    return Front(chat, rest, guard)
