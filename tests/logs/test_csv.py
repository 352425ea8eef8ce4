"""CSV tables of one row per path and of one row per question."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.log import Question, find_log
from keff.logs.csv import CsvLog
from keff.records import Note

LONG = (
    "id,answer,gold_answer,correct,tokens,slot,text\nq1,4,4,1,10,0,so "
    "4\nq1,,4,0,,1,hm\nq2,5,6,false,9,0,5!\nq2,6,6,true,8,1,6!\n"
)
WIDE = "id;gold_answer;answer_1;answer_2;answer_10;correct_1;correct_2;correct_10\nq1;b;a;b;;0;1;0\n"


def read(folder: Path, text: str) -> tuple[list[Question], list[Note]]:
    file = folder / "log.csv"
    file.write_text(text)
    notes: list[Note] = []
    return list(find_log(file).questions(file, texts=True, tell=notes.append)), notes


def test_rows_of_one_path_are_gathered_by_id(tmp_path: Path) -> None:
    (first, second), notes = read(tmp_path, LONG)
    assert first.answers == ("4", None)
    assert first.correct == (1, 0)
    assert first.tokens is not None
    assert first.tokens[0] == 10
    assert first.tokens[1] != first.tokens[1]
    assert (first.slots, first.gold, first.texts) == ((0, 1), "4", ("so 4", "hm"))
    assert (second.correct, second.answers) == ((0, 1), ("5", "6"))
    assert notes == []


def test_a_file_written_again_at_the_same_time_is_read_again(tmp_path: Path) -> None:
    file, answers = tmp_path / "log.csv", list[str | None]()
    for text in ("id,answer\nq,4\n", "id,answer\nq,5\n"):
        file.write_text(text)
        os.utime(file, (2**32, 2**32))  # to come: however slow the test is, it was written just now
        answers += next(iter(find_log(file).questions(file))).answers
    assert answers == ["4", "5"]


def test_numbered_columns_are_ordered_by_number_and_delimiters_are_found(tmp_path: Path) -> None:
    (question,), _ = read(tmp_path, WIDE)
    assert question.answers == ("a", "b", None)
    assert question.correct == (0, 1, 0)


def test_a_torn_last_row_is_left_out_and_told_but_a_short_row_before_is_an_error(tmp_path: Path) -> None:
    (question,), notes = read(tmp_path, "id,answer\nq1,4\nq1")
    assert question.answers == ("4",)
    assert [note.code for note in notes] == ["torn_line"]
    with pytest.raises(LogError, match=r"log\.csv:2: 1 fields for 2 columns"):
        read(tmp_path, "id,answer\nq1\nq1,4\n")


def test_a_quoted_field_that_never_ends_is_torn(tmp_path: Path) -> None:
    found, notes = read(tmp_path, 'id,answer\nq1,4\nq2,"begun')
    assert [one.id for one in found] == ["q1"]
    assert [note.code for note in notes] == ["torn_line"]


def test_rows_of_repeated_runs_are_gathered_by_their_id(tmp_path: Path) -> None:
    found, _ = read(tmp_path, "id,answer\nq1,4\nq2,4\nq1,5\nq2,6\n")
    assert [(one.id, one.answers) for one in found] == [("q1", ("4", "5")), ("q2", ("4", "6"))]


def test_a_row_far_from_those_of_its_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"log\.csv:5: the id 'q1' came before: sort the rows by id"):
        read(tmp_path, "id,answer\nq1,4\nq1,4\nq2,4\nq1,5\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("nr,answer\n", "no id column found"), ("id,question\n", "no answer column found"), ("\n", "empty")],
)
def test_foreign_tables_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(LogError, match=reason):
        read(tmp_path, text)


def test_errors_name_the_line_where_the_row_begins(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"log\.csv:3: unexpected end of data"):
        read(tmp_path, 'id,answer\nq1,4\nq2,"begun\nq3,4\nq4,5\n')
    file = tmp_path / "log.csv"
    file.write_bytes(b"id,answer\nq1,4\nq1,5\nq2,\xe9\nq3,4\n")
    with pytest.raises(LogError, match=r"log\.csv:4: not UTF-8 text"):
        list(find_log(file).questions(file))


def test_a_column_that_occurs_twice_is_no_guess(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="the column 'answer' occurs twice"):
        read(tmp_path, "id,answer,answer\nq1,4,5\n")


@pytest.mark.parametrize(
    "text", ["\n\n  \nid,answer\nq1,4\nq1,5\n", "\r\n\r\nid,answer\r\n\r\nq1,4\r\nq1,5\r\n"]
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_blank_lines_above_the_header_are_skipped(tmp_path: Path, text: str, mark: str) -> None:
    file = tmp_path / "log.csv"
    file.write_bytes((mark + text).encode())
    (question,) = find_log(file).questions(file)
    assert question.answers == ("4", "5")


def test_lines_are_counted_with_the_blank_ones_above(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"log\.csv:5: 1 fields for 2 columns"):
        read(tmp_path, "\n\nid,answer\nq1,4\nq1\nq1,5\n")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [LONG, '{"id": "q1", "all_answers": ["4"]}\n'], ids=["csv", "jsonl"])
@pytest.mark.parametrize("name", [None, "csv", "keff_jsonl"])
def test_utf_16_is_refused_in_one_clear_line(
    tmp_path: Path, encoding: str, text: str, name: str | None
) -> None:
    file = tmp_path / "log.txt"
    file.write_bytes(f"\ufeff{text}".encode(encoding))
    with pytest.raises(LogError, match=r"log\.txt: UTF-16 text: save it as UTF-8$"):
        find_log(file, name)


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "\n\nsep=;\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_separator_that_a_first_line_names_for_excel_is_taken(
    tmp_path: Path, line: str, end: str
) -> None:
    # By its header alone the separator would be the comma.
    rows = ["id;gold_answer;answer,of,the,model", "q1;4;4", "q1;4;5,0", "q2;1;1", "q2;1"]
    (tmp_path / "log.csv").write_text(line + end.join(rows), "utf-8", newline="")
    log = CsvLog({"answer": "answer,of,the,model"})
    notes: list[Note] = []
    found = list(log.questions(tmp_path / "log.csv", tell=notes.append))
    assert [(one.id, one.gold, one.answers) for one in found] == [
        ("q1", "4", ("4", "5,0")),
        ("q2", "1", ("1",)),
    ]
    last = len(rows) + line.count("\n")
    assert f"log.csv:{last}: the last line is incomplete" in notes[-1].message


def test_a_tab_is_named_as_a_separator_too(tmp_path: Path) -> None:
    (question,), _ = read(tmp_path, "sep=\t\nid\tanswer\nq1\t4\nq1\t5\n")
    assert question.answers == ("4", "5")
