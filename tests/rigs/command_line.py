"""Run a keff command in this process, as a user's shell would see it end.

Starting Python and importing numpy takes longer than most commands; the few tests that need a process of its
own (signals, kills, locks) start one themselves.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from keff import cli


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
    return Done(code, _written(out), _written(err))


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
