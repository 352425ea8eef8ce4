"""Logs that lm-evaluation-harness wrote (see fixtures/README.md), and what may be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.log import find_log
from keff.reading.open import Opening, open_record
from keff.records import Note

FIXTURE = next((Path(__file__).parent / "fixtures").glob("samples_gsm8k*.jsonl"))


def lines() -> list[dict[str, object]]:
    return [json.loads(line) for line in FIXTURE.read_text().splitlines()]


def rewritten(folder: Path, rows: list[dict[str, object]], name: str = FIXTURE.name) -> Path:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_repeats_are_read_again_by_our_task_and_filters_are_counted_once() -> None:
    record = open_record(FIXTURE)
    votes = record.ballot.votes
    assert len(lines()) == 10
    assert (votes.n, votes.k) == (5, 4)
    assert (record.info.task, record.ballot.reading.space) == ("gsm8k", "numeric")
    for question, row in zip(record.ballot.questions, lines(), strict=False):
        texts = row["resps"][0]  # type: ignore[index]
        assert question.gold == str(row["target"]).rpartition("#### ")[2]
        found = [text.removesuffix(".").rpartition(" ")[2] if "answer is" in text else None for text in texts]
        assert list(question.answers) == found
    right = [[answer == question.gold for answer in question.answers] for question in record.ballot.questions]
    assert votes.scored().tolist() == right


def test_the_first_filter_scores_the_first_repeat_as_we_do() -> None:
    by_id = {question.id: row for question, row in zip(*_questions_and_rows(), strict=True)}
    for name, row in by_id.items():
        expected = next(
            line for line in lines() if str(line["doc_id"]) == name and line["filter"] == "score-first"
        )
        assert float(row) == expected["exact_match"]


def _questions_and_rows() -> tuple[list[object], list[int]]:
    ballot = open_record(FIXTURE).ballot
    return list(ballot.questions), ballot.votes.scored()[:, 0].tolist()


def test_an_unknown_task_needs_an_answer_space(tmp_path: Path) -> None:
    file = rewritten(tmp_path, lines(), "samples_riddles_2026-01-01T00-00-00.jsonl")
    with pytest.raises(LogError, match="--answer-space"):
        open_record(file)
    assert open_record(file, Opening(answer_space="numeric")).ballot.votes.k == 4


def test_log_likelihoods_are_no_repeats(tmp_path: Path) -> None:
    rows = [row | {"resps": [[[-1.0, False]], [[-2.0, True]]]} for row in lines()]
    with pytest.raises(LogError, match=r":1: resps holds log-likelihoods"):
        open_record(rewritten(tmp_path, rows))


def test_one_text_for_all_repeats_is_told(tmp_path: Path) -> None:
    text = "We add the numbers and see that the answer is 12."
    rows = [row | {"resps": [[text] * 4]} for row in lines()]
    notes: list[Note] = []
    file = rewritten(tmp_path, rows)
    list(find_log(file).questions(file, tell=notes.append))
    assert [note.code for note in notes] == ["identical_paths"]


def test_a_torn_last_line_is_told_and_a_bad_one_before_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / FIXTURE.name
    text = FIXTURE.read_text()
    file.write_text(text[:-20])
    record = open_record(file)
    assert [note.code for note in record.ballot.notes] == ["torn_line"]
    file.write_text(text.replace('"resps"', "resps", 1))
    with pytest.raises(LogError, match="is in no format"):
        open_record(file)
    head, rest = text.split("\n", 1)
    file.write_text(head + "\n{" + rest)
    with pytest.raises(LogError, match=r"\.jsonl:2: not JSON"):
        open_record(file)


@pytest.mark.parametrize("metrics", [5, [["exact_match"]], None])
def test_a_strange_list_of_metrics_does_not_matter(tmp_path: Path, metrics: object) -> None:
    file = rewritten(tmp_path, [row | {"metrics": metrics} for row in lines()])
    assert open_record(file).ballot.votes.k == 4


def test_rows_without_an_id_or_without_repeats_are_errors(tmp_path: Path) -> None:
    first, *rest = lines()
    with pytest.raises(LogError, match=r":2: lacks doc_id"):
        open_record(rewritten(tmp_path, [first, {**rest[0], "doc_id": None}]))
    with pytest.raises(LogError, match=r":1: resps must be a list of lists"):
        open_record(rewritten(tmp_path, [first | {"resps": [[]]}]))
