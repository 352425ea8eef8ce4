"""The gateway beside 8 paths in parallel: a small real model behind a server, questions asked in turns.

    python -m benchmarks.live_gateway [--questions 24] [--tokens 120]

Every question is asked once by 8 requests at the same time, which is what clients do without keff, and once
under each rule through ``keff serve``; which comes first goes round. Tokens of cancelled paths are counted as
the gateway counts them. With the same seeds both sides would draw the same texts; they draw their own, as
clients do. Other work on the machine falls on all sides alike.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import openai
from benchmarks.gateway import listening

from keff import plugins
from keff.engines._local import locate
from keff.engines.llamacpp import LlamaCppSettings, open_server
from keff.task import select

TODAY = "8 in parallel"
RULES = ("curtailed:cap=8,in_flight=8,order=arrival", "lead_k:3,cap=8,in_flight=8,order=arrival")
TEMPERATURE = 0.7


async def asked(client: openai.AsyncOpenAI, messages: list[object], rule: str, tokens: int) -> int:
    """Ask one question, and return the tokens of all its paths."""
    how = {"model": "keff", "messages": messages, "temperature": TEMPERATURE, "max_tokens": tokens}
    if rule == TODAY:
        replies = await asyncio.gather(*(client.chat.completions.create(**how) for _ in range(8)))  # type: ignore[call-overload]
        return sum(reply.usage.completion_tokens for reply in replies)
    reply = await client.chat.completions.create(**how, extra_body={"keff": {"policy": rule}})  # type: ignore[call-overload]
    return reply.usage.completion_tokens


async def compare(upstream: str, gateway: str, options: argparse.Namespace) -> None:
    task = plugins.load("task", "starter")
    items = [item for item in select(task, None, 0) if item.space == "numeric"][: options.questions]
    # A connection that stays open holds one of the server's threads, which the other side would miss.
    close = {"Connection": "close"}
    direct = openai.AsyncOpenAI(base_url=upstream, api_key="none", default_headers=close)
    voted = openai.AsyncOpenAI(base_url=gateway, api_key="none")
    tokens, seconds = defaultdict[str, list[int]](list), defaultdict[str, list[float]](list)
    sides = (TODAY, *RULES)
    for place, item in enumerate(items):
        for turn in range(len(sides)):
            rule = sides[(place + turn) % len(sides)]
            begun = time.perf_counter()
            client = direct if rule == TODAY else voted
            spent = await asked(client, list(task.messages(item, 0)), rule, options.tokens)
            seconds[rule].append(time.perf_counter() - begun)
            tokens[rule].append(spent)
    print(f"{len(items)} questions, at most {options.tokens} tokens a path")
    for rule in sides:
        p50, p95 = np.quantile(seconds[rule], (0.5, 0.95))
        print(f"{rule:45} {np.mean(tokens[rule]):7.1f} tokens  p50 {p50:6.2f} s  p95 {p95:6.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=120)
    options = parser.parse_args()
    # Twice as many places as paths: the gateway keeps eight connections open while the others are asked.
    server = open_server(locate(None), LlamaCppSettings(n_ctx=1024, n_parallel=16, threads=2))
    upstream = f"{server.listening_address}/v1"
    command = ["serve", "--upstream", upstream, "--port", "0", "--answer-space", "numeric", "--now", "8"]
    program = [sys.executable, "-m", "keff", *command]
    with (
        tempfile.NamedTemporaryFile() as log,
        subprocess.Popen(program, stderr=log) as served,
    ):
        try:
            asyncio.run(compare(upstream, listening(served, Path(log.name)), options))
        finally:
            served.terminate()


if __name__ == "__main__":
    main()
