"""Logs that the real tools wrote, against what their model said: correctness, p and c computed independently.

Reads the fixtures, or the folder in KEFF_REAL_LOGS that ``python -m tests.logs.real`` has just written.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keff.errors import LogError
from keff.gateway.vote.request_policy import terms_of
from keff.logs.parts.inspect_log import header
from keff.logs.parts.values import inner, number_or_none
from keff.plan import Plan
from keff.reading.open import Opening, Record, open_record
from keff.reading.several import open_records
from keff.sampling.manifest import Config
from keff.stats.voting.correlation import anova_c

FOLDER = Path(os.environ.get("KEFF_REAL_LOGS") or Path(__file__).parent / "fixtures" / "real")


def truth(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.truth").read_text())


def right(name: str, form: str = "is {}") -> dict[str, list[int]]:
    """Return by question, in the order of the epochs, whether the text that the model said is right."""
    rows: dict[str, list[int]] = {}
    for sample in sorted(truth(name)["samples"], key=lambda sample: sample["epoch"]):
        if not sample["error"]:
            rows.setdefault(sample["id"], []).append(
                int(sample["text"].endswith(form.format(sample["target"])))
            )
    return rows


def check(record: Record, expected: dict[str, list[int]]) -> None:
    votes = record.ballot.votes
    read = {
        question.id: row
        for question, row in zip(record.ballot.questions, votes.scored().tolist(), strict=True)
    }
    assert read == {name: row[: votes.k] for name, row in expected.items() if len(row) >= votes.k}
    y = np.array(list(read.values()), float)
    n, k = y.shape
    means = y.mean(axis=1)
    between = k * np.sum((means - y.mean()) ** 2) / (n - 1)
    within = np.sum((y - means[:, None]) ** 2) / (n * (k - 1))
    assert votes.p == pytest.approx(y.mean())
    assert anova_c(votes) == pytest.approx((between - within) / (between + (k - 1) * within))


@pytest.mark.parametrize("name", ["match.eval", "includes.eval", "graded.eval", "limit.eval", "partly.eval"])
def test_every_scorer_gives_what_the_model_said(name: str) -> None:
    record = open_record(FOLDER / f"inspect_{name}")
    check(record, right(f"inspect_{name}"))
    whole = name in ("includes.eval", "graded.eval")
    assert (record.ballot.votes.answers is None) == whole
    assert ("whole_completions" in {note.code for note in record.ballot.notes}) == whole


@pytest.mark.parametrize("name", ["includes.eval", "graded.eval"])
def test_whole_completions_are_read_by_an_answer_space(name: str) -> None:
    record = open_record(FOLDER / f"inspect_{name}", Opening(answer_space="numeric"))
    said = {(sample["id"], sample["epoch"]): sample["text"] for sample in truth(f"inspect_{name}")["samples"]}
    for question in record.ballot.questions:
        for place, answer in enumerate(question.answers):
            stated = re.search(r"The answer is (\d+)$", said[question.id, place + 1])
            assert answer == (stated[1] if stated else None)
    check(record, right(f"inspect_{name}"))


def test_letters_of_choices_are_answers() -> None:
    check(open_record(FOLDER / "inspect_choice.eval"), right("inspect_choice.eval", "ANSWER: {}"))


def test_a_judge_s_numbers_need_a_threshold() -> None:
    file = FOLDER / "inspect_judge.eval"
    with pytest.raises(LogError, match=r"graded scores, 3 to 9: .* --format inspect_ai:threshold=6"):
        open_record(file)
    check(open_record(file, Opening(threshold=6)), right("inspect_judge.eval"))


def test_one_scorer_of_several_and_one_part_of_its_score() -> None:
    file = FOLDER / "inspect_several.eval"
    with pytest.raises(LogError, match=r"scorer=NAME, of several\.right, several\.brief"):
        open_record(file)
    check(open_record(file, Opening(scorer="several.right")), right("inspect_several.eval"))
    check(open_record(file, Opening(scorer="match")), right("inspect_several.eval"))
    with pytest.raises(LogError, match="scorer=vibes: the scorers are several, match"):
        open_record(file, Opening(scorer="vibes"))


def test_partial_grades_are_wrong_and_said_unless_a_threshold_takes_them() -> None:
    file = FOLDER / "inspect_partly.eval"
    record = open_record(file)
    assert "partial_grades" in {note.code for note in record.ballot.notes}
    assert open_record(file, Opening(threshold=0.5)).ballot.votes.p > record.ballot.votes.p


def test_a_log_that_ended_with_an_error_says_how_much_is_missing() -> None:
    name = "inspect_stopped.eval"
    record = open_record(FOLDER / name, Opening(trim=1))
    (note,) = (note for note in record.ballot.notes if note.code == "log_status")
    held = len(truth(name)["samples"])
    assert "ended with status error" in note.message
    assert f"holds {held} of 15 samples" in note.message


def test_the_header_is_a_configuration_that_a_plan_can_be_served_by() -> None:
    record = open_record(FOLDER / "inspect_match.eval", Opening(answer_space="numeric"))
    assert record.info.config is not None
    assert Config.model_validate(record.info.config).sampling == {
        "temperature": 0.6,
        "top_p": 0.9,
        "max_tokens": 64,
        "stop": ["END"],
    }
    plan = Plan(
        policy="fixed:4",
        space="numeric",
        task={**record.info.config["task"], "options": dict(record.info.options)},
        config=dict(record.info.config),
        estimates={},
    )
    terms = terms_of(plan)
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "?"}], "temperature": 1.0}
    assert terms.apply(body) == ["temperature"]
    assert (body["top_p"], body["max_tokens"], body["stop"], body["model"]) == (0.9, 64, ["END"], "toy")
    assert body["messages"][0] == {"role": "system", "content": "You are brief."}


def test_the_frame_of_samples_agrees_with_its_log() -> None:
    pytest.importorskip("pyarrow")
    record = open_record(FOLDER / "inspect_samples_df.parquet")
    check(record, right("inspect_match.eval"))
    assert record.info.model == "drawer/toy"


def lm_eval_log(task: str) -> Path:
    return next(FOLDER.glob(f"**/samples_{task}_*.jsonl"))


@pytest.mark.parametrize(("task", "space"), [("gsm8k_toy", None), ("letters_toy", "choice")])
def test_lm_eval_repeats_are_what_the_server_said(task: str, space: str | None) -> None:
    record = open_record(lm_eval_log(task), Opening(answer_space=space))
    said: dict[str, list[str]] = {}
    for row in json.loads((FOLDER / "lm_eval.truth").read_text()):
        said.setdefault(row["prompt"], []).append(row["text"])
    rows = [json.loads(line) for line in lm_eval_log(task).read_text().splitlines()]
    by_id = {str(row["doc_id"]): row["doc"] for row in rows}
    expected: dict[str, list[int]] = {}
    for name, doc in by_id.items():
        question = doc["question"]
        if space:
            question += f" A. {doc['options'][0]} B. {doc['options'][1]}"
        wanted = "AB"[doc["label"]] if space else doc["answer"].rpartition("#### ")[2]
        expected[name] = [int(text.endswith(f"is {wanted}")) for text in said[question]]
    check(record, expected)
    assert record.info.model == "toy/model"
    assert record.info.config is not None
    assert record.info.config["sampling"]["temperature"] == 0.6
    assert record.info.options == {"system": "You are brief."}


def test_helm_outputs_and_trials_are_what_its_requests_say() -> None:
    record = open_record(FOLDER / "helm" / "sums" / "scenario_state.json", Opening(answer_space="numeric"))
    check(record, json.loads((FOLDER / "helm.truth").read_text()))
    assert record.info.model == "toy/model"
    assert record.ballot.votes.tokens is not None


def test_a_folder_of_logs_is_every_log_in_it() -> None:
    folder = lm_eval_log("gsm8k_toy").parent
    paths = {Path(record.path).name for record in open_records(folder, Opening(answer_space="exact"))}
    assert paths == {file.name for file in folder.glob("samples_*.jsonl")}


def test_epochs_that_a_policy_stopped_are_known_to_be() -> None:
    """The first epochs that all samples have are used: how many there are depends on what was said."""
    record = open_record(FOLDER / "inspect_settled.eval", Opening(answer_space="numeric"))
    assert record.info.stopped
    (note,) = (note for note in record.ballot.notes if note.code == "stopped_run")
    assert f"uses the first {record.ballot.votes.k} of each" in note.message
    saved = inner(header(FOLDER / "inspect_settled.eval"), "results", "early_stopping", "metadata")
    assert str(saved["policy"]).startswith("lead_k:2")
    assert number_or_none(saved["epochs_skipped"])
