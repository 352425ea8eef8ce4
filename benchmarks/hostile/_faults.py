"""A chat server with more than 50 kinds of faults: in status, in JSON, in HTTP and in time."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

Part = bytes | float | None
"""What is sent: bytes, a pause in seconds, or None for a connection that is reset here."""
Json = Mapping[str, object]


def true_text(prompt: str, seed: int) -> str:
    """Return what the model says on this prompt with this seed: nothing else is ever a right text."""
    digest = hashlib.sha256(f"{prompt}|{seed}".encode()).hexdigest()
    return f"Path {digest[:12]}. The final answer is {int(digest[:4], 16) % 10}"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its prompt, first seed, number of paths, whether streamed, and the key sent with it."""

    prompt: str
    seed: int
    n: int
    stream: bool
    key: str


def message(text: object) -> dict[str, object]:
    """Return a message of the assistant."""
    return {"role": "assistant", "content": text}


def choice(index: int, text: object) -> dict[str, object]:
    """Return one path."""
    return {"index": index, "message": message(text), "finish_reason": "stop"}


def whole(asked: Asked, **more: object) -> dict[str, object]:
    """Return an honest answer; ``more`` replaces fields."""
    choices = [choice(i, true_text(asked.prompt, asked.seed + i)) for i in range(asked.n)]
    usage = {"prompt_tokens": 7, "completion_tokens": 9 * asked.n, "total_tokens": 7 + 9 * asked.n}
    body: dict[str, object] = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub"}
    return body | {"choices": choices, "usage": usage} | more


def http(body: bytes, status: int = 200, **headers: str) -> bytes:
    """Return a whole HTTP answer."""
    lines = {"content-type": "application/json", "content-length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} So\r\n{head}\r\n".encode() + body


def said(body: object) -> bytes:
    """Return an answer of JSON; NaN and lone surrogates are written as they are."""
    return http(json.dumps(body).encode())


def events(asked: Asked) -> list[bytes]:
    """Return an honest stream, event by event, in the chunked coding."""
    texts = [true_text(asked.prompt, asked.seed + i) for i in range(asked.n)]
    bodies: list[object] = [
        {"choices": [{"index": i, "delta": {"role": "assistant", "content": part}}]}
        for i, text in enumerate(texts)
        for part in (text[:9], text[9:])
    ]
    bodies += [{"choices": [{"index": i, "delta": {}, "finish_reason": "stop"}]} for i in range(asked.n)]
    usage = {"prompt_tokens": 7, "completion_tokens": 9 * asked.n}
    lines = [json.dumps(body) for body in [*bodies, {"choices": [], "usage": usage}]] + ["[DONE]"]
    return [b"%x\r\n%s\r\n" % (len(line) + 8, b"data: " + line.encode() + b"\n\n") for line in lines]


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def honest(asked: Asked) -> list[Part]:
    """Return the answer of a server in good health."""
    return [STREAM, *events(asked), b"0\r\n\r\n"] if asked.stream else [said(whole(asked))]


def refused(status: int, body: object = None, **headers: str) -> Callable[[Asked], list[Part]]:
    """Return a fault that is an error of the server; by default it repeats the key, as some servers do."""

    def give(asked: Asked) -> list[Part]:
        error = {"error": {"message": f"no: key {asked.key} at {status}", "code": status}}
        raw = body if isinstance(body, bytes) else json.dumps(error if body is None else body).encode()
        return [http(raw, status, **headers)]

    return give


def changed(**more: object) -> Callable[[Asked], list[Part]]:
    """Return a fault that replaces fields of an honest answer."""
    return lambda asked: [said(whole(asked, **more))]


def choices(change: Callable[[dict[str, object]], object]) -> Callable[[Asked], list[Part]]:
    """Return a fault that changes every path of an honest answer."""

    def give(asked: Asked) -> list[Part]:
        paths = [choice(i, true_text(asked.prompt, asked.seed + i)) for i in range(asked.n)]
        return [said(whole(asked, choices=[change(path) for path in paths]))]

    return give


def raw(body: bytes, **headers: str) -> Callable[[Asked], list[Part]]:
    """Return a fault that sends these bytes as a body."""
    return lambda _: [http(body, **headers)]


def wire(change: Callable[[bytes], list[Part]]) -> Callable[[Asked], list[Part]]:
    """Return a fault in how an honest answer is sent."""
    return lambda asked: change(b"".join(part for part in honest(asked) if isinstance(part, bytes)))


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _text(path: dict[str, object], text: object) -> dict[str, object]:
    return path | {"message": message(text)}


DEEP = b"[" * 50_000
LOGPROBS = {"content": [{"token": "x", "logprob": -1e308}, {"token": "y", "logprob": float("nan")}]}
FAULTS: dict[str, Callable[[Asked], list[Part]]] = {
    "408": refused(408),
    "409": refused(409),
    "425": refused(425),
    "429 at once": refused(429, retry_after_ms="2"),
    "429 with a date": refused(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    "429 with nonsense": refused(429, retry_after="soon"),
    "500": refused(500, retry_after_ms="2"),
    "500 with a page": refused(500, b"<html>\xff\xfe"),
    "502 empty": refused(502, b""),
    "503 with a list": refused(503, [1, 2]),
    "504 deep": refused(504, DEEP),
    "529": refused(529),
    "error with half a surrogate pair": refused(500, {"error": {"message": "x\ud83d", "code": "\ud83d"}}),
    "error that is a number": refused(500, {"error": 7}),
    "error of a megabyte": refused(500, {"error": {"message": "sk " * 300_000}}),
    "redirect": refused(302, b"", location="http://127.0.0.1:9/stolen"),
    "error in disguise": changed(choices=None, error={"message": "overloaded", "code": 1}),
    "empty body": raw(b""),
    "a page": raw(b"<html>busy</html>"),
    "null": raw(b"null"),
    "a list": raw(b"[]"),
    "a number": raw(b"7"),
    "deep JSON": raw(b'{"choices": ' + DEEP + b"}"),
    "a number of 5,000 digits": raw(b'{"choices": ' + b"9" * 5000 + b"}"),
    "invalid UTF-8": raw(b'{"choices": [{"message": {"content": "\xff\xc3("}}]}'),
    "no choices": changed(choices=[]),
    "choices null": changed(choices=None),
    "choices a mapping": changed(choices={"0": {}}),
    "choices of numbers": changed(choices=[1, 2, 3]),
    "paths twice": lambda a: [said(whole(a, choices=[choice(0, true_text(a.prompt, a.seed))] * (a.n + 1)))],
    "too few paths": lambda a: [said(whole(a, choices=[choice(0, true_text(a.prompt, a.seed))] * (a.n > 1)))],
    "index a list": choices(lambda path: path | {"index": [1]}),
    "index far away": choices(lambda path: path | {"index": 10**30}),
    "no message": choices(lambda path: {"index": path["index"], "finish_reason": "stop"}),
    "message a list": choices(lambda path: path | {"message": [1]}),
    "content a number": choices(lambda path: _text(path, 7)),
    "content a mapping": choices(lambda path: _text(path, {"text": "7"})),
    "odd finish": choices(lambda path: path | {"finish_reason": {"x": 1}}),
    "odd log-probabilities": choices(lambda path: path | {"logprobs": LOGPROBS}),
    "log-probabilities a text": choices(lambda path: path | {"logprobs": "high"}),
    "usage NaN": changed(usage={"prompt_tokens": float("nan"), "completion_tokens": float("inf")}),
    "usage 10^400": changed(usage={"prompt_tokens": 10**400, "completion_tokens": 10**400}),
    "usage 10^30": changed(usage={"prompt_tokens": 10**30, "completion_tokens": 10**30}),
    "usage negative": changed(usage={"prompt_tokens": -1, "completion_tokens": -(10**9)}),
    "usage texts": changed(usage={"prompt_tokens": "7", "completion_tokens": [5]}),
    "usage a list": changed(usage=[1]),
    "no usage": changed(usage=None),
    "model with a line": changed(model="stub\n\x1b[2Jevil", system_fingerprint=float("inf")),
    "reset at once": lambda _: [None],
    "reset in the middle": wire(lambda data: [_half(data), 0.001, None]),
    "cut": wire(lambda data: [_half(data)]),
    "length too large": lambda a: [http(json.dumps(whole(a)).encode(), content_length="999999")],
    "length negative": raw(b"{}", content_length="-1"),
    "no HTTP": lambda _: [b"\x16\x03\x01\x02\x00hello\r\n\r\n"],
    "status of letters": lambda _: [b"HTTP/1.1 abc So\r\n\r\n"],
    "odd chunks": lambda _: [STREAM, b"zz\r\nhello\r\n"],
    "chunk that ends early": lambda _: [STREAM, b"fffff\r\ndata: {\r\n"],
    "stream of rubbish": lambda _: [STREAM, b"d\r\ndata: {rubbish\r\n", b"0\r\n\r\n"],
    "header of 100 kB": raw(b"{}", x="y" * 100_000),
    "gzip that is none": raw(b"{}", content_encoding="gzip"),
    "a gzip bomb": raw(gzip.compress(bytes(30_000_000), 1), content_encoding="gzip"),
    "hangs": lambda _: [30.0, None],
    "drips": wire(lambda data: [part for byte in data[:400] for part in (bytes([byte]), 0.02)]),
    "late": lambda asked: [0.05, *honest(asked)],
}
"""Every kind of fault: from a request to what is sent. Some still carry the true text, and may be kept."""
MOST_PATHS = 32
"""More paths are not drawn in one request."""
ENDS = ("401", "403", "404")
"""A server that answers so means it: the session ends, and a later one goes on."""


@dataclass
class Server:
    """What the server does, and what it did.

    ``rate`` is the share of requests that fail. ``kinds`` counts what it sent; ``texts`` holds every text
    sent to a prompt and seed other than the true one (none here is one that may be kept).
    """

    rate: float
    seed: int
    kinds: Counter[str] = field(default_factory=Counter[str])
    ends: float = 0.001
    """Share of requests that are refused for good."""
    url: str = ""

    def fault(self, number: int) -> str | None:
        """Return the kind of fault of a request, or None."""
        rng = random.Random(f"{self.seed}|{number}")
        if rng.random() < self.ends:
            return rng.choice(ENDS)
        return rng.choice(tuple(FAULTS)) if rng.random() < self.rate else None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if head.startswith("GET"):
            writer.write(http(b'{"object": "list", "data": [{"id": "stub"}]}'))
            return True
        number = sum(self.kinds.values())
        kind = self.fault(number)
        self.kinds[kind or "honest"] += 1
        make = honest if kind is None else FAULTS.get(kind) or refused(int(kind))
        return await _send(make(_asked(body, headers)), writer, kept=kind is None)


def _asked(body: bytes, headers: Mapping[str, str]) -> Asked:
    """Read a request; one that no server would understand is asked for one path of an empty prompt."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    fields = given if isinstance(given, dict) else {}
    lines = fields.get("messages")
    last = lines[-1] if isinstance(lines, list) and lines else None
    content = last.get("content") if isinstance(last, dict) else fields.get("input")
    key = headers.get("authorization", "").removeprefix("bearer ")
    seed, n = (value if isinstance(value, int) else 0 for value in (fields.get("seed"), fields.get("n")))
    # The model answers the question, whatever the prompt adds on further lines.
    return Asked(
        str(content).partition("\n")[0], seed, min(max(n, 1), MOST_PATHS), fields.get("stream") is True, key
    )


async def _send(parts: Sequence[Part], writer: asyncio.StreamWriter, *, kept: bool) -> bool:
    for part in parts:
        if part is None:
            writer.transport.abort()
            return False
        if isinstance(part, float):
            await asyncio.sleep(part)
        else:
            writer.write(part)
            await writer.drain()
    return kept


async def _drained() -> None:
    """Cancel what still hangs."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Run the server on a free port of 127.0.0.1 in a thread."""
    loop = asyncio.new_event_loop()
    started: list[asyncio.Server] = []
    ready = threading.Event()

    async def begin() -> None:
        started.append(await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=1024))
        ready.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(begin())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    server.url = f"http://127.0.0.1:{started[0].sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(_drained(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
