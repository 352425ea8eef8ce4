"""The typer application, in which only the command to run is loaded."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from keff.cli import COMMANDS, module_of, overview, summary
from keff.errors import UsageError

# click, whose UsageError this is, comes with typer: in newer versions as a part of it.
_WrongUse = cast("type[Exception]", typer.BadParameter.__base__)


def _stub() -> None:
    """Placeholder for commands that are not loaded."""


class _Commands(TyperGroup):
    """Group of all commands."""

    def get_help(self, ctx: Any) -> str:  # noqa: ARG002
        """Return the overview."""
        return overview()

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the named command; a usage error prints one line."""
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except _WrongUse as error:
            raise UsageError(_one_line(error)) from None
        raise SystemExit(code)


def _one_line(error: Any) -> str:
    """Return a usage error as one line, with the help command that explains it."""
    text = error.format_message().replace("Value error, ", "")
    text = re.sub(r"Invalid value for (.*): Input should be ([^,]*).*", r"\1 must be \2", text)
    text = (text[:1].lower() + text[1:]).rstrip(".")
    where = error.ctx.command_path if error.ctx else "keff"
    return f"{text}{' See' if text.endswith('?') else '; see'} {where} --help"


class _GroupedHelp(TyperCommand):
    """Typer command whose help lists main options first, the rest under group headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, ungrouped options, then each group in order."""
        groups: dict[str, list[tuple[str, str]]] = {}
        parameters = cast("list[Any]", self.get_params(ctx))
        for parameter in parameters:
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            # A flag that only turns something off has no name before the slash.
            record = record[0].lstrip(" /"), record[1]
            argument = parameter.param_type_name == "argument"
            heading = getattr(parameter, "rich_help_panel", None) or ("Arguments" if argument else "Options")
            groups.setdefault(heading, []).append(record)
        for heading, rows in sorted(
            groups.items(), key=lambda group: group[0] not in ("Arguments", "Options")
        ):
            with formatter.section(heading):
                formatter.write_dl(rows)


def build(arguments: list[str]) -> typer.Typer:
    """Return the application with the command named by ``arguments``, and stubs for the others."""
    app = typer.Typer(
        name="keff",
        cls=_Commands,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    if "_KEFF_COMPLETE" in os.environ:
        # A shell asks: typer knows how to answer, and the words so far say of which command.
        importlib.import_module("typer.completion").completion_init()
        words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        arguments = words.split()[1:]

    app.callback()(_stub)  # without which typer makes a lone command the whole application

    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    # Nothing is said about the others where a command comes first: their first lines need not be read.
    shown = (named,) if named in COMMANDS and arguments[0] == named else COMMANDS
    for command in shown:
        function: Callable[..., None] = _stub
        told = summary(command)
        if command == named:
            module = importlib.import_module(f"keff.cli.{module_of(command)}")
            function, told = module.command, module.__doc__ or told
        # A service is set up by its environment: every flag of serve is also a variable.
        settings = {"auto_envvar_prefix": "KEFF"} if command == "serve" else None
        app.command(command, help=told, context_settings=settings, cls=_GroupedHelp)(function)
    return app
