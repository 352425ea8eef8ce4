"""Predicted against measured time to answer: a small real model behind a server, three policies, two loads.

    python -m benchmarks.sampling.live_latency [--questions 11] [--tokens 20] [--chunk 3] [--seed 0]
        [--processor]

For each number of places of the server paths are drawn with all places busy, and of each question one alone,
as pilots record them; then every question is asked anew under each policy, one question at a time. Both go on
in turns, a few questions each, so that what else the machine does falls on both. From the pilot's seconds
replay predicts the median and the 95th percentile of the time to answer.

Questions are asked with the pilot's seeds: the same texts come again, up to rounding, in the one order of
their seeds, where replay averages over all orders. So the seconds are compared, and not how well the few
answers of a pilot stand for others: of a dozen questions that alone moves the median of a policy that stops
early by a tenth, which the intervals of replay are there to say. ``--seed 1000000`` asks for new texts.

The server reads the prompt anew for every path: replay takes the paths of a question to be alike, and with a
prompt as long as the answer the first, which reads it, would not be. An idle machine gives the best figures:
where the load changes from one second to the next, both sides are noise. ``--processor`` takes the processor
time of this process, in which the server works with one thread, for the clock of both: what an idle machine
would show, whatever else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import openai

from keff import plugins
from keff.analysis.replay import Replaying, replay
from keff.engine import Engine
from keff.engines._local import locate
from keff.engines.llamacpp import LlamaCppSettings, open_server
from keff.records import Completion, Item, Message, Sampling
from keff.sampling.consistency import self_consistency
from keff.stats.time import Crowding
from keff.stats.votes import FloatArray, Votes
from keff.task import Task, select

POLICIES = ("fixed:6", "lead_k:2,cap=6", "lead_k:3,cap=6,wave=3")
PLACES = (2, 4)
PATHS = 6

WITHIN = 0.2
TEMPERATURE = 0.7
ANEW: dict[str, object] = {"cache_prompt": False}
OPTIONS = {"n_per_request": 1, "api_key_env": "KEFF_NO_KEY", "extra_body": ANEW}


def question(task: Task, item: Item) -> list[Message]:
    """Return the question alone: the examples before it would be read for longer than the answer takes."""
    return list(task.messages(item, 0)[-1:])


Clock = Callable[[], float]


@dataclass
class Pilot:
    """What was recorded: the paths of each question, and the first of each that was drawn alone as well."""

    clock: Clock
    keys: list[list[str | None]] = field(default_factory=list[list[str | None]])
    busy: list[list[Completion]] = field(default_factory=list[list[Completion]])
    lone: list[Completion] = field(default_factory=list[Completion])

    async def draw(self, task: Task, engine: Engine, items: Sequence[Item], places: int, tokens: int) -> None:
        """Draw a path of each question with nothing beside it, then all with every place busy."""
        gate = asyncio.Semaphore(places)

        async def path(item: Item, seed: int) -> Completion:
            sampling = Sampling(temperature=TEMPERATURE, max_tokens=tokens, seed=seed)
            async with gate:
                begun = self.clock()
                drawn = (await engine.generate(question(task, item), sampling, 1))[0]
                return replace(drawn, seconds=self.clock() - begun)

        self.lone += [await path(item, 0) for item in items]
        wanted = [path(item, seed) for item in items for seed in range(PATHS)]
        # Behind them come some that are not recorded: without them the last would run with places free.
        rest = [path(items[-1], PATHS + number) for number in range(places - 1)]
        drawn = await asyncio.gather(*wanted, *rest)
        for place, item in enumerate(items):
            paths = drawn[place * PATHS : (place + 1) * PATHS]
            self.busy.append(paths)
            self.keys.append([task.judge(item, completion).key for completion in paths])

    def alone(self) -> float:
        """Return the share of its seconds among others that a path takes alone, token by token."""

        def pace(paths: Sequence[Completion]) -> float:
            return sum(path.seconds for path in paths) / max(sum(path.tokens for path in paths), 1)

        return min(1.0, pace(self.lone) / pace([paths[0] for paths in self.busy]))

    def votes(self) -> Votes:
        """Return the paths as votes with seconds."""
        codes = [[-1 if key is None else keys.index(key) for key in keys] for keys in self.keys]
        seconds = [[path.seconds for path in paths] for paths in self.busy]
        tokens = [[float(path.tokens) for path in paths] for paths in self.busy]
        return Votes(np.array(codes), None, tokens=np.array(tokens), seconds=np.array(seconds))


async def measured(
    client: openai.AsyncOpenAI,
    task: Task,
    items: Sequence[Item],
    spec: str,
    tokens: int,
    seed: int,
    clock: Clock,
) -> list[float]:
    """Ask questions under a policy, one after the other; return the seconds of each."""
    times: list[float] = []
    for item in items:
        start = clock()
        await self_consistency(
            client,
            question(task, item),
            spec,
            space=item.space,
            max_tokens=tokens,
            temperature=TEMPERATURE,
            top_p=0.95,
            seed=seed,
            extra_body=ANEW,
        )
        times.append(clock() - start)
    return times


async def in_turns(url: str, places: int, asked: argparse.Namespace) -> tuple[Pilot, dict[str, FloatArray]]:
    """Record and measure, some questions at a time.

    Never both clients at once: a server of few threads keeps one for each connection that is open, and the
    last paths of a round would wait until it gives up the idle ones of the other client, after five seconds.
    """
    clock = time.process_time if asked.processor else time.perf_counter
    task, pilot = plugins.load("task", "starter"), Pilot(clock)
    items = select(task)[: asked.questions]
    times: dict[str, list[float]] = {spec: [] for spec in POLICIES}

    async def ask(some: Sequence[Item], specs: Sequence[str]) -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            for spec in specs:
                times[spec] += await measured(client, task, some, spec, asked.tokens, asked.seed, clock)

    await ask(items[:1], POLICIES[:1])
    times[POLICIES[0]].clear()  # the first requests of a server are slow
    for begin in range(0, len(items), asked.chunk):
        few = items[begin : begin + asked.chunk]
        engine = plugins.load("engine", "openai", base_url=url, **OPTIONS)
        await engine.start()
        await pilot.draw(task, engine, few, places, asked.tokens)
        await engine.close()
        await ask(few, POLICIES)
    return pilot, {spec: np.array(each) for spec, each in times.items()}


@dataclass(frozen=True)
class Figure:
    """A quantile of the time to answer, as predicted and as measured."""

    predicted: float
    measured: float

    @property
    def off(self) -> float:
        """How far off the prediction is, as a share of what was measured."""
        return self.predicted / self.measured - 1

    def __str__(self) -> str:
        return f"{self.predicted:.2f} | {self.measured:.2f} | {self.off:+.0%}"


def compare(places: int, asked: argparse.Namespace) -> list[Figure]:
    """Print predicted and measured quantiles at one load."""
    server = open_server(locate(None), LlamaCppSettings(n_ctx=640, n_parallel=places, threads=1))
    pilot, times = asyncio.run(in_turns(f"{server.listening_address}/v1", places, asked))
    del server
    gc.collect()
    crowding = Crowding(places, pilot.alone())
    how = Replaying(crowding=crowding)
    rows = replay(replace(pilot.votes(), correct=None), list(POLICIES), np.random.default_rng(0), how)
    figures: list[Figure] = []
    for spec in POLICIES:
        told = rows[spec].seconds
        assert told is not None and told.p50 is not None and told.p95 is not None
        median = Figure(told.p50.value, float(np.quantile(times[spec], 0.5)))
        high = Figure(told.p95.value, float(np.quantile(times[spec], 0.95)))
        print(f"| {places} ({crowding.alone:.2f}) | `{spec}` | {median} | {high} |", flush=True)
        figures += [median, high]
    return figures


def main() -> None:
    """Print the table, and the claim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--questions", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--chunk", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processor", action="store_true")
    asked = parser.parse_args()
    print("Seconds to the answer (in brackets: the share of its time that a path takes alone)\n")
    print("| places | policy | p50 predicted | measured | off | p95 predicted | measured | off |")
    print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    off = [figure.off for places in PLACES for figure in compare(places, asked)]
    worst = max(map(abs, off))
    what = f"predicted p50 and p95 of {len(POLICIES)} policies at {len(PLACES)} loads"
    print(f"\nclaim: {what} | {worst:.0%} off | within {WITHIN:.0%}")


if __name__ == "__main__":
    main()
