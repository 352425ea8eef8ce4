"""Rows that may be finer than a path are never counted as repeats unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.reading.open import Opening, open_record

NAMES = ["rollout_id", "turn", "metric", "attempt"]


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


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_a_path_are_no_paths(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, "csv", name, per_path=2)
    with pytest.raises(LogError, match="came before"):
        open_record(file, Opening(columns=f"path={name}"))


def test_a_column_that_is_the_same_in_all_rows_of_a_question_tells_nothing(tmp_path: Path) -> None:
    lines = [f"q{n},4,{3 + (n + at) % 2},exact,{n % 2}" for n in range(20) for at in range(3)]
    (tmp_path / "log.csv").write_text("id,gold,answer,metric,judge\n" + "\n".join(lines) + "\n")
    assert open_record(tmp_path / "log.csv").ballot.votes.k == 3
