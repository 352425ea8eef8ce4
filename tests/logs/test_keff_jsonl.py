"""The one-line-per-question JSONL: what is read, and what each bad line says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.log import Question, find_log

GOOD = {"id": "q1", "gold_answer": "4", "all_answers": ["4", None, "", "5"]}


def write(folder: Path, *rows: object) -> Path:
    file = folder / "log.jsonl"
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return file


def read(file: Path) -> list[Question]:
    return list(find_log(file).questions(file))


def test_all_fields_come_through_and_unknown_ones_are_kept(tmp_path: Path) -> None:
    row = GOOD | {
        "all_correct": [1, 0, 0, 0],
        "all_tokens": [3, 4, None, 6],
        "all_confidences": [0.5, 0.25, 1, 0],
        "slots": [0, 1, 0, 1],
        "cluster": "passage 7",
        "question": "2+2?",
        "all_temperatures": [0.5, 0.5, 1, 1],
    }
    (question,) = read(write(tmp_path, row))
    assert question.answers == ("4", None, None, "5")
    assert question.correct == (1, 0, 0, 0)
    assert question.tokens is not None
    assert question.tokens[:2] == (3, 4)
    assert question.tokens[2] != question.tokens[2]
    assert (question.slots, question.cluster, question.question) == ((0, 1, 0, 1), "passage 7", "2+2?")
    assert question.meta == {"all_temperatures": [0.5, 0.5, 1, 1]}


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([GOOD, "{not json"], r"log\.jsonl:2: not JSON"),
        ([GOOD, "[1, 2]"], r"log\.jsonl:2: expected a JSON object"),
        ([GOOD, {"id": "x"}], r"log\.jsonl:2: lacks all_answers \(it has id\)"),
        ([GOOD, GOOD], "duplicate id 'q1'"),
        ([GOOD | {"all_correct": [1]}], "all_correct has 1 entries for 4 answers"),
        ([GOOD | {"all_correct": [1, 0, 0, 2]}], "must hold 0 and 1 only"),
        ([GOOD | {"all_tokens": "many"}], "all_tokens must be a list"),
        ([GOOD | {"all_tokens": [1, 2, 3, "x"]}], "all_tokens must hold counts only, not 'x'"),
        ([GOOD | {"all_tokens": [1, 2, 3, float("inf")]}], "all_tokens must hold counts only, not inf"),
        ([GOOD | {"all_tokens": [1, 2, 3, 10**400]}], "all_tokens must hold counts only, not a huge number"),
        ([GOOD | {"all_tokens": [1, 2, 3, -4]}], "all_tokens must hold counts only, not -4"),
        (
            [GOOD | {"all_confidences": [1, 2, 3, "high"]}],
            "all_confidences must hold numbers only, not 'high'",
        ),
        ([GOOD | {"slots": [1, 2, 3, 3.5]}], "slots must hold integers only, not 3.5"),
        ([GOOD | {"slots": [1, 2, 3, 10**30]}], "slots must hold integers only"),
        ([GOOD | {"all_truncated": [0, 0, 0, None]}], "all_truncated must hold 0 and 1 only, not None"),
        ([], "the file is empty"),
        (["hello, world"], "no id and no answer column found .*: --columns id=hello,answer=world"),
        ([{"nr": "?", "answer": "1"}], "no id column found .*: --columns id=nr"),
    ],
)
def test_bad_files_say_where_and_what(tmp_path: Path, rows: list[object], line: str) -> None:
    with pytest.raises(LogError, match=line):
        read(write(tmp_path, *rows))


def test_a_missing_file_and_an_unknown_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="does not exist"):
        find_log(tmp_path / "nothing")
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")
    with pytest.raises(LogError, match="in no format that keff reads"):
        find_log(tmp_path / "x.bin")


@pytest.mark.slow
def test_every_recorded_file_is_read(recorded: list[Path]) -> None:
    for file in recorded:
        questions = read(file)
        assert len({len(question.answers) for question in questions}) >= 1
        assert all(question.correct is not None for question in questions)


def test_half_a_surrogate_pair_becomes_the_replacement_character(tmp_path: Path) -> None:
    (question,) = read(
        write(tmp_path, GOOD | {"id": "\ud83d", "all_answers": ["4", "\U0001f600", "x\udc00", None]})
    )
    assert question.id == "\ufffd"
    assert question.answers == ("4", "\U0001f600", "x\ufffd", None)


def test_what_a_row_says_about_the_log_is_text(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD | {"task": ["gsm8k"], "model": {"name": "m"}, "answer_space": None})
    info = find_log(file).info(file)
    assert (info.task, info.model, info.space) == ('["gsm8k"]', '{"name": "m"}', None)
