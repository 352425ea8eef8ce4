"""List tasks, engines, policies, log formats or answer spaces."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from keff import plugins
from keff.cli._console import print_json, say
from keff.cli._options import Json


class Kinds(StrEnum):
    """The kinds of plugin, in the plural."""

    tasks = "tasks"
    engines = "engines"
    policies = "policies"
    logs = "logs"
    spaces = "spaces"


KINDS: dict[Kinds, plugins.Kind] = {
    Kinds.tasks: "task",
    Kinds.engines: "engine",
    Kinds.policies: "policy",
    Kinds.logs: "log",
    Kinds.spaces: "space",
}


def command(
    kind: Annotated[Kinds, typer.Argument(metavar="|".join(Kinds), help="What to list.")], json: Json = False
) -> None:
    """Print every plugin of a kind with its summary."""
    shown = plugins.summaries(KINDS[kind])
    if json:
        print_json({kind.value: shown})
        return
    width = max(map(len, shown), default=0)
    for name, summary in shown.items():
        say(f"{name:{width}}  {summary}", hang=width + 2)
