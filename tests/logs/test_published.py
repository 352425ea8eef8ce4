"""The paper's published layout: scoring of stored answers, parts, and everything that may not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keff.errors import LogError
from keff.log import Question, find_log
from keff.logs.published import BY_TASK, SCORERS, question_of, survey
from keff.paper.records import Series
from keff.reading.open import Opening, open_record
from keff.records import Note
from published_records import Truth, provenance, series_rows

SERIES = Series("llama8b", "gsm8k", (42, 123), 1024)


def row(task: str, gold: Any, answers: list[Any], **fields: Any) -> dict[str, Any]:
    base = {
        "task": task,
        "method": "sc",
        "seed": 42,
        "instance_id": "i1",
        "K": len(answers),
        "gold_answer": gold,
    }
    return base | {"all_answers": answers} | fields


def write(folder: Path, *rows: dict[str, Any] | str) -> Path:
    file = folder / "records.jsonl"
    file.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in rows))
    return file


def read(folder: Path, *rows: dict[str, Any] | str) -> list[Question]:
    file = write(folder, *rows)
    return list(find_log(file).questions(file))


@pytest.mark.parametrize(
    ("task", "gold", "right", "wrong"),
    [
        ("gsm8k", "1800", ["1800", "1,800", "1800.", "1800.0005"], ["1800.01", "180", None, "none"]),
        ("boolq", "yes", ["Yes.", "yes", "YES"], ["no", "maybe", None]),
        (
            "hotpotqa",
            "Chief of Protocol",
            ["the chief of protocol", "Chief Protocol"],
            ["officer", "protocol officer"],
        ),
        ("arc_challenge", "B", ["B", "b"], ["A", None]),
        ("math", r"\frac{1}{2}", [r"\frac12", r"\dfrac{1}{2}"], ["2", None]),
        ("cruxeval", "[1, 2]", ["[1,2]"], ["[2, 1]", None]),
        ("triviaqa", ["Paris", "City of Light"], ["paris", "the City of Light"], ["Lyon"]),
    ],
)
def test_stored_answers_are_scored_as_published(
    tmp_path: Path, task: str, gold: Any, right: list[str], wrong: list[Any]
) -> None:
    (question,) = read(tmp_path, row(task, gold, right + wrong))
    assert question.correct == (1,) * len(right) + (0,) * len(wrong)


def test_a_judged_pair_is_remembered_with_its_gold_answer_and_its_scorer() -> None:
    asked = [("gsm8k", "4"), ("gsm8k", "5"), ("gsm8k", ["5", "4"]), ("triviaqa", "4"), ("gsm8k", "4")]
    rows = [row(task, gold, ["about 4"], instance_id=f"i{n}") for n, (task, gold) in enumerate(asked)]
    correct = [question_of("file:1", each).correct for each in rows]
    assert correct == [(1,), (0,), (1,), (0,), (1,)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 57.0, -0.1])
def test_f1_scores_that_are_none_are_refused_with_file_and_line(tmp_path: Path, value: float) -> None:
    good = row("drop", "x", ["a", "b"], all_f1s=[0.5, 0.2])
    bad = row("drop", "x", ["a", "b"], all_f1s=[0.5, value], instance_id="i2")
    with pytest.raises(LogError, match=r"records\.jsonl:2: all_f1s must hold numbers from 0 to 1 only, not"):
        read(tmp_path, good, bad)


def test_nan_is_no_correctness(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"records\.jsonl:1: all_correct must hold 0 and 1 only"):
        read(tmp_path, row("mbpp", "x", ["a", "b"], all_correct=[1, float("nan")]))


def test_f1_scores_of_one_half_are_right_and_given_correctness_is_kept(tmp_path: Path) -> None:
    (question,) = read(tmp_path, row("drop", "x", ["a", "b", "c"], all_f1s=[0.5, 0.499, None]))
    assert question.correct == (1, 0, 0)
    line = row("mbpp", None, [], K=3, all_correct=[1, 0, 1])
    del line["all_answers"]
    (question,) = read(tmp_path, line)
    assert (question.correct, question.form) == ((1, 0, 1), "scores")
    votes = open_record(tmp_path / "records.jsonl").ballot.votes
    assert votes.answers is None
    assert votes.scored().tolist() == [[1, 0, 1]]


def test_truncated_paths_are_wrong_whatever_they_answered(tmp_path: Path) -> None:
    (question,) = read(tmp_path, row("gsm8k", "1", ["1", "1", "2"], truncated=[False, True, True]))
    assert question.correct == (1, 0, 0)
    assert question.truncated == (0, 1, 1)


def test_seeds_of_one_instance_are_one_cluster_and_templates_are_slots(tmp_path: Path) -> None:
    first, second = read(
        tmp_path,
        row("gsm8k", "1", ["1", "2"]),
        row("gsm8k", "1", ["1", "2"], seed=7, method="sc_prompttpl"),
    )
    assert first.cluster == second.cluster == "i1"
    assert first.id != second.id
    assert (first.slots, second.slots) == (None, (1, 2))


def test_a_file_of_several_records_asks_which_and_reads_the_one_that_is_named(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        row("gsm8k", "1", ["1", "2"]),
        row("math", "1", ["1", "1"]),
        row("gsm8k", "1", ["2", "2"], method="sc_prompttpl"),
    )
    with pytest.raises(
        LogError, match=r"several records: name one of them, gsm8k/sc, gsm8k/sc_prompttpl, math/sc"
    ):
        open_record(file)
    assert open_record(file, Opening(part="math")).ballot.votes.scored().tolist() == [[1, 1]]
    assert open_record(file, Opening(part="sc_prompttpl")).ballot.votes.scored().tolist() == [[0, 0]]
    with pytest.raises(LogError, match="no part 'boolq'"):
        open_record(file, Opening(part="boolq"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([row("gsm8k", "1", ["1"], K=8)], ":1: all_answers has 1 entries, K is 8"),
        ([row("gsm8k", "1", ["1"], gen_lens=[1, 2])], ":1: gen_lens has 2 entries, K is 1"),
        ([row("gsm8k", "1", ["1"], all_traces="x")], ":1: all_traces has no list"),
        ([row("gsm8k", "1", ["1"], all_correct=[2])], ":1: all_correct must hold 0 and 1"),
        ([row("gsm8k", "1", ["1"], all_correct=[10**400])], ":1: all_correct must hold 0 and 1 only"),
        ([row("gsm8k", "1", ["1"]), row("gsm8k", "1", ["1"], seed=None)], ":2: lacks seed"),
        ([row("gsm8k", "1", ["1"]), "{bad"], ":2: not JSON"),
        ([row("gsm8k", "1", ["1"])] * 2, ":2: duplicate id 'i1@42'"),
        ([row("mbpp", "1", ["1"])], "must run code: the record needs all_correct"),
        ([row("riddles", "1", ["1"])], "unknown scorer 'riddles'; there are gsm8k_numeric"),
        (
            [row("gsm8k", "1", ["1"], provenance={"scorer": "vibes"})],
            ":1: unknown scorer 'vibes'; there are gsm8k_numeric",
        ),
        (
            [
                row("gsm8k", "1", ["1"], provenance=provenance(1024, "gsm8k_numeric")),
                row("gsm8k", "1", ["1"], seed=1, provenance=provenance(512, "gsm8k_numeric")),
            ],
            ":2: mixed provenance: max_new_tokens 1024 -> 512",
        ),
        ([row("gsm8k", "1", ["1"], gen_lens=["x"])], ":1: gen_lens must hold counts only, not 'x'"),
        ([row("gsm8k", "1", ["1"], gen_lens=[1e300])], ":1: gen_lens must hold counts only"),
        ([row("gsm8k", "1", ["1"], truncated=[None])], ":1: truncated must hold 0 and 1 only, not None"),
        ([row("gsm8k", "1", ["1"], K="1")], ":1: K must be a positive integer"),
        (
            [row("mbpp", "1", [], K=10**11, all_correct=[1])],
            ":1: all_answers has 0 entries, K is 100000000000",
        ),
        ([row("gsm8k", "1", ["1"], seed="x")], ":1: seed must be an integer, not 'x'"),
        ([row("gsm8k", "1", ["1"], instance_id=["i1"])], ":1: instance_id must be a name"),
        ([row("gsm8k", None, ["1"])], ":1: lacks gold_answer"),
        ([row("gsm8k", "1", ["1"], provenance={"scorer": ["vibes"]})], ":1: unknown scorer"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, lines: list[Any], message: str) -> None:
    with pytest.raises(LogError, match=message):
        read(tmp_path, *lines)


def test_a_survey_lists_every_problem_of_a_file(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        row("gsm8k", "1", ["1"]),
        "{bad",
        row("gsm8k", "1", ["1"], K=2),
        row("gsm8k", "1", ["1"]),
        row("gsm8k", "2", ["1"], seed=5),
    )
    questions, _, problems = survey(file)
    assert [problem.split(":")[1] for problem in problems] == ["2", "3", "4"]
    assert [question.id for question in questions] == ["i1@42", "i1@42", "i1@5"]


def test_every_task_of_the_paper_has_a_published_scorer() -> None:
    assert set(BY_TASK.values()) == set(SCORERS)


def test_generated_records_give_back_what_they_hold(tmp_path: Path) -> None:
    rows = list(series_rows(SERIES, Truth(0.7, 0.4, trace=50), np.random.default_rng(1), instances=5))
    file = write(tmp_path, *rows)
    record = open_record(file, Opening(texts=True))
    assert (record.info.task, record.info.model) == ("gsm8k", "llama8b")
    for question, line in zip(record.ballot.questions, rows, strict=True):
        assert list(question.answers) == line["all_answers"]
        assert question.texts == tuple(line["all_traces"])
        assert question.tokens == tuple(line["gen_lens"])
        assert question.correct == tuple(int(answer == "18") for answer in line["all_answers"])


def test_a_survey_keeps_what_stands_before_a_torn_last_line(tmp_path: Path) -> None:
    file = write(tmp_path, row("gsm8k", "1", ["1"]), row("gsm8k", "1", ["1"], seed=5))
    file.write_bytes(file.read_bytes()[:-9])
    notes: list[Note] = []
    questions, _, problems = survey(file, notes.append)
    assert ([one.id for one in questions], problems) == (["i1@42"], [])
    assert [note.code for note in notes] == ["torn_line"]


def test_a_trace_that_is_no_text_is_read_as_one(tmp_path: Path) -> None:
    file = write(tmp_path, row("gsm8k", "1", ["1", None], all_traces=[5, None]))
    (question,) = find_log(file).questions(file, texts=True)
    assert question.texts == ("5", "")
