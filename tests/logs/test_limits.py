"""Records that would not fit into memory: one line names the limit, and nothing is read beyond it."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.logs.parts import lines
from keff.reading import questions
from keff.reading.open import Opening, open_record


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        {"id": "q", "gold_answer": "1", "all_answers": ["1"]} | {f"m{n}": n for n in range(30_000)},
        {"nr": "q", "guess": "1"} | {f"m{n}x": n for n in range(30_000)},
        {f"q{n}": {"answer": "1", "gold": "1"} for n in range(30_000)},
    ],
    ids=["own", "table", "objects"],
)
def test_a_row_of_many_members_takes_time_like_its_size(tmp_path: Path, line: dict[str, object]) -> None:
    begun = time.process_time()
    with suppress(LogError):
        open_record(written(tmp_path / "wide.jsonl", [line, line | {"id": "r"}]))
    assert time.process_time() - begun < 10  # of the square of the members it was over a minute


def test_a_table_of_many_columns_has_a_long_header(tmp_path: Path) -> None:
    table = tmp_path / "wide.csv"
    names = [f"answer_{n}" for n in range(9_000)]
    table.write_text(f"id,gold,{','.join(names)}\nq,1{',1' * len(names)}\n")
    assert open_record(table, Opening(trim=40)).ballot.votes.scored().tolist() == [[1] * 40]


def test_metadata_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("keff.logs.parts.pyarrow")
    table = pytest.importorskip("pyarrow").Table.from_pylist(rows(50))
    path = tmp_path / "log.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=1)
    assert open_record(path).ballot.votes.n == 50
    monkeypatch.setattr(arrow, "MOST_METADATA", 1000)
    with pytest.raises(LogError, match=r"metadata has .* larger row groups"):
        open_record(path)


def test_a_name_that_stands_twice_on_the_last_line_is_no_torn_line(tmp_path: Path) -> None:
    twice = '{"id": "q", "all_answers": ["4"], "all_answers": ["5"]}'
    path = written(tmp_path / "log.jsonl", rows(2))
    whole = path.read_text()
    for ending in ("", "\n"):
        path.write_text(whole + twice + ending)
        with pytest.raises(LogError, match=r"log\.jsonl:3: not JSON \(duplicate name 'all_answers'\)"):
            open_record(path)
    path.write_text(whole + twice[:-9])
    assert [note.code for note in open_record(path).ballot.notes] == ["torn_line"]
