"""What commands print for people: results on stdout, the rest on stderr, readable without colour."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from rich.console import Console, ConsoleDimensions

from keff.records import TERMINAL, plain, text_table


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


class ResultConsole(Console):
    """The result of a command; a reader that has seen enough, such as ``head``, is no failure."""

    @property
    def size(self) -> ConsoleDimensions:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As wide as COLUMNS says now, else as the terminal; a file or a pipe has 80."""
        told, (width, height) = os.environ.get("COLUMNS", ""), super().size
        if told.isdigit():
            return ConsoleDimensions(int(told), height)
        return ConsoleDimensions(width if self.is_terminal else TERMINAL, height)

    def on_broken_pipe(self) -> None:
        """Print no more, and go on."""
        self.quiet = True
        _nobody_reads()


# The result of a command, for people.
result_console = ResultConsole(highlight=False)


def say(text: str, indent: int = 2, *, style: str = "") -> None:
    """Print one statement: wrapped at words on a terminal, or where COLUMNS is set, else one line.

    A text of several lines is a table, and printed as it is.
    """
    if (result_console.is_terminal or "COLUMNS" in os.environ) and "\n" not in text:
        lines = wrap(text, result_console.width - indent, break_long_words=False, break_on_hyphens=False)
    else:
        lines = text.split("\n")
    for line in lines or [""]:
        result_console.print((" " * indent + line).rstrip(), style=style, markup=False, soft_wrap=True)


def say_all(statements: Iterable[str]) -> None:
    """Print statements and tables, the first of them bold: what was decided, or found."""
    for place, statement in enumerate(statements):
        say(statement, 0, style="" if place else "bold")


def tabled(head: Sequence[str], body: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table, an empty line before it: the first column is text, the others are numbers."""
    say("\n" + text_table(head, body, result_console.width, title), 0)


def warn(line: str) -> None:
    """Print one warning line on stderr."""
    progress_console.print(f"warning: {line}", markup=False, soft_wrap=True)
