"""Runs of HELM, in the form that its published source writes: scenario_state.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.errors import LogError
from keff.log import find_log
from keff.reading.open import Opening, open_record
from keff.reading.several import open_records

Row = dict[str, object]


def state(i: int, texts: list[str], trial: int = 0, seed: str | None = None, **more: object) -> Row:
    """Return a request state: ``dataclasses.asdict`` without what is None, as helm-run writes it."""
    instance = {
        "input": {"text": f"What is {i} + {i}?"},
        "references": [
            {"output": {"text": str(2 * i)}, "tags": ["correct"]},
            {"output": {"text": "0"}, "tags": []},
        ],
        "split": "test",
        "id": f"id{i}",
    }
    completions = [
        {
            "text": text,
            "logprob": 0,
            "tokens": [{"text": "a", "logprob": 0}] * 3,
            "finish_reason": {"reason": "length" if "boxed" in text else "stop"},
        }
        for text in texts
    ]
    request = {"model": "toy/m", "prompt": "?", "num_completions": len(texts)}
    return {
        "instance": instance,
        "train_trial_index": trial,
        "request": request if seed is None else {**request, "random": seed},
        "result": {
            "success": True,
            "embedding": [],
            "completions": completions,
            "cached": False,
            "request_time": 1.5,
        },
        "num_train_instances": 0,
        "prompt_truncated": False,
        **more,
    }


def log(folder: Path, states: list[Row], scenario: str = "toy:model=toy_m") -> Path:
    file = folder / scenario / "scenario_state.json"
    file.parent.mkdir(parents=True)
    spec = {"method": "generation", "num_outputs": 2, "model": "toy/m"}
    file.write_text(json.dumps({"adapter_spec": spec, "request_states": states}, indent=2))
    return file


def test_outputs_and_trials_are_the_paths(tmp_path: Path) -> None:
    states = [state(i, ["so 2", r"\boxed{4}"], seed=seed) for seed in (None, "1") for i in (1, 2)]
    record = open_record(log(tmp_path, states), Opening(answer_space="numeric"))
    assert record.info.model == "toy/m"
    assert record.ballot.votes.scored().tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    first = record.ballot.questions[0]
    assert (first.id, first.tokens, first.seconds) == ("id1", (3.0,) * 4, (1.5,) * 4)
    assert first.truncated == (0, 1, 0, 1)
    assert first.slots is None


def test_examples_drawn_anew_are_prompts_of_their_own(tmp_path: Path) -> None:
    file = log(tmp_path, [state(i, ["2", "so 4"], trial) for trial in (0, 1) for i in (1, 2)])
    record = open_record(file, Opening(answer_space="numeric"))
    assert record.ballot.questions[0].slots == (0, 0, 1, 1)


@pytest.mark.slow
def test_the_task_of_the_folder_reads_the_completions(tmp_path: Path) -> None:
    file = log(tmp_path, [state(i, ["#### 2", "#### 4"]) for i in (1, 2)], "gsm:model=toy_m")
    (record,) = open_records(file)
    assert record.info.task == "gsm8k"
    assert record.ballot.votes.scored().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("texts", "gold"),
    [([], None), ([""], None), (["7"], "7"), (["7", "seven"], ["7", "seven"]), (["", "7"], "7")],
)
def test_an_empty_reference_is_no_gold_answer(tmp_path: Path, texts: list[str], gold: object) -> None:
    references = [{"output": {"text": text}, "tags": ["correct"]} for text in texts]
    file = log(tmp_path, [state(1, ["7"], instance={"id": "q", "references": references})])
    assert [question.gold for question in find_log(file).questions(file)] == [gold]


def test_letters_of_options_are_the_gold_answers(tmp_path: Path) -> None:
    mapping = {"output_mapping": {"A": "0", "B": "2"}}
    record = open_record(log(tmp_path, [state(1, ["B", " A"], **mapping)]), Opening(answer_space="choice"))
    assert record.ballot.votes.scored().tolist() == [[1, 0]]


def test_failed_and_perturbed_requests_are_left_out_and_counted(tmp_path: Path) -> None:
    good = [state(i, ["2", "4"]) for i in (1, 2)]
    failed = state(3, ["2"]) | {"result": {"success": False, "completions": [], "error": "busy"}}
    perturbed = state(1, ["2"])
    perturbed["instance"] = {**perturbed["instance"], "perturbation": {"name": "typos"}}  # type: ignore[dict-item]
    record = open_record(log(tmp_path, [*good, failed, perturbed]), Opening(answer_space="numeric"))
    said = [note.message for note in record.ballot.notes if note.code == "left_out"]
    assert len(said) == 2
    assert "1 paths are left out: each failed" in said
    with pytest.raises(LogError, match=r"no path can be used: 1 times it failed"):
        open_record(log(tmp_path / "none", [failed]), Opening(answer_space="numeric"))


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([state(1, ["2"]), state(1, ["2"])], "asked twice in one trial"),
        ([state(1, ["2"], reference_index=0)], "options one by one"),
        ([state(1, ["2"]) | {"instance": {}}], "no id"),
        ([state(1, ["2"]) | {"train_trial_index": None}], "must be an integer"),
        ([], "request_states"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, states: list[Row], message: str) -> None:
    with pytest.raises(LogError, match=message):
        open_record(log(tmp_path, states), Opening(answer_space="numeric"))


def test_other_files_of_the_run_are_no_logs(tmp_path: Path) -> None:
    file = log(tmp_path, [state(1, ["2", "4"])])
    for name in ("run_spec", "scenario", "stats", "per_instance_stats"):
        file.with_name(f"{name}.json").write_text("[]")
    assert len(open_records(tmp_path, Opening(answer_space="numeric"))) == 1


@pytest.mark.parametrize("name", [{"a": 1}, ["a"], {}])
def test_an_instance_whose_id_is_no_text_is_refused(tmp_path: Path, name: object) -> None:
    states = [state(i, ["2", "2"]) for i in (1, 2)]
    states[0]["instance"]["id"] = name  # type: ignore[index]
    with pytest.raises(LogError, match="id"):
        open_record(log(tmp_path, states), Opening(answer_space="numeric"))
