"""Copies of questions: found by text or by rows of answers, named, and never taken for different models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import keff
from keff.reading.branches import columns_apart
from keff.reading.copies import copies
from keff.reading.open import Record, open_record
from keff.reading.source import record_of


def record(rows: list[list[str]], gold: str = "A", **how: object) -> Record:
    return record_of(rows, {"gold_answer": [gold] * len(rows), **how})


def drawn(n: int, k: int = 8, answers: str = "AAAABBCD", seed: int = 0) -> list[list[str]]:
    """Rows of paths of one model, each question with a difficulty of its own."""
    rng = np.random.default_rng(seed)
    return [rng.choice([*answers[: 4 + rng.integers(5)]], k).tolist() for _ in range(n)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("times", "n"), [(2, 40), (10, 10), (10, 30)])
def test_copied_rows_are_found_named_and_are_no_models(seed: int, times: int, n: int) -> None:
    rows = drawn(n, seed=seed)
    for copied in (rows * times, [row for row in rows for _ in range(times)]):
        ballot = record(copied).ballot
        assert len(set(copies(ballot).tolist())) < 0.7 * len(copied)  # but for rows that say nothing
        assert [note.code for note in ballot.notes if note.code.startswith("cop")] == ["copied_questions"]
        assert ballot.votes.n_clusters < 0.7 * len(copied)
        assert not columns_apart(ballot)[0]


@pytest.mark.parametrize("answers", ["AB", "AAAABBCD", "AAAABBBB"])
@pytest.mark.parametrize(("n", "k"), [(40, 3), (400, 3), (400, 8), (100, 16)])
def test_different_questions_are_no_copies(answers: str, n: int, k: int) -> None:
    for seed in range(3):
        ballot = record(drawn(n, k, answers * 4, seed)).ballot
        assert copies(ballot).tolist() == list(range(n))
        assert ballot.votes.n_clusters == n


def test_a_constant_question_is_no_two_models() -> None:
    for row in (["A", "B"], ["A", "B", "A", "B"], ["A", "B", "B", "B", "A"]):
        assert not columns_apart(record([row] * 20).ballot)[0]
        assert not columns_apart(record([row] * 400).ballot)[0]


def test_columns_are_judged_by_clusters() -> None:
    rng = np.random.default_rng(0)
    level = np.array([0.2, 0.8, 0.5, 0.7, 0.3])
    right = rng.random((300, 5)) < level
    rows = [["A" if value else "BCD"[place % 3] for place, value in enumerate(row)] for row in right]
    assert columns_apart(record(rows).ballot)[0]
    # The same rows, each with an id of its own, in 100 passages of three questions, and in four passages.
    for passages, apart in ((300, True), (100, True), (4, False)):
        clusters = [f"passage {place % passages}" for place in range(300)]
        assert columns_apart(record(rows, cluster=clusters).ballot)[0] == apart


@pytest.mark.slow
def test_equal_texts_are_copies_whatever_was_drawn(tmp_path: Path) -> None:
    rows = drawn(60)
    file = tmp_path / "log.jsonl"
    lines = (
        {"id": place, "question": f"How many? {place % 20}", "gold_answer": "A", "all_answers": row}
        for place, row in enumerate(rows)
    )
    file.write_text("".join(f"{line}\n".replace("'", '"') for line in lines))
    ballot = open_record(file).ballot
    assert copies(ballot).tolist() == [place % 20 for place in range(60)]
    found = keff.analyze(file)
    (note,) = (note for note in found.warnings if note.code == "copied_questions")
    assert note.message.startswith("40 of 60 questions repeat another")
    clustered = keff.analyze(rows, gold_answer=["A"] * 60, cluster=[str(place % 20) for place in range(60)])
    assert "copied_questions" not in {note.code for note in clustered.warnings}
    assert (found.clusters, found.c, found.decision) == (20, clustered.c, clustered.decision)


@pytest.mark.slow
def test_no_recorded_question_is_called_a_copy(recorded: list[Path]) -> None:
    for file in recorded:
        if file.stat().st_size < 3 * 10**5:
            votes = open_record(file).ballot.votes
            assert votes.n_clusters == votes.n, file.name


def test_the_library_refuses_several_models_as_the_command_line_reads_them_apart() -> None:
    rng = np.random.default_rng(0)
    right = rng.random((300, 5)) < np.array([0.2, 0.8, 0.5, 0.7, 0.3])
    rows = [["A" if value else "BCD"[place % 3] for place, value in enumerate(row)] for row in right]
    with pytest.raises(keff.KeffError, match="5 models or prompts"):
        keff.analyze(rows, gold_answer=["A"] * 300)
