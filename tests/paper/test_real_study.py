"""A small study with a real model: two arms, two seeds, interrupted and resumed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from keff.cli.study import command
from keff.paper.reproduce import Reproducing
from keff.paper.study import report
from keff.sampling.grid import read_study

pytestmark = pytest.mark.integration

TOML = """
name = "real"
runs = "{runs}"
n = 2
seeds = [1, 2]
models = [{{ name = "smollm2", engine = "llamacpp", model = "{model}", options = {{ threads = 1 }} }}]
arms = [{{ name = "sc", k = 4 }}, {{ name = "hot", k = 4, temperature = 1.3, against = "sc" }}]
tasks = [{{ name = "sums", data = "sums.jsonl", max_tokens = 4 }}]
"""


def paths(runs: Path) -> int:
    """Return how many paths are there, while another process writes them."""
    total = 0
    for file in runs.rglob("paths.sqlite"):
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
                total += database.execute("select count(*) from paths where error is null").fetchone()[0]
        except sqlite3.OperationalError:
            pass
    return total


def test_an_interrupted_study_goes_on_where_it_stopped(
    tmp_path: Path, smollm2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp", reason="pip install 'keff[llamacpp]'")
    rows = ({"id": f"s{i}", "question": f"What is {i} + 2?", "answer": str(i + 2)} for i in range(6))
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "study.toml"
    file.write_text(TOML.format(runs=tmp_path / "runs", model=smollm2))
    process = subprocess.Popen(
        [sys.executable, "-m", "keff", "study", "run", str(file)], stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and paths(tmp_path / "runs") < 8:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "stopped; every path that was received is kept" in said
    held = paths(tmp_path / "runs")
    assert 8 <= held < 32
    command("run", file, json=True)
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert all(row["complete"] for row in runs)
    assert sum(row["drawn"] for row in runs) == 32 - held
    found = report(read_study(file), Reproducing(replicates=200))
    assert [(row["arm"], row["seeds"], row["n"]) for row in found.tables["arms"]] == [
        ("sc", 2, 4), ("hot", 2, 4)
    ]  # fmt: skip
