"""Tables as strangers write them are read as they are meant, or refused with a remedy that works."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keff
from keff.errors import LogError
from keff.logs.csv import CsvLog
from keff.logs.parts.columns import lay_out
from keff.reading.open import Opening, Record, open_record

N, K = 12, 6
RNG = random.Random(7)
RIGHT = [[int(RNG.random() < 0.7) for _ in range(K)] for _ in range(N)]
ANSWERS = [["A" if right else "B" for right in row] for row in RIGHT]
PATHS = [(item, path) for item in range(N) for path in range(K)]


def rows(**more: str) -> list[dict[str, Any]]:
    """Return one row per path; ``more`` names further columns: what they hold -> their name."""
    return [
        {"id": f"q{item}", "answer": ANSWERS[item][path]}
        | {name: "A" if what == "gold" else bool(RIGHT[item][path]) for what, name in more.items()}
        for item, path in PATHS
    ]


def listed(answers: str, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"q{item}", answers: ANSWERS[item], **more} for item in range(N)]


def of(tmp_path: Path, value: Any, name: str = "log.jsonl", **options: Any) -> Record:
    file = tmp_path / name
    lines = name.endswith("l") and isinstance(value, list)
    file.write_text("\n".join(map(json.dumps, value)) if lines else json.dumps(value, indent=1))
    return open_record(file, Opening(**options))


def check(record: Record) -> None:
    assert record.ballot.votes.scored().tolist() == RIGHT


@pytest.mark.parametrize(
    "value",
    [
        rows(gold="target"),
        listed("all_answers", gold_answer="A"),
        listed("predictions", target="A"),
    ],
    ids=["paths", "own lists", "lists"],
)
def test_a_json_array_is_read_as_lines_are(tmp_path: Path, value: list[dict[str, Any]]) -> None:
    check(of(tmp_path, value, "log.json"))
    check(of(tmp_path, value))


@pytest.mark.parametrize("name", ["answers", "predictions", "Final Answers"])
def test_lists_may_have_names_in_the_plural(tmp_path: Path, name: str) -> None:
    check(of(tmp_path, listed(name, reference="A")))
    wide = [
        {"id": f"q{item}", "gold": "A"} | {f"{name}_{place}": value for place, value in enumerate(row)}
        for item, row in enumerate(ANSWERS)
    ]
    check(of(tmp_path, wide))


def test_rows_of_repeated_runs_need_no_order(tmp_path: Path) -> None:
    table = rows(gold="gold", correct="correct")
    by_run = [table[item * K + path] for path in range(K) for item in range(N)]
    check(of(tmp_path, by_run))


@pytest.mark.parametrize("kind", [list, np.array])
def test_lists_in_a_frame_are_paths(kind: Callable[[list[str]], object]) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    frame = pandas.DataFrame(
        [row | {"prediction": kind(row["prediction"])} for row in listed("prediction", target="A")]
    )
    said = keff.analyze(frame, settings=keff.Settings(k_max=4))
    assert (said.n, said.k) == (N, K)
    assert said.p == pytest.approx(sum(map(sum, RIGHT)) / (N * K))


def test_paths_that_were_not_drawn_are_no_wrong_ones(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "answer_1", "correct_1", "answer_2", "correct_2"])
        table.writerows([["a", "4", "1", "5", "0"], ["b", "4", "1", "", ""]])
    assert open_record(file, Opening(trim=1)).ballot.votes.scored().tolist() == [[1], [1]]
    assert [question.answers for question in CsvLog().questions(file)] == [("4", "5"), ("4",)]


@pytest.mark.parametrize("answer", ["answer", "answers"])
def test_an_answer_beside_completions_may_be_the_gold_answer(tmp_path: Path, answer: str) -> None:
    table = [
        {"id": f"q{item}", answer: "A", "output": f"It is {ANSWERS[item][path]}"} for item, path in PATHS
    ]
    with pytest.raises(LogError, match=f"say --columns gold_answer={answer},text=output, or answer={answer}"):
        of(tmp_path, table)
    meant = f"gold_answer={answer},text=output"
    check(of(tmp_path, table, columns=meant, answer_space="choice"))


def test_a_score_that_is_not_read_is_told(tmp_path: Path) -> None:
    table = rows(correct="score")
    (note,) = (one for one in of(tmp_path, table).ballot.notes if one.code == "score_unread")
    assert "--columns correct=score" in note.message
    check(of(tmp_path, table, columns="correct=score"))


def test_graded_scores_in_a_column_of_correctness_have_a_remedy(tmp_path: Path) -> None:
    table: list[Mapping[str, Any]] = [row | {"acc": 0.25} for row in rows(gold="gold")]
    with pytest.raises(
        LogError, match=r"must hold 0 and 1 only, not 0\.25 \(a wrong path is 0\): .* --columns score=NAME"
    ):
        of(tmp_path, table)
    check(of(tmp_path, table, columns="score=acc"))


def test_a_remedy_names_numbered_columns_by_their_stem() -> None:
    said = lay_out(["id", "gold", "draw_1", "draw_2"])
    assert isinstance(said, str) and said.endswith("--columns answer=draw")


def test_a_compressed_log_says_how_to_unpack_it(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(rows(gold="gold")[0]).encode()))
    with pytest.raises(LogError, match=r"is compressed: gunzip -k .*log\.jsonl\.gz, and read"):
        open_record(file)


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("log.zip", None, r"is compressed: unzip .*log\.zip, and read"),
        ("log.xlsx", None, "is a workbook: save its sheet as CSV"),
        ("log.csv", b"id,answer,gold\nq,caf\xe9,4\n", r"not UTF-8 text \(save it as UTF-8\)"),
        ("log.csv", b"0,1,1\n1,0,1\n", "no column names in the first line: write a header"),
        ("log.jsonl", b'{"id": "q", "answers": ["4", "5"], "tokens": [7, -1]}\n', "-1 .leave out what"),
    ],
)
def test_files_of_another_kind_say_what_to_do(
    tmp_path: Path, name: str, content: bytes | None, remedy: str
) -> None:
    if content is None:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("sheet.xml", "<x/>")
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=remedy):
        open_record(tmp_path / name)


def test_standard_input_and_pipes_are_to_be_written_to_a_file(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="save standard input to a file, and name that"):
        open_record("-")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LogError, match="is a pipe, and a log is read several times: write it to a file"):
        open_record(tmp_path / "pipe")


def test_choices_of_a_chat_server_are_the_paths(tmp_path: Path) -> None:
    told = [
        {
            "id": f"q{item}",
            "answer": "A",
            "choices": [
                {"index": n, "message": {"content": f"It is {a}"}} for n, a in enumerate(ANSWERS[item])
            ],
        }
        for item in range(N)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    votes = open_record(tmp_path / "log.jsonl", Opening(answer_space="choice")).ballot.votes
    assert votes.scored().tolist() == RIGHT


@pytest.mark.parametrize("tokens", [123, None])
def test_one_number_for_all_paths_of_a_question_is_said_to_be_left(tmp_path: Path, tokens: object) -> None:
    told = [row | {"tokens": tokens, "model": "m"} for row in listed("answers", gold="A")]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    ballot = open_record(tmp_path / "log.jsonl").ballot
    said = [note.message for note in ballot.notes if note.code == "one_for_all"]
    assert (
        said
        == ["tokens: keff cannot read one value for all paths of a question: write a list"][
            : tokens is not None
        ]
    )
    assert ballot.votes.tokens is None


def test_the_columns_of_a_binary_file_are_no_advice(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"nr": ["a"], "guess": ["4"]}), file)
    with pytest.raises(LogError, match=r"it has: nr, guess\). Name them: --columns id=nr,answer=guess"):
        open_record(file)
