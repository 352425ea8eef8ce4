"""Records that would not fit into memory: one line names the limit, and nothing is read beyond it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.logs.parts import lines
from keff.reading import questions
from keff.reading.open import open_record


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(n: int) -> list[dict[str, object]]:
    return [{"id": f"q{i}", "gold_answer": "0", "all_answers": [f"{i}", f"{i + n}", "0"]} for i in range(n)]


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_line_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    monkeypatch.setattr(lines, "MOST_LINE", 2000)
    monkeypatch.setattr(lines, "MOST_VALUES", 1999)
    content = rows(4)
    whole = written(tmp_path / "whole.jsonl", content)
    assert open_record(whole).ballot.votes.n == 4
    content[place]["question"] = "x" * 2000
    with pytest.raises(LogError, match=r"a line of more than .* MiB, which is more than a question holds"):
        open_record(written(tmp_path / "long.jsonl", content))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_too_many_different_answers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / f"record.{kind}"
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows(10)), path)
    else:
        written(path, rows(10))
    monkeypatch.setattr(questions, "MOST_DISTINCT", 20)
    assert open_record(path).ballot.votes.n == 10  # 20 different answers, and 0 is one of them
    monkeypatch.setattr(questions, "MOST_DISTINCT", 19)
    with pytest.raises(LogError, match="more than 19 different answers") as refused:
        open_record(path)
    assert str(refused.value).startswith(str(path))
