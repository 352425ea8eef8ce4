"""An OpenAI-compatible server that fails on request: for tests of engines, the sampler and the gateway."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from thread_server import serving

FAULTS = (
    "429",
    "500",
    "reset",
    "hang",
    "truncated",
    "wrong_n",
    "duplicated",
    "no_usage",
    "error_200",
)
"""Kinds that a client should survive; ``hang`` needs a client with a short timeout."""


def default_answer(messages: list[dict[str, Any]], seed: int) -> str:
    """Return a text that depends on the prompt and the seed only."""
    digest = hashlib.sha256(f"{messages[-1]['content']}|{seed}".encode()).hexdigest()
    return f"seed {seed} says so. The final answer is {int(digest[:4], 16) % 10}"


def never(_: int, __: dict[str, Any]) -> None:
    """Inject no fault."""


@dataclass
class Script:
    """What the server does, and what it saw.

    ``fault(number, body)`` names the fault of the request with that number (None: none). ``answer`` makes
    a text from the messages and a path's seed. ``max_n`` refuses larger n with HTTP 400, as some servers
    do. ``latency`` in seconds. ``requests`` are the bodies received, ``headers`` theirs, ``gone`` counts
    clients that left before the answer, ``most`` is the most requests that were open at once.
    """

    fault: Callable[[int, dict[str, Any]], str | None] = never
    answer: Callable[[list[dict[str, Any]], int], str] = default_answer
    models: tuple[str, ...] = ("stub",)
    key: str | None = None
    max_n: int = 1000
    logprobs: bool = True
    refuses_logprobs: bool = False
    reasoning: str = ""
    first_usage_only: bool = False
    latency: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gone: int = 0
    open: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Server:
    """The application of one script."""

    def __init__(self, script: Script) -> None:
        self.script, self.replies = script, itertools.count()
        self.url = ""

    def app(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/models", self.models),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
            ]
        )

    def refused(self, request: Request) -> Response | None:
        """Return the answer to a wrong key, or None."""
        key = self.script.key
        if key is None or request.headers.get("authorization") == f"Bearer {key}":
            return None
        sent = request.headers.get("authorization", "")
        return error(401, f"Incorrect API key provided: {sent.removeprefix('Bearer ')}")

    async def models(self, request: Request) -> Response:
        """List the models."""
        listed = {"object": "list", "data": [{"id": name} for name in self.script.models]}
        return self.refused(request) or JSONResponse(listed)

    async def chat(self, request: Request) -> Response:
        """Answer one chat request, or fail as the script says."""
        script, body = self.script, await request.json()
        with script.lock:
            number = len(script.requests)
            script.requests.append(body)
            script.headers.append(dict(request.headers))
            script.open += 1
            script.most = max(script.most, script.open)
        try:
            return self.refused(request) or await self.answer(request, body, script.fault(number, body))
        finally:
            script.open -= 1

    async def answer(self, request: Request, body: dict[str, Any], fault: str | None) -> Response:
        """Return the response, with the fault if there is one."""
        if refusal := self.rejected(body, fault):
            return refusal
        await self.wait(request, 3600 if fault == "hang" else self.script.latency)
        if fault == "reset":
            request._receive.__self__.transport.abort()
            return Response()
        if fault == "error_200":
            return JSONResponse({"error": {"message": "the engine is overloaded", "type": "server_error"}})
        whole = self.response(body, fault)
        if body.get("stream"):
            return StreamingResponse(chunks(whole, cut=fault == "truncated"), media_type="text/event-stream")
        text = json.dumps(whole)
        return Response(
            text[: len(text) // 2] if fault == "truncated" else text, media_type="application/json"
        )

    def rejected(self, body: dict[str, Any], fault: str | None) -> Response | None:
        """Return the error response of a request that is refused, or None."""
        if fault == "429":
            return error(429, "slow down", {"retry-after-ms": "5"})
        if fault == "500":
            return error(500, "the server stumbled", {"retry-after-ms": "5"})
        if fault == "filter_400":
            return error(400, "flagged by the content_filter", code="content_filter")
        if fault is not None and fault.isdigit():
            return error(int(fault), f"no luck: {fault}")
        if body.get("n", 1) > self.script.max_n:
            return error(400, f"Field 'n': must be at most {self.script.max_n}")
        if self.script.refuses_logprobs and "logprobs" in body:
            return error(400, "logprobs is not supported by this model")
        return None

    async def wait(self, request: Request, seconds: float) -> None:
        """Wait, and notice a client that leaves."""
        if seconds:
            try:
                await asyncio.wait_for(until_gone(request), seconds)
                self.script.gone += 1
            except TimeoutError:
                pass

    def response(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        """Return the response to a request, not streamed."""
        n = body.get("n", 1)
        given = {"wrong_n": max(1, n // 2), "too_many": n + 1}.get(fault or "", n)
        choices = [self.choice(body, index, fault) for index in range(given)]
        lengths = [len((choice["message"]["content"] or "").split()) for choice in choices]
        if fault == "duplicated":
            choices = [choices[0]] * max(2, n)
        used = lengths[0] if self.script.first_usage_only else sum(lengths)
        usage = {
            "prompt_tokens": 7,
            "completion_tokens": used + len(self.script.reasoning.split()) * len(choices),
            "prompt_tokens_details": {"cached_tokens": 3},
        }
        whole = {
            "id": f"x{next(self.replies)}",
            "object": "chat.completion",
            "model": body["model"],
            "choices": choices,
        }
        return whole if fault == "no_usage" else whole | {"usage": usage}

    def choice(self, body: dict[str, Any], index: int, fault: str | None) -> dict[str, Any]:
        """Return one path of the response."""
        text = self.script.answer(body["messages"], body.get("seed", 0) + index)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        finish = "stop"
        if self.script.reasoning:
            message["reasoning_content"] = self.script.reasoning
        if fault == "refusal":
            message |= {"content": None, "refusal": "I cannot help with that."}
        if fault == "filtered":
            message, finish = {"role": "assistant", "content": ""}, "content_filter"
        if fault == "length":
            finish = "length"
        choice = {"index": index, "message": message, "finish_reason": finish}
        if body.get("logprobs") and self.script.logprobs:
            words = (message["content"] or "").split()
            choice["logprobs"] = {
                "content": [{"token": w, "logprob": -0.1 * (i + 1)} for i, w in enumerate(words)]
            }
        return choice


def error(
    status: int, message: str, headers: dict[str, str] | None = None, code: str | None = None
) -> Response:
    """Return an error response in the OpenAI form."""
    return JSONResponse({"error": {"message": message, "code": code}}, status_code=status, headers=headers)


async def until_gone(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def chunks(whole: dict[str, Any], *, cut: bool) -> AsyncIterator[str]:
    """Yield a response as server-sent events, one word each; ``cut`` ends in the middle."""
    events = list(chunk_events(whole))
    for event in events[: len(events) // 2] if cut else events:
        yield f"data: {json.dumps(event)}\n\n"
        await asyncio.sleep(0)
    if not cut:
        yield "data: [DONE]\n\n"


def chunk_events(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a response, its paths interleaved."""
    paths = [
        (
            choice,
            (choice["message"].get("content") or "").split(" "),
            (choice.get("logprobs") or {}).get("content"),
        )
        for choice in whole["choices"]
    ]
    for choice, _, _ in paths:
        rest = {name: choice["message"].get(name) for name in ("reasoning_content", "refusal")}
        yield {"choices": [{"index": choice["index"], "delta": {"role": "assistant"} | rest}]}
    for place in range(max(len(words) for _, words, _ in paths)):
        for choice, words, logprobs in paths:
            if place < len(words):
                part = {"index": choice["index"], "delta": {"content": " " * (place > 0) + words[place]}}
                if logprobs and place < len(logprobs):
                    part["logprobs"] = {"content": [logprobs[place]]}
                yield {"choices": [part]}
    for choice, _, _ in paths:
        yield {"choices": [{"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if "usage" in whole:
        yield {"choices": [], "usage": whole["usage"]}


@contextmanager
def running(script: Script) -> Iterator[str]:
    """Run the server on a free port of 127.0.0.1 and give its base URL."""

    def configure() -> uvicorn.Config:
        return uvicorn.Config(
            Server(script).app(), host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none"
        )

    with serving(configure, finish=False) as address:
        yield f"{address}/v1"
