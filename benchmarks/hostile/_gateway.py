"""A gateway between an upstream that fails and clients that send whatever a grammar makes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.gateway.gateway import listening
from benchmarks.hostile._faults import Server, running
from benchmarks.hostile._tally import SECRET, Tally, attacked
from keff.gateway.upstream.server import REST

SECONDS = 60.0
"""Longest time of one request; the gateway's own limits are far below."""
MOST_MEMORY = 300
"""MB that a gateway may hold at most: start-up takes about 60."""
QUESTION = [{"role": "user", "content": "What is 6 times 7?"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    3,
    10**30,
    1.5,
    float("nan"),
    float("-inf"),
    "",
    "x",
    "9" * 5000,
    "\ud83d",
    "\x00\x1b[2J",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    [],
    [None],
    {},
    {"x": {"y": [1]}},
    [[[[[[]]]]]],
)
FIELDS: dict[str, tuple[object, ...]] = {
    "messages": (
        QUESTION,
        [{"role": "user"}],
        [{"role": "user", "content": [{"type": "text", "text": "Reply with JSON."}]}],
        [{"role": "tool", "content": "7", "tool_call_id": "x"}],
        [{"role": "user", "content": "x" * 200_000}],
        [QUESTION[0]] * 300,
    ),
    "model": ("stub", "other", "stub\nx"),
    "stream": (True, False, "yes"),
    "stream_options": ({"include_usage": True}, {"include_usage": "x"}),
    "n": (1, 2, 10**9),
    "max_tokens": (1, 64, 10**12, -5),
    "temperature": (0.0, 2.0, 1e308),
    "logprobs": (True, 7),
    "top_logprobs": (3, 10**6),
    "stop": ("\n", ["a"] * 100),
    "seed": (7, -(2**70)),
    "tools": ([TOOL], [TOOL] * 200, [{"type": "x"}]),
    "tool_choice": ("auto", {"type": "function", "function": {"name": "add"}}),
    "response_format": (
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    ),
    "keff": (
        {"k": 1},
        {"k": 3},
        {"policy": "fixed:2"},
        {"policy": "lead_k:2, cap =4"},
        {"policy": "pilot_budget:0.9,cap=64"},
        {"policy": "fixed:999999999"},
        {"policy": "("},
        {"cap": 0},
        {"deadline_s": 1e-9},
        {"return_paths": True},
        {"voters": 3},
    ),
    "reasoning_effort": ("low", "enormous"),
    "user": ("a", "u" * 100_000),
    "metadata": ({"a": "b"},),
    "input": ("What is 6 times 7?", [{"role": "user", "content": "7?"}]),
}
PATHS = (
    *("/v1/chat/completions",) * 8,
    "/v1/responses",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/models",
    "/v1/models/../../x",
    "/metrics",
    "/keff",
    "/keff/plan",
    "/healthz",
    "/%00",
    "/v1/chat/completions/",
)
HEAD = ("host: localhost", "connection: close", "content-type: application/json")
VOTED = "/v1/chat/completions"
ALL_VOTED = (VOTED, f"{VOTED}/", "/v1/responses")
HEADERS = (
    "x-keff-k: 3",
    "x-keff-k: " + "9" * 4000,
    "x-keff-policy: fixed:2",
    "x-keff-policy: lead_k:2,cap=1e9",
    "x-keff-deadline: nan",
    "authorization: Bearer wrong",
    "traceparent: 00-x",
    "content-encoding: gzip",
    "accept: text/event-stream",
    "origin: http://evil.example",
    "x-" + "y" * 3000 + ": 1",
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as bytes, whether it is HTTP at all, and whether its path is passed on as it is.

    What comes back on such a path is the upstream's own, status 500 and rubbish included.
    """

    data: bytes
    well_formed: bool = True
    passed_on: bool = False


def body_of(rng: random.Random) -> bytes:
    """Return a body: a chat request with some fields odd, another value, or broken JSON."""
    body: dict[str, object] = {"model": "stub", "messages": QUESTION}
    for name in rng.sample(sorted(FIELDS), rng.choice((0, 1, 1, 2, 3, 6))):
        body[name] = rng.choice(FIELDS[name] if rng.random() < 0.7 else ODD)
    raw = json.dumps(rng.choice(ODD) if rng.random() < 0.05 else body).encode()
    if rng.random() < 0.15:
        raw = broken(raw, rng)
    return raw


def broken(raw: bytes, rng: random.Random) -> bytes:
    """Return a body that is not JSON any more, or not what a careless reader takes it for."""
    place = rng.randrange(len(raw) + 1)
    return rng.choice(
        (
            b"",
            raw[:place],
            raw + b"}",
            b"\xef\xbb\xbf" + raw,
            raw.decode().encode("utf-16"),
            raw.replace(b'"', b"'", 1),
            raw[:-1] + b', "model": "twice"}',
            raw[:-1] + b', "x": ' + b"[" * 50_000 + b"}",
            raw[:place] + b"\xff" + raw[place:],
        )
    )


def request_of(rng: random.Random) -> Sent:
    """Return one request."""
    if rng.random() < 0.03:
        return Sent(rng.randbytes(rng.randrange(1, 400)) + b"\r\n\r\n", well_formed=False)
    body, path = body_of(rng), rng.choice(PATHS)
    method = rng.choice(("POST", "POST", "POST", "POST", "POST", "GET", "PUT", "OPTIONS", "BREW"))
    lines = [f"{method} {path} HTTP/1.1", *HEAD]
    lines += rng.sample(HEADERS, rng.choice((0, 0, 0, 1, 2)))
    length = len(body) if rng.random() > 0.03 else rng.choice((-1, len(body) + 9, 10**15))
    head = "\r\n".join([*lines, f"content-length: {length}"])
    return Sent(
        head.encode() + b"\r\n\r\n" + body,
        length == len(body),
        path.startswith("/v1/") and (path not in ALL_VOTED or method != "POST"),
    )


async def exchanged(port: int, sent: Sent) -> bytes:
    """Send one request and return the whole reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent.data)
        if not sent.well_formed:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), SECONDS)
    except OSError:  # also "not connected", where the other side was faster
        return b""
    finally:
        writer.close()


def fault_of(sent: Sent, reply: bytes) -> str | None:
    """Return what is wrong with a reply, or None."""
    head, _, body = reply.partition(b"\r\n\r\n")
    if not head:
        return "no reply" if sent.well_formed else None
    status = int(head.split()[1])
    if SECRET.encode() in reply:
        return "the key is shown"
    if sent.passed_on or b"x-keff-not-voted" in head.lower():
        return None
    if status == 500 or not 200 <= status < 600:
        return f"status {status}: {body[:200]!r}"
    if b"transfer-encoding: chunked" in head.lower():
        body = unchunked(body)
    try:
        if b"application/json" in head.lower() and body:
            strict(body)
        for line in body.splitlines() if b"text/event-stream" in head.lower() else ():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                strict(line[6:])
    except (ValueError, RecursionError) as error:
        return f"status {status}, not JSON ({error}): {body[:200]!r}"
    return None


def strict(body: bytes) -> object:
    """Return the value of JSON; NaN and the infinities are none."""

    def refuse(name: str) -> object:
        raise ValueError(f"{name} is not JSON")

    return json.loads(body, parse_constant=refuse)


def unchunked(body: bytes) -> bytes:
    """Return a body without its chunks."""
    parts: list[bytes] = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16) if size else 0
        parts.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(parts)


@dataclass
class Gateway:
    """A running ``keff serve``."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def memory(self) -> int:
        """Return the most memory that it held, in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) // 1024


@contextmanager
def serving(folder: Path, upstream: str, *more: str) -> Iterator[Gateway]:
    """Run ``keff serve`` on a free port, with ``more`` options."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    options = ["--port", "0", "--set", "path_timeout=0.6", "--set", "replacements=4", "--cap", "8"]
    options += ["--upstream-key-env", "CHAOS_KEY", "--set", "admin_token_env=CHAOS_ADMIN"]
    command = [sys.executable, "-m", "keff", "serve", "--upstream", upstream, *options, *more]
    env = os.environ | {"CHAOS_KEY": SECRET, "CHAOS_ADMIN": SECRET + "-admin"}
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors, stdout=errors, env=env, cwd=folder)
    try:
        yield Gateway(process, urlsplit(listening(process, log)).port or 0, log)
    finally:
        process.kill()
        process.wait()


async def attack(port: int, requests: int, seed: int, tally: Tally) -> None:
    """Send the requests, some at once, and check every reply."""

    async def one(number: int) -> None:
        sent = request_of(random.Random(f"{seed}|{number}"))
        try:
            reply = await exchanged(port, sent)
        except TimeoutError:
            tally.fail(f"seed {seed}, request {number}: no answer in {SECONDS:.0f} s: {sent.data[:200]!r}")
            return
        status = reply.split(b" ", 2)[1].decode("latin-1")[:3] if reply.startswith(b"HTTP/") else "closed"
        tally.outcomes[status] += 1
        if wrong := fault_of(sent, reply):
            tally.fail(f"seed {seed}, request {number}: {wrong}")

    await attacked(requests, one)


def hostile_clients(scratch: Path, requests: int, seed: int) -> Tally:
    """Attack a gateway, then ask it an honest question and stop it."""
    tally = Tally("gateway")
    with (
        running(Server(0.4, seed, ends=0.002)) as upstream,
        serving(scratch / "gateway", upstream.url) as gateway,
    ):
        asyncio.run(attack(gateway.port, requests, seed, tally))
        tally.inputs = requests
        upstream.rate = upstream.ends = 0.0
        body = json.dumps({"model": "stub", "messages": QUESTION}).encode()
        head = "\r\n".join([f"POST {VOTED} HTTP/1.1", *HEAD, f"content-length: {len(body)}"])
        honest = Sent(head.encode() + b"\r\n\r\n" + body)
        # A trial that met a fault has set the server down: it is asked again when it has rested.
        until = time.monotonic() + 5 * REST
        while b"it is down" in (reply := asyncio.run(exchanged(gateway.port, honest))):
            if time.monotonic() > until:
                break
            time.sleep(0.2)
        if not reply.startswith(b"HTTP/1.1 200"):
            tally.fail(f"seed {seed}: an honest request afterwards: {reply[:400]!r}")
        memory = gateway.memory()
        tally.outcomes["MB at most"] = memory
        if memory > MOST_MEMORY:
            tally.fail(f"seed {seed}: {memory} MB")
        gateway.process.send_signal(signal.SIGTERM)
        if gateway.process.wait(60) != 0:
            tally.fail(f"seed {seed}: exit code {gateway.process.returncode} after SIGTERM")
        tally.check_text(f"seed {seed}, the log", gateway.log.read_text("utf-8", "replace"))
    return tally
