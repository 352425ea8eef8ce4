"""What commands print for people: results on stdout, the rest on stderr, readable without colour."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from rich.console import Console, ConsoleDimensions
from rich.padding import Padding
from rich.text import Text

from keff.records import plain


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

    @property
    def size(self) -> ConsoleDimensions:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As wide as COLUMNS says now, else as the terminal; a file or a pipe has ``WIDTH``."""
        told, (width, height) = os.environ.get("COLUMNS", ""), super().size
        if told.isdigit():
            return ConsoleDimensions(int(told), height)
        return ConsoleDimensions(width if self.is_terminal else WIDTH, height)

    def on_broken_pipe(self) -> None:
        """Print no more, and go on."""
        self.quiet = True
        _nobody_reads()


# The result of a command, for people.
result_console = ResultConsole(highlight=False)


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
