"""What sampling adds to the client.

Throughput, processor time and memory, against a stub server of fixed latency.

    python -m benchmarks.sampling.client [1 | 8 | memory]

``1`` and ``8`` measure the speed with so many paths in a request only, ``memory`` the memory only.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from openai import AsyncOpenAI

from keff.engine import Engine
from keff.plugins import load
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order

IN_FLIGHT, WAVES, REPEATS, LATENCY = 64, 8, 3, 1.0
WORDS = 120


def choice(index: int, *, logprobs: bool) -> dict[str, object]:
    """Return one path of the stub's answers."""
    words = [*("step " * WORDS).split(), "The", "final", "answer", "is", str(index)]
    listed = [{"token": word, "logprob": -0.5, "top_logprobs": []} for word in words]
    message = {"role": "assistant", "content": " ".join(words)}
    told = {"content": listed} if logprobs else None
    return {"index": index, "message": message, "finish_reason": "stop", "logprobs": told}


async def serve(latency: float) -> None:
    """Answer every request after ``latency`` seconds; prints the port first."""
    ready: dict[tuple[int, bool], bytes] = {}

    def answer(n: int, logprobs: bool) -> bytes:
        if (n, logprobs) not in ready:
            usage = {"prompt_tokens": 20, "completion_tokens": n * (WORDS + 5)}
            whole = {"object": "chat.completion", "data": [{"id": "stub"}], "usage": usage}
            body = json.dumps(whole | {"choices": [choice(i, logprobs=logprobs) for i in range(n)]}).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            ready[n, logprobs] = head.encode() + body
        return ready[n, logprobs]

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                n, logprobs = 1, False
                if "content-length: " in head:
                    length = int(head.split("content-length: ")[1].split("\r\n")[0])
                    asked = json.loads(await reader.readexactly(length))
                    n, logprobs = asked.get("n", 1), asked.get("logprobs", False)
                    await asyncio.sleep(latency)
                writer.write(answer(n, logprobs))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def stub(latency: float) -> Iterator[str]:
    """Run the stub server in a process of its own and give its base URL."""
    command = [sys.executable, "-m", "benchmarks.sampling.client", "serve", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


async def bare(url: str, requests: int, n: int, *, typed: bool) -> None:
    """Send the same requests with the same client in a plain loop.

    ``typed``: through ``chat.completions.create``, as people write it; else the answers are only parsed as
    JSON.
    """
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        gate = asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> int:
            message: Any = {"role": "user", "content": f"What is {number} + 1?"}
            body: Any = {"model": "stub", "messages": [message], "n": n, "logprobs": True, "top_logprobs": 1}
            async with gate:
                if typed:
                    return len((await client.chat.completions.create(**body)).choices)
                answer = await client.post("/chat/completions", cast_to=httpx2.Response, body=body)
                return len(json.loads(answer.content)["choices"])

        await asyncio.gather(*(one(number) for number in range(requests)))


def job(folder: Path, engine: Engine, items: int, k: int) -> Job:
    """Return a job on made-up questions."""
    data = folder / "q.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(items))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Job(load("task", "jsonl", data=str(data)), engine, folder / "run", Order(Sampling(), k))


def sampled(url: str, requests: int, n: int, parallel: int = IN_FLIGHT, *, logprobs: bool = True) -> None:
    """Draw ``requests`` items with n paths each, one request an item, into a run folder."""
    engine = load("engine", "openai", base_url=url, parallel=parallel, n_per_request=n, logprobs=logprobs)
    with tempfile.TemporaryDirectory() as folder:
        done = asyncio.run(execute(job(Path(folder), engine, requests, n))).done
    assert done == requests * n


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the processor seconds that a call takes."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def throughput(n: int) -> None:
    """Print four rows, taking turns: sampling, with log-probabilities and without, and two bare loops."""
    requests = IN_FLIGHT * WAVES
    with stub(LATENCY) as url:
        runs: dict[str, Callable[[], object]] = {
            "keff": lambda: sampled(url, requests, n),
            "no logprobs": lambda: sampled(url, requests, n, logprobs=False),
            "bare, typed": lambda: asyncio.run(bare(url, requests, n, typed=True)),
            "bare, raw JSON": lambda: asyncio.run(bare(url, requests, n, typed=False)),
        }
        sampled(url, IN_FLIGHT, n)
        turns = [{name: timed(run) for name, run in runs.items()} for _ in range(REPEATS)]
    ratios, used = {}, {}
    for name in runs:
        rate = statistics.median(n * requests / turn[name][0] for turn in turns)
        ratios[name] = statistics.median(turn[name][0] / turn["keff"][0] for turn in turns)
        used[name] = statistics.median(1000 * turn[name][1] / requests / n for turn in turns)
        print(f"{n:<10}{name:<18}{rate:>12.1f}{ratios[name]:>14.3f}{used[name]:>14.2f}")
    what = f"{n} {'path' if n == 1 else 'paths'} per request"
    for name in ("bare, typed", "bare, raw JSON"):
        print(f"claim: throughput against a loop ({name}), {what} | {ratios[name]:.2f} | at least 0.97")
    paths = f"{used['keff']:.2f} ms (typed loop {used['bare, typed']:.2f})"
    goal = 0.5 if n == 1 else 0.15
    print(f"claim: processor time of a path, {what} | {paths} | at most {goal} ms")
    print(f"claim: the same without log-probabilities | {used['no logprobs']:.2f} ms | less")


def peak(*arguments: object) -> float:
    """Return the peak memory, in MB, of this file run with arguments in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sampling.client", *map(str, arguments)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def rest(what: str, *arguments: str) -> None:
    """Do one measurement of memory and print the peak."""
    if what == "in_flight":
        sampled(arguments[0], int(arguments[1]), 8, parallel=int(arguments[1]))
    else:
        engine = load("engine", "fake", tokens=400)
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(execute(job(Path(folder), engine, int(arguments[0]), 8)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def speed(paths: Sequence[int]) -> None:
    """Print throughput and processor time beside those of the bare loops."""
    print(f"{IN_FLIGHT} in flight, {LATENCY:g} s latency, load average {os.getloadavg()[0]:.1f}")
    print(f"{'n a request':<12}{'loop':<16}{'paths/s':>12}{'keff/loop':>14}{'CPU ms/path':>14}")
    for n in paths:
        throughput(n)


def memory() -> None:
    """Print the memory of many requests in flight, and of runs of two sizes."""
    with stub(3.0) as url:
        print(
            "claim: memory of 512 requests of 8 paths in flight | "
            f"{peak('in_flight', url, 512):.0f} MB | under 500 MB"
        )
    small, large = peak("run", 500), peak("run", 4000)
    print(
        f"claim: memory of a run of 500 and of 4000 items x 8 paths | {small:.0f} and {large:.0f} "
        "MB | no growth"
    )


def main() -> None:
    """Print what sampling costs beside a bare loop, and how much memory it holds; or one part of that."""
    part = sys.argv[1] if len(sys.argv) > 1 else "all"
    if part != "memory":
        speed([int(part)] if part.isdigit() else (1, 8))
    if not part.isdigit():
        memory()


if __name__ == "__main__":
    if len(sys.argv) == 1 or sys.argv[1] in ("1", "8", "memory"):
        main()
    elif sys.argv[1] == "serve":
        asyncio.run(serve(float(sys.argv[2])))
    else:
        rest(*sys.argv[1:])
