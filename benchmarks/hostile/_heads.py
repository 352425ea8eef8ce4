"""Request heads that two readers may take for different requests: nothing is answered that h11 does not read.

A gateway stands behind proxies that decide where a request ends. Where it took bytes of a body for a request
of its own, a client could send one in another's name (smuggling).
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import h11

from benchmarks.hostile._faults import Server, running
from benchmarks.hostile._gateway import serving
from benchmarks.hostile._tally import Tally, attacked

HIDDEN = b"GET /v1/models/smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n"
BODY = json.dumps(
    {"model": "stub", "messages": [{"role": "user", "content": "7?"}], "keff": {"k": 1}}
).encode()
QUIET, FIRST = 0.5, 3.0
"""Seconds without a further byte after which a connection has said all, and to the first byte."""
LENGTHS = (
    b"content-length: %d",
    b"content-length:%d",
    b"Content-Length : %d",
    b"content-length: +%d",
    b"content-length: %d, %d",
    b"content-length: 0%d",
    b"content-length: %d\r\ncontent-length: %d",
    b"content-length: %d\r\ncontent-length: 0",
    b"content-length: 0\r\ncontent-length: %d",
    b"content-length: \x0b%d",
    b"content-length: %d\x00",
    b"content-length: -%d",
    b"content-length: 0x%x",
    b"content_length: %d",
    b"content-length: 9%018d",
)
CODINGS = (
    b"transfer-encoding: chunked",
    b"Transfer-Encoding : chunked",
    b"transfer-encoding: xchunked",
    b"transfer-encoding: chunked, identity",
    b"transfer-encoding: identity",
    b"transfer-encoding: chunked\r\ntransfer-encoding: x",
    b"transfer-encoding:\x0bchunked",
    b"transfer-encoding: \tchunked",
    b"transfer-encoding: Chunked",
    b" transfer-encoding: chunked",
    b"x: y\r\n transfer-encoding: chunked",
    b"x: y\rtransfer-encoding: chunked",
    b"x: y\ntransfer-encoding: chunked",
    b"transfer-encoding: gzip, chunked",
    b"transfer-encoding",
)
FURTHER = (
    b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__",
    b"expect: 100-continue",
    b"host: other",
    b"connection: close, transfer-encoding",
    b"x\x00y: 1",
    b"x: a\x00b",
    b"\xff: 1",
    b": 1",
    b"no colon",
)
CHUNKS = (
    b"%x\r\n",
    b"0%x\r\n",
    b"%x;a=b\r\n",
    b"%x \r\n",
    b"0x%x\r\n",
    b"+%x\r\n",
    b"%x\n",
    b"%x;\n\r\n",
    b"-%x\r\n",
)
LAST = (
    b"0\r\n\r\n",
    b"0\r\nx: y\r\n\r\n",
    b"0\r\ncontent-length: 5\r\n\r\n",
    b"0\n\n",
    b"00\r\n\r\n",
    b"0\r\n",
    b"",
)
VERSIONS = (b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 ", b"http/1.1", b"")


def sent(rng: random.Random) -> bytes:
    """Return what one connection sends: a request with a doubtful end, and one more, perhaps in its body."""
    version = rng.choice(VERSIONS) if rng.random() < 0.2 else b"HTTP/1.1"
    lines = [rng.choice((b"POST", b"POST", b"POST", b"GET")) + b" /v1/chat/completions " + version]
    lines += [b"host: localhost", b"content-type: application/json"]
    body = BODY
    chosen: list[bytes] = []
    said = rng.choice(("length", "coding", "both", "neither"))
    if said in ("length", "both"):
        size = rng.choice((len(body),) * 5 + (0, len(body) + len(HIDDEN), 4))
        line = rng.choice(LENGTHS if rng.random() < 0.6 else LENGTHS[:1])
        chosen.append(line % ((size,) * (line.count(b"%d") + line.count(b"%x") + line.count(b"%018d"))))
    if said in ("coding", "both"):
        chosen.append(rng.choice(CODINGS if rng.random() < 0.6 else CODINGS[:1]))
        if rng.random() < 0.9:
            body = (
                rng.choice(CHUNKS if rng.random() < 0.5 else CHUNKS[:1]) % len(body)
                + body
                + rng.choice((b"\r\n",) * 4 + (b"\n", b""))
                + rng.choice(LAST)
            )
    if rng.random() < 0.3:
        chosen.append(rng.choice(FURTHER))
    rng.shuffle(chosen)
    end = rng.choice((b"\r\n",) * 14 + (b"\n", b"\r"))
    return end.join([*lines, *chosen, b"", b""]) + body + HIDDEN


def requests_of(data: bytes) -> list[bytes]:
    """Return the targets of the requests that h11 reads, up to the first that it refuses."""
    reader, targets = h11.Connection(h11.SERVER), list[bytes]()
    reader.receive_data(data)
    try:
        while True:
            event = reader.next_event()
            if isinstance(event, h11.Request):
                targets.append(event.target)
            elif isinstance(event, h11.EndOfMessage):
                reader.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                reader.send(h11.EndOfMessage())
                reader.start_next_cycle()
            elif event in (h11.NEED_DATA, h11.PAUSED):
                return targets
    except h11.ProtocolError:
        return targets


def answers(reply: bytes) -> list[int]:
    """Return the status of every final response in what a connection gave."""
    found: list[int] = []
    while reply.startswith(b"HTTP/1.1 "):
        head, _, rest = reply.partition(b"\r\n\r\n")
        status, named = int(head.split()[1]), head.lower()
        if status >= 200:
            found.append(status)
        size = 0
        for line in named.split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        reply = rest[size:]
        if b"transfer-encoding: chunked" in named:
            reply = rest.partition(b"0\r\n\r\n")[2]
    return found


async def _one(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reply = b""
    try:
        writer.write(data)
        while True:  # a connection that is kept has said all when it is quiet
            quiet = QUIET if reply else FIRST
            part = await asyncio.wait_for(reader.read(65536), quiet)
            if not part:
                return reply
            reply += part
    except OSError:  # its own timeout, or a reset
        return reply
    finally:
        writer.close()


async def _attack(port: int, inputs: int, seed: int, tally: Tally) -> None:
    async def one(number: int) -> None:
        data = sent(random.Random(f"{seed}|head|{number}"))
        where = f"seed {seed}, head {number}"
        statuses = answers(await _one(port, data))
        tally.inputs += 1
        tally.outcomes[" ".join(map(str, statuses)) or "none"] += 1
        good = sum(status != 400 for status in statuses)
        # h11 refuses some first requests that others read; only a further one can be smuggled.
        if good > max(1, len(requests_of(data))):
            tally.fail(f"{where}: {statuses} for {requests_of(data)}: {data[:400]!r}")
        if any(status >= 500 for status in statuses):
            tally.fail(f"{where}: status {statuses}: {data[:300]!r}")

    await attacked(inputs, one)


def hostile_heads(scratch: Path, inputs: int, seed: int) -> Tally:
    """Send doubtful heads to a gateway, each with a second request behind it or in its body."""
    tally = Tally("hostile heads")
    with (
        running(Server(0.0, seed, ends=0.0)) as upstream,
        serving(scratch / "heads", upstream.url, "--set", "path_timeout=30") as gateway,
    ):
        asyncio.run(_attack(gateway.port, inputs, seed, tally))
        tally.check_text(f"seed {seed}, the log", gateway.log.read_text("utf-8", "replace"))
    return tally
