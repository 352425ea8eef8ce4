"""The gateway beside a bare Starlette + aiohttp proxy that makes the same four upstream calls.

``python benchmarks/gateway.py [--clients 64] [--seconds 8] [--soak SECONDS] [NAME=URL ...]``

One run on one machine: an upstream stub that answers after 50 ms, the bare proxy, and the gateway with
``fixed:4``, each its own process, and a cheap load generator in this one. Rates are at saturation (as many
clients as fit), in turns, so that what else the machine does meets both. ``NAME=URL`` measures another
OpenAI-compatible server that was pointed at the stub (whose port is 18999). ``--soak`` keeps the load on the
gateway and prints how its memory and lost requests develop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from keff.plan import Plan, Profile

STUB_PORT, PROXY_PORT = 18999, 18998
LATENCY, K = 0.05, 4
BODY = json.dumps(
    {
        "model": "stub",
        "messages": [{"role": "user", "content": "What is 6 times 7? " * 8}],
        "temperature": 0.7,
    }
).encode()
ANSWER = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "model": "stub",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {
                    "role": "assistant",
                    "content": "Six times seven is. " * 20 + "The answer is 42.",
                },
            }
        ],
        "usage": {"prompt_tokens": 40, "completion_tokens": 100, "total_tokens": 140},
    }
).encode()

BARE = """
import asyncio, json, aiohttp, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
session = None
async def one(body):
    async with session.post("http://127.0.0.1:%d/v1/chat/completions", json=body) as response:
        return await response.json()
async def chat(request):
    global session
    session = session or aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    body = await request.json()
    paths = await asyncio.gather(*(one(body) for _ in range(%d)))
    return JSONResponse(paths[0])
app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
uvicorn.run(app, port=%d, log_level="warning", access_log=False)
""" % (STUB_PORT, K, PROXY_PORT)  # noqa: UP031


class Http(asyncio.Protocol):
    """The least of HTTP/1.1 with keep-alive: calls ``whole`` for each message."""

    def __init__(self) -> None:
        self.buffer = b""
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            size = head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            whole = end + 4 + int(size or 0)
            if len(self.buffer) < whole:
                return
            self.buffer = self.buffer[whole:]
            self.whole(head)

    def whole(self, head: bytes) -> None:
        raise NotImplementedError


class Stub(Http):
    """Answers every request after the fixed time."""

    def whole(self, head: bytes) -> None:
        del head
        reply = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
            ANSWER
        )
        asyncio.get_running_loop().call_later(LATENCY, self.transport.write, reply + ANSWER)


class Client(Http):
    """Sends the next request when an answer has come."""

    def __init__(self, load: Load) -> None:
        super().__init__()
        self.load, self.sent = load, 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.send()

    def send(self) -> None:
        self.sent = time.perf_counter()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        self.transport.write(head + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)

    def whole(self, head: bytes) -> None:
        now = time.perf_counter()
        self.load.times.append(now - self.sent)
        self.load.failed += not head.startswith(b"http/1.1 200")
        if now < self.load.until:
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.load.open -= 1
        if not self.load.open:
            self.load.over.set()
        self.load.lost += time.perf_counter() < self.load.until


class Load:
    """One round of load and what came of it."""

    def __init__(self, clients: int, seconds: float) -> None:
        self.until = time.perf_counter() + seconds
        self.seconds, self.open = seconds, clients
        self.times: list[float] = []
        self.failed = self.lost = 0
        self.over = asyncio.Event()

    def quantile(self, q: float) -> float:
        return sorted(self.times)[int(q * (len(self.times) - 1))] * 1000


async def load(port: int, clients: int, seconds: float) -> Load:
    found, loop = Load(clients, seconds), asyncio.get_running_loop()
    for _ in range(clients):
        await loop.create_connection(lambda: Client(found), "127.0.0.1", port)
    await found.over.wait()
    return found


def stub() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Stub, "127.0.0.1", STUB_PORT, backlog=4096)
        await server.serve_forever()

    asyncio.run(run())


def plan(folder: Path) -> Path:
    sampling = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 256, "stop": [], "seed": 0, "thinking": None}
    config = {"engine": {"engine": "openai", "model": "stub"}, "task": {}, "sampling": sampling}
    found = Plan(
        policy=f"fixed:{K}",
        space="numeric",
        task={"name": "gsm8k", "options": {"name": "gsm8k"}},
        config=config,
        estimates={},
        profile=Profile(paths=4, table=(60, 20, 10, 7, 3)),
    )
    found.write(folder / "plan.json")
    return folder / "plan.json"


def start_gateway(folder: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "keff", "serve", "--plan", str(plan(folder)), "--port", "0"]
    command += ["--upstream", f"http://127.0.0.1:{STUB_PORT}/v1"]
    errors = (folder / "log").open("w")
    process = subprocess.Popen(command, stderr=errors, text=True)
    while '"listening"' not in (folder / "log").read_text():
        time.sleep(0.1)
    line = json.loads((folder / "log").read_text().splitlines()[0])
    return process, int(line["url"].rsplit(":", 1)[1].partition("/")[0])


def memory(process: subprocess.Popen[str]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def row(name: str, found: Load, base: Load | None = None) -> str:
    rate = len(found.times) / found.seconds
    text = f"{name:22}{rate:8.0f}/s  p50 {found.quantile(0.5):6.0f} ms  p99 {found.quantile(0.99):6.0f} ms"
    if base is not None:
        against = len(base.times) / base.seconds
        text += f"   rate x{rate / against:.2f}  p50 x{found.quantile(0.5) / base.quantile(0.5):.2f}"
        text += f"  p99 x{found.quantile(0.99) / base.quantile(0.99):.2f}"
    return text + (f"  FAILED {found.failed} LOST {found.lost}" if found.failed or found.lost else "")


async def compare(port: int, arguments: argparse.Namespace) -> None:
    others = dict(pair.split("=", 1) for pair in arguments.others)
    ports = {name: int(url.rsplit(":", 1)[1].partition("/")[0]) for name, url in others.items()}
    for clients in arguments.clients:
        await load(PROXY_PORT, clients, 1)
        await load(port, clients, 1)
        for turn in range(arguments.turns):
            base = await load(PROXY_PORT, clients, arguments.seconds)
            print(row(f"bare proxy, {clients}", base), flush=True)
            print(
                row(f"keff serve, {clients}", await load(port, clients, arguments.seconds), base), flush=True
            )
            for name, other in ports.items() if turn == 0 else ():
                print(
                    row(f"{name}, {clients}", await load(other, clients, arguments.seconds), base), flush=True
                )


async def soak(port: int, process: subprocess.Popen[str], seconds: float) -> None:
    begun, total, lost = time.monotonic(), 0, 0
    while time.monotonic() - begun < seconds:
        found = await load(port, 64, min(20.0, seconds))
        total, lost = total + len(found.times), lost + found.lost + found.failed
        print(
            f"{time.monotonic() - begun:6.0f} s  {total:8} requests  {lost} lost  {memory(process):.0f} MB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--soak", type=float, default=0)
    parser.add_argument("others", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        processes: list[subprocess.Popen[Any]] = []
        try:
            processes.append(
                subprocess.Popen([sys.executable, __file__], env={**os.environ, "KEFF_STUB": "1"})
            )
            processes.append(subprocess.Popen([sys.executable, "-c", BARE]))
            gateway, port = start_gateway(Path(name))
            processes.append(gateway)
            time.sleep(1)
            print(f"memory at start {memory(gateway):.0f} MB")
            if arguments.soak:
                asyncio.run(soak(port, gateway, arguments.soak))
            else:
                asyncio.run(compare(port, arguments))
            print(f"memory at the end {memory(gateway):.0f} MB")
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(20)


if __name__ == "__main__":
    stub() if os.environ.get("KEFF_STUB") else main()
