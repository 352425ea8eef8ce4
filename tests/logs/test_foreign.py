"""Logs of EvalScope, LightEval and Every Eval Ever, in the forms that these projects publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keff.errors import LogError
from keff.log import find_log
from keff.reading.open import Opening, open_record
from keff.reading.several import open_records


def right(i: int, j: int) -> int:
    return (i + j) % 2


def lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def instance(model: str, i: int, j: int) -> dict[str, Any]:
    text = "4" if right(i, j) else "5"
    attribution = {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": text,
        "extraction_method": "regex",
    }
    return {
        "schema_version": "0.2.1",
        "evaluation_id": f"toy/{model}/1",
        "model_id": model,
        "evaluation_name": "toy",
        "sample_id": f"s{i}",
        "interaction_type": "single_turn",
        "input": {"raw": "2+2?", "reference": ["4"]},
        "output": {"raw": [f"I think that it is {text}"]},
        "answer_attribution": [attribution | {"is_terminal": True}],
        "evaluation": {"score": float(right(i, j)), "is_correct": bool(right(i, j))},
        "token_usage": {"input_tokens": 3, "output_tokens": 6, "total_tokens": 9},
    }


def test_every_eval_ever_reads_the_repeats_of_each_model(tmp_path: Path) -> None:
    rows = [instance(model, i, j) for model in ("a/x", "b/y") for j in range(3) for i in range(4)]
    records = open_records(lines(tmp_path / "toy_samples.jsonl", rows))
    assert [record.info.model for record in records] == ["a/x", "b/y"]
    for record in records:
        assert record.ballot.votes.scored().tolist() == [[right(i, j) for j in range(3)] for i in range(4)]
        assert record.ballot.questions[0].answers == ("5", "4", "5")
        assert record.ballot.votes.tokens is not None


@pytest.mark.parametrize(
    ("reference", "gold"),
    [
        (None, None),
        ([], None),
        ("", None),
        ([""], None),
        ("4", "4"),
        (["4", "four"], ["4", "four"]),
        (["", "4"], ["4"]),
    ],
)
def test_every_eval_ever_takes_no_empty_reference(tmp_path: Path, reference: object, gold: object) -> None:
    file = lines(
        tmp_path / "a.jsonl", [instance("a/x", 0, 0) | {"input": {"raw": "?", "reference": reference}}]
    )
    assert [question.gold for question in find_log(file).questions(file)] == [gold]


def test_every_eval_ever_refuses_what_it_cannot_tell_apart(tmp_path: Path) -> None:
    row = instance("a/x", 0, 0)
    with pytest.raises(LogError, match="one score for 2 outputs"):
        open_record(lines(tmp_path / "a.jsonl", [row | {"output": {"raw": ["x", "y"]}}]))
    with pytest.raises(LogError, match="it holds the evaluations toy and other"):
        open_record(lines(tmp_path / "b.jsonl", [row, instance("a/x", 1, 0) | {"evaluation_name": "other"}]))
    record = open_record(lines(tmp_path / "c.jsonl", [row, instance("a/x", 0, 1) | {"error": "timeout"}]))
    assert "left_out" in {note.code for note in record.ballot.notes}


def review(i: int, j: int, value: Any) -> dict[str, Any]:
    score = {
        "value": {"acc": value},
        "extracted_prediction": str(4 + (1 - right(i, j))),
        "prediction": "so it is",
    }
    sample = {"score": score, "sample_id": 3 * i + j, "group_id": i}
    return {"index": 3 * i + j, "input": "2+2?", "target": "4", "sample_score": sample}


def test_evalscope_groups_are_the_questions(tmp_path: Path) -> None:
    rows = [review(i, j, float(right(i, j))) for i in range(4) for j in range(3)]
    record = open_record(lines(tmp_path / "reviews" / "toy-model" / "gsm8k_main.jsonl", rows))
    assert (record.info.task, record.info.model) == ("gsm8k", "toy-model")
    assert record.ballot.votes.scored().tolist() == [[right(i, j) for j in range(3)] for i in range(4)]
    assert record.ballot.questions[0].answers == ("5", "4", "5")


def test_evalscope_scores_between_0_and_1_need_a_threshold(tmp_path: Path) -> None:
    file = lines(tmp_path / "m" / "x.jsonl", [review(0, j, 0.2 + 0.5 * right(0, j)) for j in range(3)])
    with pytest.raises(LogError, match="evalscope:threshold="):
        open_record(file)
    assert open_record(file, Opening(threshold=0.5)).ballot.votes.scored().tolist() == [[0, 1, 0]]
    with pytest.raises(LogError, match="evalscope:scorer=NAME, of acc"):
        open_record(file, Opening(scorer="f1"))


@pytest.mark.parametrize("new", [True, False])
def test_lighteval_generations_are_the_paths(tmp_path: Path, new: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = ["The answer is 4", "The answer is 5"]
    row: dict[str, Any] = {"predictions": texts, "gold": ["4"], "full_prompt": "2+2?"}
    if new:
        row = {
            "doc": {"query": "2+2?", "choices": ["5", "4"], "gold_index": [1]},
            "model_response": {"text": texts, "text_post_processed": None},
        }
    file = (
        tmp_path
        / "details"
        / "org"
        / "model"
        / "t"
        / "details_lighteval|gsm8k|0_2026-01-01T00-00-00.000000.parquet"
    )
    file.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.Table.from_pylist([row, row]), file)
    record = open_record(file)
    assert (record.info.task, record.info.model) == ("gsm8k", "org/model")
    assert record.ballot.votes.scored().tolist() == [[1, 0], [1, 0]]
    assert record.ballot.questions[0].answers == ("4", "5")
