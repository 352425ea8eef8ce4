"""A run that is killed at random moments loses nothing that was committed and draws nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KEFF_KILLS", "4"))
"""`make bench` kills 20 times."""
ITEMS, PATHS = 4 * KILLS, 8


def committed(run: Path) -> set[tuple[object, ...]]:
    file = run / "paths.sqlite"
    if not file.exists():
        return set()
    database = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=10)
    try:
        return set(
            database.execute("select item, slot, path, attempt, seed, text from paths where error is null")
        )
    except sqlite3.OperationalError:
        return set()
    finally:
        database.close()


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "keff", "sample", str(folder / "q.jsonl"), "--run", str(folder / "run")]
    options = ["--engine", "fake", "--engine-option", "latency=0.1", "--engine-option", "max_n=2"]
    size = ["--n", str(ITEMS), "--k", str(PATHS), "--concurrency", "4"]
    return subprocess.Popen([*command, *options, *size], stderr=subprocess.DEVNULL, cwd=folder)


def wait_for_growth(run: Path, before: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and len(committed(run)) <= before:
        time.sleep(0.03)  # each look opens the database, which takes the run's own time


def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = ({"id": f"q{i}", "question": f"{i} + 1?", "answer": str(i + 1)} for i in range(ITEMS))
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = tmp_path / "run"
    seen: set[tuple[object, ...]] = set()
    interrupted = 0
    for kill in range(KILLS):
        process = start(tmp_path)
        if kill % 4 == 3:
            time.sleep(rng.uniform(0, 0.4))
        else:
            wait_for_growth(run, len(seen), process)
            time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        interrupted += process.wait() == -signal.SIGKILL
        now = committed(run)
        assert seen <= now, "a committed path was lost or changed"
        seen = now
    assert interrupted >= KILLS // 2
    assert start(tmp_path).wait() == 0
    final = committed(run)
    assert seen <= final
    assert sorted((item, path) for item, _, path, *_ in final) == sorted(
        (f"q{i}", path) for i in range(ITEMS) for path in range(PATHS)
    )
