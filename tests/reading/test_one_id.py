"""One id that stands for several questions is noticed, in a log and between logs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from command_line import keff
from keff.reading.open import open_record

SUBSETS = ("algebra", "geometry")


def subsets(file: Path, *, ids: str) -> Path:
    """Write two subsets of twelve questions with two paths each; their ids restart or go on."""
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "question", "gold", "path", "answer"])
        for place, subset in enumerate(SUBSETS):
            for n in range(12):
                name = n if ids == "restart" else 12 * place + n
                for path in range(2):
                    number = 2 * place + path if ids == "restart" else path
                    table.writerow([name, f"{subset} {n}?", n % 3, number, (n + path) % 3])
    return file


@pytest.mark.parametrize("command", ["analyze", "noise", "audit", "replay"])
def test_ids_that_restart_are_noticed_in_one_log(tmp_path: Path, command: str) -> None:
    done = keff(command, subsets(tmp_path / "a.csv", ids="restart"), "--json")
    assert done.returncode == 0, done.stderr
    notes = {note["code"]: note["message"] for note in json.loads(done.stdout)["warnings"]}
    assert notes["several_questions"].startswith("12 of 12 ids stand for several questions (question differs")
    again = keff(command, tmp_path / "a.csv", "--columns", "id=question", "--json")
    assert "several_questions" not in again.stdout
    fine = keff(command, subsets(tmp_path / "b.csv", ids="go on"), "--json")
    assert "several_questions" not in fine.stdout


def test_prompts_of_several_templates_are_one_question(tmp_path: Path) -> None:
    rows = [f"q{n},{slot} tell {n},{n % 3},{slot},{n % 2}" for n in range(20) for slot in (0, 1)]
    (tmp_path / "log.csv").write_text("id,prompt,gold,slot,answer\n" + "\n".join(rows) + "\n")
    notes = {note.code for note in open_record(tmp_path / "log.csv").ballot.notes}
    assert "several_questions" not in notes


def logs(folder: Path, *, shuffled: bool, space: str = "exact") -> list[Path]:
    files = [folder / "one.jsonl", folder / "two.jsonl"]
    draws = np.random.default_rng(0).choice(["A", "B"], (2, 24, 4))
    for place, file in enumerate(files):
        rows = [
            {
                "id": f"q{n}",
                "question": f"What is {n}? {'A) 1 B) 2' if not (shuffled and place) else 'A) 2 B) 1'}",
                "gold_answer": "AB"[n % 2],
                "answer_space": space,
                "all_answers": draws[place, n].tolist(),
            }
            for n in range(24)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return files


@pytest.mark.parametrize("command", ["audit", "mix", "compare"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_ids_that_mean_other_questions_in_another_log_are_noticed(
    tmp_path: Path, command: str, shuffled: bool
) -> None:
    done = keff(command, *logs(tmp_path, shuffled=shuffled), "--json")
    assert done.returncode == 0, done.stderr
    assert ("other_questions" in {note["code"] for note in json.loads(done.stdout)["warnings"]}) == shuffled


def test_letters_of_shuffled_options_are_not_pooled(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = keff("join", *logs(tmp_path, shuffled=True, space="choice"), "--pool", "-o", out)
    assert done.returncode == 2 and "'q0', so their letters may mean different options" in done.stderr
    assert keff("join", *logs(tmp_path, shuffled=False, space="choice"), "--pool", "-o", out).returncode == 0
    done = keff("join", *logs(tmp_path, shuffled=True), "--pool", "-o", tmp_path / "exact.jsonl")
    assert done.returncode == 0 and "24 ids have another question text" in done.stderr
