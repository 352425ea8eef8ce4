"""The gateway beside 8 paths in parallel: a small real model behind a server, questions asked in turns.

    python -m benchmarks.gateway.live_gateway [--questions 24] [--tokens 120]

The paths of 8 in parallel on the first half of the questions are a pilot: from their answers, seconds and
tokens the decision states, with limits, what each rule does on as many new questions; the other half judges
that. Every question is asked once by 8 requests at the same time, which is what clients do without keff,
and once under each rule through ``keff serve``; which comes first goes round. Tokens of cancelled paths are
counted as the gateway counts them. All sides draw with the same seeds, so that they differ by their rule and
not by their texts, up to rounding in batches. Other work on the machine falls on all sides alike.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File

import numpy as np
import openai

from benchmarks.gateway.gateway import listening
from keff import plugins
from keff.analysis.decision import Aim, Candidates
from keff.answers import read, space
from keff.engines._local import locate
from keff.policy import parse_policy
from keff.records import Interval
from keff.stats.votes import Votes
from keff.task import select

TODAY = "8 in parallel"
RULES = ("curtailed:cap=8,in_flight=8,order=arrival", "lead_k:3,cap=8,in_flight=8,order=arrival")
TEMPERATURE = 0.7


@dataclass(frozen=True)
class Path:
    """One path of 8 in parallel: its answer, tokens and seconds."""

    key: str | None
    tokens: int
    seconds: float


async def path(client: openai.AsyncOpenAI, how: dict[str, object]) -> Path:
    """Draw one path."""
    begun = time.perf_counter()
    reply = await client.chat.completions.create(**how)  # type: ignore[call-overload]
    found = read(space("numeric"), reply.choices[0].message.content or "")
    return Path(found.key, reply.usage.completion_tokens, time.perf_counter() - begun)


async def asked(
    client: openai.AsyncOpenAI, messages: list[object], rule: str, tokens: int, seed: int
) -> tuple[int, list[Path]]:
    """Ask one question; return the tokens of all its paths, cancelled ones too, and the paths of today."""
    how = {
        "model": "keff",
        "messages": messages,
        "temperature": TEMPERATURE,
        "max_tokens": tokens,
        "seed": seed,
    }
    if rule == TODAY:
        paths = await asyncio.gather(*(path(client, how | {"seed": seed + i}) for i in range(8)))
        return sum(each.tokens for each in paths), list(paths)
    reply = await client.chat.completions.create(**how, extra_body={"keff": {"policy": rule}})  # type: ignore[call-overload]
    told = reply.model_extra["keff"]
    cost, cancelled = told["cost"], told["cancelled"]
    if not cancelled:
        return cost["completion_tokens"], []
    prompts = cancelled * (cost["prompt_tokens"] // (8 - cancelled))
    return cost["completion_tokens"] + max(cost["cancelled"]["tokens"] - prompts, 0), []


def stated(pilot: Sequence[Sequence[Path]], rule: str) -> tuple[Interval, Interval, Interval]:
    """Return what a decision says of a rule: tokens per question, both quantiles as parts of today's.

    The pilot has every path of its questions.
    """
    codes: dict[str, int] = {}
    answers = [[-1 if p.key is None else codes.setdefault(p.key, len(codes)) for p in row] for row in pilot]
    tokens, seconds = (
        np.array([[getattr(p, name) for p in row] for row in pilot], float) for name in ("tokens", "seconds")
    )
    votes, today = Votes(np.array(answers), None, tokens=tokens, seconds=seconds), len(pilot[0])
    flights, chain, aim = [parse_policy(rule)], [parse_policy("fixed:1")], Aim()
    seen = Candidates.of(votes, chain, flights, parse_policy(f"fixed:{today}"), aim, today, None, 0)
    told = replace(seen, choice=replace(seen.choice, rule=1)).result(votes, aim).decision
    change = told.change
    assert told.expected_tokens is not None
    assert change.p50_ratio is not None and change.p95_ratio is not None
    return told.expected_tokens, change.p50_ratio, change.p95_ratio


async def compare(upstream: str, gateway: str, options: argparse.Namespace) -> None:
    task = plugins.load("task", "starter")
    items = [item for item in select(task, None, 0) if item.space == "numeric"][: options.questions]
    # A connection that stays open holds one of the server's threads, which the other side would miss.
    close = {"Connection": "close"}
    direct = openai.AsyncOpenAI(base_url=upstream, api_key="none", default_headers=close)
    voted = openai.AsyncOpenAI(base_url=gateway, api_key="none")
    tokens, seconds = defaultdict[str, list[int]](list), defaultdict[str, list[float]](list)
    sides, drawn = (TODAY, *RULES), list[list[Path]]()
    for place, item in enumerate(items):
        for turn in range(len(sides)):
            rule = sides[(place + turn) % len(sides)]
            begun = time.perf_counter()
            client = direct if rule == TODAY else voted
            spent, paths = await asked(
                client, list(task.messages(item, 0)), rule, options.tokens, 100 * place
            )
            seconds[rule].append(time.perf_counter() - begun)
            tokens[rule].append(spent)
            if paths:
                drawn.append(paths)
    print(f"{len(items)} questions, at most {options.tokens} tokens a path")
    for rule in sides:
        p50, p95 = np.quantile(seconds[rule], (0.5, 0.95))
        print(f"{rule:45} {np.mean(tokens[rule]):7.1f} tokens  p50 {p50:6.2f} s  p95 {p95:6.2f} s")
    half = len(items) // 2

    def figures(rule: str) -> tuple[float, ...]:
        p50, p95 = np.quantile(seconds[rule][half:], (0.5, 0.95)).tolist()
        return float(np.mean(tokens[rule][half:])), p50, p95

    for rule in RULES:
        mine, today = np.array(figures(rule)), np.array([1, *figures(TODAY)[1:]])
        limits = stated(drawn[:half], rule)
        for name, said, found in zip(("tokens", "p50", "p95"), limits, mine / today, strict=True):
            assert said.limits is not None
            low, high = said.limits
            inside = low <= found <= high
            print(
                f"{rule:45} {name:6} stated {said.value:.2f} [{low:.2f}, {high:.2f}], "
                f"found {found:.2f}: {'inside' if inside else 'outside'}"
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=120)
    options = parser.parse_args()
    from keff.engines.llamacpp import LlamaCppSettings, open_server  # an extra

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
            asyncio.run(compare(upstream, listening(served, File(log.name)), options))
        finally:
            served.terminate()


if __name__ == "__main__":
    main()
