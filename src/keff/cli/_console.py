"""What commands print for people: results on stdout, the rest on stderr, readable without colour."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from keff.errors import UsageError
from keff.paper.reproduce import Reproduction, write
from keff.plugins import missing_extra
from keff.records import plain


def write_all(reproduction: Reproduction, out: Path, *, figures: bool) -> list[Path]:
    """Write tables, numbers and figures; raises UsageError where the folder cannot be written."""
    try:
        return write(reproduction, out) + (_draw(reproduction, out) if figures else [])
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}: name another folder with -o") from None


def _draw(reproduction: Reproduction, out: Path) -> list[Path]:
    """Write the figures; raises PluginError that says what to install."""
    try:
        draw: Any = importlib.import_module("keff.paper.drawings").draw
    except ImportError as error:
        raise missing_extra(error, "drawing figures (or give --no-figures)") from error
    return draw(reproduction, out)


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on stdout; NaN and infinities become null."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n"
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _nobody_reads()


def _nobody_reads() -> None:
    """Let what is still printed go nowhere, so that the command ends with the code that it would have had."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Progress, warnings and logs.
progress_console = Console(stderr=True, highlight=False)

# Columns of a result that goes to a file or a pipe, unless COLUMNS says how many.
WIDTH = 120


class ResultConsole(Console):
    """The result of a command; a reader that has seen enough, such as ``head``, is no failure."""

    def on_broken_pipe(self) -> None:
        """Print no more, and go on."""
        self.quiet = True
        _nobody_reads()


# The result of a command, for people.
result_console = ResultConsole(
    highlight=False, width=None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else WIDTH
)


def say(text: str, indent: int = 2, *, style: str = "") -> None:
    """Print one statement: wrapped at words on a terminal, one line where it goes to a file or a pipe.

    A text of several lines is a table, and printed as it is.
    """
    if result_console.is_terminal and "\n" not in text:
        result_console.print(Padding(Text(text, style), (0, 0, 0, indent)))
        return
    for line in text.split("\n"):
        result_console.print((" " * indent + line).rstrip(), style=style, markup=False, soft_wrap=True)


def warn(line: str) -> None:
    """Print one warning line on stderr."""
    progress_console.print(f"warning: {line}", markup=False, soft_wrap=True)
