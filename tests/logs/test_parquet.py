"""Parquet with list columns, and with one row per path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keff.errors import LogError
from keff.log import Question, find_log, ignore
from keff.reading.open import Opening, open_record, read_share

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def read(folder: Path, rows: list[dict[str, Any]]) -> list[Question]:
    file = folder / "log.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return list(find_log(file).questions(file))


def test_list_columns_are_one_question_a_row(tmp_path: Path) -> None:
    (question,) = read(
        tmp_path, [{"id": "q", "all_answers": ["a", None], "all_correct": [1, 0], "gold_answer": "a"}]
    )
    assert question.answers == ("a", None)
    assert question.correct == (1, 0)


def test_columns_are_read_without_pandas(tmp_path: Path) -> None:
    rows = [{"id": f"q{i}", "all_answers": ["a", None], "gold_answer": "a"} for i in range(3)]
    file = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    code = (
        "import pathlib, sys, keff;"
        "print(keff.open_record(pathlib.Path(sys.argv[1])).ballot.votes.answers.tolist());"
        "assert 'pandas' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str([[0, -1]] * 3)


def test_plain_columns_are_one_path_a_row(tmp_path: Path) -> None:
    rows = [{"id": 1, "answer": "a", "correct": True}, {"id": 1, "answer": "b", "correct": False}]
    (question,) = read(tmp_path, rows)
    assert (question.id, question.answers, question.correct) == ("1", ("a", "b"), (1, 0))


def test_errors_name_the_row(tmp_path: Path) -> None:
    rows = [
        {"id": "q", "all_answers": ["a"], "all_correct": [1]},
        {"id": "r", "all_answers": ["a"], "all_correct": [2]},
    ]
    with pytest.raises(LogError, match="row 2: all_correct must hold 0 and 1"):
        read(tmp_path, rows)


def test_a_file_that_was_cut_off_says_so(tmp_path: Path) -> None:
    read(tmp_path, [{"id": "q", "all_answers": ["a"]}])
    file = tmp_path / "log.parquet"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(LogError, match="damaged or cut off"):
        find_log(file)


def test_foreign_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="parquet: no id and no answer column found"):
        read(tmp_path, [{"name": "x", "value": 1}])


@pytest.mark.parametrize("meta", ["not JSON", "[1]", {"source": "x"}])
def test_a_column_meta_that_is_not_ours_stays_what_it_is(tmp_path: Path, meta: object) -> None:
    (question,) = read(tmp_path, [{"id": "q", "all_answers": ["a"], "meta": meta}])
    assert question.meta == {"meta": meta}


def test_bytes_are_read_as_their_text(tmp_path: Path) -> None:
    row = {"id": "q", "gold_answer": b"4", "question": b"2 + 2?", "all_answers": ["4", "5"]}
    (question,) = read(tmp_path, [row])
    assert (question.gold, question.question) == ("4", "2 + 2?")
    for name in ("gold_answer", "question"):
        with pytest.raises(LogError, match="not UTF-8 text"):
            read(tmp_path, [row | {name: b"\xff"}])


def test_a_damaged_row_group_amid_many_names_its_file_in_one_line(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "gold_answer": "7", "all_answers": ["7", str(n), None]} for n in range(4000)]
    path = tmp_path / "log.parquet"
    table = pyarrow.Table.from_pylist(rows)
    parquet.write_table(table, path, row_group_size=500, write_page_checksum=True)
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 64] = bytes(64)
    path.write_bytes(raw)
    with pytest.raises(LogError, match=r"log\.parquet is damaged \(") as refused:
        open_record(path)
    assert "\n" not in str(refused.value)


def test_a_pattern_and_the_address_of_a_folder_are_one_record(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "gold_answer": "7", "all_answers": ["7", str(n), None]} for n in range(60)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "whole.parquet")
    (tmp_path / "in" / "b").mkdir(parents=True)
    parquet.write_table(
        pyarrow.Table.from_pylist(rows[:25]), tmp_path / "in" / "a.parquet", row_group_size=10
    )
    parquet.write_table(pyarrow.Table.from_pylist(rows[25:]), tmp_path / "in" / "b" / "c.parquet")
    whole = open_record(tmp_path / "whole.parquet").ballot
    for several in (tmp_path / "in" / "**" / "*.parquet", Path(f"file://{tmp_path}/in")):
        found = open_record(several).ballot
        assert (found.votes.answers == whole.votes.answers).all()
        assert found.votes.correct is not None
        assert (found.votes.correct == whole.votes.correct).all()
        assert list(found.names) == [row["id"] for row in rows]
        assert [found.questions[row].answers for row in (0, 24, 25, 59)] == [
            ("7", str(n), None) for n in (0, 24, 25, 59)
        ]
    parquet.write_table(pyarrow.Table.from_pylist(rows[:1]), tmp_path / "in" / "d.parquet")
    with pytest.raises(LogError, match=r"in/d\.parquet: row 1: duplicate id 'q0'"):
        open_record(tmp_path / "in" / "**" / "*.parquet")
    # An address keeps both slashes, in what names the record and in what names the file at fault.
    address = f"file://{tmp_path}/in"
    with pytest.raises(LogError, match=f"^{address}/d.parquet: row 1: duplicate id 'q0'"):
        open_record(Path(address))
    assert open_record(Path(f"{address}/a.parquet")).path == f"{address}/a.parquet"
    with pytest.raises(LogError, match=f"^{address}/d.parquet is in no .* column 'x'"):
        open_record(Path(f"{address}/d.parquet"), Opening(columns="id=x"))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no/*.parquet", "no such file"),
        ("file:/none/at/all", "there is no Parquet file"),
        ("abc://x/y", "Unrecog"),
    ],
)
def test_several_files_that_are_not_there_are_one_line(path: str, said: str) -> None:
    with pytest.raises(LogError, match=said) as refused:
        open_record(Path(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("texts", [False, True])
def test_shares_of_the_row_groups_are_the_record_however_answers_are_read(
    tmp_path: Path, texts: bool
) -> None:
    """Nodes of a cluster read one each: a question in two of them would count twice."""
    rows: list[dict[str, Any]] = [
        {
            "id": f"q{i}",
            "gold_answer": str(i),
            "all_answers": [str(i + j % 2) for j in range(3)],
            "all_correct": [0, 1, 0],
        }
        | ({"all_texts": [f"The answer is {i + j % 2}" for j in range(3)]} if texts else {})
        for i in range(12)
    ]
    path = tmp_path / "votes.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    opening = Opening(answer_space="numeric", rescore=True)
    whole = read_share(path, opening, ignore)[-1]
    shares = [read_share(path, opening, ignore, (share, 4))[-1] for share in range(4)]
    assert [one.id for share in shares for one in share] == [one.id for one in whole]
    assert [one.answers for share in shares for one in share] == [one.answers for one in whole]
