"""Options of the gateway, each declared once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import typer

from keff.errors import UsageError, unknown
from keff.policy_spec import MAX_CAP


def take_defaults(context: typer.Context, file: Path | None) -> Path | None:
    """Take the options in a TOML file as the defaults of a command; raises UsageError for unknown ones."""
    if file is None:
        return None
    try:
        given = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    names = [str(parameter.name) for parameter in context.command.params if parameter.name != "config"]
    named = {name.replace("-", "_"): value for name, value in given.items()}
    for name in named:
        if name not in names:
            raise UsageError(f"{file}: {unknown('option', name, names)}")
    context.default_map = {**(context.default_map or {}), **named}
    return file


PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        help="The plan to deploy (keff analyze -o plan.json); without one --policy answers every request.",
        show_default="none",
    ),
]
ServePolicy = Annotated[
    str | None,
    typer.Option("--policy", help="Policy of requests, without a plan.", show_default="lead_k:3"),
]
ToolIgnore = Annotated[
    list[str] | None,
    typer.Option(
        "--tool-ignore",
        metavar="ARG",
        help="Argument of tool calls that does not count in a vote, such as a timestamp (repeatable).",
    ),
]
UpstreamUrl = Annotated[
    str | None,
    typer.Option(
        "--upstream",
        help="Base URL of the server that draws the paths.",
        show_default="none: every branch of the plan names its own",
    ),
]
ServedBranches = Annotated[
    list[Path] | None,
    typer.Option("--branch", help="TOML file of one branch of the plan (server, model, prompt); repeatable."),
]
BranchDown = Annotated[
    Literal["skip", "fail"],
    typer.Option("--branch-down", help="A branch that is down is skipped, or fails the request."),
]
FallbackUrl = Annotated[
    str | None,
    typer.Option(
        "--fallback", help="Base URL of a second server of the same models, asked where the first fails."
    ),
]
FallbackKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--fallback-key-env", metavar="NAME", help="Environment variable with the API key of the fallback."
    ),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port (0: any).")]
ServeWorkers = Annotated[
    int, typer.Option("--workers", min=1, max=256, help="Processes that serve, on one port.")
]
Strict = Annotated[
    bool, typer.Option("--strict/--allow-mismatch", help="Refuse requests that differ from the plan.")
]
UpstreamModel = Annotated[
    str | None,
    typer.Option("--model", help="Model name at the upstream.", show_default="the plan's, or the request's"),
]
AppendAnswerFormat = Annotated[
    bool, typer.Option("--append-answer-format", help="Add the answer contract to the last message.")
]
FreeText = Annotated[
    Literal["pass", "refuse", "draw"],
    typer.Option(
        "--free-text", help="When the first round holds no answer: pass the text on, refuse, or keep drawing."
    ),
]
Reply = Annotated[
    Literal["shortest", "first"],
    typer.Option("--reply", help="Which of the paths with the winning answer is sent."),
]
MaxPaths = Annotated[int, typer.Option("--max-paths", help="Most paths that a request may ask for.")]
InFlight = Annotated[
    int,
    typer.Option(
        "--in-flight", help="Keep at least this many paths running; those not needed are cancelled."
    ),
]
Replacements = Annotated[
    int, typer.Option("--replacements", min=0, help="Failed upstream calls that are replaced, per request.")
]
Deadline = Annotated[
    float | None,
    typer.Option("--deadline", help="Seconds after which a request is answered with the paths drawn so far."),
]
PathTimeout = Annotated[
    float, typer.Option("--path-timeout", min=0.1, help="Seconds that one upstream call may take.")
]
UpstreamN = Annotated[
    int, typer.Option("--upstream-n", min=1, help="Most paths in one upstream call (lowered if refused).")
]
Connections = Annotated[int, typer.Option("--connections", min=1, help="Most upstream connections at once.")]
TokenEnv = Annotated[
    str | None,
    typer.Option(
        "--token-env",
        metavar="NAME",
        help="Environment variable with the bearer token that clients must send.",
    ),
]
AdminTokenEnv = Annotated[
    str | None,
    typer.Option(
        "--admin-token-env",
        metavar="NAME",
        help="Environment variable with the operator's token for /keff and /keff/plan.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="TOML file of clients' keys with names and limits per day.", show_default="none"
    ),
]
Otlp = Annotated[
    str | None,
    typer.Option("--otlp", metavar="URL", help="Collector that gets traces (OTLP over HTTP; extra otel)."),
]
SpendFile = Annotated[
    Path | None,
    typer.Option("--spend", help="SQLite file of what each key spent.", show_default="beside the key file"),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option("--cors-origin", metavar="ORIGIN", help="Let web pages of this origin ask (repeatable)."),
]
Check = Annotated[bool, typer.Option("--check", help="Check everything that is given, and do not serve.")]
ServeConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=take_defaults,
        help="TOML file with any of these options by name; the command line and KEFF_... variables win.",
    ),
]
NowServed = Annotated[
    str | None,
    typer.Option(
        "--now",
        metavar="K|POLICY",
        help="What is deployed today: savings are against it.",
        show_default="what the plan's figures are against",
    ),
]
UpstreamKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--upstream-key-env", metavar="NAME", help="Environment variable with the API key of the upstream."
    ),
]
ForwardHeader = Annotated[
    list[str] | None,
    typer.Option("--forward-header", metavar="X-NAME", help="Header of clients to pass on (repeatable)."),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state", help="State file of the drift alarm; 'none' keeps none.", show_default="beside the plan"
    ),
]
ShadowBudget = Annotated[
    float,
    typer.Option(
        "--shadow-budget",
        min=0,
        max=1,
        help="Spend this share of the paths again on drawing some requests on after their reply, "
        "up to --cap.",
    ),
]
ShadowCap = Annotated[
    int | None,
    typer.Option(
        "--cap",
        min=1,
        max=MAX_CAP,
        help="K_max: where requests that are drawn on end, and without a plan the most paths of a request.",
        show_default="32",
    ),
]
VoteLog = Annotated[
    Path | None, typer.Option("--vote-log", help="Append each request's votes here, redacted.")
]
VoteLogAnswers = Annotated[
    bool, typer.Option("--vote-log-answers", help="Write the answers themselves into the vote log.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Log warnings only.")]
