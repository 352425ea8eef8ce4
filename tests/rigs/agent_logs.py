"""Small logs of tools for agents, traces and evaluations, in their own layout, all written from one draw."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

QUESTIONS, PATHS = 6, 4
RIGHT = (np.random.default_rng(3).random((QUESTIONS, PATHS)) < 0.6).astype(int)
# One path of a question failed: it is in the file, and counts nowhere.
FAILED = (2, 1)
Row = dict[str, Any]
Write = Callable[[Path, Sequence[tuple[int, int]]], Path]


def said(i: int, j: int) -> str:
    return str(10 * i + (0 if RIGHT[i, j] else 1 + j))


def paths() -> list[tuple[int, int]]:
    """Return all paths as tools write them: in the order in which they ended."""
    return [(i, j) for j in range(PATHS) for i in range(QUESTIONS)]


def lines(file: Path, rows: Sequence[Row]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def whole(file: Path, value: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2))
    return file


def messages(i: int) -> list[Row]:
    return [{"role": "system", "content": "Add."}, {"role": "user", "content": f"What is {i} times 10?"}]


def verifiers_results(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    rows = list[Row]()
    for i, j in draw:
        row: Row = {
            "example_id": i,
            "prompt": messages(i),
            "completion": [{"role": "assistant", "content": f"The answer is {said(i, j)}"}],
            "answer": str(10 * i),
            "reward": float(RIGHT[i, j]),
            "timing": {"generation": {"start": 5.0, "end": 7.5, "duration": 2.5}},
            "is_completed": True,
            "is_truncated": False,
            "metrics": {"exact": float(RIGHT[i, j]), "short": 0.25},
            "exact": float(RIGHT[i, j]),
            "short": 0.25,
            "token_usage": {"input_tokens": 20.0, "output_tokens": 5.0 + j},
        }
        if (i, j) == FAILED:
            row |= {"completion": None, "reward": 0.0, "error": {"error": "ModelError", "message": "busy"}}
        rows.append(row)
    return lines(folder / "results.jsonl", rows)


def verifiers_traces(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    rows = list[Row]()
    for i, j in draw:
        task = {"type": "Sum", "data": {"idx": i, "prompt": messages(i)}, "key": f"sum-{i}", "hash": f"h{i}"}
        nodes = [{"message": each, "sampled": False} for each in messages(i)]
        nodes.append({"message": {"role": "assistant", "content": f"It is {said(i, j)}"}, "sampled": True})
        ok = (i, j) != FAILED
        trace = {
            "version": 1,
            "id": f"t{i}-{j}",
            "task": task,
            "agent": {"config": {"model": "m-1"}, "name": "agent"},
            "nodes": nodes if ok else [],
            "calls": [{"node": 2, "model": "m-1", "finish_reason": "stop"}] if ok else [],
            # Two functions of half the weight each; one was not run where the trace failed.
            "rewards": {
                "exact": {"score": float(RIGHT[i, j]), "weight": 0.5},
                "same": {"score": float(RIGHT[i, j]), "weight": 0.5} if ok else None,
            },
            "metrics": {"length": 3.0},
            "is_completed": ok,
            "ok": ok,
            "timing": {"agent": {"start": 5.0, "end": 7.5}},
            "num_input_tokens": 20,
            "num_output_tokens": 5 + j,
        }
        rows.append({"id": f"e{i}-{j}", "env": {"id": ""}, "task": task, "ok": ok, "traces": [trace]})
    return lines(folder / "traces.jsonl", rows)


def nemo_gym(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    rows = list[Row]()
    for i, j in draw:
        content = [{"type": "output_text", "text": f"\\boxed{{{said(i, j)}}}", "annotations": []}]
        usage = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 5 + j}
        rows.append(
            {
                "responses_create_params": {"input": messages(i), "max_output_tokens": 64},
                "response": {
                    "id": f"resp_{i}_{j}",
                    "model": "m-1",
                    "object": "response",
                    "incomplete_details": None,
                    "output": [
                        {"type": "reasoning", "summary": []},
                        {"type": "message", "role": "assistant", "content": content},
                    ],
                    "usage": usage,
                },
                "reward": float(RIGHT[i, j]),
                "expected_answer": str(10 * i),
                "extracted_answer": said(i, j),
                "_ng_task_index": i,
                "_ng_rollout_index": j,
                "agent_ref": {"type": "responses_api_agents", "name": "simple"},
            }
        )
    return lines(folder / "rollouts.jsonl", rows)


def pydantic_evals(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    cases, failures = list[Row](), list[Row]()
    for i, j in draw:
        about: Row = {
            "name": f"case-{i} [{j + 1}/{PATHS}]",
            "source_case_name": f"case-{i}",
            "inputs": {"question": messages(i)[1]["content"]},
            "metadata": None,
            "expected_output": str(10 * i),
        }
        if (i, j) == FAILED:
            failures.append(about | {"error_message": "ValueError: busy", "error_stacktrace": "..."})
            continue
        assertion = {"name": "EqualsExpected", "value": bool(RIGHT[i, j]), "reason": None}
        cases.append(
            about
            | {
                "output": said(i, j),
                "metrics": {"input_tokens": 20, "output_tokens": 5 + j},
                "attributes": {},
                "scores": {"brevity": {"name": "brevity", "value": 0.5}},
                "labels": {},
                "assertions": {"EqualsExpected": assertion},
                "task_duration": 2.5,
                "total_duration": 2.6,
            }
        )
    report = {
        "name": "sums",
        "cases": cases,
        "failures": failures,
        "analyses": [],
        "experiment_metadata": None,
    }
    return whole(folder / "report.json", report)


def langsmith(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    rows = list[Row]()
    for i, j in draw:
        ok = (i, j) != FAILED
        run: Row = {
            "id": f"run-{i}-{j}",
            "trace_id": f"run-{i}-{j}",
            "parent_run_id": None,
            "name": "target",
            "run_type": "chain",
            "start_time": "2026-11-01T10:00:00",
            "end_time": "2026-11-01T10:00:02.500000",
            "inputs": {"question": messages(i)[1]["content"]},
            "outputs": {"answer": said(i, j)} if ok else None,
            "error": None if ok else "TimeoutError()",
            "reference_example_id": f"example-{i}",
            "session_id": "s",
            "feedback_stats": {"exact": {"n": 1, "avg": float(RIGHT[i, j]), "values": {}}} if ok else {},
            "prompt_tokens": 20,
            "completion_tokens": 5 + j,
        }
        step = run | {"id": f"step-{i}-{j}", "parent_run_id": run["id"], "run_type": "llm"}
        rows += [run, step]
    return lines(folder / "runs.jsonl", rows)


def langfuse(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    rows = list[Row]()
    for i, j in draw:
        ok = (i, j) != FAILED
        rows.append(
            {
                "id": f"trace-{i}-{j}",
                "timestamp": "2026-11-01T10:00:00.000Z",
                "name": "sum",
                "userId": None,
                "sessionId": None,
                "tags": ["eval"],
                "bookmarked": False,
                "public": False,
                "input": {"messages": messages(i)},
                "output": said(i, j) if ok else None,
                "metadata": {},
                "latency": 2.5,
                "level": "DEFAULT" if ok else "ERROR",
                "inputTokens": "20",
                "outputTokens": str(5 + j),
                "comments": [],
                "exact": [float(RIGHT[i, j])] if ok else None,
            }
        )
    return whole(folder / "traces.json", rows)


def harbor(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    job = folder / "2026-11-01__10-00-00"
    for i, j in draw:
        name = f"task-{i}__{'abcd'[j]}"
        ok = (i, j) != FAILED
        result = {
            "id": f"{i}-{j}",
            "task_name": f"task-{i}",
            "trial_name": name,
            "task_checksum": f"c{i}",
            "agent_info": {"name": "terminus-2", "model_info": {"name": "m-1", "provider": "p"}},
            "agent_result": {"n_input_tokens": 20, "n_cache_tokens": 8, "n_output_tokens": 5 + j},
            "verifier_result": {"rewards": {"reward": float(RIGHT[i, j]), "f2p": 0.5}} if ok else None,
            "exception_info": None if ok else {"exception_type": "AgentTimeoutError"},
            "agent_execution": {
                "started_at": "2026-11-01T10:00:00Z",
                "finished_at": "2026-11-01T10:00:02.500000Z",
            },
        }
        whole(job / name / "result.json", result)
        whole(job / name / "config.json", {"task": {"path": f"tasks/task-{i}"}})
    whole(job / "result.json", {"n_total_trials": len(draw), "stats": {}})
    return job


def swe_bench(folder: Path, draw: Sequence[tuple[int, int]]) -> Path:
    """Write runs as folders, and their summaries beside them: one patch broke off, one was empty."""
    for j in sorted({j for _, j in draw}):
        groups: dict[str, list[str]] = {"resolved": [], "unresolved": [], "error": [], "empty_patch": []}
        for i in sorted({i for i, _ in draw}):
            name = f"repo__repo-{i}"
            place = folder / "logs" / "run_evaluation" / f"run{j}" / "m-1" / name
            if (i, j) == FAILED:
                groups["error"].append(name)
                place.mkdir(parents=True)
                (place / "run_instance.log").write_text("patch failed to apply")
                continue
            if (i, j) == (0, 0):
                groups["empty_patch"].append(name)
                continue
            right = bool(RIGHT[i, j])
            groups["resolved" if right else "unresolved"].append(name)
            report = {"patch_is_None": False, "patch_successfully_applied": True, "resolved": right}
            whole(place / "report.json", {name: report})
        ids = {f"{group}_ids": names for group, names in groups.items()}
        submitted = sorted(name for names in groups.values() for name in names)
        whole(folder / f"m-1.run{j}.json", {**ids, "submitted_ids": submitted, "schema_version": 2})
    return folder / "logs" / "run_evaluation"


WRITERS: dict[str, Write] = {
    write.__name__: write
    for write in (verifiers_results, verifiers_traces, nemo_gym, pydantic_evals, langsmith, langfuse, harbor)
}
