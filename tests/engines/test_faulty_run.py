"""A whole run against a server that fails in every way: complete, and each path exactly once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the fault server needs starlette: pip install 'keff[serve]'")

from fault_server import FAULTS, Script, default_answer, running
from keff import plugins
from keff.errors import EngineError
from keff.records import Sampling, stable_hash
from keff.sampling.job import Job, execute
from keff.sampling.sampler import Order, Progress
from keff.sampling.store import DATABASE

pytestmark = pytest.mark.slow


def share_of_faults(number: int, _: dict[str, Any]) -> str | None:
    """Fail a fifth of the requests, the kinds in turn and at scattered places."""
    draw = int(stable_hash(number)[:8], 16)
    return FAULTS[draw // 5 % len(FAULTS)] if draw % 5 == 0 else None


def run(folder: Path, url: str, n: int, **options: Any) -> Progress:
    file = folder / "questions.jsonl"
    lines = (
        json.dumps({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i % 10)}) for i in range(n)
    )
    file.write_text("\n".join(lines))
    task = plugins.load("task", "jsonl", data=str(file), answer_space="numeric")
    engine = plugins.load("engine", "openai", base_url=url, **options)
    order = Order(Sampling(seed=1, max_tokens=64), 8, attempts=9, backoff=0.01)
    return asyncio.run(execute(Job(task, engine, folder / "run", order, n)))


def rows(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "run" / DATABASE)) as database:
        return database.execute("select item, path, seed, text, error from paths").fetchall()


@pytest.mark.parametrize("stream", [False, True])
def test_a_fifth_of_all_responses_faulty(tmp_path: Path, stream: bool) -> None:
    """Every owed path is there once, with the text of its own seed; every failed attempt is on record."""
    script = Script(fault=share_of_faults)
    with running(script) as url:
        progress = run(tmp_path, url, 40, stream=stream, timeout=2.0, max_retries=1, n_per_request=2)
    assert progress.done == 40 * 8
    kept = [row for row in rows(tmp_path) if row[4] is None]
    assert len(kept) == 320 == len({row[:2] for row in kept})
    answers = {
        (body["seed"] + i, default_answer(body["messages"], body["seed"] + i))
        for body in script.requests
        for i in range(body.get("n", 1))
    }
    assert {(row[2], row[3]) for row in kept} <= answers
    failed = [row[4] for row in rows(tmp_path) if row[4] is not None]
    assert len(failed) == progress.failed > 0
    assert all(url in line for line in failed)


def test_a_server_that_dies_pauses_the_run_and_a_new_one_finishes_it(tmp_path: Path) -> None:
    """The address is not part of a run: it goes on with the server elsewhere."""
    script = Script(latency=0.05)
    with running(script) as url:
        # More than are in flight at once, so that some are answered.
        stopper = threading.Thread(target=lambda: _after(script, 60))
        stopper.start()
        with pytest.raises(EngineError, match="failed in a row") as caught:
            run(tmp_path, url, 20, max_retries=0, model="stub", n_per_request=1)
        stopper.join()
    assert "\n" not in str(caught.value)
    kept = sum(row[4] is None for row in rows(tmp_path))
    assert 0 < kept < 160
    with running(Script()) as url:
        assert run(tmp_path, url, 20, model="stub").done == 160 - kept


def _after(script: Script, requests: int) -> None:
    """Let the server fail from now on, once it has had so many requests."""
    while len(script.requests) < requests:
        time.sleep(0.005)
    script.fault = lambda *_: "503"
