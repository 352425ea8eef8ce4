"""Run a keff command in this process, as a user's shell would see it end.

Starting Python and importing numpy takes longer than most commands; the few tests that need a process of its
own (signals, kills, locks) start one themselves.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import typer

from keff import cli
from keff.cli import _app


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def keff(*arguments: object, cwd: Path | None = None, **environment: str) -> Done:
    """Run one command to its end."""
    out, err = _text(), _text()
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.resetwarnings()
        stack.enter_context(mock.patch.object(sys, "argv", ["keff", *map(str, arguments)]))
        stack.enter_context(mock.patch.dict(os.environ, {"COLUMNS": "120", "NO_COLOR": "1"} | environment))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        if cwd is not None:
            stack.enter_context(contextlib.chdir(cwd))
        code = _code()
    done = Done(code, _written(out), _written(err))
    if missing := options_missing(str(arguments[0]) if arguments else "", done.stderr):
        msg = f"{missing} is no option of the command that has to take it: {done.stderr}"
        raise AssertionError(msg)
    return done


@functools.cache
def options_of(command: str) -> frozenset[str]:
    """Return the names of a command's options; none where there is no such command."""
    if command not in cli.COMMANDS:
        return frozenset()
    group: Any = typer.main.get_command(_app.build([command]))
    parameters = group.commands[command].params
    return frozenset(name for one in parameters for name in (*one.opts, *one.secondary_opts)) | {"--help"}


# In a sentence: a command, an option (of the command that it is meant for), or an end.
_WORDS = re.compile(
    r"\bkeff (?P<command>[a-z]+)|(?<![\w-])(?P<option>--[a-z][a-z-]+)(?: \S+ for (?P<other>[a-z]+)\b)?"
    r"|(?:pip|hf) (?:install|download).*|[;:.)](?=\s)"
)


def options_missing(command: str, said: str) -> list[str]:
    """Return the options that a command recommends and neither it nor the one named before them takes."""
    missing = list[str]()
    meant = command
    for word in _WORDS.finditer(said):
        if option := word["option"]:
            known = options_of(word["other"] or "") or options_of(meant)
            if known and option not in known and not said.startswith("keff: no such option"):
                missing.append(option)
        elif word["command"] in cli.COMMANDS:
            meant = word["command"]
        elif not word["command"]:
            meant = command
    return missing


def _code() -> int:
    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _text() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode("utf-8")
