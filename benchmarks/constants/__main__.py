"""Fit a constant of the package anew, and keep what was found beside its script, in NAME.txt.

    python -m benchmarks.constants NAME [its options]

These fits were made once; nothing is chosen by them when keff runs. A file begins with the command, the
version and the day. Constants are not changed: that is an edit of the source, and of what the docs say.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def names() -> list[str]:
    """Return the fits: every file here that has a main."""
    return sorted(file.stem for file in FOLDER.glob("[a-z]*.py") if "def main()" in file.read_text("utf-8"))


def fit_anew() -> None:
    """Run one fit, show what it prints, and keep it where it ended well."""
    if len(sys.argv) < 2 or sys.argv[1] not in names():
        raise SystemExit(f"NAME is one of {', '.join(names())}")
    name, *options = sys.argv[1:]
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-u", "-m", f"benchmarks.constants.{name}", *options],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise SystemExit(process.returncode)
    asked = " ".join([name, *options])
    how = f"python -m benchmarks.constants {asked} (keff {version('keff')}, {date.today()})\n\n"
    (FOLDER / f"{name}.txt").write_text(how + "".join(lines), "utf-8")


if __name__ == "__main__":
    fit_anew()
