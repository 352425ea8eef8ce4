"""Votes under load: is an answer read as alone, or said to be unread, whoever else asks?

    python -m benchmarks.hostile.votes_under_load [--clients 200] [--requests 2] [--votes 40] [--seconds 10]

The upstream writes (x+n)^2 in three spellings beside two equal wrong numbers, so that a vote that reads the
spellings as different answers is wrong. Three loads, before one gateway with default settings in a process of
its own: one client alone, ``--votes`` requests in turn; the same beside 6 connections that ask for
integrals only; and ``--clients`` that ask at once, ``--requests`` times, every expression new. Printed for
each: votes that are wrong without a word of ``unread`` (aim: none), those read whole, and the median and 95th
percentile of the time of a vote.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import numpy as np
from aiohttp import web

from benchmarks.gateway.gateway import listening
from keff.plan import Plan

HEAVY = (r"\int \frac{{1}}{{x^{{7}}+x+{}}} dx", r"((x+{})^{{50}}+1)^{{50}}", r"9^{{9^{{9^{{{}}}}}}}")
"""Answers that take all the processor time that an answer may take."""
CONNECTIONS = 6
PATHS = 5


@dataclass
class Load:
    """The votes of one load: wrong without a word, read whole, and seconds."""

    name: str
    wrong: int = 0
    whole: int = 0
    seconds: list[float] = field(default_factory=list[float])

    def claims(self) -> list[str]:
        """Return what is printed: wrong votes, those read whole, and their time."""
        votes, (p50, p95) = len(self.seconds), np.quantile(self.seconds, (0.5, 0.95))
        least = "at least 95%" if self.name.startswith("beside") else "as many as there is time for"
        return [
            f"claim: votes wrong without a word of unread, {self.name} | {self.wrong} of {votes} | 0",
            f"claim: votes read whole | {self.whole / votes:.1%} | {least}",
            f"claim: their seconds, median and 95th percentile | {p50:.2f}, {p95:.2f} | beside those alone",
        ]


def answer_of(question: str, path: int) -> str:
    """Return a path's answer: ``new N`` is (x+N)^2, ``heavy N`` takes seconds to read."""
    kind, number = question.split()
    n = int(number)
    if kind == "heavy":
        return HEAVY[path % len(HEAVY)].format(PATHS * n + path)
    spellings = (f"(x+{n})^2", f"x^2+{2 * n}x+{n * n}", f"{n * n}+{2 * n}x+x^2")
    return (*spellings, "7", "7")[path % PATHS]


async def upstream(request: web.Request) -> web.Response:
    """Answer one path, by its seed."""
    body = await request.json()
    said = answer_of(body["messages"][-1]["content"], body["seed"])
    message = {"role": "assistant", "content": rf"The final answer is $\boxed{{{said}}}$."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return web.json_response({"object": "chat.completion", "choices": [choice], "usage": usage})


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[str]:
    """Run the upstream here and ``keff serve`` before it; gives the gateway's URL."""
    application = web.Application()
    application.router.add_post("/v1/chat/completions", upstream)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    plan, log = folder / "plan.json", folder / "log"
    task = {"name": "math500", "options": {"name": "math500"}}
    Plan(policy=f"fixed:{PATHS}", space="math", task=task, estimates={}).write(plan)
    command = [
        sys.executable,
        "-m",
        "keff",
        "serve",
        "--plan",
        plan,
        "--upstream",
        f"http://127.0.0.1:{port}/v1",
    ]
    with log.open("w") as out, subprocess.Popen([*map(str, command), "--port", "0"], stderr=out) as process:  # noqa: ASYNC220
        try:
            yield await asyncio.to_thread(listening, process, log)
        finally:
            process.terminate()
    await runner.cleanup()


async def vote(session: aiohttp.ClientSession, url: str, load: Load, n: int) -> None:
    """Ask for one vote on a new expression, and note how it ended."""
    begun = time.monotonic()
    body = {"messages": [{"role": "user", "content": f"new {n}"}], "seed": 0}
    async with session.post(f"{url}/chat/completions", json=body) as reply:
        told = (await reply.json())["keff"]
    load.seconds.append(time.monotonic() - begun)
    right = told["answer"] == f"x^2+{2 * n}x+{n * n}"
    load.wrong += not right and told["undecided_by"] is None
    load.whole += told["unread"] == 0 and told["votes"].get("7") == 2 and right


async def in_turn(session: aiohttp.ClientSession, url: str, load: Load, numbers: Iterable[int]) -> None:
    """Ask for votes one after the other."""
    for n in numbers:
        await vote(session, url, load, n)


async def heavy(session: aiohttp.ClientSession, url: str, numbers: Iterable[int]) -> None:
    """Ask for what takes seconds to read, again and again."""
    for n in numbers:
        body = {"messages": [{"role": "user", "content": f"heavy {n}"}], "seed": 0}
        async with session.post(f"{url}/chat/completions", json=body) as reply:
            await reply.read()


async def run(clients: int, requests: int, votes: int, seconds: float) -> list[Load]:
    """Return the three loads."""
    numbers = itertools.count(1000)
    alone, beside, many = (
        Load("alone"),
        Load(f"beside {CONNECTIONS} heavy connections"),
        Load(f"{clients} clients"),
    )
    connector = aiohttp.TCPConnector(limit=0)
    with tempfile.TemporaryDirectory() as folder:
        async with gateway(Path(folder)) as url, aiohttp.ClientSession(connector=connector) as session:
            await vote(session, url, Load("the first"), 1)
            await in_turn(session, url, alone, itertools.islice(numbers, votes))
            starts = range(0, CONNECTIONS * 10**6, 10**6)
            strangers = [asyncio.create_task(heavy(session, url, itertools.count(n))) for n in starts]
            await asyncio.sleep(seconds)
            await in_turn(session, url, beside, itertools.islice(numbers, votes))
            for stranger in strangers:
                stranger.cancel()
            await asyncio.gather(*strangers, return_exceptions=True)
            await asyncio.sleep(seconds)
            each = [list(itertools.islice(numbers, requests)) for _ in range(clients)]
            await asyncio.gather(*(in_turn(session, url, many, mine) for mine in each))
    return [alone, beside, many]


def main() -> None:
    """Print the three loads, with the machine's own load before them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--requests", type=int, default=2)
    parser.add_argument("--votes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=10.0, help="of the heavy neighbour alone")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    for load in asyncio.run(run(asked.clients, asked.requests, asked.votes, asked.seconds)):
        print(*load.claims(), sep="\n")


if __name__ == "__main__":
    main()
