"""Options of the commands that draw paths, each declared once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from keff.errors import UsageError

MODEL = "The model and the questions"
COURSE = "How the run goes"
MONEY = "Money and time"
RunFolder = Annotated[Path, typer.Option("--run", help="The run folder: created, or resumed.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="Where paths are drawn (keff list engines).", rich_help_panel=MODEL)
]
Model = Annotated[str | None, typer.Option("--model", help="Model name, or a model file.")]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        help="Server of the openai engine, for example http://127.0.0.1:8000/v1.",
        rich_help_panel=MODEL,
    ),
]
EngineOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--engine-option",
        metavar="NAME=VALUE",
        help="Any other option of the engine; repeatable.",
        rich_help_panel=MODEL,
    ),
]
N = Annotated[int, typer.Option("--n", min=1, help="Questions to sample.")]
AllOrN = Annotated[
    int | None, typer.Option("--n", min=1, help="Questions to sample.", show_default="all of them")
]
K = Annotated[int, typer.Option("--k", min=1, help="Paths per question.")]
PilotN = Annotated[
    int | None,
    typer.Option(
        "--n", min=1, help="Questions to sample.", show_default="100 with --branch or --now up to 8, else 50"
    ),
]
PilotK = Annotated[
    int | None,
    typer.Option(
        "--k",
        min=1,
        help="Paths per question.",
        show_default="4 with --branch, 8 with --now up to 8, else 16",
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", help="Seed of the choice of questions and of every path.", rich_help_panel=MODEL),
]
Temperature = Annotated[
    float, typer.Option("--temperature", min=0, help="Sampling temperature.", rich_help_panel=MODEL)
]
TopP = Annotated[
    float, typer.Option("--top-p", min=0, max=1, help="Nucleus sampling mass.", rich_help_panel=MODEL)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        min=1,
        help="Token limit per path.",
        show_default="the task's own",
        rich_help_panel=MODEL,
    ),
]
Templates = Annotated[
    str,
    typer.Option(
        "--templates",
        help="Prompt templates that paths cycle through: none, all, or 1,3,5.",
        rich_help_panel=MODEL,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Local .jsonl or .parquet in the benchmark's own column schema.", rich_help_panel=MODEL
    ),
]
TaskOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--task-option",
        metavar="NAME=VALUE",
        help="Any other option of the task; repeatable.",
        rich_help_panel=MODEL,
    ),
]
System = Annotated[
    str | None,
    typer.Option("--system", help="System message (your own questions only).", rich_help_panel=MODEL),
]
TemplateFile = Annotated[
    Path | None,
    typer.Option(
        "--template", help='TOML file with templates = ["...", "..."], one per slot.', rich_help_panel=MODEL
    ),
]
Scorer = Annotated[
    str | None,
    typer.Option(
        "--scorer", metavar="FILE.py:FUNCTION", help="Your own scorer, run as such.", rich_help_panel=MODEL
    ),
]
UnsafeExec = Annotated[
    bool,
    typer.Option(
        "--unsafe-exec",
        help="Run model code without the sandbox (only where that is safe).",
        rich_help_panel=MODEL,
    ),
]
VerifierFunction = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="FILE.py:FUNCTION",
        help="Your function (prompt, text) -> number that rates each path; needed again by every command.",
        rich_help_panel=MODEL,
    ),
]
VerifierUrl = Annotated[
    str | None,
    typer.Option(
        "--verifier-url",
        help="Reward model in vLLM's form: http://HOST:PORT/score or /classify.",
        rich_help_panel=MODEL,
    ),
]
PolicyText = Annotated[
    str | None,
    typer.Option(
        "--policy", help="Stopping rule, such as lead_k:3 (keff list policies).", show_default="draw all K"
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        min=1,
        help="Requests in flight.",
        show_default="the engine's own",
        rich_help_panel=COURSE,
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/M",
        help="Draw the I-th of M parts (analyze --pool joins them).",
        rich_help_panel=COURSE,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ray[://HOST:PORT]",
        help="Draw on the workers of a Ray cluster.",
        rich_help_panel=COURSE,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Workers with --on.",
        show_default="one per GPU, else one per node",
        rich_help_panel=COURSE,
    ),
]
TokenBudget = Annotated[
    int | None,
    typer.Option(
        "--token-budget",
        min=1,
        help="Stop when this many tokens are used, prompts included.",
        rich_help_panel=MONEY,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost", min=0, help="Stop at this many dollars (with --prices).", rich_help_panel=MONEY
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help='TOML price table: ["model"] with prompt, output, cached per million tokens.',
        rich_help_panel=MONEY,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before a paid run.", rich_help_panel=COURSE)]
KeepGoing = Annotated[
    bool,
    typer.Option(
        "--keep-going",
        help="Continue even if the first paths of a paid run look wrong.",
        rich_help_panel=COURSE,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="model=NAME,task=NAME", help="Only these cells (arm=, seed= too); repeatable."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Draw nothing: say what is owed, and what it takes.")]
StudyRuns = Annotated[
    Path | None, typer.Option("--runs", help="Folder of the runs.", show_default="as the file says")
]


def named(pairs: Iterable[str], flag: str) -> Iterator[tuple[str, str]]:
    """Yield names (with underscores) and values of ``name=value`` texts; raises UsageError for others."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{flag} {pair!r}: write it as name=value")
        yield name.replace("-", "_"), value


def parse_pairs(pairs: list[str] | None, flag: str) -> dict[str, object]:
    """Turn ``name=value`` texts into options; values that read as JSON are taken as such."""
    options: dict[str, object] = {}
    for name, value in named(pairs or (), flag):
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options
