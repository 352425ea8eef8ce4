"""Logs of batches, agents, traces and evaluations in other languages, against what is known to be in them."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai.types.chat import ChatCompletion

from command_line import keff
from keff.errors import LogError
from keff.reading.open import Opening, Record, open_record
from keff.reading.repeated import scored_logs
from keff.reading.several import open_records

RECORDED = Path(__file__).parent / "fixtures" / "real"
REAL = Path(os.environ.get("KEFF_REAL_LOGS") or RECORDED)


def lines(file: Path, rows: list[Any]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def notes(record: Record) -> dict[str, str]:
    return {note.code: note.message for note in record.ballot.notes}


def chat(*texts: str, cut: bool = False) -> dict[str, Any]:
    """Return a chat completion as the openai package writes it."""
    choices = [
        {
            "index": place,
            "finish_reason": "length" if cut else "stop",
            "message": {"role": "assistant", "content": text},
        }
        for place, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    made = {"id": "c", "created": 1, "model": "m-1", "object": "chat.completion", "usage": usage}
    return ChatCompletion.model_validate({**made, "choices": choices}).model_dump(mode="json")


def batch(name: str, body: dict[str, Any] | None, status: int = 200) -> dict[str, Any]:
    response = None if body is None else {"status_code": status, "request_id": "r", "body": body}
    error = {"code": "batch_expired", "message": "late"} if body is None else None
    return {"id": "batch_req_1", "custom_id": name, "response": response, "error": error}


@pytest.mark.parametrize("name", ["otel_spans.jsonl", "otel_otlp.jsonl", "mlflow_traces.jsonl"])
def test_traces_are_what_was_said(name: str) -> None:
    truth = json.loads((REAL / f"{name.split('_')[0]}.truth").read_text())
    record = open_record(REAL / name, Opening(answer_space="numeric"))
    found = {
        (question.question, answer, right)
        for question, row in zip(record.ballot.questions, record.ballot.votes.scored(), strict=True)
        for answer, right in zip(question.answers, row, strict=True)
    }
    assert found == {(question, said.split()[-1], right) for question, said, right in truth}
    assert (record.ballot.votes.n, record.ballot.votes.k) == (3, 3)
    assert record.ballot.votes.p == pytest.approx(sum(right for *_, right in truth) / len(truth))
    if name.startswith("mlflow"):
        assert {question.gold for question in record.ballot.questions} == {"6", "8", "10"}
    else:
        assert record.info.model == "toy-1"
        assert record.ballot.votes.tokens is not None


@pytest.mark.parametrize("name", ["otel_spans.jsonl", "otel_otlp.jsonl", "mlflow_traces.jsonl"])
def test_what_was_exported_twice_counts_once(name: str, tmp_path: Path) -> None:
    """Exports of overlapping times are put together by cat."""
    whole = (REAL / name).read_text()
    file = tmp_path / name
    file.write_text(whole + "".join(whole.splitlines(keepends=True)[2:5]))
    record = open_record(file, Opening(answer_space="numeric"))
    assert record.ballot.votes.k == 3
    assert notes(record)["left_out"] == "3 paths are left out: each was written before"


def test_an_otlp_document_over_many_lines_is_read_too(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (REAL / "otel_otlp.jsonl").read_text().splitlines()]
    whole = {"resourceSpans": [each for row in rows for each in row["resourceSpans"]]}
    file = tmp_path / "spans.json"
    file.write_text(json.dumps(whole, indent=2))
    votes = open_record(file, Opening(answer_space="numeric")).ballot.votes
    first = open_record(REAL / "otel_otlp.jsonl", Opening(answer_space="numeric")).ballot.votes
    assert votes.scored().tolist() == first.scored().tolist()


def test_calls_that_kept_no_messages_are_counted(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (REAL / "otel_spans.jsonl").read_text().splitlines()]
    del rows[0]["attributes"]["gen_ai.output.messages"]
    rows.append({"name": "GET /", "context": {}, "attributes": {"http.method": "GET"}})
    record = open_record(lines(tmp_path / "spans.jsonl", rows), Opening(answer_space="numeric", trim=2))
    assert notes(record)["left_out"].startswith("1 paths are left out: each kept no messages")
    for row in rows:
        row["attributes"] = {"gen_ai.operation.name": "chat"}
    with pytest.raises(LogError, match="10 times it kept no messages"):
        open_record(lines(tmp_path / "none.jsonl", rows))


def test_repeats_of_promptfoo_are_paths_of_one_test() -> None:
    results = json.loads((RECORDED / "promptfoo.json").read_text())["results"]["results"]
    record = open_record(RECORDED / "promptfoo.json", Opening(answer_space="numeric"))
    said: dict[str, list[tuple[str, bool]]] = {}
    for result in results:
        answer = result["response"]["output"].split()[-1]
        said.setdefault(result["prompt"]["raw"], []).append((answer, result["success"]))
    assert {
        question.question: list(zip(question.answers, row, strict=True))
        for question, row in zip(
            record.ballot.questions, record.ballot.votes.scored().astype(bool).tolist(), strict=True
        )
    } == said
    assert record.info.model == "mock-model"


def test_several_providers_of_promptfoo_are_branches(tmp_path: Path) -> None:
    content = json.loads((RECORDED / "promptfoo.json").read_text())
    results = content["results"]["results"]
    others = json.loads(json.dumps(results))
    for result in others:
        result["provider"]["label"] = "other"
        result["id"] += "-other"
    for result in others[::3]:
        result |= {"failureReason": 2, "success": False}
    content["results"]["results"] = results + others
    file = tmp_path / "results.json"
    file.write_text(json.dumps(content))
    records = open_records(file, Opening(answer_space="numeric"))
    assert [record.info.model for record in records] == ["mock-model", "other"]
    assert [record.ballot.votes.k for record in records] == [3, 2]
    assert "3 paths are left out: each failed" in notes(records[0])["left_out"]


def test_choices_and_numbered_requests_of_a_batch_are_paths(tmp_path: Path) -> None:
    several = lines(tmp_path / "n.jsonl", [batch(f"request-{i}", chat("It is 4", "so 5")) for i in range(3)])
    record = open_record(several, Opening(answer_space="numeric"))
    assert [question.answers for question in record.ballot.questions] == [("4", "5")] * 3
    assert record.info.model == "m-1"
    assert record.ballot.votes.tokens is None
    names = [f"q{i}-repeat-{j}" for j in range(3) for i in range(2)]
    rows = [batch(name, chat(f"It is {len(name)}", cut=name == "q1-repeat-2")) for name in names]
    numbered = open_record(lines(tmp_path / "one.jsonl", rows), Opening(answer_space="numeric"))
    assert (numbered.ballot.votes.n, numbered.ballot.votes.k) == (2, 3)
    assert [question.id for question in numbered.ballot.questions] == ["q0", "q1"]
    assert numbered.ballot.questions[1].truncated == (0, 0, 1)
    assert numbered.ballot.votes.tokens is not None
    assert "numbered_requests" in notes(numbered)
    rows = [batch(f"gsm8k-sample-{i}", chat("It is 4")) for i in range(3)]
    apart = open_record(lines(tmp_path / "apart.jsonl", rows), Opening(answer_space="numeric"))
    assert (apart.ballot.votes.n, apart.ballot.votes.k) == (3, 1)


@pytest.mark.parametrize(
    "form", ["q{}#{}", "q{}-attempt{}", "{}_try_{}", "task-{}/rollout-{}", "q{}.Trial{}", "q{}:run_{}"]
)
def test_ids_of_a_batch_that_name_a_repeat_are_its_paths(tmp_path: Path, form: str) -> None:
    rows = [batch(form.format(i, j), chat(f"It is {i + j % 2}")) for j in range(3) for i in range(4)]
    record = open_record(lines(tmp_path / "batch.jsonl", rows), Opening(answer_space="numeric"))
    assert [question.answers for question in record.ballot.questions] == [
        (str(i), str(i + 1), str(i)) for i in range(4)
    ]


@pytest.mark.parametrize("form", ["q{}-{}", "q{}_sample_{}", "req-{}.{}"])
def test_ids_of_a_batch_that_may_name_a_repeat_are_said(tmp_path: Path, form: str) -> None:
    """The number may as well be that of the question in one of several data sets."""
    rows = [batch(form.format(i, j), chat("It is 4")) for j in range(3) for i in range(4)]
    record = open_record(lines(tmp_path / "batch.jsonl", rows), Opening(answer_space="numeric"))
    assert record.ballot.votes.k == 1
    was, better = re.findall(r"write (\S+) as (\S+)", notes(record)["unnumbered_requests"])[0]
    assert was == form.format(0, 0)
    # What it recommends works.
    for row in rows:
        row["custom_id"] = re.sub(r"(?:_sample_|[-_.])(\d+)$", r"#\1", row["custom_id"])
    assert rows[0]["custom_id"] == better
    again = open_record(lines(tmp_path / "again.jsonl", rows), Opening(answer_space="numeric"))
    assert (again.ballot.votes.n, again.ballot.votes.k) == (4, 3)


def test_failed_requests_of_a_batch_are_counted_and_advice_names_what_to_do(tmp_path: Path) -> None:
    rows = [
        batch("a#0", chat("4")),
        batch("a#1", chat("5")),
        batch("a#2", None),
        batch("a#3", {"error": "busy"}, 500),
    ]
    file = lines(tmp_path / "batch.jsonl", rows)
    record = open_record(file, Opening(answer_space="numeric"))
    assert notes(record)["left_out"].startswith("2 paths are left out")
    done = keff("analyze", file)
    assert "answer-space json" not in done.stderr
    assert (done.returncode, "--answer-space" in done.stderr) == (2, True)
    with pytest.raises(LogError, match="no path can be used: 1 times it failed"):
        open_record(lines(tmp_path / "none.jsonl", rows[2:3]), Opening(answer_space="numeric"))


def test_responses_and_completions_of_a_batch_are_read(tmp_path: Path) -> None:
    part = {"type": "output_text", "text": "It is 4"}
    output = [{"type": "reasoning", "summary": []}, {"type": "message", "content": [part]}]
    response = {"object": "response", "model": "m", "output": output, "usage": {"output_tokens": 5}}
    completion = {"object": "text_completion", "choices": [{"text": "It is 5", "finish_reason": "stop"}]}
    rows = [batch("a", response), batch("b", completion)]
    record = open_record(lines(tmp_path / "batch.jsonl", rows), Opening(answer_space="numeric"))
    assert [question.answers for question in record.ballot.questions] == [("4",), ("5",)]


def recorded(name: str) -> Any:
    """Return what the script that recorded a file knows to be right."""
    return json.loads((RECORDED / f"{name}.truth").read_text())


def test_outputs_of_vllm_are_paths_of_their_prompt(tmp_path: Path) -> None:
    truth = recorded("vllm")
    record = open_record(RECORDED / "vllm_outputs.jsonl", Opening(answer_space="numeric"))
    for question, said in zip(record.ballot.questions, truth.values(), strict=True):
        assert [*question.answers] == [answer for answer, _ in said]
        assert question.confidences == pytest.approx([confidence for _, confidence in said])
        assert question.truncated == tuple(int(answer is None) for answer, _ in said)
    assert [question.question for question in record.ballot.questions] == list(truth)
    # A second session numbers its requests anew: its paths are further ones of the same prompts.
    rows = [json.loads(line) for line in (RECORDED / "vllm_outputs.jsonl").read_text().splitlines()]
    again = json.loads(json.dumps(rows))
    for row in again:
        row["request_id"] += "9"
    again[0]["outputs"][0]["finish_reason"] = None
    array = tmp_path / "outputs.json"
    array.write_text(json.dumps(rows + again, indent=1))
    for file in (array, lines(tmp_path / "outputs.jsonl", rows + again)):
        record = open_record(file, Opening(answer_space="numeric", trim=5))
        assert [question.answers[:3] for question in record.ballot.questions] == [
            tuple(answer for answer, _ in said) for said in truth.values()
        ]
        assert "1 paths are left out: each did not finish" in notes(record)["left_out"]


def test_the_batch_that_vllm_wrote_is_read() -> None:
    record = open_record(RECORDED / "vllm_batch.jsonl", Opening(answer_space="numeric"))
    assert [question.id for question in record.ballot.questions] == ["q0", "q1", "q2"]
    assert [question.answers for question in record.ballot.questions] == [
        tuple(answer for answer, _ in said) for said in recorded("vllm").values()
    ]
    # The fourth request of each question was refused.
    assert notes(record)["left_out"].startswith("3 paths are left out: each failed")
    assert "numbered_requests" in notes(record)


@pytest.mark.parametrize("name", ["tau_bench", "tau2"])
def test_trials_of_tau_bench_and_tau2_are_right_or_wrong(name: str, tmp_path: Path) -> None:
    record = open_record(RECORDED / f"{name}.json")
    rows = {question.id: list(question.correct or ()) for question in record.ballot.questions}
    assert rows == recorded(name)
    assert record.info.model == ("openai/toy-1" if name == "tau2" else None)
    content = json.loads((RECORDED / f"{name}.json").read_text())
    runs = content["simulations"] if name == "tau2" else content
    for run in runs:
        kept = run["reward_info"] if name == "tau2" else run
        kept["reward"] = 1 - 1e-7 if kept["reward"] else 0.4
    runs.reverse()
    lost = {**runs[0], "trial": 9, "reward": None, "reward_info": None}
    runs.append({**lost, "termination_reason": "infrastructure_error", "messages": []})
    file = tmp_path / "results.json"
    file.write_text(json.dumps(content))
    again = open_record(file)
    assert {question.id: list(question.correct or ()) for question in again.ballot.questions} == rows
    assert open_record(file, Opening(threshold=0.4)).ballot.votes.p == 1
    assert "has no reward" in notes(again)["left_out"]


def test_results_of_bfcl_are_scored_by_the_file_beside_them(tmp_path: Path) -> None:
    truth = recorded("bfcl")
    for repeat in range(2):
        folder = tmp_path / f"run{repeat}"
        shutil.copytree(RECORDED / f"bfcl{repeat}", folder)
        (results,) = folder.rglob("*_result.json")
        (score,) = folder.rglob("*_score.json")
        record = open_record(results)
        assert {question.id: (question.correct or ())[0] for question in record.ballot.questions} == {
            name: right[repeat] for name, right in truth.items()
        }
        assert record.info.model == "openbmb_MiniCPM-SALA-FC"
        assert record.ballot.votes.tokens is not None
        score.write_text("".join(score.read_text().splitlines(keepends=True)[1:]))
        with pytest.raises(LogError, match="is it a score file"):
            open_record(results)
        score.unlink()
        assert open_record(results).ballot.votes.correct is None


def test_graded_scores_of_other_tools_are_repeats_as_they_are(tmp_path: Path) -> None:
    """A number that is neither right nor wrong needs no threshold where scores are what is asked about."""
    graded = REAL / "inspect_judge.eval"
    said = scored_logs(graded)[0].repeats
    right = open_record(graded, Opening(threshold=6)).ballot.votes.scored()
    assert said.scale == (1.0, 10.0)
    np.testing.assert_allclose(said.mean, (3 + 6 * right.mean(axis=1) - 1) / 9)
    rows = [json.loads(line) for line in (REAL / "mlflow_traces.jsonl").read_text().splitlines()]
    values = np.random.default_rng(0).integers(1, 5, len(rows)) / 4
    for row, value in zip(rows, values, strict=True):
        for each in row["info"]["assessments"]:
            if "feedback" in each:
                each["feedback"]["value"] = float(value)
    traces = scored_logs(lines(tmp_path / "traces.jsonl", rows))[0].repeats
    assert traces.mean.sum() * 3 == pytest.approx(values.sum())
    with pytest.raises(LogError, match="--format mlflow:threshold="):
        open_record(tmp_path / "traces.jsonl")
    table = tmp_path / "scores.csv"
    table.write_text("id,score\n" + "".join(f"q{i % 3},{value}\n" for i, value in enumerate(sorted(values))))
    assert scored_logs(table)[0].repeats.mean.mean() == pytest.approx(values.mean())


def test_the_index_of_a_folder_of_simulations_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    index = [
        {"id": "s", "task_id": 7, "trial": trial, "reward": trial % 2, "duration": 1.5} for trial in (0, 1)
    ]
    info = {"user_info": {}, "agent_info": {"llm": "m"}}
    file.write_text(json.dumps({"timestamp": "t", "info": info, "tasks": [], "simulation_index": index}))
    assert open_record(file).ballot.votes.scored().tolist() == [[0, 1]]
