"""A task of your own in one file: where questions come from, and how answers are read.

    python examples/own_task.py

The engine is ``fake``, so that the example runs anywhere. For a real server use
``keff.load("engine", "openai", model="my-model", base_url="http://127.0.0.1:8000/v1")``.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import keff
from keff.records import stable_hash
from keff.task import Example, select
from keff.tasks import SpacedTask


class Sums(SpacedTask):
    """Sums of two numbers."""

    name = "sums"
    version = "1"  # raise it when the same text may be read or scored differently
    space = "numeric"
    templates = ("",)
    EXAMPLES = (Example("2 + 2 is #### 4", "4"), Example("It is", None, truncated=True))

    def rows(self) -> Iterator[Mapping[str, int]]:
        """Yield the questions as they are stored."""
        return ({"a": n, "b": 3 * n} for n in range(25))

    def to_item(self, row: Mapping[str, int]) -> keff.Item:
        """Turn one of them into a question with its gold answer."""
        question = {"role": "user", "content": f"What is {row['a']} + {row['b']}?"}
        return keff.Item(f"sum-{row['a']}", (question,), str(row["a"] + row["b"]), self.space)


def draw(task: Sums, folder: Path, k: int) -> int:
    """Bring the run to k paths per question; return how many were drawn now."""
    truth = {stable_hash(list(task.messages(item, 0))): item.gold for item in select(task)}
    engine = keff.load("engine", "fake", p=0.6, c=0.5, oracle=truth)
    order = keff.Order(keff.Sampling(temperature=0.7, seed=7), k=k)
    return asyncio.run(keff.execute(keff.Job(task, engine, folder, order))).done


with tempfile.TemporaryDirectory() as name:
    run = Path(name) / "run"
    print(f"first: {draw(Sums(), run, 4)} paths drawn")
    print(f"again: {draw(Sums(), run, 4)} paths drawn, for they are there")
    print(f"K raised to 8: {draw(Sums(), run, 8)} paths drawn")
    analysis = keff.analyze(run)
    print(f"c = {analysis.c.text()}, K_eff = {analysis.k_eff.text()}")
    print(f"{analysis.decision.verdict}: {analysis.decision.because}")
