"""Studies: processor time to resume a complete one, idle seats between cells, and workers of a local Ray.

The engine is a stub of fixed speed, so that what is measured is keff alone.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keff import plugins
from keff.cli._sampling import on_cluster
from keff.cli.study import command
from keff.engines.fake import engine as fake
from keff.records import Completion, Message, Sampling
from keff.sampling.job import Job
from keff.sampling.pool import draw_all
from keff.sampling.sampler import Order

CELLS = 624
SEATS = 8
SECONDS = 0.5
WORKERS = 4


class Stub:
    """Every request takes the same time; adds up the seats that stood empty while cells were left."""

    name, local, needs_gpu = "stub", True, False

    def __init__(self) -> None:
        self.capabilities = plugins.load("engine", "fake", parallel=SEATS).capabilities
        self._inner = fake()
        self._busy, self._since, self.taken = 0, 0.0, 0.0
        self.first = self.last = 0.0

    async def start(self) -> None:
        """Nothing."""

    def identity(self) -> dict[str, Any]:
        return {"engine": "stub"}

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        begun = time.perf_counter()
        self.first = self.first or begun
        await asyncio.sleep(SECONDS)
        self.last = time.perf_counter()
        self.taken += self.last - begun
        return await self._inner.generate(messages, sampling, n)

    async def close(self) -> None:
        """Nothing."""


def questions(folder: Path, n: int) -> Path:
    file = folder / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(n))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def resume(folder: Path) -> float:
    """Return the processor seconds of a second run of a complete study of 624 cells."""
    questions(folder, 4)
    seeds = list(range(CELLS // 8))
    file = folder / "study.toml"
    file.write_text(
        f'name = "s"\nruns = "{folder / "runs"}"\nn = 4\nseeds = {seeds}\n'
        'models = [{ name = "a", engine = "fake" }, { name = "b", engine = "fake" }]\n'
        'tasks = [{ name = "t", data = "questions.jsonl" }, { name = "u", data = "questions.jsonl" }]\n'
        'arms = [{ name = "sc", k = 8 }, { name = "hot", k = 8, temperature = 1.0, against = "sc" }]\n'
    )
    command("run", file)
    begun = time.process_time()
    command("run", file)
    return time.process_time() - begun


def idle(folder: Path, cells: int) -> float:
    """Return the share of seat seconds that stood empty from the first request to the last.

    The same 160 questions lie in one cell or in many: what many cost more is lost between them.
    """
    task, stub = plugins.load("task", "jsonl", data=str(questions(folder, 160 // cells))), Stub()
    jobs = [Job(task, stub, folder / f"idle{cells}-{i}", Order(Sampling(seed=i), 8)) for i in range(cells)]
    asyncio.run(draw_all(stub, jobs))
    return 1 - stub.taken / (SEATS * (stub.last - stub.first))


def paths_per_second(folder: Path, workers: int) -> float:
    """Return how fast a local Ray with this many workers draws, its start-up left out."""
    task = plugins.load("task", "jsonl", data=str(questions(folder, 20 * workers)))
    engine = on_cluster("ray", workers, "fake", {"latency": 2.0, "parallel": 4})
    marks: list[tuple[float, int]] = []
    jobs = [Job(task, engine, folder / f"ray{workers}-{i}", Order(Sampling(seed=i), 8)) for i in range(2)]
    drawn = [0, 0]

    async def work() -> None:
        await engine.start()
        await asyncio.gather(*engine._hiring)
        marks.append((time.perf_counter(), 0))
        engine.start = _nothing
        await draw_all(engine, jobs, watch)

    def watch(place: int, progress: Any) -> None:
        drawn[place] = progress.done
        marks.append((time.perf_counter(), sum(drawn)))

    asyncio.run(work())
    return marks[-1][1] / (marks[-1][0] - marks[0][0])


async def _nothing() -> None:
    """The workers run."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"resume of {CELLS} complete cells: {resume(folder):.1f} s of processor time")
        one, many = idle(folder, 1), idle(folder, 8)
        print(f"seats empty in 8 cells: {many:.1%}, in one cell of the same size: {one:.1%}")
        if importlib.util.find_spec("ray") is None:
            print("Ray is not installed: no workers measured")
            return
        os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        import ray

        ray.init("local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
        rates = [paths_per_second(folder, workers) for workers in (1, WORKERS)]
        ray.shutdown()
        print(f"{WORKERS} local workers: {rates[1] / rates[0]:.2f} times one ({rates[0]:.0f} paths/s)")


if __name__ == "__main__":
    main()
