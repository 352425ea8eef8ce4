"""Evaluate with keff's solver, reducer and metrics in inspect_ai; runs in the environment of the tools.

``python ask_inspect.py URL PLAN``: prints as JSON what each evaluation found. The server at URL is the stub
of ``test_inspect_ai.py``; PLAN is a plan for numeric answers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from inspect_ai import Epochs, Task, eval_async
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, ResponseSchema
from inspect_ai.scorer import accuracy, choice, match
from inspect_ai.solver import generate, multiple_choice, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import json_schema
from pydantic import BaseModel
from silent_server import silent_server

from keff.integrations.inspect_ai import k_eff, plurality, run_to_run_sd, self_consistency

URL, PLAN = sys.argv[1:]
QUESTION = Sample(id="six", input="How many is 6 times 7?", target="42")
OPTIONS = Sample(id="options", input="How many is 6 times 7?", target="B", choices=["41", "42", "43"])
QUESTIONS = [Sample(id=f"q{n}", input=f"Question {n}: how many is 6 times 7?", target="42") for n in range(5)]


class Sum(BaseModel):
    """A sum."""

    total: int


@tool
def multiply() -> Any:
    async def execute(a: int, b: int) -> int:
        """Multiply two numbers.

        Args:
            a: One number.
            b: Another number.
        """
        return a * b

    return execute


async def log_of(
    samples: list[Sample],
    *,
    model: str = "stub",
    url: str = URL,
    run: dict[str, Any] | None = None,
    **task: Any,
) -> Any:
    made = Task(dataset=MemoryDataset(samples), **({"scorer": match(numeric=True)} | task))
    (log,) = await eval_async(
        made,
        model=f"openai-api/local/{model}",
        model_base_url=url,
        model_args={"api_key": "none"},
        log_dir="logs",
        log_level="error",
        **(run or {}),
    )
    return log


async def voted(sample: Sample = QUESTION, **task: Any) -> dict[str, Any]:
    log = await log_of([sample], **task)
    if log.status != "success":
        return {"error": log.error.message}
    only = log.samples[0]
    usage = next(iter(log.stats.model_usage.values()))
    return {
        "keff": only.metadata["keff"],
        "text": only.output.completion,
        "usage": [usage.input_tokens, usage.output_tokens],
        "right": log.results.scores[0].metrics["accuracy"].value,
    }


async def over_epochs() -> dict[str, Any]:
    log = await log_of(
        QUESTIONS, metrics=[accuracy(), k_eff(), run_to_run_sd()], epochs=Epochs(6, plurality("numeric"))
    )
    rows: dict[str, list[float]] = {}
    answers: dict[str, list[str]] = {}
    for each in log.samples:
        rows.setdefault(each.id, []).append(float(each.scores["match"].value == "C"))
        answers.setdefault(each.id, []).append(each.scores["match"].answer)
    metrics = {name: found.value for score in log.results.scores for name, found in score.metrics.items()}
    reduced = {
        one.sample_id: [one.answer, one.metadata["keff"]["share"]] for one in log.reductions[0].samples
    }
    return {"rows": list(rows.values()), "answers": answers, "reduced": reduced, "metrics": metrics}


async def stopped() -> bool:
    """Let a sample run into its time limit, and wait until its four calls have ended."""
    async with silent_server() as (url, begun, ended), asyncio.timeout(60):
        vote = self_consistency("fixed:4", answer_space="numeric")
        log = await log_of([QUESTION], solver=vote, url=url, time_limit=3)
        for _ in range(4):
            await begun.acquire()
            await ended.acquire()
        return log.samples[0].limit is not None and log.samples[0].limit.type == "time"


def refused(**options: Any) -> str:
    try:
        self_consistency(**options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def main() -> dict[str, Any]:
    numeric = {"answer_space": "numeric"}
    four = self_consistency("fixed:4", **numeric)
    return {
        "seeded": await voted(solver=self_consistency("lead_k:3", **numeric, seed=0)),
        "plan": await voted(solver=self_consistency(plan=PLAN, seed=0)),
        "other model": await voted(solver=self_consistency(plan=PLAN), model="another"),
        "tools": await voted(solver=[use_tools(multiply()), four]),
        "choices": await voted(
            OPTIONS,
            solver=self_consistency("fixed:3", answer_space="choice", path=multiple_choice()),
            scorer=choice(),
        ),
        "schema": await voted(
            solver=self_consistency("fixed:3", answer_space="json"),
            config=GenerateConfig(response_schema=ResponseSchema(name="sum", json_schema=json_schema(Sum))),
        ),
        "cached": await voted(
            solver=self_consistency("fixed:4,in_flight=1", **numeric, path=generate(cache=True)),
            model="cached",
        ),
        "past the cache": await voted(solver=four, config=GenerateConfig(cache=True)),
        "rate limit": await voted(solver=four, model="limited", config=GenerateConfig(max_retries=0)),
        "epochs": await over_epochs(),
        "by name": (await log_of([QUESTION], epochs=Epochs(2, "keff/plurality"))).status,
        "stopped": await stopped(),
        "no space": refused(policy="lead_k:3"),
        "no policy": refused(answer_space="numeric"),
        "branches": refused(policy="cascade:a(lead_k:2,cap=3)/b(fixed:1)", **numeric),
        "no plan": refused(plan="none.json"),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
