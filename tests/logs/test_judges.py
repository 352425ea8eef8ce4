"""Logs of several judges: AlpacaEval's annotations, and list-valued scores of inspect."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import keff
from command_line import keff as command
from keff.reading.open import open_record

JUDGES = ("gpt4", "claude", "human")


def annotations(file: Path, preferences: np.ndarray) -> Path:
    """Write preferences [n, judges], NaN where an annotator failed, judge after judge."""
    rows = [
        {
            "instruction": f"Instruction {n}",
            "generator_1": "baseline",
            "output_1": "x",
            "generator_2": "model",
            "output_2": "y",
            "annotator": judge,
            "preference": None if np.isnan(preferences[n, at]) else preferences[n, at],
            "time_per_example": 0.5,
        }
        for at, judge in enumerate(JUDGES)
        for n in range(len(preferences))
    ]
    file.write_text(json.dumps(rows, indent=1))
    return file


@pytest.fixture
def preferences() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.choice([1.0, 1.25, 2.0, 1.9], (40, 3), p=[0.3, 0.1, 0.4, 0.2])


def test_annotations_are_verdicts_of_a_panel(tmp_path: Path, preferences: np.ndarray) -> None:
    preferences[3, 1] = 1.5
    record = open_record(annotations(tmp_path / "annotations.json", preferences))
    assert record.branches == JUDGES
    said = [[record.ballot.keys.names[code] for code in row] for row in record.ballot.keys.codes]
    expected = np.where(preferences > 1.5, "2", np.where(preferences < 1.5, "1", "tie"))
    assert said == expected.tolist()
    panel = keff.combine(record).panel
    assert panel is not None and [judge.name for judge in panel.judges] == list(JUDGES)


def test_the_win_rate_has_noise_over_annotators(tmp_path: Path, preferences: np.ndarray) -> None:
    preferences[5, 2] = np.nan
    file = annotations(tmp_path / "annotations.json", preferences)
    found = json.loads(command("noise", file, "--format", "alpaca_eval:scorer=preference", "--json").stdout)
    wins = preferences - 1
    assert found["score"]["value"] == pytest.approx(np.nanmean(np.nanmean(wins, axis=1)))
    expected = dict(zip(JUDGES, np.nanmean(wins, axis=0), strict=True))
    assert found["sources"]["scores"] == pytest.approx(expected)
    (note,) = (note["message"] for note in found["warnings"] if note["code"] == "left_out")
    assert note.startswith("1 paths are left out")


def test_a_list_of_scores_is_one_of_several_graders(tmp_path: Path) -> None:
    grades = np.random.default_rng(1).choice(["C", "I"], (20, 3))
    samples = [
        {
            "id": f"s{n}",
            "epoch": 1,
            "input": f"Question {n}",
            "target": "4",
            "output": {"choices": [{"message": {"content": "It is 4"}, "stop_reason": "stop"}]},
            "scores": {"panel": {"value": row.tolist(), "answer": "4"}},
        }
        for n, row in enumerate(grades)
    ]
    log = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "samples": samples}
    file = tmp_path / "log.json"
    file.write_text(json.dumps(log))
    found = keff.noise(file)
    right = (grades == "C").mean(axis=0)
    assert found.sources is not None
    assert dict(found.sources.scores) == pytest.approx({f"panel.{at}": right[at] for at in range(3)})
    one = json.loads(command("noise", file, "--format", "inspect_ai:scorer=panel.1", "--json").stdout)
    assert one["score"]["value"] == pytest.approx(right[1])


@pytest.mark.parametrize("by", ["question", "prompt"])
def test_a_prompt_that_recurs_is_a_source_and_no_text_of_a_question(tmp_path: Path, by: str) -> None:
    """Rows of prompt x question, in either order; a prompt that states its question is read as its text."""
    rng = np.random.default_rng(0)
    right = (rng.random((30, 3)) < 0.7).astype(int)
    ways = ("Answer at once.", "Think and answer.", "Ask yourself first.")
    cells = sorted(np.ndindex(30, 3), key=lambda cell: cell if by == "question" else cell[::-1])
    noises = []
    for columns, text in (
        ("judge", "{}"),
        ("prompt", "{}"),
        ("question,prompt", "What is {1}?,{0}"),
        ("prompt", "{} What is {}?"),
    ):
        lines = [f"id,{columns},answer,gold_answer"]
        lines += [f"q{n},{text.format(ways[s], n)},{'BA'[right[n, s]]},A" for n, s in cells]
        (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
        noises.append(keff.noise(tmp_path / "log.csv"))
    judges, prompts, beside, questions = noises
    assert prompts.sources is not None
    assert prompts.sources.new_source == judges.sources.new_source == beside.sources.new_source
    assert dict(prompts.sources.scores) == pytest.approx(dict(zip(ways, right.mean(axis=0), strict=True)))
    assert "prompts" in {note.code for note in prompts.warnings}
    assert questions.sources is None
    assert "several_questions" in {note.code for note in questions.warnings}
