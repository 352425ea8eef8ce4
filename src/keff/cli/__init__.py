"""The command line: one thin file per command, imported only when that command runs.

In: arguments. Out: text or JSON on stdout, an exit code. Files with an underscore are shared by commands.
Read ``analyze`` (a typical command), then ``_options`` and ``_groups`` (options declared once).
"""

from __future__ import annotations

import os
import sys
import warnings

from keff.console import harmless
from keff.errors import KeffError

# In the order of ``keff --help``; each is the file of the same name in this folder.
GROUPS = {
    "Begin": "demo",
    "Cut a bill": "pilot analyze replay combine mix serve report",
    "Trust a score": "noise compare audit",
    "Reproduce the paper": "reproduce study tables predict",
    "Paths and answers": "sample read score join import export list",
}
COMMANDS = " ".join(GROUPS.values()).split()


def module_of(command: str) -> str:
    """Return the module that implements a command."""
    return f"{command}_" if command in ("list", "import") else command


def summary(command: str) -> str:
    """Return a command's summary: the first line of its module, read without importing it."""
    with open(f"{os.path.dirname(__file__)}/{module_of(command)}.py", encoding="utf-8") as source:  # noqa: PTH123, PTH120
        return source.readline().strip('"\n')


def overview() -> str:
    """Return the text of ``keff --help``, made without importing any library."""
    lines = [
        "Usage: keff COMMAND [OPTIONS]\n",
        "Find out how many sampled answers are worth paying for, and serve that many.",
    ]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {command:9}  {summary(command)}" for command in commands.split())]
    return "\n".join(
        [*lines, "", "keff COMMAND --help says more, with an example; keff --version names this one."]
    )


# What typer makes of Ctrl-C.
INTERRUPTED = 130


def _run(arguments: list[str]) -> None:
    if arguments in (["-h"], ["--help"]):
        print(overview(), flush=True)
    elif not arguments and "_KEFF_COMPLETE" not in os.environ:
        print(overview(), file=sys.stderr, flush=True)
        raise SystemExit(2)
    elif arguments == ["--version"]:
        from importlib.metadata import version

        print("keff", version("keff"), flush=True)
    else:
        from keff.cli import _app  # which imports typer: five times as long as Python itself

        _app.build(arguments)(prog_name="keff")


def main() -> None:
    """Run the command line: exit code 0 on success, 2 on wrong use or bad input, 1 on a failure."""
    # Statistics are many small matrix products: threads would spin while they wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = _warn
    try:
        _run(sys.argv[1:])
    except KeffError as error:
        raise SystemExit(_complain(str(error), error.exit_code)) from None
    except KeyboardInterrupt:
        raise SystemExit(_complain("stopped", 1)) from None
    except SystemExit as end:
        if end.code == INTERRUPTED:
            raise SystemExit(_complain("stopped", 1)) from None
        raise
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
    print(harmless("keff: " + " ".join(line.split())), file=sys.stderr)
    return code
