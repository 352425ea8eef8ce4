"""Options of the gateway, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keff.cli._serve_settings import NAMES, in_file
from keff.errors import UsageError, unknown
from keff.policy.spec import MAX_CAP


def take_defaults(context: typer.Context, file: Path | None) -> Path | None:
    """Take the options in a TOML file as the defaults of a command; raises UsageError for unknown ones."""
    if file is None:
        return None
    given = in_file(file)
    names = [str(parameter.name) for parameter in context.command.params if parameter.name != "config"]
    for name in given:
        if name not in (*names, *NAMES):
            raise UsageError(f"{file}: {unknown('option', name, [*names, *NAMES])}")
    several = {
        parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)
    }
    named = {
        name: [value] if name in several and isinstance(value, str) else value
        for name, value in given.items()
        if name not in NAMES
    }
    context.default_map = {**(context.default_map or {}), **named}
    return file


SERVERS = "The servers"
KEPT = "What is kept"
CLIENTS = "Who may ask"
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
UpstreamUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="URL",
        help="Base URL of the server that draws the paths; repeated: several of the same models.",
        show_default="none: every branch of the plan names its own",
    ),
]
ServedBranches = Annotated[
    list[Path] | None,
    typer.Option(
        "--branch",
        help="TOML file of one branch of the plan (server, model, prompt); repeatable.",
        rich_help_panel=SERVERS,
    ),
]
FallbackUrl = Annotated[
    str | None,
    typer.Option(
        "--fallback",
        help="Base URL of a second server of the same models, asked where the first fails.",
        rich_help_panel=SERVERS,
    ),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port (0: any).")]
ServeWorkers = Annotated[
    int, typer.Option("--workers", min=1, max=256, help="Processes that serve, on one port.")
]
UpstreamModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Model name at the upstream.",
        show_default="the plan's, or the request's",
        rich_help_panel=SERVERS,
    ),
]
InFlight = Annotated[
    int,
    typer.Option(
        "--in-flight",
        hidden=True,
        help="Keep at least this many paths running; those not needed are cancelled.",
    ),
]
TokenEnv = Annotated[
    str | None,
    typer.Option(
        "--token-env",
        metavar="NAME",
        help="Environment variable with the bearer token that clients must send.",
        rich_help_panel=CLIENTS,
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        help="TOML file of clients' keys with names and limits per day.",
        show_default="none",
        rich_help_panel=CLIENTS,
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Check everything that is given, and do not serve.")]
ServeConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=take_defaults,
        help="TOML file with options and settings by name; the command line and KEFF_... variables win.",
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
        "--upstream-key-env",
        metavar="NAME",
        help="Environment variable with the API key of the upstream.",
        rich_help_panel=SERVERS,
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="State file of the drift alarm; 'none' keeps none.",
        show_default="beside the plan",
        rich_help_panel=KEPT,
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
        rich_help_panel=KEPT,
    ),
]
