"""The life of one chat request, from its bytes to its reply."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from keff.gateway import passage, relay, stream
from keff.gateway.errors import Gone, Problem
from keff.gateway.exchange import EVENTS, Exchange, Receive, Scope, Send, until_gone
from keff.gateway.request import read_ask
from keff.gateway.security import Guard, read_body
from keff.gateway.service import Job, Service
from keff.gateway.upstream import Caller, UpstreamError
from keff.protocol.values import sendable

log = logging.getLogger("keff.gateway")

Serve = Callable[[Exchange, Scope], Awaitable[None]]


class Chat:
    """``POST /v1/chat/completions``, and what is passed through beside it."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self.service, self.guard = service, guard
        self._running: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: whatever happens, the client gets an answer in the OpenAI form."""
        await self._answer(self._served, scope, receive, send)

    async def through(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request of another path through."""
        await self._answer(self._passed, scope, receive, send)

    async def _answer(self, serve: Serve, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(f"keff-{secrets.token_hex(12)}", dict(scope["headers"]), receive, send)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        service, begun = self.service, time.perf_counter()
        service.in_flight += 1
        self._running.add(task)
        try:
            await serve(exchange, scope)
        except Gone:
            exchange.status = 499
        except Problem as problem:
            await exchange.fail(problem)
        except UpstreamError as error:
            await exchange.fail(error.problem())
        except asyncio.CancelledError:
            # Only a server that stops cancels this task: its own answer would be a 500.
            await exchange.fail(Problem(503, "the gateway is stopping: ask again", code="stopping"))
        except Exception:
            await exchange.fail(internal_error(exchange.name))
        finally:
            self._running.discard(task)
            service.in_flight -= 1
            self._account(exchange, time.perf_counter() - begun)

    def break_off(self) -> None:
        """Answer all requests in flight with 503, now."""
        for task in self._running:
            task.cancel()

    def _check_room(self) -> None:
        options = self.service.options
        if self.service.in_flight > options.max_requests:
            raise Problem(503, f"{options.max_requests} requests are being served: try again")

    def _caller(self, exchange: Exchange, scope: Scope) -> Caller:
        return self.guard.caller(
            exchange.headers, scope.get("query_string", b""), self.service.options.forward_headers
        )

    async def _passed(self, exchange: Exchange, scope: Scope) -> None:
        self._check_room()
        exchange.passed = True
        caller = self._caller(exchange, scope)
        await passage.passed(self.service, exchange, scope["method"], scope["path"], caller)

    async def _served(self, exchange: Exchange, scope: Scope) -> None:
        options = self.service.options
        self._check_room()
        raw = await read_body(exchange.receive, exchange.headers, options.max_body, options.body_seconds)
        ask = read_ask(raw, exchange.headers)
        job = await self.service.job(exchange.name, ask, self._caller(exchange, scope))
        exchange.job = job
        if not ask.stream:
            reply = await until_gone(exchange, self.service.run(job))
            await exchange.whole(200, sendable(reply), {})
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
            problem = internal_error(job.name)
        return stream.failure(problem)

    def _account(self, exchange: Exchange, seconds: float) -> None:
        metrics, job, options = self.service.metrics, exchange.job, self.service.options
        if exchange.passed:
            metrics.count("keff_passed_total", status=str(exchange.status))
            return
        metrics.count("keff_requests_total", status=str(exchange.status))
        metrics.observe("keff_request_seconds", seconds)
        if job is not None and exchange.status == 200:
            self.service.traffic.answered(job.stop, seconds, job.dollars if options.price else None)
        for name in job.stale if job is not None else ():
            metrics.count("keff_stale_total", by=1, differs=name if name.isidentifier() else "other")
        if log.isEnabledFor(logging.INFO):
            line: dict[str, Any] = {
                "event": "request",
                "id": exchange.name,
                "status": exchange.status,
                "seconds": round(seconds, 4),
            }
            if exchange.code is not None:
                line["error"] = exchange.code
            if job is not None:
                model = job.ask.body.get("model")
                line |= {"model": model[:200] if isinstance(model, str) else None, "kind": job.kind}
                if options.price is not None:
                    line["dollars"] = job.dollars
                line |= {"policy": job.policy.spec, "stream": job.ask.stream, "paths": job.paths}
                line |= {"stop": job.stop, "tokens": job.tokens, "stale": job.stale}
                line |= {} if job.tab is None else {"branches": job.tab.calls}
            log.info(json.dumps(line))


def internal_error(name: str) -> Problem:
    """Log the exception that is being handled, and return what the client is told."""
    log.exception(json.dumps({"event": "internal error", "id": name}))
    return Problem(500, "internal error; see the gateway log", code="internal_error")


async def _ended(task: asyncio.Future[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
