"""All twelve benchmarks, questions under each of their eight templates, drawn from a real small model.

    python -m benchmarks.tasks.real_model [--items N] [--tokens T] [--any-length] [TASK ...]

SmolLM2-135M-Instruct on this machine's processor. What counts here is that every path of every task is drawn,
read and scored: the questions with the shortest prompts are taken (``--any-length``: as keff sample takes
them), and most paths are cut short (more ``--tokens`` give more answers).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from benchmarks.places import QUESTIONS
from keff.engines._local import longest
from keff.plugins import load
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order, Progress
from keff.task import Task, select

TASKS = (
    "gsm8k",
    "math",
    "hotpotqa",
    "triviaqa",
    "arc_challenge",
    "mmlu",
    "mbpp",
    "cruxeval",
    "hellaswag",
    "winogrande",
    "boolq",
    "drop",
)
FILES = {"math": "math500"}
SLOTS = tuple(range(8))


def task_of(name: str, data: Path | None = None) -> Task:
    """Return a task on its stored questions, or on others of the same columns."""
    return load("task", name, data=str(data or QUESTIONS / f"{FILES.get(name, name)}.jsonl"))


def shortest(name: str, items: int, folder: Path) -> Path:
    """Write the questions with the shortest prompts to a file of their own."""
    task = task_of(name)
    rows = sorted(task.rows(), key=lambda row: len(str(task.messages(task.to_item(row), 0))))
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:items]))
    return file


def draw(name: str, options: argparse.Namespace) -> Progress:
    """Draw one path of each template for some items of a task."""
    with tempfile.TemporaryDirectory() as folder:
        data = None if options.any_length else shortest(name, options.items, Path(folder))
        task = task_of(name, data)
        chosen = select(task, options.items)
        prompts = longest(task.messages(item, slot) for item in chosen for slot in SLOTS)
        engine = load("engine", "llamacpp", prompts=prompts, max_tokens=options.tokens)
        order = Order(Sampling(max_tokens=options.tokens), len(SLOTS), SLOTS)
        return asyncio.run(execute(Job(task, engine, Path(folder) / "run", order, options.items)))


def main() -> None:
    """Print for each task how many paths were drawn, read and truncated, and how long that took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=2, help="questions of each task")
    parser.add_argument("--tokens", type=int, default=24, help="the most tokens of a path")
    parser.add_argument("--any-length", action="store_true", help="long prompts too: much slower")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="some of the twelve (default: all)")
    options = parser.parse_args()
    print(f"{options.items} questions x {len(SLOTS)} templates, at most {options.tokens} tokens per path")
    print(
        f"{'':<16}{'drawn':>7}{'failed':>8}{'extracted':>11}{'truncated':>11}{'tokens/s':>10}{'seconds':>9}"
    )
    begun, drawn, failed = time.perf_counter(), 0, 0
    for name in options.tasks or TASKS:
        started = time.perf_counter()
        done = draw(name, options)
        seconds = time.perf_counter() - started
        counts = f"{done.done:>7}{done.failed:>8}{done.done - done.abstained:>11}{done.truncated:>11}"
        print(f"{name:<16}{counts}{done.tokens / seconds:>10.0f}{seconds:>9.1f}", flush=True)
        drawn, failed = drawn + done.done, failed + done.failed
    minutes = (time.perf_counter() - begun) / 60
    print(
        f"claim: SmolLM2 on the twelve tasks, 8 templates: failed paths of {drawn} | {failed}, "
        f"{minutes:.1f} min | 0"
    )


if __name__ == "__main__":
    main()
