"""The command line: one thin file per command, imported only when that command runs."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from keff.cli._start import UNUSED, as_given, only_compiled, postpone
from keff.errors import KeffError, UsageError

# In the order of ``keff --help``; each is the file of the same name in this folder.
COMMANDS = (
    "demo",
    "sample",
    "pilot",
    "read",
    "analyze",
    "noise",
    "compare",
    "audit",
    "combine",
    "mix",
    "join",
    "reproduce",
    "study",
    "score",
    "import",
    "export",
    "replay",
    "serve",
    "report",
    "tables",
    "atlas",
    "predict",
    "list",
)


def _module(command: str) -> str:
    return f"{command}_" if command in ("list", "import") else command


def _first_line(command: str) -> str:
    with (Path(__file__).parent / f"{_module(command)}.py").open(encoding="utf-8") as source:
        return source.readline().strip('"\n')


def _stub() -> None:
    """Stand in the help for a command whose module is not wanted in this process."""


class _QuickStart:
    """A command whose parameters are taken as they are given."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters."""
        return list(map(as_given, cast("Any", super()).get_params(ctx)))


class _Commands(_QuickStart, TyperGroup):
    """All commands."""


class _GroupedHelp(_QuickStart, TyperCommand):
    """A command whose help shows what matters first, and the rest under the heading of its group."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options without a group, then each group in the order of its first option."""
        groups: dict[str, list[tuple[str, str]]] = {}
        parameters = cast("list[Any]", self.get_params(ctx))
        for parameter in parameters:
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            argument = parameter.param_type_name == "argument"
            heading = getattr(parameter, "rich_help_panel", None) or ("Arguments" if argument else "Options")
            groups.setdefault(heading, []).append(record)
        for heading, rows in sorted(
            groups.items(), key=lambda group: group[0] not in ("Arguments", "Options")
        ):
            with formatter.section(heading):
                formatter.write_dl(rows)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"keff {version('keff')}")
        raise typer.Exit


# What typer makes of Ctrl-C.
INTERRUPTED = 130


def build(arguments: list[str]) -> typer.Typer:
    """Make the app with the one command that ``arguments`` name, and stubs for the help of the others."""
    app = typer.Typer(
        name="keff",
        cls=_Commands,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    if "_KEFF_COMPLETE" in os.environ:
        # A shell asks: typer knows how to answer, and the words so far say of which command.
        importlib.import_module("typer.completion").completion_init()
        words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        arguments = words.split()[1:]

    @app.callback()
    def root(  # pyright: ignore[reportUnusedFunction]
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        """Know how many reasoning paths are worth paying for, then serve exactly that many."""

    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    # Nothing is said about the others where a command comes first: their first lines need not be read.
    shown = (named,) if named in COMMANDS and arguments[0] == named else COMMANDS
    for command in shown:
        function: Callable[..., None] = _stub
        if command == named:
            postpone(UNUSED)
            if command != "serve":  # which holds for weeks what it loads, and computes nothing by it
                only_compiled()
            function = importlib.import_module(f"keff.cli.{_module(command)}").command
        # A service is set up by its environment: every flag of serve is also a variable.
        settings = {"auto_envvar_prefix": "KEFF"} if command == "serve" else None
        app.command(command, help=_first_line(command), context_settings=settings, cls=_GroupedHelp)(function)
    return app


# Options of 0.2 that have another name, and what to write instead.
RENAMED = {
    "--k-max": "--cap",
    "--confidence": "--sure",
    "--budget-mean": "--budget (90% sure)",
    "--allow-mismatch": "the default",
    "--part": "PATH#PART",
    "--answer-regex": "--task-option answer_regex=REGEX",
    "--threshold": "--format NAME:threshold=T",
    **dict.fromkeys(("--dataset", "--setting", "--source", "--url", "--licence"), "--about NAME=VALUE"),
    **{
        f"--{name.replace('_', '-')}": f"--set {name}=VALUE"
        for name in (
            "admin_token_env",
            "append_answer_format",
            "branch_down",
            "connections",
            "cors_origin",
            "deadline",
            "fallback_key_env",
            "forward_header",
            "free_text",
            "max_paths",
            "otlp",
            "path_timeout",
            "quiet",
            "replacements",
            "reply",
            "shadow_budget",
            "spend",
            "strict",
            "tool_ignore",
            "upstream_n",
            "vote_log",
            "vote_log_answers",
        )
    },
}


def _renamed(arguments: Iterable[str]) -> None:
    for flag in (argument.partition("=")[0] for argument in arguments):
        if flag in RENAMED:
            raise UsageError(f"{flag} is {RENAMED[flag]} since 0.3")


def main() -> None:
    """Run the command line: exit code 0 on success, 2 on wrong use or bad input, 1 on a failure."""
    # Statistics are many small matrix products: threads would spin while they wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    atexit.register(gc.freeze)  # nor does it look at the end, when all memory goes with the process
    warnings.showwarning = _warn
    try:
        _renamed(sys.argv[1:])
        build(sys.argv[1:])()
    except KeffError as error:
        raise SystemExit(_complain(str(error), error.exit_code)) from None
    except KeyboardInterrupt:
        raise SystemExit(_complain("stopped", 1)) from None
    except SystemExit as end:
        if end.code == INTERRUPTED:
            raise SystemExit(_complain("stopped", 1)) from None
        raise
    except PermissionError as error:
        line = f"{error.filename}: permission denied" if error.filename else str(error)
        raise SystemExit(_complain(line, 2)) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        # A name above 255 bytes, a folder where a file is meant, a file that went away.
        line = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise SystemExit(_complain(line, 2 if error.filename else 1)) from None
    except Exception as error:
        if os.environ.get("KEFF_DEBUG"):
            raise
        line = f"internal error: {type(error).__name__}: {error} (KEFF_DEBUG=1 shows where; please report it)"
        raise SystemExit(_complain(line, 1)) from None


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning as one line for the person at the terminal, without file and code."""
    _complain(f"note: {message}", 0)


def _complain(line: str, code: int) -> int:
    print("keff: " + " ".join(line.split()), file=sys.stderr)
    return code
