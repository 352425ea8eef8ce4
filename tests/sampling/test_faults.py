"""Runs against servers that fail, refuse, die or are real.

Complete, each path once, every attempt on record.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the fault server needs starlette: pip install 'keff[serve]'")
from fault_server import FAULTS, Script, default_answer, running
from keff import plugins
from keff.engine import Engine
from keff.errors import EngineError
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.sampler import OnProgress, Order, Progress
from keff.sampling.store import DATABASE

pytestmark = pytest.mark.slow

KEY = "sk-not-the-right-one"


def questions(folder: Path, n: int) -> Path:
    file = folder / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(n))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def job(folder: Path, url: str, n: int, k: int = 8, **options: Any) -> Job:
    task = plugins.load("task", "jsonl", data=str(questions(folder, n)))
    engine = plugins.load("engine", "openai", base_url=url, **options)
    return Job(task, engine, folder / "run", Order(Sampling(), k, backoff=0.01))


def draw(one: Job, watch: OnProgress | None = None) -> Progress:
    return asyncio.run(execute(one, watch))


def rows(folder: Path, columns: str) -> list[tuple[Any, ...]]:
    # Read-only: looking for a file that is not there yet must not create it.
    with closing(sqlite3.connect(f"file:{folder / 'run' / DATABASE}?mode=ro", uri=True)) as database:
        return database.execute(f"select {columns} from paths order by item, slot, path, attempt").fetchall()


def keff(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "keff", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"} | environment,
    )


def one_line(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith("keff:")]
    assert len(lines) == 1, said
    assert "Traceback" not in said
    return lines[0]


class Counted:
    """An engine that counts the paths of failed requests."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.failed = engine, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def generate(self, messages: Any, sampling: Sampling, n: int) -> Any:
        try:
            return await self.engine.generate(messages, sampling, n)
        except EngineError:
            self.failed += n
            raise


def test_a_fifth_of_the_responses_is_faulty_and_the_run_ends_complete(tmp_path: Path) -> None:
    injected: Counter[str] = Counter()
    suffered: Counter[str] = Counter()

    def fault(number: int, body: dict[str, Any]) -> str | None:
        question = str(body["messages"][-1]["content"])
        # A request is tried six times; by chance one in some hundred runs would meet a fault at each.
        if number % 5 or suffered[question] == 5:
            return None
        kind = FAULTS[number // 5 % len(FAULTS)]
        injected[kind] += 1
        suffered[question] += 1
        return kind

    with running(Script(fault=fault)) as url:
        one = job(tmp_path, url, 300, timeout=2.0, max_retries=0, parallel=32, n_per_request=4)
        engine = Counted(one.engine)
        progress = draw(replace(one, engine=engine))
    assert engine.capabilities.max_n == 4, "passing faults changed how the run asks"
    assert min(injected[kind] for kind in FAULTS) >= 10
    found = rows(tmp_path, "item, slot, path, attempt, seed, text, error")
    kept = {row[:3]: row for row in found if row[6] is None}
    assert progress.done == len(kept) == len(found) - engine.failed == 2400
    assert set(kept) == {(f"q{i}", 0, path) for i in range(300) for path in range(8)}
    tries = Counter(row[:3] for row in found)
    assert all(row[3] == tries[path] - 1 for path, row in kept.items()), (
        "a path was drawn again after it was kept"
    )
    assert progress.failed == engine.failed > 300
    prompts = {item.id: list(one.task.messages(item, 0)) for item in one.items()}
    assert all(row[5] == default_answer(prompts[row[0]], row[4]) for row in kept.values())


def test_the_breaker_opens_on_a_server_that_dies_and_the_run_goes_on_elsewhere(tmp_path: Path) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(running(Script(latency=0.02)))
        stopped: list[Progress] = []

        def stop_server(progress: Progress) -> None:
            if progress.done >= 40 and not stopped:
                stack.close()
                stopped.append(progress)

        options = {"n_per_request": 1, "max_retries": 1, "parallel": 8}
        with pytest.raises(EngineError, match=r"1\d requests failed in a row.*paused.*run the same command"):
            draw(job(tmp_path, url, 30, **options), stop_server)
    before = set(rows(tmp_path, "*"))
    kept = [row for row in before if row[-1] is None]
    assert 40 <= len(kept) < 240
    with running(Script()) as elsewhere:
        assert draw(job(tmp_path, elsewhere, 30, **options)).done == 240 - len(kept)
    assert before < set(rows(tmp_path, "*"))


def test_a_wrong_key_is_one_line_and_records_nothing(tmp_path: Path) -> None:
    with running(Script(key="right")) as url:
        process = keff(
            *("sample", questions(tmp_path, 5), "--run", tmp_path / "run", "--base-url", url),
            OPENAI_API_KEY=KEY,
        )
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "HTTP 401" in one_line(said)
    assert "$OPENAI_API_KEY" in said
    assert KEY not in said
    assert not (tmp_path / "run" / DATABASE).exists()


def test_a_key_that_stops_working_pauses_the_run_and_scores_nothing_as_wrong(tmp_path: Path) -> None:
    revoked = Script(fault=lambda number, _: "401" if number >= 20 else None)
    with running(revoked) as url, pytest.raises(EngineError, match="HTTP 401"):
        draw(job(tmp_path, url, 30, n_per_request=1, parallel=4))
    found = rows(tmp_path, "text, finish, error")
    assert sum(error is None for _, _, error in found) == 20
    assert all(text is None and finish is None for text, finish, error in found if error is not None)
    database = sqlite3.connect(tmp_path / "run" / DATABASE)
    assert database.execute("select count(*) from scores").fetchone() == (20,)
    database.close()


def test_sigterm_keeps_what_was_committed_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = ["sample", questions(tmp_path, 20), "--run", tmp_path / "run", "--engine", "fake", "--k", 8]
    command += ["--engine-option", "latency=0.1", "--engine-option", "max_n=1"]
    process = keff(*command)
    while process.poll() is None and not committed(tmp_path):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stopped; every path that was received is kept" in one_line(said)
    before = set(rows(tmp_path, "*"))
    assert 0 < len(before) < 160
    again = keff(*command, "--json")
    answer, said = again.communicate(timeout=60)
    assert again.returncode == 0, said
    assert json.loads(answer)["drawn"] == 160 - len(before)
    assert before < set(rows(tmp_path, "*"))


def committed(folder: Path) -> int:
    try:
        return len(rows(folder, "item"))
    except sqlite3.OperationalError:
        return 0


@pytest.mark.integration
def test_gsm8k_is_sampled_from_a_real_server(tmp_path: Path, data: Path, smollm2: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the real server needs xllamacpp: pip install 'keff[llamacpp]'")
    from real_server import real_base_url

    command = [
        "sample",
        "gsm8k",
        "--data",
        data / "benchmarks" / "gsm8k.jsonl",
        "--n",
        3,
        "--k",
        4,
    ]
    command += ["--engine", "openai", "--base-url", real_base_url(smollm2), "--max-tokens", 16]
    process = keff(*command, "--run", tmp_path / "run", "--json")
    answer, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert json.loads(answer) | {"drawn": 12, "failed": 0, "items": 3} == json.loads(answer)
    found = rows(tmp_path, "item, path, seed, text, finish, tokens, prompt_tokens, logprob_mean, error")
    assert len({row[:2] for row in found}) == len(found) == 12
    assert len({row[3] for row in found}) > 6
    assert all(row[4] in ("stop", "length") and 0 < row[5] <= 16 and row[7] < 0 for row in found)
    assert sum(row[6] > 0 for row in found) == 3
