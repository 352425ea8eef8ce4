"""Options of the commands that draw paths, each declared once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from typer import Option

from keff.cli._options import money_option, panel
from keff.errors import UsageError

model_option = panel("The model and the questions")
run_option = panel("How the run goes")
RunFolder = Annotated[
    Path, Option("--run", help="The run folder. keff creates it, or resumes what is there.")
]
EngineName = Annotated[str, model_option("--engine", help="What answers the questions (keff list engines).")]
Model = Annotated[str | None, Option("--model", help="Model name, or a model file.")]
BaseUrl = Annotated[
    str | None,
    model_option("--base-url", help="Server of the openai engine, for example http://127.0.0.1:8000/v1."),
]
EngineOptions = Annotated[
    list[str] | None,
    model_option("--engine-option", metavar="NAME=VALUE", help="Any other option of the engine; repeatable."),
]
N = Annotated[int, Option("--n", min=1, help="Questions to sample.")]
AllOrN = Annotated[int | None, Option("--n", min=1, help="Questions to sample.", show_default="all of them")]
K = Annotated[int, Option("--k", min=1, help="Paths per question.")]
PilotN = Annotated[
    int | None,
    Option(
        "--n", min=1, help="Questions to sample.", show_default="100 with --branch or --now up to 8, else 50"
    ),
]
PilotK = Annotated[
    int | None,
    Option(
        "--k",
        min=1,
        help="Paths per question.",
        show_default="4 with --branch, 8 with --now up to 8, else 16",
    ),
]
Seed = Annotated[
    int, model_option("--seed", min=0, help="Seed of the choice of questions and of every path.")
]
Temperature = Annotated[float, model_option("--temperature", min=0, help="Sampling temperature.")]
TopP = Annotated[float, model_option("--top-p", min=0, max=1, help="Nucleus sampling mass.")]
MaxTokens = Annotated[
    int | None,
    model_option("--max-tokens", min=1, help="Token limit per path.", show_default="the task's own"),
]
Templates = Annotated[
    str, model_option("--templates", help="Prompt templates that paths take in turn: none, all, or 1,3,5.")
]
Data = Annotated[
    Path | None, model_option("--data", help="Local .jsonl or .parquet in the benchmark's own column schema.")
]
TaskOptions = Annotated[
    list[str] | None,
    model_option("--task-option", metavar="NAME=VALUE", help="Any other option of the task; repeatable."),
]
System = Annotated[str | None, model_option("--system", help="System message (your own questions only).")]
TemplateFile = Annotated[
    Path | None, model_option("--template", help='TOML file with templates = ["...", "..."], one per slot.')
]
Scorer = Annotated[
    str | None,
    model_option(
        "--scorer", metavar="FILE.py:FUNCTION", help="Your own scorer; it runs outside the sandbox."
    ),
]
UnsafeExec = Annotated[
    bool, model_option("--unsafe-exec", help="Run model code without the sandbox (only where that is safe).")
]
VerifierFunction = Annotated[
    str | None,
    model_option(
        "--verifier",
        metavar="FILE.py:FUNCTION",
        help="Your function (prompt, text) -> number that rates each path. Every later command needs it too.",
    ),
]
VerifierUrl = Annotated[
    str | None,
    model_option("--verifier-url", help="Reward model in vLLM's form: http://HOST:PORT/score or /classify."),
]
PolicyText = Annotated[
    str | None,
    Option(
        "--policy",
        help="Stopping rule, such as lead_k:3 (keff list policies), or a plan: plan.json.",
        show_default="draw all K",
    ),
]
Concurrency = Annotated[
    int | None,
    run_option("--concurrency", min=1, help="Requests in flight.", show_default="the engine's own"),
]
Shard = Annotated[
    str | None,
    run_option("--shard", metavar="I/M", help="Draw the I-th of M parts; with --on, M: all of them."),
]
On = Annotated[
    str | None, run_option("--on", metavar="ray[://HOST:PORT]", help="Draw on the workers of a Ray cluster.")
]
Workers = Annotated[
    int | None,
    run_option("--workers", min=1, help="Workers with --on.", show_default="one per GPU, else one per node"),
]
TokenBudget = Annotated[
    int | None,
    money_option(
        "--token-budget",
        min=1,
        help="Stop drawing once the run holds this many tokens, prompts included.",
    ),
]
MaxCost = Annotated[
    float | None,
    money_option("--max-cost", min=0, help="Stop drawing at this many dollars (with --prices)."),
]
Yes = Annotated[bool, run_option("--yes", help="Do not ask before a paid run.")]
KeepGoing = Annotated[
    bool, run_option("--keep-going", help="Continue even if the first paths of a paid run look wrong.")
]
Only = Annotated[
    list[str] | None,
    Option("--only", metavar="model=NAME,task=NAME", help="Only these cells (arm=, seed= too); repeatable."),
]
DryRun = Annotated[
    bool, Option("--dry-run", help="Draw nothing; print what is missing and what it will cost.")
]
StudyRuns = Annotated[
    Path | None, Option("--runs", help="Folder of the runs.", show_default="as the file says")
]


def name_value_pairs(pairs: Iterable[str], flag: str) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of ``name=value`` texts, with underscores; raises UsageError for others."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{flag} {pair!r}: write it as name=value")
        yield name.replace("-", "_"), value


def parse_pairs(pairs: list[str] | None, flag: str) -> dict[str, object]:
    """Return options of ``name=value`` texts; values that are JSON are parsed."""
    options: dict[str, object] = {}
    for name, value in name_value_pairs(pairs or (), flag):
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options
