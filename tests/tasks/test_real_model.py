"""Every benchmark draws and reads paths of a real model: one short item under each of its eight templates."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from keff import plugins
from keff.errors import EngineError
from keff.records import Item, Sampling
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order
from keff.sampling.store import DATABASE
from keff.task import Task

pytestmark = pytest.mark.integration

PATH = 8
"""Tokens of a path: enough that templates differ, and a processor draws about thirty a second."""

BENCHMARKS = {
    "gsm8k": "gsm8k",
    "math": "math500",
    "hotpotqa": "hotpotqa",
    "triviaqa": "triviaqa",
    "arc_challenge": "arc_challenge",
    "mmlu": "mmlu",
    "mbpp": "mbpp",
    "cruxeval": "cruxeval",
    "hellaswag": "hellaswag",
    "winogrande": "winogrande",
    "boolq": "boolq",
    "drop": "drop",
}


def length(item: Item) -> int:
    return len(json.dumps([dict(message) for message in item.messages]))


def one_row_file(name: str, data: Path, folder: Path) -> Path:
    """Write the row with the shortest prompt, of HotpotQA with two of its passages: the suite stays fast."""
    source = data / "benchmarks" / f"{BENCHMARKS[name]}.jsonl"
    with source.open(encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    task: Task = plugins.load("task", name, data=str(source))
    sizes = [length(task.to_item(row)) for row in task.rows()]
    chosen = folder / f"{name}.jsonl"
    row = json.loads(lines[sizes.index(min(sizes))])
    if isinstance(passages := row.get("context"), dict):
        row["context"] = {part: values[:2] for part, values in passages.items()}
    chosen.write_text(json.dumps(row), encoding="utf-8")
    return chosen


@pytest.fixture(scope="module")
def rows(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("rows")
    yield {name: one_row_file(name, data, folder) for name in BENCHMARKS}


def job(name: str, rows: dict[str, Path], folder: Path, n_ctx: int, k: int = 8) -> Job:
    pytest.importorskip("xllamacpp")
    engine = plugins.load("engine", "llamacpp", n_ctx=n_ctx, n_parallel=1, threads=1)
    task = plugins.load("task", name, data=str(rows[name]))
    slots = tuple(range(min(k, 8)))
    return Job(task, engine, folder / name, Order(Sampling(max_tokens=PATH), k, slots, attempts=1), 1)


@pytest.mark.usefixtures("smollm2")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_eight_templates_of_a_real_model(name: str, rows: dict[str, Path], tmp_path: Path) -> None:
    with rows[name].open(encoding="utf-8") as file:
        prompt = len(file.read()) // 2 + 256
    drawn = asyncio.run(execute(job(name, rows, tmp_path, max(512, prompt))))
    assert (drawn.done, drawn.failed) == (8, 0)
    database = sqlite3.connect(tmp_path / name / DATABASE)
    found = database.execute("select slot, text, tokens, finish from paths order by slot").fetchall()
    scored = database.execute("select count(*) from scores where rule is not null").fetchone()[0]
    database.close()
    assert [slot for slot, *_ in found] == list(range(8))
    assert len({text for _, text, *_ in found}) > 1
    assert all(0 < tokens <= PATH and finish in ("stop", "length") for *_, tokens, finish in found)
    assert scored == 8


@pytest.mark.usefixtures("smollm2")
def test_a_prompt_longer_than_the_context_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps({"question": "How many apples are there? " * 100, "answer": "#### 3"}))
    with pytest.raises(EngineError, match="context"):
        asyncio.run(execute(job("gsm8k", {"gsm8k": file}, tmp_path, 128, k=1)))
