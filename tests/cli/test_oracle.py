"""The fake engine has the accuracy and the correlation that it is told, on every task."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from keff import plugins
from keff.cli._oracle import Oracle
from keff.records import Sampling
from keff.sampling.orders import Order
from keff.stats.votes import Votes
from keff.stats.voting.correlation import anova_c
from keff.task import Task, select

pytestmark = pytest.mark.slow

ORDER = Order(Sampling(), 1)

FILES = {"math": "math500"}
FEW = {"mbpp": 3, "math": 25}
"""Tasks whose scorer starts processes are checked on a few rows."""

BENCHMARKS = sorted(set(plugins.names("task")) - {"starter", "jsonl"})


@pytest.fixture(params=[*BENCHMARKS, "starter"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> Task:
    name = request.param
    if name == "starter":
        return plugins.load("task", name)
    if name == "mbpp":
        request.getfixturevalue("bwrap")
    return beginning(name, request.getfixturevalue("data"), tmp_path, FEW.get(name, 30))


def beginning(name: str, data: Path, folder: Path, n: int) -> Task:
    """Return a task with the first rows of its data: reading thousands takes longer than what is tested."""
    file = data / "benchmarks" / f"{FILES.get(name, name)}.jsonl"
    with file.open(encoding="utf-8") as lines:
        (folder / file.name).write_text("".join(islice(lines, n)), "utf-8")
    return plugins.load("task", name, data=str(folder / file.name))


def test_paths_are_right_exactly_where_the_engine_meant_them_to_be(task: Task) -> None:
    """All paths of p = 1 are scored right and all of p = 0 wrong, by the task's own scorer."""
    items = select(task)
    told = Oracle([(task, item, ORDER) for item in items])
    assert len(told) == len(items)
    for p in (0.0, 1.0):
        engine = plugins.load("engine", "fake", p=p, oracle=told)
        for item in items[: FEW.get(task.name)]:
            paths = asyncio.run(engine.generate(task.messages(item, 0), Sampling(seed=5), 2))
            judged = [task.judge(item, path) for path in paths]
            assert [one.correct for one in judged] == [p] * 2, (item.id, paths[0].text)
            assert all(one.key is not None for one in judged)


@pytest.mark.parametrize("name", ["hotpotqa", "boolq", "mmlu"])
def test_accuracy_and_correlation_are_those_asked_for(name: str, data: Path, tmp_path: Path) -> None:
    """Within four standard errors, through the task's reader and scorer; p of HotpotQA was .74 once."""
    task, p, c, k = beginning(name, data, tmp_path, 400), 0.5, 0.3, 8
    items = select(task, 120)
    engine = plugins.load("engine", "fake", p=p, c=c, oracle=Oracle([(task, item, ORDER) for item in items]))

    async def matrix() -> list[list[int | None]]:
        drawn = [await engine.generate(task.messages(item, 0), Sampling(seed=1), k) for item in items]
        return [
            [task.judge(item, path).correct for path in paths]
            for item, paths in zip(items, drawn, strict=True)
        ]

    right = np.array(asyncio.run(matrix()))
    spread = np.sqrt(p * (1 - p) * (c + (1 - c) / k) / len(items))
    assert right.mean() == pytest.approx(p, abs=4 * spread)
    # The correlation of beta-binomial counts has a standard error near c / sqrt(n) * 1.6 here.
    assert anova_c(Votes(None, right)) == pytest.approx(c, abs=4 * 1.6 * c / np.sqrt(len(items)))


def test_a_prompt_has_several_wrong_answers_where_its_task_can(data: Path, tmp_path: Path) -> None:
    task = beginning("hotpotqa", data, tmp_path, 60)
    told = Oracle([(task, item, ORDER) for item in select(task, 20)])
    assert all(len(set(one["wrong"])) == 4 for one in told.values())
    assert json.dumps(dict(told))
