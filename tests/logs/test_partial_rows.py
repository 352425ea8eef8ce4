"""Paths that are conversations, and paths without a verdict, in tables of every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keff.reading.open import Opening, Record, open_record

QUESTIONS, PATHS = 12, 4
Row = dict[str, Any]


def right(i: int, j: int) -> int:
    return (i * j + i) % 3 % 2


def conversation(i: int, j: int) -> list[Row]:
    said = f"The answer is {i if right(i, j) else 90 + j}"
    return [{"role": "user", "content": f"Which is {i}?"}, {"role": "assistant", "content": said}]


def read(folder: Path, kind: str, rows: list[Row], **options: Any) -> Record:
    file = folder / f"log.{kind}"
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), file)
    elif kind == "json":
        file.write_text(json.dumps(rows))
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_record(file, Opening(**options))


def per_path(*names: str) -> list[Row]:
    cells = ((i, j) for i in range(QUESTIONS) for j in range(PATHS))
    made = [
        {
            "id": f"q{i}",
            "gold": str(i),
            "completion": conversation(i, j),
            "answer": str(i if right(i, j) else 90 + j),
            "correct": right(i, j),
        }
        for i, j in cells
    ]
    return [{name: row[name] for name in ("id", *names)} for row in made]


def per_question(rows: list[Row], form: str) -> list[Row]:
    """Return rows of one question each, with lists under names that ``form`` makes of those of a path."""
    listed = list[Row]()
    for i in range(QUESTIONS):
        own = rows[PATHS * i : PATHS * (i + 1)]
        lists = {
            form.format(name): [row[name] for row in own] for name in own[0] if name not in ("id", "gold")
        }
        listed.append({name: own[0][name] for name in ("id", "gold") if name in own[0]} | lists)
    return listed


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
@pytest.mark.parametrize("wide", [False, True])
def test_a_list_of_messages_is_what_the_model_said_last(tmp_path: Path, kind: str, wide: bool) -> None:
    rows = per_path("gold", "completion")
    rows = per_question(rows, "{}s") if wide else rows
    record = read(tmp_path, kind, rows, answer_space="numeric")
    assert record.ballot.votes.scored().tolist() == [
        [right(i, j) for j in range(PATHS)] for i in range(QUESTIONS)
    ]
    assert record.ballot.questions[1].answers == tuple(
        str(1 if right(1, j) else 90 + j) for j in range(PATHS)
    )


def test_messages_beside_a_verdict_need_no_answer_space(tmp_path: Path) -> None:
    votes = read(tmp_path, "jsonl", per_path("completion", "correct")).ballot.votes
    assert votes.scored().tolist() == [[right(i, j) for j in range(PATHS)] for i in range(QUESTIONS)]


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
@pytest.mark.parametrize("form", ["rows", "{}s", "all_{}"])
@pytest.mark.parametrize("names", [("gold", "answer", "correct"), ("correct",)])
def test_paths_without_a_verdict_are_left_out_and_counted(
    tmp_path: Path, kind: str, form: str, names: tuple[str, ...]
) -> None:
    rows = per_path(*names)
    # One path of a question, and all paths of another.
    unjudged = [PATHS * 2 + 1, *range(PATHS * 5, PATHS * 6)]
    for place in unjudged:
        rows[place]["correct"] = None
    rows = rows if form == "rows" else per_question(rows, form)
    record = read(tmp_path, kind, rows, trim=PATHS - 1)
    expected = {f"q{i}": [right(i, j) for j in range(PATHS)][: PATHS - 1] for i in range(QUESTIONS)}
    expected["q2"] = [right(2, 0), *(right(2, j) for j in range(2, PATHS))]
    left_out = 1
    if "answer" not in names:
        del expected["q5"]
        left_out += PATHS
    found = zip(record.ballot.questions, record.ballot.votes.scored().tolist(), strict=True)
    assert {question.id: row for question, row in found} == expected
    notes = {note.code: note.message for note in record.ballot.notes}
    assert notes["left_out"] == f"{left_out} paths are left out: each has no verdict"
