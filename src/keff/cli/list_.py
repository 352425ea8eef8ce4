"""List tasks, engines, policies, log formats or answer spaces.

A policy is written NAME:VALUE,KEY=VALUE, such as lead_k:3,cap=8.

Example: keff list policies
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from keff import plugins
from keff.cli._console import print_json, say
from keff.cli._options import Json

# The kinds of plugin by their plurals.
KINDS: dict[str, plugins.Kind] = {
    "tasks": "task",
    "engines": "engine",
    "policies": "policy",
    "logs": "log",
    "spaces": "space",
}


def command(
    kind: Annotated[
        Literal["tasks", "engines", "policies", "logs", "spaces"],
        typer.Argument(metavar="|".join(KINDS), help="What to list."),
    ],
    json: Json = False,
) -> None:
    """Print every plugin of a kind with its summary."""
    shown = plugins.summaries(KINDS[kind])
    if json:
        print_json({kind: shown})
        return
    width = max(map(len, shown), default=0)
    for name, summary in shown.items():
        say(f"{name:{width}}  {summary}", hang=width + 2)
