"""What commands print for people: results on stdout, the rest on stderr, readable without colour."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

# Progress, warnings and logs.
progress_console = Console(stderr=True, highlight=False)

# Columns of a result that goes to a file or a pipe.
WIDTH = 120

# The result of a command, for people.
result_console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


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
