"""Options that several commands share: each is declared once, here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from keff.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
TaskName = Annotated[
    str,
    typer.Argument(metavar="TASK", help="A benchmark (keff list tasks), starter, or your own file.jsonl."),
]
Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Run folders or recorded logs.", show_default=False)
]
RunFolder = Annotated[Path, typer.Option("--run", help="The run folder: created, or resumed.")]
EngineName = Annotated[str, typer.Option("--engine", help="Where paths are drawn (keff list engines).")]
Model = Annotated[str | None, typer.Option("--model", help="Model name, or a model file.")]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="Server of the openai engine, for example http://127.0.0.1:8000/v1."),
]
EngineOptions = Annotated[
    list[str] | None,
    typer.Option("--engine-option", metavar="NAME=VALUE", help="Any other option of the engine; repeatable."),
]
N = Annotated[int | None, typer.Option("--n", min=1, help="Items to sample (default: all of them).")]
K = Annotated[int, typer.Option("--k", min=1, help="Paths an item.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the item choice and of every path.")]
Temperature = Annotated[float, typer.Option("--temperature", min=0, help="Sampling temperature.")]
TopP = Annotated[float, typer.Option("--top-p", min=0, max=1, help="Nucleus sampling mass.")]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="Tokens a path may take (default: the task's own).")
]
Templates = Annotated[
    str, typer.Option("--templates", help="Prompt templates that paths cycle through: none, all, or 1,3,5.")
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Local .jsonl or .parquet in the benchmark's own column schema.")
]
PolicyText = Annotated[
    str | None, typer.Option("--policy", help="Stopping rule, such as lead_k:3 (keff list policies).")
]
Concurrency = Annotated[int | None, typer.Option("--concurrency", min=1, help="Requests in flight.")]
Shard = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/M", help="Draw the I-th of M parts (analyze --pool joins them)."),
]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="ray[://HOST:PORT]", help="Draw on the workers of a Ray cluster."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Workers with --on (default: one a GPU, else one a node)."),
]
TokenBudget = Annotated[
    int | None,
    typer.Option("--token-budget", min=1, help="Stop when this many tokens are used, prompts included."),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="Stop at this many dollars (with --prices).")
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices", help='TOML price table: ["model"] with prompt, output, cached per million tokens.'
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before a paid run.")]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Go on where the first paths of a paid run look wrong.")
]
AnswerSpaceName = Annotated[
    str | None,
    typer.Option(
        "--answer-space", help="How answers are compared: numeric, choice, binary, text, exact, math."
    ),
]
UnsafeExec = Annotated[
    bool,
    typer.Option("--unsafe-exec", help="Run model code without the sandbox (only where that cannot hurt)."),
]
TaskOptions = Annotated[
    list[str] | None,
    typer.Option("--task-option", metavar="NAME=VALUE", help="Any other option of the task; repeatable."),
]
System = Annotated[str | None, typer.Option("--system", help="System message (your own questions only).")]
TemplateFile = Annotated[
    Path | None, typer.Option("--template", help='TOML file with templates = ["...", "..."], one a slot.')
]
AnswerRegex = Annotated[
    str | None,
    typer.Option("--answer-regex", help="The last match (group 1) is the answer (your own questions)."),
]
Scorer = Annotated[
    str | None, typer.Option("--scorer", metavar="FILE.py:FUNCTION", help="Your own scorer, run as such.")
]
Trim = Annotated[
    int | None, typer.Option("--trim", min=1, help="Use the first K paths; leave out items with fewer.")
]
Format = Annotated[str | None, typer.Option("--format", help="Format of the log (default: found out).")]
Part = Annotated[
    str | None,
    typer.Option("--part", help="Which record of a log that holds several, such as gsm8k/sc."),
]
Epsilon = Annotated[float, typer.Option("--epsilon", help="The paper's marginal-gain threshold for K*.")]
KMax = Annotated[int, typer.Option("--k-max", min=1, help="The most paths that you would pay for.")]
Retain = Annotated[
    float | None,
    typer.Option("--retain", min=0.5, max=1, help="Aim: keep this share of plurality at K_max, cheapest."),
]
Budget = Annotated[
    float | None,
    typer.Option("--budget", min=1, help="Aim: the best accuracy for this many mean paths a question."),
]
ValuePerCorrect = Annotated[
    float | None,
    typer.Option("--value-per-correct", min=0, help="Aim: worth of one right answer (with --cost-per-path)."),
]
CostPerPath = Annotated[
    float | None,
    typer.Option("--cost-per-path", min=0, help="Aim: cost of one path (with --value-per-correct)."),
]


def parse_pairs(pairs: list[str] | None, flag: str) -> dict[str, Any]:
    """Turn ``name=value`` texts into options; values that read as JSON are taken as such."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{flag} {pair!r}: write it as name=value")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.replace("-", "_")] = value
    return options
