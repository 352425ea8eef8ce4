"""The life of one chat request, from its bytes to its reply."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from typing import Any

from keff.gateway import relay, stream
from keff.gateway.errors import Gone, Problem
from keff.gateway.exchange import EVENTS, Exchange, Receive, Scope, Send, until_gone
from keff.gateway.request import read_ask
from keff.gateway.security import Guard, read_body
from keff.gateway.service import Job, Service
from keff.gateway.upstream import UpstreamError

log = logging.getLogger("keff.gateway")


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
            await exchange.fail(internal_error(exchange.name))
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
            problem = internal_error(job.name)
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


def internal_error(name: str) -> Problem:
    """Log the exception that is being handled, and return what the client is told."""
    log.exception(json.dumps({"event": "internal error", "id": name}))
    return Problem(500, "internal error; see the gateway log", code="internal_error")


async def _ended(task: asyncio.Future[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
