"""Recorded votes of two branches, each late or early by whether it is right: for tests of the drivers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from keff import plugins
from keff.errors import EngineError
from keff.policy import Policy, Sample, Stop, View
from keff.records import Completion, Message, Sampling, stable_hash
from keff.sampling.store.rows import path_seed
from keff.task import Task, select
from recorded_rig import Recorded

PATHS = 8
TICK = 0.0002
SPECS = (
    "cascade:S(lead_k:2,cap=3)/L(lead_k:2,cap=5)",
    "cascade:S(lead_k:2,cap=4)/L(fixed:3),keep=fresh",
    "mix:S(k=3)/L(k=2,weight=1.7)",
)
votes = st.lists(st.sampled_from(["11", "12", "13", None]), min_size=PATHS, max_size=PATHS)


class Late(Recorded):
    """Serves recorded votes; right ones late or early, and some requests fail once."""

    def __init__(
        self, task: Task, keys: Sequence[Sequence[str | None]], late: str, stumbles: frozenset[int]
    ) -> None:
        paths: dict[str, dict[int, Completion]] = {}
        self.stumbles: set[int] = set()
        for item, row in zip(select(task), keys, strict=True):
            seeds = [path_seed(0, item.id, 0, index) for index in range(PATHS)]
            texts = [
                Completion(
                    "I cannot say." if key is None else f"So the final answer is {key}.",
                    tokens=5,
                    seconds=TICK * (1 + 5 * ((key == item.gold) == (late == "right"))),
                )
                for key in row
            ]
            paths[stable_hash(list(task.messages(item, 0)))] = dict(zip(seeds, texts, strict=True))
            self.stumbles.update(seeds[index] for index in stumbles)
        super().__init__(paths, 2)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, n: int) -> list[Completion]:
        drawn = await super().generate(messages, sampling, n)
        await asyncio.sleep(max(path.seconds for path in drawn))
        if stumbled := self.stumbles.intersection(range(sampling.seed, sampling.seed + n)):
            self.stumbles -= stumbled
            raise EngineError("stumbled")
        return drawn


def task_of(folder: Path, gold: Sequence[str]) -> Task:
    rows = [{"id": str(i), "question": f"Question {i}?", "answer": answer} for i, answer in enumerate(gold)]
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made: Task = plugins.load("task", "jsonl", data=str(file))
    return made


def replayed(
    policy: Policy, queues: dict[str, Sequence[str | None]]
) -> tuple[list[str], list[str | None], Stop]:
    asked: list[str] = []
    keys: list[str | None] = []
    while isinstance(decision := policy.decide(View(keys, branches=asked)), Sample):
        for name in decision.branches:
            keys.append(queues[name][asked.count(name)])
            asked.append(name)
    return asked, keys, decision
