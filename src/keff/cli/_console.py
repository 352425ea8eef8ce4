"""Terminal output: results on stdout, notes and warnings on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

from keff.console import harmless, harmless_json
from keff.records import Finding, Note, plain, terminal_width, text_table

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on stdout; NaN and infinities become null."""
    escaped = "utf" not in encoding_of(sys.stdout)
    _write(harmless_json(json.dumps(plain(value), ensure_ascii=escaped, allow_nan=False)), sys.stdout)


# For consoles with a code page: the marks of tables and curves that it may lack.
PLAIN = str.maketrans("▁▂▃▄▅▆▇█–·×…", "._-=+*#@-*x.")


def encoding_of(file: TextIO) -> str:
    """Return the encoding of a stream, in small letters."""
    return (file.encoding or "utf-8").lower()


def _write(text: str, file: TextIO) -> None:
    """Print text; a closed pipe (such as ``head``) is no failure, nor a code page without some letter."""
    encoding = encoding_of(file)
    if text.encode(encoding, "replace") != text.encode(encoding, "ignore"):
        text = text.translate(PLAIN).encode(encoding, "replace").decode(encoding)
    try:
        print(text, file=file, flush=True)
    except BrokenPipeError:
        _nobody_reads()


def _nobody_reads() -> None:
    """Redirect stdout to nowhere after a closed pipe, so that the exit code stays."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(*, stderr: bool = False) -> Console:
    """Return rich's console, created on first use since its import is slow."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            _nobody_reads()

    return Quiet(stderr=stderr, highlight=False, width=None if stderr else terminal_width())


def _put(text: str, file: TextIO, *, bold: bool = False) -> None:
    text = harmless(text)
    if bold and file.isatty() and os.environ.get("TERM") != "dumb":
        text = f"\x1b[1m{text}\x1b[0m"
    _write(text, file)


def say(text: str, *, bold: bool = False, hang: int = 0) -> None:
    """Print one sentence, wrapped on a terminal or where COLUMNS is set.

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
    """Print sentences and tables, the first one bold."""
    for place, statement in enumerate(statements):
        say(statement, bold=not place)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print a table after an empty line: first column text, others numbers."""
    say(f"\n{text_table(rows)}")


def tell(found: Finding, *, json: bool) -> None:
    """Print a result: as JSON, or its sentences with the first in bold."""
    if json:
        print_json(found.to_dict())
        return
    say_all(found.statements())
    warn_all(getattr(found, "warnings", ()))


def tell_runs(found: Sequence[tuple[str, Finding]], *, json: bool) -> None:
    """Print results of one or several records, several under their paths."""
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
    """Print every note and warning on stderr."""
    for each in notes:
        note(str(each))


def note(line: str) -> None:
    """Print one line on stderr: progress, warnings, what was written where."""
    _put(line, sys.stderr)
