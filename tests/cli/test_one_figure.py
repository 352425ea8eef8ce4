"""What a record shows of the recommended policy is one figure, wherever keff prints it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import command_line


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty questions of 36 paths: a beta law of right answers, wrong ones among four."""
    rng = np.random.default_rng(5)
    file = tmp_path_factory.mktemp("figure") / "log.jsonl"
    right = rng.random((40, 36)) < rng.beta(2, 1, 40)[:, None]
    answers = np.where(right, 0, rng.integers(1, 5, right.shape))
    rows = [
        {"id": str(i), "gold_answer": "0", "all_answers": list(map(str, row))}
        for i, row in enumerate(answers.tolist())
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
def test_replayed_is_the_same_to_the_digit_in_analyze_plan_replay_and_page(log: Path, tmp_path: Path) -> None:
    plan, page = tmp_path / "plan.json", tmp_path / "page.html"
    analysed = command_line.keff("analyze", log, "--json", "-o", plan)
    assert analysed.returncode == 0, analysed.stderr
    advice = json.loads(analysed.stdout)["recommendation"]
    shown = advice["replayed"]
    assert shown["lo"] < shown["value"] < shown["hi"]

    assert json.loads(plan.read_text())["estimates"]["recommendation"]["replayed"] == shown

    done = command_line.keff("replay", log, "--policy", advice["policy"], "--json")
    assert done.returncode == 0, done.stderr
    (row,) = (row for row in json.loads(done.stdout)["policies"] if row["policy"] == advice["policy"])
    assert row["kept"] == shown

    reported = command_line.keff("report", log, "-o", page)
    assert reported.returncode == 0, reported.stderr
    text = page.read_text()
    cell = f"{100 * shown['value']:.1f}% [{100 * shown['lo']:.1f}, {100 * shown['hi']:.1f}]"
    start = text.index(f"<code>{advice['policy']}</code></th>")
    assert cell in text[start : start + 600]
