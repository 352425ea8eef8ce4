"""Predicted against measured time to answer: a small real model behind a server, three policies, two loads.

    python -m benchmarks.live_latency [--questions 12] [--tokens 20] [--rounds 2] [--chunk 4]

For each number of places of the server paths are drawn with all places busy, and some with one path at a
time, as a pilot records them; then every question is asked anew under each policy, one question at a time.
Both go on in turns, a few questions each, so that what else the machine does falls on both. From the pilot's
seconds replay predicts the median and the 95th percentile of the time to answer. The server reads the prompt
anew for every path: replay takes the paths of a question to be alike, and with a prompt as long as the answer
the first, which reads it, would not be. An idle machine gives the truest figures: where the load changes from
one second to the next, both sides are noise.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import openai

from keff import plugins
from keff.analysis.replay import Replaying, replay
from keff.analysis.replay.in_flight import Lanes
from keff.engine import Engine
from keff.engines._gguf import locate
from keff.engines.llamacpp import LlamaCppSettings, open_server
from keff.records import Completion, Item, Message, Sampling
from keff.sampling.consistency import self_consistency
from keff.stats.votes import FloatArray, Votes
from keff.task import Task, select

POLICIES = ("fixed:6", "lead_k:2,cap=6", "lead_k:3,cap=6,wave=3")
PLACES = (2, 4)
PATHS, LONE = 6, 2
"""Paths of each question with all places busy, and of one question in each turn with one place busy."""

WITHIN = 0.2
TEMPERATURE = 0.7
ANEW: dict[str, object] = {"cache_prompt": False}


def question(task: Task, item: Item) -> list[Message]:
    """Return the question alone: the examples before it would be read for longer than the answer takes."""
    return list(task.messages(item, 0)[-1:])


@dataclass
class Pilot:
    """What was recorded: the paths of each question, and those drawn alone."""

    keys: list[list[str | None]] = field(default_factory=list[list[str | None]])
    busy: list[list[Completion]] = field(default_factory=list[list[Completion]])
    lone: list[Completion] = field(default_factory=list[Completion])

    async def draw(self, task: Task, engine: Engine, items: Sequence[Item], places: int, tokens: int) -> None:
        """Draw the first question with one path at a time, then all with every place busy."""
        gate = asyncio.Semaphore(places)

        async def path(item: Item, number: int) -> Completion:
            sampling = Sampling(temperature=TEMPERATURE, max_tokens=tokens, seed=number)
            async with gate:
                return (await engine.generate(question(task, item), sampling, 1))[0]

        self.lone += [await path(items[0], PATHS + number) for number in range(LONE)]
        drawn = await asyncio.gather(*(path(item, number) for item in items for number in range(PATHS)))
        for place, item in enumerate(items):
            paths = drawn[place * PATHS : (place + 1) * PATHS]
            self.busy.append(paths)
            self.keys.append([task.judge(item, completion).key for completion in paths])

    def alone(self) -> float:
        """Return the share of its seconds among others that a path takes alone, token by token."""

        def pace(paths: Sequence[Completion]) -> float:
            return sum(path.seconds for path in paths) / max(sum(path.tokens for path in paths), 1)

        return min(1.0, pace(self.lone) / pace([path for paths in self.busy for path in paths]))

    def votes(self) -> Votes:
        """Return the paths as votes with seconds."""
        codes = [[-1 if key is None else keys.index(key) for key in keys] for keys in self.keys]
        seconds = [[path.seconds for path in paths] for paths in self.busy]
        tokens = [[float(path.tokens) for path in paths] for paths in self.busy]
        return Votes(np.array(codes), None, tokens=np.array(tokens), seconds=np.array(seconds))


async def measured(
    client: openai.AsyncOpenAI, task: Task, items: Sequence[Item], spec: str, tokens: int, seed: int
) -> list[float]:
    """Ask questions under a policy, one after the other; return the seconds of each."""
    times: list[float] = []
    for place, item in enumerate(items):
        start = time.perf_counter()
        await self_consistency(
            client,
            question(task, item),
            spec,
            space=item.space,
            max_tokens=tokens,
            temperature=TEMPERATURE,
            top_p=0.95,
            seed=seed + 1000 * place,
            extra_body=ANEW,
        )
        times.append(time.perf_counter() - start)
    return times


async def in_turns(url: str, places: int, asked: argparse.Namespace) -> tuple[Pilot, dict[str, FloatArray]]:
    """Record and measure, some questions at a time."""
    task, pilot = plugins.load("task", "starter"), Pilot()
    options = {"n_per_request": 1, "api_key_env": "KEFF_NO_KEY", "extra_body": ANEW}
    engine = plugins.load("engine", "openai", base_url=url, **options)
    items = select(task)[: asked.questions]
    times: dict[str, list[float]] = {spec: [] for spec in POLICIES}
    await engine.start()
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        await measured(client, task, items[:1], POLICIES[0], asked.tokens, 1)  # the first request is slow
        for begin in range(0, len(items), asked.chunk):
            few = items[begin : begin + asked.chunk]
            await pilot.draw(task, engine, few, places, asked.tokens)
            for turn in range(asked.rounds):
                # A fixed number of paths takes much the same time whatever they say: once is enough.
                for spec in POLICIES[turn > 0 :]:
                    seed = 10**6 * (turn + 1) + 10**4 * begin
                    times[spec] += await measured(client, task, few, spec, asked.tokens, seed)
    await engine.close()
    return pilot, {spec: np.array(each) for spec, each in times.items()}


def compare(places: int, asked: argparse.Namespace) -> list[float]:
    """Print predicted and measured quantiles at one load; return how far off each prediction is."""
    server = open_server(locate(None), LlamaCppSettings(n_ctx=640, n_parallel=places, threads=1))
    pilot, times = asyncio.run(in_turns(f"{server.listening_address}/v1", places, asked))
    del server
    gc.collect()
    lanes = Lanes(slots=places, alone=pilot.alone())
    how = Replaying(replicates=50, lanes=lanes)
    rows = replay(replace(pilot.votes(), correct=None), list(POLICIES), np.random.default_rng(0), how)
    print(f"\n{places} places; a path alone takes {lanes.alone:.2f} of its time among {places}\n")
    print("| policy | p50 predicted | measured | p95 predicted | measured |\n|---|---:|---:|---:|---:|")
    off: list[float] = []
    for spec in POLICIES:
        told = rows[spec].seconds
        assert told is not None and told.p50 is not None and told.p95 is not None
        cells: list[str] = []
        for share, predicted in ((0.5, told.p50.value), (0.95, told.p95.value)):
            seen = float(np.quantile(times[spec], share))
            off.append(predicted / seen - 1)
            cells.append(f"{predicted:.2f} | {seen:.2f} ({predicted / seen - 1:+.0%})")
        print(f"| `{spec}` | {' | '.join(cells)} |", flush=True)
    return off


def main() -> None:
    """Print a table per load, and the claim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=4)
    asked = parser.parse_args()
    off = [value for places in PLACES for value in compare(places, asked)]
    worst = max(map(abs, off))
    what = f"predicted p50 and p95 of {len(POLICIES)} policies at {len(PLACES)} loads"
    print(f"\nclaim: {what} | {worst:.0%} off | within {WITHIN:.0%}")


if __name__ == "__main__":
    main()
