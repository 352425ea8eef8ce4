"""Rows that may be finer than a path are never counted as repeats unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.reading.open import Opening, open_record

NAMES = [
    "rollout_id",
    "turn",
    "metric",
    "attempt",
    "step",
    "messageIndex",
    "Scorer",
    "retry_count",
    "criterion",
]
NAMES += ["trajectory_id", "filter", "language", "evaluator name"]


def written(folder: Path, kind: str, name: str, *, per_path: int = 1) -> Path:
    rows = [
        {"id": f"q{n}", "gold": "4", "answer": str(3 + (n + at) % 2), name: f"{at:02d}", "part": part}
        for n in range(20)
        for at in range(3)
        for part in range(per_path)
    ]
    file = folder / f"log.{kind}"
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    else:
        lines = list(map(json.dumps, rows))
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_differ_in_such_a_column_are_asked_about(tmp_path: Path, kind: str, name: str) -> None:
    file = written(tmp_path, kind, name)
    with pytest.raises(LogError, match=f"differ in {name}: .* --columns path={name}"):
        open_record(file)
    votes = open_record(file, Opening(columns=f"path={name}")).ballot.votes
    assert (votes.n, votes.k) == (20, 3)


@pytest.mark.parametrize("name", ["subset", "subject", "Category", "dataset name"])
@pytest.mark.parametrize("together", [True, False])
def test_ids_that_restart_in_each_subset_are_no_repeats(tmp_path: Path, name: str, together: bool) -> None:
    """By rows of equal questions and gold answers, in which nothing else tells the questions apart."""
    rows = [
        {"id": n, "question": "Which?", "gold": "4", "answer": str(3 + (n + at) % 2), name: subset}
        for subset in "ab"
        for n in range(20)
        for at in range(2)
    ]
    if together:
        rows.sort(key=lambda row: row["id"])
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(LogError, match=rf"{name}[.:].*give each (question|its)"):
        open_record(file)
    file.write_text("".join(json.dumps(row | {"id": f"{row[name]}-{row['id']}"}) + "\n" for row in rows))
    votes = open_record(file).ballot.votes
    assert (votes.n, votes.k) == (40, 2)


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_a_path_are_no_paths(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, "csv", name, per_path=2)
    with pytest.raises(LogError, match="came before"):
        open_record(file, Opening(columns=f"path={name}"))


def test_a_column_that_is_the_same_in_all_rows_of_a_question_tells_nothing(tmp_path: Path) -> None:
    lines = [f"q{n},4,{3 + (n + at) % 2},exact,{n % 2}" for n in range(20) for at in range(3)]
    (tmp_path / "log.csv").write_text("id,gold,answer,metric,judge\n" + "\n".join(lines) + "\n")
    assert open_record(tmp_path / "log.csv").ballot.votes.k == 3


# How tables say that a row ended in an error, and what they say of the others.
TOLD: dict[str, tuple[object, object]] = {
    "status": ("error", "success"),
    "Status": ("TIMEOUT", "ok"),
    "error": ("429 Too Many Requests", ""),
    "exception": ({"type": "ReadTimeout"}, None),
    "is_error": (True, False),
    "success": ("no", "yes"),
    "http_status": (503, 200),
}


def retries(folder: Path, kind: str, column: str, *, numbered: bool, lost: int = 0) -> tuple[Path, list[int]]:
    """Write 20 questions of three paths, of which every fourth failed once; the last ``lost`` for good."""
    bad, good = TOLD[column]
    rows, right = list[dict[str, object]](), list[int]()
    for n in range(20):
        for at in range(3):
            path: dict[str, object] = {"epoch": at} if numbered else {}
            about = {"id": f"q{n}", **path, "gold": "4"}
            last = 3 * n + at >= 60 - lost
            if (3 * n + at) % 4 == 0 or last:
                rows.append(about | {"answer": None, "attempt": 1, column: bad})
            if last:
                continue
            rows.append(about | {"answer": str(3 + (n + at) % 2), "attempt": 2, column: good})
            right.append((n + at) % 2)
    file = folder / f"log.{kind}"
    if kind == "csv":
        cells = (["" if value is None else str(value) for value in row.values()] for row in rows)
        lines = [",".join(rows[0]), *map(",".join, cells)]
    else:
        # A row of JSON that failed may have no answer at all.
        kept = ({name: value for name, value in row.items() if value is not None} for row in rows)
        lines = list(map(json.dumps, kept))
    file.write_text("\n".join(lines) + "\n")
    return file, right


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize(
    ("kind", "column"), [("csv", "status"), ("csv", "error"), *(("jsonl", name) for name in TOLD)]
)
def test_errors_that_were_tried_again_are_left_out_and_said(
    tmp_path: Path, kind: str, column: str, numbered: bool
) -> None:
    file, right = retries(tmp_path, kind, column, numbered=numbered)
    ballot = open_record(file).ballot
    assert ballot.votes.scored().ravel().tolist() == right
    (note,) = (note for note in ballot.notes if note.code == "tried_again")
    assert note.message == f"15 rows are left out: each ended in an error ({column}) and was tried again"


def test_errors_that_were_not_tried_again_are_said(tmp_path: Path) -> None:
    file, right = retries(tmp_path, "csv", "status", numbered=True, lost=2)
    ballot = open_record(file).ballot
    assert ballot.votes.scored().ravel().tolist() == [*right, 0, 0]
    notes = {note.code: note.message for note in ballot.notes}
    assert notes["failed_rows"].startswith("2 rows ended in an error (status) and were not tried again")


@pytest.mark.parametrize("status", ["failed", "error"])
def test_a_status_beside_an_answer_or_a_verdict_leaves_nothing_out(tmp_path: Path, status: str) -> None:
    answers = "".join(f"q{n},4,{3 + at},{'ok' if at else status}\n" for n in range(9) for at in range(2))
    (tmp_path / "answers.csv").write_text("id,gold,answer,status\n" + answers)
    right = "".join(f"q{n},{at},{'ok' if at else status}\n" for n in range(9) for at in range(2))
    (tmp_path / "verdicts.csv").write_text("id,correct,status\n" + right)
    for name in ("answers", "verdicts"):
        ballot = open_record(tmp_path / f"{name}.csv").ballot
        assert ballot.votes.scored().tolist() == [[0, 1]] * 9
        assert not {"tried_again", "failed_rows"} & {note.code for note in ballot.notes}
