"""List tasks, engines, policies or log formats."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from keff import plugins
from keff.cli import _console
from keff.cli._options import Json


class Kinds(StrEnum):
    """The kinds of plugin, in the plural."""

    tasks = "tasks"
    engines = "engines"
    policies = "policies"
    logs = "logs"


def command(
    kind: Annotated[Kinds, typer.Argument(metavar="tasks|engines|policies|logs", help="What to list.")],
    json: Json = False,
) -> None:
    """Print every plugin of a kind with its summary."""
    singular: dict[str, plugins.Kind] = {plural: one for one, plural in plugins.PLURAL.items()}
    found = plugins.names(singular[kind.value])
    if json:
        _console.print_json({kind.value: found})
        return
    width = max((len(name) for name in found), default=0)
    for name, summary in found.items():
        typer.echo(f"{name:{width}}  {summary}")
