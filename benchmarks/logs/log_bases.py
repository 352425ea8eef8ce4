"""One good log of every format that keff reads, small enough to be read ten thousand times, for log_fuzz.

Answers of different questions are different numbers, so a row that ends up with another question shows.
"""

from __future__ import annotations

import importlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keff.reading.transfer import export_log, import_log

N, K = 6, 4
Answers = list[list[str]]
JsonRow = dict[str, object]


@dataclass(frozen=True, slots=True)
class Base:
    """A good log: the reader's name, the file or folder that it reads, and the files that are mutated.

    ``kinds`` says by file how its bytes may be damaged: ``text``, ``unnumbered`` (text in which nothing
    numbers the paths of a question), ``binary`` (a container whose content is under checksums) or ``pages``
    (SQLite, which has none).
    """

    reader: str
    path: Path
    kinds: tuple[tuple[Path, str], ...]


def draws(seed: int = 3) -> Answers:
    """Return answers that all differ between questions."""
    rng = np.random.default_rng(seed)
    return [[f"{100 * i + int(rng.integers(0, 3))}" for _ in range(K)] for i in range(N)]


def gold(i: int) -> str:
    return f"{100 * i}"


def _lines(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def _each(answers: Answers) -> list[tuple[int, int, str]]:
    return [(i, j, answer) for i, row in enumerate(answers) for j, answer in enumerate(row)]


def _text(reader: str, path: Path, rows: Sequence[object]) -> Base:
    return Base(reader, _lines(path, rows), ((path, "text"),))


def keff_jsonl(folder: Path, answers: Answers) -> Base:
    rows = [
        {"id": f"q{i}", "gold_answer": gold(i), "all_answers": row, "all_tokens": [9] * K}
        for i, row in enumerate(answers)
    ]
    return _text("keff_jsonl", folder / "log.jsonl", rows)


def keff_jsonl_full(folder: Path, answers: Answers) -> Base:
    rows = [
        {
            "id": f"q{i}",
            "cluster": f"c{i // 2}",
            "gold_answer": gold(i),
            "all_answers": row,
            "all_keys": row,
            "all_correct": [int(answer == gold(i)) for answer in row],
            "all_seconds": [0.5] * K,
            "all_rules": ["marker"] * K,
            "slots": list(range(K)),
        }
        for i, row in enumerate(answers)
    ]
    return _text("keff_jsonl", folder / "full.jsonl", rows)


def _long(answers: Answers) -> list[JsonRow]:
    return [
        {"id": f"q{i}", "path": j, "gold_answer": gold(i), "answer": answer, "tokens": 9}
        for i, j, answer in _each(answers)
    ]


def jsonl(folder: Path, answers: Answers) -> Base:
    return _text("jsonl", folder / "long.jsonl", _long(answers))


def csv(folder: Path, answers: Answers) -> Base:
    long = _long(answers)
    rows = [",".join(long[0]), *(",".join(map(str, row.values())) for row in long)]
    return _text("csv", folder / "long.csv", [f"{row}\n" for row in rows])


def csv_wide(folder: Path, answers: Answers) -> Base:
    head = ["id", "gold_answer", *(f"answer_{j + 1}" for j in range(K))]
    rows = [head, *([f"q{i}", gold(i), *row] for i, row in enumerate(answers))]
    return _text("csv", folder / "wide.csv", [",".join(row) + "\n" for row in rows])


def lm_eval(folder: Path, answers: Answers) -> Base:
    rows = [
        {"doc_id": i, "doc": {}, "target": gold(i), "resps": [row], "filter": "x"}
        for i, row in enumerate(answers)
    ]
    return _text("lm_eval", folder / "samples_toy_2026-01-01T00-00-00.jsonl", rows)


def published(folder: Path, answers: Answers) -> Base:
    about = {"task": "gsm8k", "method": "sc", "seed": 1, "K": K}
    rows = [
        {**about, "instance_id": f"q{i}", "gold_answer": gold(i), "all_answers": row}
        for i, row in enumerate(answers)
    ]
    return _text("published", folder / "m_sc.jsonl", rows)


def evalscope(folder: Path, answers: Answers) -> Base:
    def review(i: int, j: int, answer: str) -> JsonRow:
        score = {
            "value": {"acc": float(answer == gold(i))},
            "extracted_prediction": answer,
            "prediction": "so",
        }
        sample = {"sample_id": K * i + j, "group_id": i, "score": score}
        return {"index": K * i + j, "input": "?", "target": gold(i), "sample_score": sample}

    return _text("evalscope", folder / "reviews.jsonl", [review(*each) for each in _each(answers)])


def every_eval_ever(folder: Path, answers: Answers) -> Base:
    def instance(i: int, answer: str) -> JsonRow:
        attribution = {"turn_idx": 0, "source": "output.raw", "extracted_value": answer, "is_terminal": True}
        return {
            "schema_version": "0.2.1",
            "evaluation_id": "toy/m/1",
            "model_id": "m",
            "evaluation_name": "toy",
            "sample_id": f"s{i}",
            "interaction_type": "single_turn",
            "input": {"raw": "?", "reference": [gold(i)]},
            "output": {"raw": [f"It is {answer}"]},
            "answer_attribution": [attribution],
            "evaluation": {"score": float(answer == gold(i)), "is_correct": answer == gold(i)},
        }

    rows = [instance(i, answer) for i, _, answer in _each(answers)]
    path = _lines(folder / "toy_samples.jsonl", rows)
    return Base("every_eval_ever", path, ((path, "unnumbered"),))


def _sample(i: int, j: int, answer: str) -> JsonRow:
    score = {"value": "C" if answer == gold(i) else "I", "answer": answer}
    return {
        "id": f"q{i}",
        "epoch": j + 1,
        "input": "?",
        "target": gold(i),
        "output": {"completion": f"It is {answer}."},
        "scores": {"match": score},
    }


HEADER = {"version": 2, "status": "success", "eval": {"task": "toy", "model": "m/m"}}


def inspect_json(folder: Path, answers: Answers) -> Base:
    log = {**HEADER, "samples": [_sample(*each) for each in _each(answers)]}
    return _text("inspect_ai", folder / "log.json", [log])


def helm(folder: Path, answers: Answers) -> Base:
    def state(i: int, row: list[str]) -> JsonRow:
        references = [{"output": {"text": gold(i)}, "tags": ["correct"]}]
        completions = [{"text": answer, "logprob": 0, "tokens": []} for answer in row]
        return {
            "instance": {"input": {"text": "?"}, "references": references, "split": "test", "id": f"id{i}"},
            "train_trial_index": 0,
            "request": {"model": "m/m", "prompt": "?"},
            "result": {"success": True, "completions": completions, "cached": False},
        }

    states = [state(i, row) for i, row in enumerate(answers)]
    log = {"adapter_spec": {"method": "generation", "model": "m/m"}, "request_states": states}
    return _text("helm", folder / "scenario_state.json", [log])


def inspect_eval(folder: Path, answers: Answers) -> Base:
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        for i, j, answer in _each(answers):
            archive.writestr(f"samples/q{i}_epoch_{j + 1}.json", json.dumps(_sample(i, j, answer)))
    return Base("inspect_ai", path, ((path, "binary"),))


def _parquet(reader: str, path: Path, rows: Sequence[JsonRow]) -> Base:
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    # Without checksums a changed byte is another answer, which no reader can know.
    parquet.write_table(arrow.Table.from_pylist(list(rows)), path, write_page_checksum=True)
    return Base(reader, path, ((path, "binary"),))


def parquet(folder: Path, answers: Answers) -> Base:
    path = folder / "log.parquet"
    export_log(keff_jsonl(folder, answers).path, path)
    return Base("parquet", path, ((path, "binary"),))


def parquet_long(folder: Path, answers: Answers) -> Base:
    return _parquet("parquet", folder / "long.parquet", _long(answers))


def inspect_samples(folder: Path, answers: Answers) -> Base:
    rows: list[JsonRow] = [
        {
            "sample_id": f"u{i}-{j}",
            "id": f"q{i}",
            "epoch": j + 1,
            "input": "?",
            "target": gold(i),
            "score_match": "C" if answer == gold(i) else "I",
            "model": "m",
        }
        for i, j, answer in _each(answers)
    ]
    return _parquet("inspect_samples", folder / "samples.parquet", rows)


def lighteval(folder: Path, answers: Answers) -> Base:
    rows: list[JsonRow] = [
        {
            "doc": {"query": "?", "choices": [gold(i)], "gold_index": [0]},
            "model_response": {"text": row, "text_post_processed": None},
        }
        for i, row in enumerate(answers)
    ]
    return _parquet("lighteval", folder / "details_toy_2026-01-01T00-00-00.parquet", rows)


def unsealed(run: Path) -> None:
    """Leave a run as a killed process does: without its seal."""
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["seal"] = None
    (run / "manifest.json").write_text(json.dumps(manifest, indent=2))


def run(folder: Path, answers: Answers) -> Base:
    path = folder / "run"
    import_log(keff_jsonl(folder, answers).path, path)
    # A seal would have every damage refused; a run whose process was killed has none.
    unsealed(path)
    kinds = ((path / "manifest.json", "text"), (path / "paths.sqlite", "pages"))
    return Base("run", path, kinds)


def openai_batch(folder: Path, answers: Answers) -> Base:
    def line(i: int, j: int, answer: str) -> JsonRow:
        choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
        body = {"model": "m", "choices": [choice], "usage": {"completion_tokens": 5}}
        return {"id": "b", "custom_id": f"q{i}#{j}", "response": {"status_code": 200, "body": body}}

    return _unnumbered("openai_batch", folder / "batch.jsonl", [line(*each) for each in _each(answers)])


def vllm(folder: Path, answers: Answers) -> Base:
    def request(i: int, row: list[str]) -> JsonRow:
        outputs = [
            {"index": j, "text": text, "token_ids": [1, j], "finish_reason": "stop"}
            for j, text in enumerate(row)
        ]
        return {"request_id": str(i), "prompt": f"{i}?", "prompt_token_ids": [i], "outputs": outputs}

    rows = [request(i, row) for i, row in enumerate(answers)]
    return _unnumbered("vllm", folder / "outputs.jsonl", rows)


def tau_bench(folder: Path, answers: Answers) -> Base:
    runs = [
        {"task_id": i, "reward": float(answer == gold(i)), "info": {}, "traj": [], "trial": j}
        for i, j, answer in _each(answers)
    ]
    return _unnumbered("tau_bench", folder / "runs.json", [json.dumps(runs)])


def promptfoo(folder: Path, answers: Answers) -> Base:
    def result(i: int, j: int, answer: str) -> JsonRow:
        about = {"id": f"r{i}-{j}", "promptIdx": 0, "provider": {"id": "m"}, "prompt": {"raw": "?"}}
        case = {"vars": {"n": i}}
        said = {"output": answer}
        right = answer == gold(i)
        return {**about, "testCase": case, "vars": {"n": i}, "response": said, "success": right}

    results = [result(*each) for each in _each(answers)]
    log = {"evalId": "e", "results": {"version": 3, "results": results}}
    return _unnumbered("promptfoo", folder / "results.json", [json.dumps(log)])


def mlflow(folder: Path, answers: Answers) -> Base:
    def trace(i: int, j: int, answer: str) -> JsonRow:
        verdict = {"assessment_name": "right", "feedback": {"value": answer == gold(i)}}
        info = {"trace_id": f"t{i}-{j}", "state": "OK", "assessments": [verdict]}
        return {"info": info, "data": {"request": f"{i}?", "response": answer}}

    return _unnumbered("mlflow", folder / "traces.jsonl", [trace(*each) for each in _each(answers)])


def opentelemetry(folder: Path, answers: Answers) -> Base:
    def span(i: int, j: int, answer: str) -> JsonRow:
        held: JsonRow = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        said = (("input", "user", f"{i}?"), ("output", "assistant", answer))
        for end, role, text in said:
            message = {"role": role, "parts": [{"type": "text", "content": text}]}
            held[f"gen_ai.{end}.messages"] = json.dumps([message])
        score = {"gen_ai.evaluation.name": "e", "gen_ai.evaluation.score.value": int(answer == gold(i))}
        events = [{"name": "gen_ai.evaluation.result", "attributes": score}]
        context = {"trace_id": f"{i}", "span_id": f"{j}"}
        return {"name": "chat m", "context": context, "attributes": held, "events": events}

    return _unnumbered("opentelemetry", folder / "spans.jsonl", [span(*each) for each in _each(answers)])


def verifiers_results(folder: Path, answers: Answers) -> Base:
    def rollout(i: int, j: int, answer: str) -> JsonRow:
        about = {"example_id": i, "prompt": [{"role": "user", "content": f"{i}?"}], "answer": gold(i)}
        right = float(answer == gold(i))
        said = [{"role": "assistant", "content": answer}]
        usage = {"output_tokens": 5.0 + j}
        return {
            **about,
            "completion": said,
            "reward": right,
            "metrics": {"exact": right},
            "token_usage": usage,
        }

    rows = [rollout(*each) for each in _each(answers)]
    return _unnumbered("verifiers_results", folder / "results.jsonl", rows)


def nemo_gym(folder: Path, answers: Answers) -> Base:
    def rollout(i: int, j: int, answer: str) -> JsonRow:
        content = [{"type": "output_text", "text": f"It is {answer}", "annotations": []}]
        output = [{"type": "message", "role": "assistant", "content": content}]
        usage = {"input_tokens": 20, "output_tokens": 5 + j}
        return {
            "responses_create_params": {"input": [{"role": "user", "content": f"{i}?"}]},
            "response": {"id": f"r{i}-{j}", "model": "m", "output": output, "usage": usage},
            "reward": float(answer == gold(i)),
            "expected_answer": gold(i),
            "extracted_answer": answer,
            "_ng_task_index": i,
            "_ng_rollout_index": j,
        }

    return _text("nemo_gym", folder / "rollouts.jsonl", [rollout(*each) for each in _each(answers)])


def pydantic_evals(folder: Path, answers: Answers) -> Base:
    def case(i: int, j: int, answer: str) -> JsonRow:
        about = {"name": f"q{i} [{j + 1}/{K}]", "source_case_name": f"q{i}", "inputs": f"{i}?"}
        right = {"name": "Equals", "value": answer == gold(i), "reason": None}
        said = {"expected_output": gold(i), "output": answer, "assertions": {"Equals": right}}
        return {**about, **said, "scores": {}, "labels": {}, "metrics": {}, "task_duration": 2.5}

    report = {"name": "sums", "cases": [case(*each) for each in _each(answers)], "failures": []}
    return _text("pydantic_evals", folder / "report.json", [json.dumps(report)])


def langsmith(folder: Path, answers: Answers) -> Base:
    def root(i: int, j: int, answer: str) -> JsonRow:
        about = {"id": f"r{i}-{j}", "trace_id": f"r{i}-{j}", "parent_run_id": None, "run_type": "chain"}
        said = {"inputs": {"question": f"{i}?"}, "outputs": {"answer": answer}, "error": None}
        score = {"exact": {"n": 1, "avg": float(answer == gold(i))}}
        return {**about, **said, "reference_example_id": f"q{i}", "feedback_stats": score}

    return _unnumbered("langsmith", folder / "runs.jsonl", [root(*each) for each in _each(answers)])


def langfuse(folder: Path, answers: Answers) -> Base:
    def trace(i: int, j: int, answer: str) -> JsonRow:
        about = {
            "id": f"t{i}-{j}",
            "timestamp": "2026-11-01T10:00:00Z",
            "sessionId": None,
            "bookmarked": False,
        }
        said = {"input": {"messages": [{"role": "user", "content": f"{i}?"}]}, "output": answer}
        return {**about, **said, "public": False, "exact": [float(answer == gold(i))]}

    rows = [trace(*each) for each in _each(answers)]
    return _unnumbered("langfuse", folder / "traces.json", [json.dumps(rows)])


def verifiers_traces(folder: Path, answers: Answers) -> Base:
    def episode(i: int, j: int, answer: str) -> JsonRow:
        prompt = {"role": "user", "content": f"{i}?"}
        task = {"type": "Sum", "data": {"idx": i, "prompt": [prompt]}, "key": f"q{i}"}
        said = {"role": "assistant", "content": answer}
        trace = {
            "id": f"t{i}-{j}",
            "task": task,
            "nodes": [{"message": prompt, "sampled": False}, {"message": said, "sampled": True}],
            "rewards": {"exact": {"score": float(answer == gold(i)), "weight": 1.0}},
            "ok": True,
        }
        return {"id": f"e{i}-{j}", "env": {"id": ""}, "task": task, "ok": True, "traces": [trace]}

    rows = [episode(*each) for each in _each(answers)]
    return _unnumbered("verifiers_traces", folder / "traces.jsonl", rows)


def harbor(folder: Path, answers: Answers) -> Base:
    def trial(i: int, j: int, answer: str) -> JsonRow:
        about = {"task_name": f"q{i}", "trial_name": f"q{i}__{j}", "task_checksum": "c"}
        return {**about, "verifier_result": {"rewards": {"reward": float(answer == gold(i))}}}

    rows = [trial(*each) for each in _each(answers)]
    return _files("harbor", folder / "job", {f"{row['trial_name']}/result.json": row for row in rows})


def swe_bench(folder: Path, answers: Answers) -> Base:
    reports = {
        f"run{j}/m/q{i}/report.json": {f"q{i}": {"resolved": answer == gold(i)}}
        for i, j, answer in _each(answers)
    }
    return _files("swe_bench", folder / "run_evaluation", reports)


def _files(reader: str, path: Path, files: Mapping[str, JsonRow]) -> Base:
    """Write a log that is a folder with a file for each path."""
    written = list[Path]()
    for place, row in files.items():
        (path / place).parent.mkdir(parents=True)
        written.append(_lines(path / place, [row]))
    return Base(reader, path, tuple((file, "unnumbered") for file in written))


def _unnumbered(reader: str, path: Path, rows: Sequence[object]) -> Base:
    return Base(reader, _lines(path, rows), ((path, "unnumbered"),))


FORMATS: dict[str, Callable[[Path, Answers], Base]] = {
    make.__name__: make
    for make in (
        keff_jsonl,
        keff_jsonl_full,
        jsonl,
        csv,
        csv_wide,
        lm_eval,
        published,
        evalscope,
        every_eval_ever,
        inspect_json,
        inspect_eval,
        helm,
        inspect_samples,
        parquet,
        parquet_long,
        lighteval,
        openai_batch,
        vllm,
        tau_bench,
        promptfoo,
        mlflow,
        opentelemetry,
        verifiers_results,
        nemo_gym,
        pydantic_evals,
        langsmith,
        langfuse,
        verifiers_traces,
        harbor,
        swe_bench,
        run,
    )
}
NEEDS_ARROW = ("inspect_samples", "parquet", "parquet_long", "lighteval")
