"""Predicted against measured time to answer: a small real model behind a server, three policies, two loads.

    python -m benchmarks.live_latency [--questions 24] [--tokens 40] [--rounds 2]

For each number of places of the server a pilot is drawn with all places busy, and a small one with one path
at a time; replay predicts the median and the 95th percentile of the time to answer, and then every question
is asked anew under each policy, one question at a time. Needs a machine that does nothing else: another
process that takes the processor for a while falsifies either side.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import openai

from keff import plugins
from keff.analysis.replay import Replaying, replay
from keff.analysis.replay.in_flight import Lanes
from keff.engines._gguf import locate
from keff.engines.llamacpp import LlamaCppSettings, open_server
from keff.reading.open import Opening, open_record
from keff.records import Item, Sampling
from keff.sampling.consistency import self_consistency
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order
from keff.stats.votes import Votes
from keff.task import Task, select

POLICIES = ("fixed:8", "lead_k:2,cap=8", "lead_k:3,cap=8,wave=4")
PLACES = (2, 4)
WITHIN = 0.2


def pilot(task: Task, url: str, folder: Path, items: int, k: int, places: int, tokens: int) -> Votes:
    """Draw a pilot with so many paths in flight, each by a request of its own."""
    engine = plugins.load("engine", "openai", base_url=url, n_per_request=1, api_key_env="KEFF_NO_KEY")
    order = Order(Sampling(max_tokens=tokens), k, concurrency=places)
    asyncio.run(execute(Job(task, engine, folder, order, items)))
    return open_record(folder, Opening()).ballot.votes


async def measured(url: str, task: Task, items: list[Item], spec: str, tokens: int, seed: int) -> list[float]:
    """Ask every question under a policy, one after the other; return the seconds of each."""
    times: list[float] = []
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for place, item in enumerate(items):
            start = time.monotonic()
            await self_consistency(
                client,
                list(task.messages(item, 0)),
                spec,
                space=item.space,
                max_tokens=tokens,
                temperature=0.7,
                seed=seed + 1000 * place,
            )
            times.append(time.monotonic() - start)
    return times


def compare(places: int, asked: argparse.Namespace, folder: Path) -> list[float]:
    """Print predicted and measured quantiles at one load; return how far off each prediction is."""
    server = open_server(locate(None), LlamaCppSettings(n_ctx=640, n_parallel=places, threads=1))
    url, task = f"{server.listening_address}/v1", plugins.load("task", "starter")
    items = select(task)[: asked.questions]
    busy = pilot(task, url, folder / f"busy{places}", asked.questions, 8, places, asked.tokens)
    lone = pilot(task, url, folder / f"lone{places}", min(asked.questions, 8), 2, 1, asked.tokens)
    assert busy.seconds is not None and busy.tokens is not None
    assert lone.seconds is not None and lone.tokens is not None
    alone = min(1.0, float(lone.seconds.sum() / lone.tokens.sum() * busy.tokens.sum() / busy.seconds.sum()))
    how = Replaying(replicates=50, lanes=Lanes(slots=places, alone=alone))
    rows = replay(replace(busy, correct=None), list(POLICIES), np.random.default_rng(0), how).by_policy
    off: list[float] = []
    print(f"\n{places} places; a path alone takes {alone:.2f} of its time among {places}\n")
    print("| policy | p50 predicted | measured | p95 predicted | measured |\n|---|---:|---:|---:|---:|")
    for spec in POLICIES:
        times = [
            second
            for turn in range(asked.rounds)
            for second in asyncio.run(measured(url, task, items, spec, asked.tokens, 10**6 * (turn + 1)))
        ]
        told = rows[spec].seconds
        assert told is not None and told.p50 is not None and told.p95 is not None
        cells: list[str] = []
        for share, predicted in ((0.5, told.p50.value), (0.95, told.p95.value)):
            seen = float(np.quantile(times, share))
            off.append(predicted / seen - 1)
            cells.append(f"{predicted:.2f} | {seen:.2f} ({predicted / seen - 1:+.0%})")
        print(f"| `{spec}` | {' | '.join(cells)} |", flush=True)
    del server
    gc.collect()
    return off


def main() -> None:
    """Print a table per load, and the claim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        off = [value for places in PLACES for value in compare(places, asked, Path(folder))]
    worst = max(map(abs, off))
    what = f"predicted p50 and p95 of {len(POLICIES)} policies at {len(PLACES)} loads"
    print(f"\nclaim: {what} | {worst:.0%} off | within {WITHIN:.0%}")


if __name__ == "__main__":
    main()
