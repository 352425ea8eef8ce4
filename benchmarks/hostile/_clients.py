"""Clients that never read, that hang up after the last byte, and web pages of another origin."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import random
import time
from pathlib import Path

from benchmarks.hostile._faults import Server, running
from benchmarks.hostile._gateway import HEAD, MOST_MEMORY, VOTED, Sent, exchanged, serving
from benchmarks.hostile._tally import SECRET, Tally

HEALTHY = 20.0
"""Longest time of ``/healthz`` beside clients that never read, on a busy machine."""
DEAF = 40
"""Clients at once that never read."""
PATHS_A_DAY = 5
SPENDING = (VOTED, "/v1/responses", "/v1/completions", "/v1/embeddings", "/v1/files", "/v1/Chat/completions")


def request(path: str, body: bytes, *headers: str, method: str = "POST") -> bytes:
    """Return a request as bytes; of headers of one name the last counts."""
    named = {line.partition(":")[0]: line for line in (*HEAD, *headers)}
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *named.values(), f"content-length: {len(body)}"])
    return head.encode() + b"\r\n\r\n" + body


def asked(number: int, **more: object) -> bytes:
    """Return the body of a question that no other request asks."""
    content = f"What is {number} plus {number}?"
    return json.dumps({"model": "stub", "messages": [{"role": "user", "content": content}], **more}).encode()


async def _deaf(port: int, inputs: int, seed: int, tally: Tally) -> None:
    """Ask for streams and never read one byte; beside them the gateway must answer."""
    rng = random.Random(f"{seed}|deaf")
    for first in range(0, inputs, DEAF):
        writers: list[asyncio.StreamWriter] = []
        for number in range(first, min(first + DEAF, inputs)):
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            stream = rng.random() < 0.7
            writer.write(request(VOTED, asked(number, stream=stream, keff={"k": 2, "return_paths": True})))
            writers.append(writer)
        begun = time.monotonic()
        reply = await exchanged(port, Sent(request("/healthz", b"", method="GET")))
        took = time.monotonic() - begun
        tally.inputs += len(writers)
        tally.outcomes["never read"] += len(writers)
        if not reply.startswith(b"HTTP/1.1 200") or took > HEALTHY:
            tally.fail(f"seed {seed}, deaf clients from {first}: /healthz {reply[:40]!r} in {took:.1f} s")
        for writer in writers:
            writer.transport.abort()


def clients_that_never_read(scratch: Path, inputs: int, seed: int) -> Tally:
    """Attack a gateway by clients that never read; its memory stays bounded and others are answered."""
    tally = Tally("clients that never read")
    with running(Server(0.0, seed)) as upstream, serving(scratch / "deaf", upstream.url) as gateway:
        upstream.ends = 0.0
        asyncio.run(_deaf(gateway.port, inputs, seed, tally))
        memory = gateway.memory()
        tally.outcomes["MB at most"] = memory
        if memory > MOST_MEMORY:
            tally.fail(f"seed {seed}: {memory} MB")
        reply = asyncio.run(exchanged(gateway.port, Sent(request(VOTED, asked(-1)))))
        if not reply.startswith(b"HTTP/1.1 200"):
            tally.fail(f"seed {seed}: an honest request afterwards: {reply[:200]!r}")
        tally.check_text(f"seed {seed}, the log", gateway.log.read_text("utf-8", "replace"))
    return tally


async def _hang_up(port: int, key: str, number: int, rng: random.Random) -> None:
    """Read a reply to its last byte, or less, and hang up before the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = asked(number, stream=rng.random() < 0.5, keff={"k": 1})
    writer.write(request(VOTED, body, f"authorization: Bearer {key}", "connection: keep-alive"))
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        sizes = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length:" in line]
        if sizes:
            await reader.readexactly(int(sizes[0]) - rng.choice((0, 0, 1)))
        else:
            await asyncio.wait_for(reader.readuntil(b"[DONE]"), 30)
    except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
        pass
    writer.transport.abort()


def clients_that_hang_up(scratch: Path, inputs: int, seed: int) -> Tally:
    """Spend more than a key may by hanging up with the last byte: what was drawn counts however it ends."""
    tally, folder = Tally("clients that hang up"), scratch / "hang up"
    folder.mkdir(parents=True)
    names = [f"client{number}" for number in range(max(1, inputs // (5 * PATHS_A_DAY)))]
    keys = {name: f"sk-{name}-{seed}-0123456789" for name in names}
    entries = [
        f'[keys.{name}]\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n'
        f"dollars_per_day = {PATHS_A_DAY}\n"
        for name, key in keys.items()
    ]
    (folder / "keys.toml").write_text("\n".join(entries))
    (folder / "prices.toml").write_text("[stub]\npath = 1\n")
    files = ("--keys", str(folder / "keys.toml"), "--prices", str(folder / "prices.toml"))
    number = itertools.count()
    with (
        running(Server(0.0, seed)) as upstream,
        serving(folder, upstream.url, *files) as gateway,
    ):
        upstream.ends = 0.0

        async def spend(key: str) -> None:
            rng = random.Random(f"{seed}|{key}")
            for _ in range(5 * PATHS_A_DAY):
                await _hang_up(gateway.port, key, next(number), rng)

        for name, key in keys.items():
            before = sum(upstream.kinds.values())
            asyncio.run(spend(key))
            drawn = sum(upstream.kinds.values()) - before
            tally.inputs += 5 * PATHS_A_DAY
            tally.outcomes["paths drawn"] += drawn
            if drawn > PATHS_A_DAY + 1:
                tally.fail(f"seed {seed}, {name}: {drawn} paths at {PATHS_A_DAY} a day")
        tally.check_text(f"seed {seed}, the log", gateway.log.read_text("utf-8", "replace"))
    return tally


def foreign_pages(scratch: Path, inputs: int, seed: int) -> Tally:
    """Ask every route that spends as a browser on a page of another origin would: nothing goes upstream."""
    tally, rng = Tally("pages of another origin"), random.Random(f"{seed}|pages")
    with running(Server(0.0, seed)) as upstream, serving(scratch / "pages", upstream.url) as gateway:
        upstream.ends = 0.0
        for number in range(inputs):
            mark = rng.choice(
                (
                    "origin: https://evil.example",
                    "origin: null",
                    f"origin: http://127.0.0.1:{gateway.port + 1}",
                    "origin: http://localhost.evil.example",
                    "sec-fetch-site: cross-site",
                    "sec-fetch-site: same-site",
                    "host: evil.example",
                    "host: [::1].evil",
                    "host: evil@localhost",
                )
            )
            kind = rng.choice(
                (
                    "application/json",
                    "text/plain",
                    "multipart/form-data; boundary=x",
                    "application/x-www-form-urlencoded",
                )
            )
            sent = Sent(request(rng.choice(SPENDING), asked(number), mark, f"content-type: {kind}"))
            reply = asyncio.run(exchanged(gateway.port, sent))
            status = reply.split(b" ", 2)[1].decode("latin-1")[:3] if reply.startswith(b"HTTP/") else "closed"
            tally.inputs += 1
            tally.outcomes[status] += 1
            if status.startswith("2") or SECRET.encode() in reply:
                tally.fail(f"seed {seed}, page {number} ({mark}, {kind}): status {status}")
        drawn = sum(upstream.kinds.values())
        if drawn:
            tally.fail(f"seed {seed}: {drawn} requests went upstream")
    return tally
