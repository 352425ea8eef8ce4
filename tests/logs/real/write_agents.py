"""Write results with the real package, and beside them what is right.

    python write_agents.py OUT (tau_bench | tau2 | bfcl | vllm | verifiers | pydantic_evals | langsmith)

Run it where that package is: tau-bench and tau2-bench from a checkout on PYTHONPATH, for PyPI has neither.
The first three ask a server of this script, whose agent makes the calls of the task's own solution or, by a
fixed draw, none. vLLM's engine needs a GPU: its output processor and its batch writer are given the tokens
and answers that an engine would give. verifiers writes traces that this script makes, LangSmith's client has
no server here: its own class of a run is written as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from chat_server import served

TRIALS = 4
SHARE = 0.6
Calls = list[tuple[str, dict[str, Any]]]


def draw(*parts: object) -> float:
    """Return a number in [0, 1) that is the same on every machine."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big") / 2**48


class Agents:
    """What the model says: as a simulated user the task itself, as an agent the task's calls or none."""

    def __init__(self, solutions: dict[str, Calls]) -> None:
        self.solutions = solutions
        self.truth: dict[str, list[int]] = {task: [] for task in solutions}

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the next message of the conversation."""
        texts = "\n".join(str(each.get("content")) for each in body["messages"])
        task = next((text for text in self.solutions if text in texts), "")
        said = [each["role"] for each in body["messages"]]
        if body["model"] == "toy-user":
            return {"content": "###STOP###" if "assistant" in said else task or "Hello."}
        done = said.count("tool")
        if not done:
            self.truth[task].append(int(draw(task, len(self.truth[task])) < SHARE))
        right = self.truth[task][-1]
        if not right or done == len(self.solutions[task]):
            return {"content": "That is done." if right else "I am sorry, I cannot do that."}
        name, given = self.solutions[task][done]
        call = {"name": name, "arguments": json.dumps(given)}
        return {"content": None, "tool_calls": [{"id": f"call_{done}", "type": "function", "function": call}]}


def environment(base: str) -> dict[str, str]:
    return {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": base, "OPENAI_BASE_URL": base}


def write_tau_bench(out: Path) -> None:
    from tau_bench.envs.retail.tasks_test import TASKS_TEST
    from tau_bench.run import run
    from tau_bench.types import RunConfig

    # A trial is right when it changed the database as the solution does. Few calls make a small file.
    changing = ("exchange", "return", "modify", "cancel")
    changes = [
        i
        for i, task in enumerate(TASKS_TEST)
        if not task.outputs and any(call.name.startswith(changing) for call in task.actions)
    ]
    chosen = sorted(changes, key=lambda i: len(TASKS_TEST[i].actions))[:3]
    solutions = {
        TASKS_TEST[i].instruction: [(each.name, each.kwargs) for each in TASKS_TEST[i].actions]
        for i in chosen
    }
    agents = Agents(solutions)
    with served(agents.message) as base:
        os.environ |= environment(base)
        config = RunConfig(
            model_provider="openai",
            user_model_provider="openai",
            model="toy-1",
            user_model="toy-user",
            num_trials=TRIALS,
            task_ids=chosen,
            log_dir=str(out / "tau_bench"),
        )
        run(config)
    (file,) = (out / "tau_bench").glob("*.json")
    rows = json.loads(file.read_text())
    assert not any("error" in row["info"] for row in rows), rows
    file.replace(out / "tau_bench.json")
    truth = {str(i): agents.truth[TASKS_TEST[i].instruction] for i in chosen}
    (out / "tau_bench.truth").write_text(json.dumps(truth))


def write_tau2(out: Path) -> None:
    from tau2.data_model.simulation import Results, TextRunConfig
    from tau2.run import get_tasks, run_domain

    names = ["create_task_1", "update_task_1", "impossible_task_1"]
    tasks = {each.id: each for each in get_tasks("mock", task_ids=names)}
    texts = {name: str(tasks[name].user_scenario.instructions) for name in names}
    solutions = {
        texts[name]: [(each.name, each.arguments) for each in tasks[name].evaluation_criteria.actions]
        for name in names
    }
    agents = Agents(solutions)
    file = out / "tau2" / "results.json"
    with served(agents.message) as base:
        os.environ |= environment(base)
        config = TextRunConfig(
            domain="mock",
            agent="llm_agent",
            llm_agent="openai/toy-1",
            llm_user="openai/toy-user",
            llm_args_agent={},
            llm_args_user={},
            num_trials=TRIALS,
            task_ids=names,
            max_concurrency=1,
            save_to=str(file.parent.resolve()),
        )
        run_domain(config)
    print(Results.load(file).to_df()[["task_id", "trial", "reward"]])
    file.replace(out / "tau2.json")
    (out / "tau2.truth").write_text(json.dumps({name: agents.truth[texts[name]] for name in names}))


def write_bfcl(out: Path) -> None:
    root = (out / "bfcl").resolve()
    root.mkdir(parents=True, exist_ok=True)
    os.environ["BFCL_PROJECT_ROOT"] = str(root)
    from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

    kind, model = "simple_python", "openbmb/MiniCPM-SALA-FC"
    entries, golds = load_dataset_entry(kind)[:5], load_ground_truth_entry(kind)[:5]
    solutions = {
        entry["question"][0][0]["content"]: [
            # Tools are named without dots; a list says what an argument may be, "" that it may be missing.
            (name.replace(".", "_"), {key: each[0] for key, each in given.items() if "" not in each})
            for name, given in gold["ground_truth"][0].items()
        ]
        for entry, gold in zip(entries, golds, strict=True)
    }
    names = [entry["id"] for entry in entries]
    (root / "test_case_ids_to_generate.json").write_text(json.dumps({kind: names}))
    agents = Agents(solutions)
    with served(agents.message) as base:
        quiet = {**os.environ, **environment(base)}
        for repeat in range(2):
            ends = ["--result-dir", f"run{repeat}/result"]
            for command in (
                ["generate", "--run-ids", "--num-threads", "1"],
                ["evaluate", "--test-category", kind, "--score-dir", f"run{repeat}/score", "--partial-eval"],
            ):
                words = [sys.executable, "-m", "bfcl_eval", *command, "--model", model, *ends]
                subprocess.run(words, check=True, env=quiet, cwd=root)
    truth = dict(zip(names, agents.truth.values(), strict=True))
    for repeat in range(2):
        for folder, end in (("result", "result"), ("score", "score")):
            (file,) = (root / f"run{repeat}" / folder).rglob(f"*_{kind}_{end}.json")
            kept = out / f"bfcl{repeat}" / file.relative_to(root / f"run{repeat}")
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, kept)
    shutil.rmtree(root)
    (out / "bfcl.truth").write_text(json.dumps(truth))


def write_vllm(out: Path) -> None:
    import numpy as np
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from vllm.entrypoints.launchers import run_batch
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionResponse
    from vllm.sampling_params import RequestOutputKind, SamplingParams
    from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest, FinishReason
    from vllm.v1.engine.output_processor import OutputProcessor
    from vllm.v1.engine.parallel_sampling import ParentRequest
    from vllm.v1.outputs import LogprobsLists

    words = ["[UNK]", "</s>", "The", "answer", "is", "What", "+", "?", *map(str, range(30))]
    bare = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    bare.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="[UNK]")
    processor = OutputProcessor(tokenizer, log_stats=False)
    finished: list[Any] = []
    truth: dict[str, list[list[Any]]] = {}
    none = dict.fromkeys(
        ("mm_features", "pooling_params", "lora_request", "cache_salt", "data_parallel_rank")
    )
    for number in (3, 4, 5):
        prompt = f"What is {number} + {number} ?"
        asked = SamplingParams(n=3, logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY)
        given = {
            "prompt_token_ids": tokenizer.encode(prompt),
            "arrival_time": 0.0,
            "external_req_id": str(number),
        }
        parent = ParentRequest(EngineCoreRequest(str(number), sampling_params=asked, **given, **none))
        children = [parent.get_child_info(place) for place in range(asked.n)]
        for place, (child, params) in enumerate(children):
            request = EngineCoreRequest(child, sampling_params=params, **given, **none)
            processor.add_request(request, prompt, parent, place)
        for place, (child, _) in enumerate(children):
            cut = draw("cut", number, place) < 0.2
            value = 2 * number + (draw(prompt, place) >= SHARE)
            tokens = tokenizer.encode("The answer is" if cut else f"The answer is {value} </s>")
            scores = [-draw("score", number, place, i) for i in range(len(tokens))]
            columns = np.array(tokens)[:, None], np.array(scores)[:, None]
            output = EngineCoreOutput(
                request_id=child,
                new_token_ids=tokens,
                new_logprobs=LogprobsLists(*columns, np.ones(len(tokens), int)),
                finish_reason=FinishReason.LENGTH if cut else FinishReason.STOP,
            )
            finished += processor.process_outputs([output]).request_outputs
            truth.setdefault(prompt, []).append([None if cut else str(value), sum(scores) / len(scores)])
    # A dump as people make it: the attributes of each object, whatever is no JSON as its attributes again.
    dumped = [
        json.dumps(vars(each), default=lambda part: getattr(part, "__dict__", str(part))) for each in finished
    ]
    (out / "vllm_outputs.jsonl").write_text("".join(f"{line}\n" for line in dumped))
    (out / "vllm.truth").write_text(json.dumps(truth))

    async def answered(body: Any) -> Any:
        name, place = body.messages[0]["content"].split("/")
        if place == "3":
            raise ValueError("the prompt is too long")
        message = {"role": "assistant", "content": truth[name][int(place)][0]}
        choice = {"index": 0, "message": message, "finish_reason": "stop" if message["content"] else "length"}
        usage = {"prompt_tokens": 6, "completion_tokens": 4, "total_tokens": 10}
        return ChatCompletionResponse(
            id="chatcmpl-1", created=1, model="toy-1", choices=[choice], usage=usage
        )

    async def batch() -> None:
        async with run_batch.batch_output_writer(str(out / "vllm_batch.jsonl"), None) as file:
            for number, name in enumerate(truth):
                for place in range(4):
                    body = {"model": "toy-1", "messages": [{"role": "user", "content": f"{name}/{place}"}]}
                    asked = {"custom_id": f"q{number}#{place}", "method": "POST"}
                    request = run_batch.BatchRequestInput(url="/v1/chat/completions", body=body, **asked)
                    made = await run_batch.run_request(answered, request)
                    file.write(made.model_dump_json() + "\n")

    asyncio.run(batch())


def sums() -> dict[str, list[str]]:
    """Return what the model says to each sum, by a fixed draw."""
    return {
        f"{n}+{n}": [str(2 * n + (draw(n, trial) >= SHARE)) for trial in range(TRIALS)] for n in (3, 4, 5)
    }


def write_truth(out: Path, name: str) -> None:
    right = {asked: [int(text == str(2 * int(asked[0]))) for text in said] for asked, said in sums().items()}
    (out / f"{name}.truth").write_text(json.dumps(right))


def write_verifiers(out: Path) -> None:
    from verifiers.v1.configs.agent import AgentConfig
    from verifiers.v1.episode import Episode
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.task import TaskData
    from verifiers.v1.trace import AgentInfo, ModelCall, Reward, Trace, TraceTask
    from verifiers.v1.types import AssistantMessage, Usage, UserMessage
    from verifiers.v1.utils.trace_store import write_episode

    (out / "traces.jsonl").unlink(missing_ok=True)
    for number, (asked, said) in enumerate(sums().items()):
        task = TraceTask(type="Sum", data=TaskData(idx=number, prompt=asked), key=asked, hash=f"h{number}")
        for place, text in enumerate(said):
            trace = Trace(
                task=task, agent=AgentInfo(config=AgentConfig(model="toy-1")), id=f"{asked}/{place}"
            )
            spoken = AssistantMessage(content=f"It is {text}")
            trace.nodes = [
                MessageNode(message=UserMessage(content=asked)),
                MessageNode(parent=0, message=spoken, sampled=True),
            ]
            usage = Usage(prompt_tokens=3, completion_tokens=4 + place)
            trace.calls = [ModelCall(node=1, model="toy-1", finish_reason="stop", usage=usage)]
            right = float(text == str(2 * int(asked[0])))
            trace.rewards = {
                "exact": Reward(score=right, weight=0.5),
                "same": Reward(score=right, weight=0.5),
            }
            trace.ok = trace.is_completed = True
            trace.timing.agent.start, trace.timing.agent.end = 1, 3.5
            write_episode(out, Episode(task=task, traces=[trace], ok=True))
    failed = Trace(task=task, agent=AgentInfo(config=AgentConfig(model="toy-1")), rewards={"exact": None})
    write_episode(out, Episode(task=task, traces=[failed]))
    (out / "traces.jsonl").replace(out / "verifiers_traces.jsonl")
    write_truth(out, "verifiers_traces")


def write_pydantic_evals(out: Path) -> None:
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import EqualsExpected, MaxDuration
    from pydantic_evals.reporting import EvaluationReportAdapter

    said = {asked: [*texts, None] for asked, texts in sums().items()}

    def task(asked: str) -> str:
        text = said[asked].pop(0)
        if text is None:
            raise ValueError("busy")
        return text

    cases = [Case(name=asked, inputs=asked, expected_output=str(2 * int(asked[0]))) for asked in said]
    evaluators = [EqualsExpected(), MaxDuration(seconds=60)]
    data = Dataset(name="sums", cases=cases, evaluators=evaluators)
    report = data.evaluate_sync(task, repeat=TRIALS + 1, max_concurrency=1, progress=False)
    (out / "pydantic_evals.json").write_bytes(EvaluationReportAdapter.dump_json(report, indent=1))
    write_truth(out, "pydantic_evals")


def write_langsmith(out: Path) -> None:
    from datetime import datetime, timedelta
    from uuid import UUID

    from langsmith.schemas import Run

    begin, lines = datetime(2026, 11, 1, 10), list[str]()
    for number, (asked, said) in enumerate(sums().items()):
        for place, text in enumerate(said):
            root = UUID(int=100 * number + 10 * place)
            for step in range(2):
                right = float(text == str(2 * int(asked[0])))
                run = Run(
                    id=UUID(int=root.int + step),
                    name="target",
                    run_type="llm" if step else "chain",
                    start_time=begin,
                    end_time=begin + timedelta(seconds=2.5),
                    inputs={"question": asked},
                    outputs={"output": text},
                    reference_example_id=None if step else UUID(int=10_000 + number),
                    parent_run_id=root if step else None,
                    trace_id=root,
                    feedback_stats=None if step else {"exact": {"n": 1, "avg": right}},
                    prompt_tokens=3,
                    completion_tokens=4 + place,
                )
                lines.append(run.model_dump_json())
    (out / "langsmith.jsonl").write_text("".join(f"{line}\n" for line in lines))
    write_truth(out, "langsmith")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    globals()[f"write_{sys.argv[2]}"](Path(sys.argv[1]))
