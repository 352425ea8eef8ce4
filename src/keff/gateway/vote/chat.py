"""Handler of one chat request, from its bytes to its reply."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from dataclasses import dataclass

from keff.gateway.http import pass_through
from keff.gateway.http.errors import ClientDisconnected, Problem
from keff.gateway.http.exchange import FUSE, Exchange, Receive, Scope, Send, cancel_on_disconnect
from keff.gateway.http.protocol import CONNECTION
from keff.gateway.http.request import ParsedRequest, read_ask, read_response_ask
from keff.gateway.http.security import Guard, read_body
from keff.gateway.http.stream import NOT_HELD, events_of, failure, response_failure
from keff.gateway.keys import KEY_LIMIT, Fuse
from keff.gateway.service import Service
from keff.gateway.traffic.metrics import Fact
from keff.gateway.upstream.answer import CHAT, ClientHeaders, UpstreamError
from keff.gateway.vote.job import RequestJob
from keff.policy import cancel_running
from keff.protocol.client import EVENTS
from keff.protocol.values import Object, encoded, sendable

log = logging.getLogger("keff.gateway")

CHAT_PATH, RESPONSES = "/v1/chat/completions", "/v1/responses"
VOTED = frozenset({CHAT_PATH, RESPONSES})

# Paths that draw answers too, and why none of them is voted on.
NOT_VOTED = {
    f"/v1/{name}": f"{name} are passed through: only chat and responses are voted"
    for name in ("completions", "messages")
}


@dataclass(slots=True)
class Chat:
    """Handler of chat and Responses requests, and of those passed through."""

    service: Service
    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; whatever fails, the client gets an OpenAI-style answer."""
        name = f"keff-{secrets.token_hex(12)}"
        connection = scope["state"][CONNECTION]
        exchange = Exchange(name, dict(scope["headers"]), receive, send, connection, scope.get(FUSE))
        service, begun = self.service, time.perf_counter()
        service.in_flight += 1
        if service.tracer is not None:
            exchange.span = service.tracer.begin(f"{scope['method']} {scope['path']}"[:200], exchange.headers)
        try:
            if exchange.fuse is not None:
                exchange.fuse.admit()
            if service.in_flight > (most := service.options.max_requests):
                raise Problem(503, f"{most} requests are being served: try again")
            voted = scope["method"] == "POST" and scope["path"] in VOTED
            await (self._answer if voted else self._pass_on)(exchange, scope)
        except ClientDisconnected:
            exchange.status = 499
        except Problem as problem:
            if exchange.fuse is not None and problem.code == KEY_LIMIT:
                service.metrics.count("keff_key_limited_total", key=exchange.fuse.key.name)
            await exchange.fail(problem)
        except UpstreamError as error:
            await exchange.fail(error)
        except asyncio.CancelledError:
            # Only a server that stops cancels this task: its own answer would be a 500.
            await exchange.fail(Problem(503, "the gateway is stopping: ask again", code="stopping"))
        except Exception:
            await exchange.fail(internal_error(exchange.name))
        finally:
            service.in_flight -= 1
            self._account(exchange, time.perf_counter() - begun)

    def _caller(self, exchange: Exchange, scope: Scope) -> ClientHeaders:
        return self.guard.caller(
            exchange.headers, scope.get("query_string", b""), self.service.options.forward_header
        )

    async def _pass_on(
        self, exchange: Exchange, scope: Scope, why: str = "", body: bytes | None = None
    ) -> None:
        # As it was sent: a model's name may hold a quoted slash.
        raw, caller = scope["raw_path"].decode("latin-1"), self._caller(exchange, scope)
        path = raw if raw.startswith(f"{pass_through.PREFIX}/") else scope["path"]
        exchange.passed, exchange.not_voted = True, why or NOT_VOTED.get(path.rstrip("/").lower())
        await pass_through.pass_on(self.service, exchange, scope["method"], path, caller, body)

    async def _answer(self, exchange: Exchange, scope: Scope) -> None:
        options, caller = self.service.options, self._caller(exchange, scope)
        raw = await read_body(exchange.receive, exchange.headers, options.max_body, options.body_seconds)
        if scope["path"] == RESPONSES:
            ask = read_response_ask(raw, exchange.headers)
            if isinstance(ask, ParsedRequest) and self.service.by_chat(ask.body.get("model")):
                ask = ask.as_chat()
        else:
            ask = read_ask(raw, exchange.headers)
        if isinstance(ask, str):
            await self._pass_on(exchange, scope, ask, raw)
            return
        # As it was asked for: to the upstream it may have another name.
        model = ask.body.get("model")
        try:
            await self._answer_by_vote(exchange, ask, caller)
        except UpstreamError as error:
            if exchange.status or ask.api is CHAT or not error.lacks_path:
                raise
            await self._answer_by_vote(exchange, ask.as_chat(), caller)
            self.service.upstream.chat_only.append(model)

    async def _answer_by_vote(self, exchange: Exchange, ask: ParsedRequest, caller: ClientHeaders) -> None:
        job = await self.service.job(exchange.name, ask, caller)
        if exchange.fuse is not None:
            self.service.estimate(exchange.fuse.key, job)
        exchange.job, job.span = job, exchange.span
        if not ask.stream:
            reply = await cancel_on_disconnect(exchange, self.service.run(job))
            await exchange.send_response(200, sendable(reply), {})
        elif job.policy.cap == 1 and ask.n == 1 and ask.asked is None:
            await cancel_on_disconnect(exchange, pass_through.relay(self.service, job, exchange))
        else:
            await cancel_on_disconnect(exchange, self._stream(exchange, job))

    async def _stream(self, exchange: Exchange, job: RequestJob) -> None:
        """Stream the winning path once decided; earlier failures keep their HTTP status."""
        options = self.service.options
        work = asyncio.ensure_future(self.service.run(job))
        try:
            await asyncio.wait([work], timeout=options.quiet_seconds)
            if work.done():
                work.result()
            await exchange.begin(200, EVENTS, NOT_HELD)
            while not work.done():
                drawn = len(job.vote.drawn) if job.vote is not None else 0
                # A comment, which clients skip and which keeps the connection open.
                await exchange.part(b": %d paths drawn\n\n" % drawn)
                await asyncio.wait([work], timeout=options.comment_seconds)
            await exchange.part(self._events(work, exchange, job), last=True)
        finally:
            await cancel_running([work])

    def _events(self, work: asyncio.Future[Object], exchange: Exchange, job: RequestJob) -> bytes:
        try:
            return events_of(work.result(), include_usage=job.ask.include_usage)
        except (Problem, UpstreamError) as error:
            problem = exchange.note_failure(error)
        except Exception:
            problem = exchange.note_failure(internal_error(job.name))
        return failure(problem) if job.ask.in_chat else response_failure(problem, job.name)

    def _account(self, exchange: Exchange, seconds: float) -> None:
        metrics, traffic, job = self.service.metrics, self.service.ledger.traffic, exchange.job
        if exchange.fuse is not None:
            self._charge(exchange.fuse, exchange, seconds)
        if exchange.span is not None:
            exchange.span.end(facts_of(exchange), None if exchange.status < 500 else exchange.code or "error")
        if exchange.failed:
            status = str(exchange.status)
            metrics.count("keff_failed_requests_total", status=status, upstream=exchange.upstream)
            calls = 0 if job is None else job.failed
            traffic.add_failure(exchange.status, exchange.reason or "", exchange.upstream, calls)
        if exchange.passed:
            metrics.count("keff_passed_total", status=str(exchange.status))
            if exchange.failed:
                log.warning(encoded(log_line(exchange, seconds, priced=False)).decode())
            return
        metrics.count("keff_requests_total", status=str(exchange.status))
        metrics.observe("keff_request_seconds", seconds)
        if job is not None and exchange.status == 200:
            traffic.add_reply(job.reply_cost(seconds, priced=self.service.priced and job.priced))
        for name in job.stale if job is not None else ():
            metrics.count("keff_stale_total", differs=name if name.isidentifier() else "other")
        if log.isEnabledFor(logging.INFO):
            log.info(encoded(log_line(exchange, seconds, priced=self.service.priced)).decode())

    def _charge(self, fuse: Fuse, exchange: Exchange, seconds: float) -> None:
        """Charge a request's cost to its client."""
        service, key = self.service, fuse.key.name
        paths, dollars = (exchange.job or exchange.spent).charged(seconds)
        service.metrics.count("keff_key_requests_total", key=key)
        service.metrics.count("keff_key_paths_total", paths, key=key)
        if service.priced:
            service.metrics.count("keff_key_dollars_total", dollars, key=key)
            fuse.charge(dollars)


def facts_of(exchange: Exchange) -> dict[str, Fact]:
    """Return the trace attributes of a request."""
    facts: dict[str, Fact] = {"http.response.status_code": exchange.status, "keff.request_id": exchange.name}
    job = exchange.job
    if job is not None:
        facts |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": job.model,
            "keff.policy": job.policy.spec,
            "keff.paths": job.paths,
            "keff.stop": job.stop,
            "keff.tokens": job.tokens,
        }
        if job.share is not None:
            facts["keff.share"] = job.share
    return facts


def log_line(exchange: Exchange, seconds: float, *, priced: bool) -> Object:
    """Return the log line of a request, without questions, answers or keys."""
    job = exchange.job
    line: Object = {
        "event": "request",
        "id": exchange.name,
        "status": exchange.status,
        "seconds": round(seconds, 4),
    }
    if exchange.span is not None:
        line["trace"] = exchange.span.trace
    if exchange.fuse is not None:
        line["key"] = exchange.fuse.key.name
    if exchange.code is not None:
        line["error"] = exchange.code
    if exchange.reason is not None:
        line["reason"] = exchange.reason
    if exchange.upstream:
        line["upstream"] = exchange.upstream
    if job is None:
        return line
    line |= {"model": job.model or None, "kind": job.kind}
    if priced:
        line["dollars"] = job.dollars
    line |= {"policy": job.policy.spec, "stream": job.ask.stream, "paths": job.paths}
    if job.by_branch is not None:
        line["branches"] = {name: bill.calls for name, bill in job.by_branch.bills.items()}
    line |= {"repeated": job.repeated} if job.repeated else {}
    if job.reading is not None:
        line |= {"reading_seconds": round(job.reading.waited, 4), "unread": job.unread}
    return line | {"stop": job.stop, "tokens": job.tokens, "stale": job.stale}


def internal_error(name: str) -> Problem:
    """Log the current exception, and return the client's error."""
    log.exception(json.dumps({"event": "internal error", "id": name}))
    return Problem(500, "internal error; see the gateway log", code="internal_error")
