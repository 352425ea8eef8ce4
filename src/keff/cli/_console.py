"""What commands print for people: results on stdout, the rest on stderr, readable without colour."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

from keff.records import Finding, Note, plain, terminal_width, text_table

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on stdout; NaN and infinities become null."""
    _write(json.dumps(plain(value), ensure_ascii=False, allow_nan=False), sys.stdout)


def _write(text: str, file: TextIO) -> None:
    """Print text; a reader that has seen enough, such as ``head``, is no failure."""
    try:
        print(text, file=file, flush=True)
    except BrokenPipeError:
        _nobody_reads()


def _nobody_reads() -> None:
    """Let what is still printed go nowhere, so that the command ends with the code that it would have had."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# What text may not hold: a terminal would obey it.
_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def console(*, stderr: bool = False) -> Console:
    """Return what draws tables and progress; made when it is wanted, for it takes a tenth of the start."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            _nobody_reads()

    return Quiet(stderr=stderr, highlight=False, width=None if stderr else terminal_width())


def _put(text: str, file: TextIO, *, bold: bool = False) -> None:
    text = text.translate(_CONTROLS)
    if bold and file.isatty() and os.environ.get("TERM") != "dumb":
        text = f"\x1b[1m{text}\x1b[0m"
    _write(text, file)


def say(text: str, *, bold: bool = False, hang: int = 0) -> None:
    """Print one statement: wrapped at words on a terminal, or where COLUMNS is set, else one line.

    A text of several lines is a table, and printed as it is; ``hang`` indents the lines after the first.
    """
    if (sys.stdout.isatty() or "COLUMNS" in os.environ) and "\n" not in text:
        lines = wrap(
            text,
            terminal_width(),
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
    else:
        lines = text.split("\n")
    for line in lines or [""]:
        _put(line.rstrip(), sys.stdout, bold=bold)


def say_all(statements: Iterable[str]) -> None:
    """Print statements and tables, the first of them bold: what was decided, or found."""
    for place, statement in enumerate(statements):
        say(statement, bold=not place)


def tabled(rows: Sequence[Sequence[str]]) -> None:
    """Print a table, an empty line before it: the first column is text, the others are numbers."""
    say(f"\n{text_table(rows)}")


def tell(found: Finding, *, json: bool) -> None:
    """Print a result: as a JSON object, or as it says itself to people, the first statement bold."""
    if json:
        print_json(found.to_dict())
        return
    say_all(found.statements())
    warn_all(getattr(found, "warnings", ()))


def tell_runs(found: Sequence[tuple[str, Finding]], *, json: bool) -> None:
    """Print the results of one or several records, each of several under its path."""
    if json and len(found) > 1:
        print_json({"runs": [{"path": path, **each.to_dict()} for path, each in found]})
        return
    for path, each in found:
        if len(found) > 1:
            say(path, bold=True)
        tell(each, json=json)


def warn(line: str) -> None:
    """Print one warning line on stderr."""
    note(f"warning: {line}")


def warn_all(notes: Iterable[Note]) -> None:
    """Print the sentence of every warning on stderr."""
    for each in notes:
        warn(each.message)


def note(line: str) -> None:
    """Print one line on stderr: progress, warnings, what was written where."""
    _put(line, sys.stderr)
