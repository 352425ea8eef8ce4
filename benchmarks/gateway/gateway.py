"""The gateway beside a bare Starlette + aiohttp proxy that makes the same four upstream calls.

``python -m benchmarks.gateway.gateway [--clients 16 64] [--seconds 6] [--turns 3] [--keys]
[--its-hub PYTHON] [--optillm PYTHON] [NAME=URL ...]``
``python -m benchmarks.gateway.gateway --requests 100000 [--policy SPEC]`` measures memory instead.

An upstream stub answers after 50 ms. Each server is a process of its own; they are measured in turns at
saturation (as many requests as the clients can have open), so that what else the machine does meets all of
them. Servers run on one core, the stub and the load generator on another (where there are two), and the
table says how busy that one was: while it has room, it hides nothing. Milliseconds of CPU are those of the
server's process, user and system.

``--its-hub`` and ``--optillm`` take the interpreter of an environment that holds ``its-hub[iaas]`` or
``optillm``; ``NAME=URL`` is any other OpenAI-compatible server before the stub (whose port is 18999).
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import contextlib
import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from keff.plan import Plan, Profile

STUB_PORT, PROXY_PORT, ITS_HUB_PORT, OPTILLM_PORT = 18999, 18998, 18997, 18996
LATENCY, K = 0.05, 4
CORES = sorted(os.sched_getaffinity(0))
STUB_URL = f"http://127.0.0.1:{STUB_PORT}/v1"
REQUEST = {
    "model": "stub",
    "messages": [{"role": "user", "content": "What is 6 times 7? " * 8}],
    "temperature": 0.7,
}
ANSWER = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
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

BARE = f"""
import asyncio, aiohttp, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
session = None
async def one(body):
    async with session.post("{STUB_URL}/chat/completions", json=body) as response:
        return await response.json()
async def chat(request):
    global session
    session = session or aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    body = await request.json()
    paths = await asyncio.gather(*(one(body) for _ in range({K})))
    return JSONResponse(paths[0])
app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
uvicorn.run(app, port={PROXY_PORT}, log_level="warning", access_log=False)
"""


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
            body, self.buffer = self.buffer[end + 4 : whole], self.buffer[whole:]
            self.whole(head, body)

    def whole(self, head: bytes, body: bytes) -> None:
        raise NotImplementedError


class Stub(Http):
    """Answers every request after the fixed time."""

    def whole(self, head: bytes, body: bytes) -> None:
        del head, body
        reply = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
            ANSWER
        )
        asyncio.get_running_loop().call_later(LATENCY, self.transport.write, reply + ANSWER)


@dataclass
class Load:
    """One round of load and what came of it."""

    port: int
    clients: int
    body: bytes
    until: float
    most: float = float("inf")
    sent: int = 0
    times: list[float] = field(default_factory=list[float])
    failed: int = 0
    lost: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    opening: asyncio.Future[Any] | None = None

    def more(self) -> bool:
        return self.sent < self.most and time.perf_counter() < self.until

    def connect(self) -> asyncio.Future[Any]:
        """Open one connection, which keeps itself busy."""
        call = asyncio.get_running_loop().create_connection(lambda: Client(self), "127.0.0.1", self.port)
        self.opening = asyncio.ensure_future(call)
        return self.opening

    def quantile(self, q: float) -> float:
        return sorted(self.times)[int(q * (len(self.times) - 1))] * 1000


class Client(Http):
    """Sends the next request when an answer has come."""

    def __init__(self, load: Load) -> None:
        super().__init__()
        self.load, self.since = load, 0.0
        self.waiting = self.closed = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.next()

    def next(self) -> None:
        if not self.load.more():
            self.transport.close()
            return
        self.since, self.waiting = time.perf_counter(), True
        self.load.sent += 1
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        head += b"authorization: Bearer bench\r\n"
        self.transport.write(head + b"content-length: %d\r\n\r\n" % len(self.load.body) + self.load.body)

    def whole(self, head: bytes, body: bytes) -> None:
        del body
        self.load.times.append(time.perf_counter() - self.since)
        self.load.failed += not head.startswith(b"http/1.1 200")
        self.waiting, self.closed = False, b"\r\nconnection: close" in head
        if self.closed:
            self.transport.close()
        else:
            self.next()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.closed and self.load.more():
            self.load.connect()
            return
        self.load.lost += self.waiting
        self.load.clients -= 1
        if not self.load.clients:
            self.load.over.set()


async def load(port: int, clients: int, seconds: float, more: dict[str, Any] | None = None) -> Load:
    """Keep ``clients`` connections busy; every request that is sent is waited for."""
    body = json.dumps(REQUEST | (more or {})).encode()
    return await _run(Load(port, clients, body, time.perf_counter() + seconds))


async def send(port: int, clients: int, requests: int) -> Load:
    """Send so many requests."""
    return await _run(Load(port, clients, json.dumps(REQUEST).encode(), float("inf"), requests))


async def _run(found: Load) -> Load:
    for _ in range(found.clients):
        await found.connect()
    await found.over.wait()
    return found


def stub() -> None:
    """Serve the stub until told to stop."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Stub, "127.0.0.1", STUB_PORT, backlog=4096)
        await server.serve_forever()

    asyncio.run(run())


@dataclass(frozen=True)
class Server:
    """A server under test."""

    name: str
    port: int
    process: subprocess.Popen[Any] | None = None
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def cpu(self) -> float:
        """Return the CPU seconds of the process so far."""
        return 0.0 if self.process is None else cpu(self.process.pid)

    def memory(self) -> float:
        """Return the resident memory in MB."""
        return 0.0 if self.process is None else memory(self.process.pid)


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def pinned(command: list[str], *, server: bool, **options: Any) -> subprocess.Popen[Any]:
    """Start a process on the first core (servers) or the last one (stub and load); it ends with this one."""
    process = subprocess.Popen(command, **options)
    atexit.register(end, process)
    os.sched_setaffinity(process.pid, {CORES[0] if server else CORES[-1]})
    return process


def end(process: subprocess.Popen[Any]) -> None:
    """End a process, by force when it takes long."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    process.kill()


def reachable(port: int, process: subprocess.Popen[Any], seconds: float = 60) -> None:
    """Wait until a process listens."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r:.100} ended with code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def started_stub() -> subprocess.Popen[Any]:
    """Start the stub in a process of its own."""
    process = pinned(
        [sys.executable, "-m", "benchmarks.gateway.gateway"],
        server=False,
        env={**os.environ, "KEFF_STUB": "1"},
    )
    reachable(STUB_PORT, process)
    return process


def plan(folder: Path, policy: str) -> Path:
    """Write the plan that is served."""
    sampling = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 256, "stop": [], "seed": 0, "thinking": None}
    config = {"engine": {"engine": "openai", "model": "stub"}, "task": {}, "sampling": sampling}
    found = Plan(
        policy=policy,
        space="numeric",
        task={"name": "gsm8k", "options": {"name": "gsm8k"}},
        config=config,
        estimates={},
        profile=Profile(paths=4, votes=((4,),) * 60 + ((3, 1),) * 20 + ((2, 2),) * 20),
    )
    found.write(folder / "plan.json")
    return folder / "plan.json"


def started_gateway(
    folder: Path, policy: str, upstream: str = STUB_URL, more: tuple[str, ...] = ()
) -> Server:
    """Start ``keff serve`` on a free port."""
    command = [sys.executable, "-m", "keff", "serve", "--plan", str(plan(folder, policy)), "--port", "0"]
    errors = (folder / "log").open("w")
    process = pinned([*command, "--upstream", upstream, *more], server=True, stderr=errors)
    return Server("keff serve", urlsplit(listening(process, folder / "log")).port or 0, process)


def with_keys(folder: Path, policy: str) -> Server:
    """Start a gateway that knows its client by a key with a limit."""
    folder.mkdir()
    digest = hashlib.sha256(b"bench").hexdigest()
    (folder / "keys.toml").write_text(
        f'[keys.bench]\nsha256 = "{digest}"\nrequests_per_minute = 1000000000\n'
    )
    more = ("--keys", str(folder / "keys.toml"))
    return replace(started_gateway(folder, policy, more=more), name="keff serve --keys")


def listening(process: subprocess.Popen[Any], log: Path) -> str:
    """Wait until ``keff serve`` listens, and return its base URL from the log that it writes."""
    while not (said := [line for line in log.read_text().splitlines(True) if '"listening"' in line]):
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        time.sleep(0.05)
    return json.loads(said[0])["url"]


def started_its_hub(python: str) -> Server:
    """Start its-hub's server and tell it where the stub is."""
    script = str(Path(python).parent / "its-iaas")
    command = [script, "--port", str(ITS_HUB_PORT), "--log-level", "ERROR"]
    process = pinned(command, server=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reachable(ITS_HUB_PORT, process)
    told = {
        "endpoint": STUB_URL,
        "api_key": "none",
        "model": "stub",
        "alg": "self-consistency",
        "regex_patterns": [r"answer is (\d+)"],
        "budget": K,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{ITS_HUB_PORT}/configure",
        json.dumps(told).encode(),
        {"content-type": "application/json"},
    )
    urllib.request.urlopen(request).read()
    return Server("its-hub", ITS_HUB_PORT, process, {"budget": K})


def started_optillm(python: str) -> Server:
    """Start optillm with its self-consistency, which makes five calls, one after the other."""
    script = str(Path(python).parent / "optillm")
    command = [script, "--port", str(OPTILLM_PORT), "--base-url", STUB_URL, "--approach", "self_consistency"]
    environment = {**os.environ, "OPENAI_API_KEY": "none", "OPTILLM_API_KEY": ""}
    process = pinned(
        command, server=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    reachable(OPTILLM_PORT, process)
    return Server("optillm", OPTILLM_PORT, process)


@dataclass(frozen=True)
class Round:
    """One server under load: rate, quantiles and CPU, with what the other core did meanwhile."""

    name: str
    rate: float
    p50: float
    p99: float
    cpu: float
    busy: float
    bad: int

    def row(self) -> str:
        """Return a line of the table."""
        text = f"{self.name:20}{self.rate:7.0f}/s  p50 {self.p50:6.0f} ms  p99 {self.p99:6.0f} ms"
        text += f"  {self.cpu:5.2f} ms CPU  other core {self.busy:4.0%}"
        return text + (f"  FAILED OR LOST {self.bad}" if self.bad else "")


def measured(server: Server, clients: int, seconds: float, others: list[int]) -> Round:
    """Load one server."""
    spent, busy, begun = server.cpu(), sum(map(cpu, others)), time.perf_counter()
    found = asyncio.run(load(server.port, clients, seconds, server.more))
    whole = time.perf_counter() - begun
    busy, spent = (sum(map(cpu, others)) - busy) / whole, server.cpu() - spent
    done = len(found.times)
    return Round(
        server.name,
        done / whole,
        found.quantile(0.5),
        found.quantile(0.99),
        spent / done * 1000,
        busy,
        found.failed + found.lost,
    )


def compare(servers: list[Server], arguments: argparse.Namespace, others: list[int]) -> None:
    """Measure all servers in turns, and print the median ratios to the first."""
    for clients in arguments.clients:
        print(f"{clients} clients")
        for server in servers:
            measured(server, clients, 1, others)
        rounds: dict[str, list[Round]] = {server.name: [] for server in servers}
        for _ in range(arguments.turns):
            for server in servers:
                found = measured(server, clients, arguments.seconds, others)
                rounds[server.name].append(found)
                print(found.row(), flush=True)
        base = rounds[servers[0].name]
        for name, mine in list(rounds.items())[1:]:
            found = ratios(mine, base)
            print(f"{name} to {servers[0].name}, median of {arguments.turns}: {found}")
            aim = "rate at least 0.6" if name.startswith("keff serve") else ""
            print(f"claim: {name} against a bare proxy, {clients} clients, K = {K} | {found} | {aim}")
    for server in servers:
        print(f"{server.name:20}{server.memory():6.0f} MB at the end")
    print(f"claim: memory of {servers[1].name} under this load | {servers[1].memory():.0f} MB | under 80 MB")


def ratios(mine: list[Round], base: list[Round]) -> str:
    """Return the median ratio of each measure."""
    shown: list[str] = []
    for label, name in (("rate", "rate"), ("p50", "p50"), ("p99", "p99"), ("CPU", "cpu")):
        pairs = zip(mine, base, strict=True)
        ratio = statistics.median(getattr(one, name) / getattr(two, name) for one, two in pairs)
        shown.append(f"{label} x{ratio:.2f}")
    return "  ".join(shown)


def remember(server: Server, requests: int) -> None:
    """Send so many requests from 64 clients and print the memory on the way."""
    print(f"{'requests':>9}  {'answered':>9}  {'lost':>5}  {'failed':>6}  memory")
    print(f"{0:9}  {0:9}  {0:5}  {0:6}  {server.memory():.1f} MB")
    sent = answered = lost = failed = 0
    for part in (0.1, 0.25, 0.5, 0.75, 1.0):
        found = asyncio.run(send(server.port, 64, int(part * requests) - sent))
        sent, answered = sent + found.sent, answered + len(found.times)
        lost, failed = lost + found.lost, failed + found.failed
        print(f"{sent:9}  {answered:9}  {lost:5}  {failed:6}  {server.memory():.1f} MB", flush=True)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--policy", default=f"fixed:{K}")
    parser.add_argument("--keys", action="store_true", help="a gateway beside, which reserves on an account")
    parser.add_argument("--its-hub", metavar="PYTHON")
    parser.add_argument("--optillm", metavar="PYTHON")
    parser.add_argument("others", nargs="*", metavar="NAME=URL")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run(arguments, Path(name))


def run(arguments: argparse.Namespace, folder: Path) -> None:
    """Start what is measured, and measure it."""
    upstream = started_stub()
    os.sched_setaffinity(0, {CORES[-1]})
    gateway = started_gateway(folder, arguments.policy)
    if arguments.requests:
        remember(gateway, arguments.requests)
        return
    bare = pinned([sys.executable, "-c", BARE], server=True)
    reachable(PROXY_PORT, bare)
    servers = [Server("bare proxy", PROXY_PORT, bare), gateway]
    if arguments.keys:
        servers.append(with_keys(folder / "keys", arguments.policy))
    for label, start, python in (
        ("its-hub", started_its_hub, arguments.its_hub),
        ("optillm", started_optillm, arguments.optillm),
    ):
        if python is None:
            print(f"{label}: not measured (no environment given)")
        else:
            servers.append(start(python))
    for pair in arguments.others:
        label, _, url = pair.partition("=")
        servers.append(Server(label, int(url.rsplit(":", 1)[1].partition("/")[0])))
    compare(servers, arguments, [upstream.pid, os.getpid()])


if __name__ == "__main__":
    stub() if os.environ.get("KEFF_STUB") else main()
