"""Run every benchmark of these folders in turn, and write what they claim to docs/benchmarks.md.

    python -m benchmarks [NAME ...] [--full]

With names, their rows take the place of the old ones in the page, and the others stay as they were: each
says with which version and when it was made. Without ``--full`` long simulations are shortened. Each
benchmark is a process of its own. It prints what it likes; a line ``claim: what | measured | aim`` becomes a
row of the page where it has an aim, ``note: text`` stands beside the command, and ``skipped: why`` says that
something it needs is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.places import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
SHORT = {
    "bounds_coverage": ["--repeats", "5"],
    "chaos": ["--inputs", "3000"],
    "coverage": ["200"],
    "drift": ["--runs", "5", "--quiet-requests", "200"],
    "decision": ["--pilots", "1"],
    "in_flight": ["--every", "6", "--orders", "1000"],
    "gateway": ["--clients", "64", "--seconds", "5", "--turns", "3"],
    "real_model": ["--items", "1"],
    "soak": ["--minutes", "1"],
    "plurality_beyond_pilot": ["--draws", "2"],
    "live_latency": ["--questions", "6"],
    "sources": ["--turns", "100", "--splits", "5", "--mixes", "20"],
}
PACKAGES = (
    "numpy",
    "scipy",
    "openai",
    "vl-convert-python",
    "starlette",
    "uvicorn",
    "h11",
    "msgspec",
    "aiohttp",
    "xllamacpp",
)
HEAD = """# Benchmarks

`make bench` writes this page, and `python -m benchmarks NAME` the rows of one benchmark. A ratio is of two
things measured side by side, so it means more than a time. What a benchmark does, its file says first.
"""
FAILED = ("exit code", "not finished in")
TABLE = "## Aims and measurements\n"
RUNS = "## Options, version and day of each\n"


@dataclass(frozen=True, slots=True)
class Report:
    """What one benchmark printed: its claims (what, measured, aim), how it was run, and all of its output."""

    name: str
    claims: tuple[tuple[str, str, str], ...]
    run: str
    output: str = ""


def modules() -> dict[str, str]:
    """Return the module of each benchmark by its short name: every file of a folder here that has a main.

    Fits of ``constants`` have a runner of their own. Raises ValueError where two files have one name.
    """
    found: dict[str, str] = {}
    for file in sorted((ROOT / "benchmarks").glob("*/[a-z]*.py"), key=lambda file: file.stem):
        if file.parent.name == "constants" or "def main()" not in file.read_text("utf-8"):
            continue
        module = f"benchmarks.{file.parent.name}.{file.stem}"
        if found.setdefault(file.stem, module) != module:
            raise ValueError(f"two benchmarks are called {file.stem}: {found[file.stem]} and {module}")
    return found


def machine() -> str:
    """Describe the machine and the versions in a list."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    memory = next((int(line.split()[1]) >> 20 for line in _lines("/proc/meminfo") if "MemTotal" in line), 0)
    load = os.getloadavg()[0]
    found = [f"{name} {_version(name)}" for name in ("keff", *PACKAGES) if _version(name)]
    return (
        f"- {len(os.sched_getaffinity(0))} cores ({model}), {memory} GB, load average {load:.1f} "
        "at the start\n"
        f"- {platform.system()} {platform.release()}, Python {platform.python_version()}\n"
        f"- {', '.join(found)}\n"
    )


def _lines(file: str) -> list[str]:
    path = Path(file)
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def run(name: str, full: bool, limit: float) -> Report:
    """Run one benchmark."""
    arguments = [] if full else SHORT.get(name, [])
    text = _output([sys.executable, "-m", modules()[name], *arguments], limit)
    asked = f"`{' '.join(arguments)}`, " if arguments else ""
    return read(name, text, f"{asked}{_version('keff')}, {date.today()}")


def read(name: str, text: str, how: str) -> Report:
    """Sort what a benchmark printed into claims with an aim, and what is to be said of the run."""
    lines = text.splitlines()
    claims = [_three(line.removeprefix("claim:").split("|")) for line in lines if line.startswith("claim:")]
    said = [line.partition(":")[2].strip() for line in lines if line.startswith(("note:", "skipped:"))]
    said += [line for line in lines if line.startswith(FAILED)]
    ends = "".join(f" {part.rstrip('.')}." for part in said)
    return Report(name, tuple(claim for claim in claims if claim[2]), f"{how}.{ends}", text)


def kept(text: str, replaced: Collection[str]) -> list[Report]:
    """Return what a page holds, without the benchmarks that were run anew and those that are no more."""
    table, _, runs = text.partition(RUNS)
    rows = [row[1:-1].split("|") for row in table.splitlines() if row.count("|") == 5]
    of: list[tuple[str, tuple[str, str, str]]] = []
    for name, *claim in rows:
        of.append((name or of[-1][0], _three(claim)))
    return [
        Report(name, tuple(claim for whose, claim in of if whose == name), said)
        for name, said in re.findall(r"(?m)^- \*\*(\w+)\*\*: (.+)$", runs)
        if name in modules() and name not in replaced
    ]


def _three(parts: list[str]) -> tuple[str, str, str]:
    what, measured, aim = ([part.strip() for part in parts] + ["", ""])[:3]
    return what, measured, aim


def page(reports: list[Report], about_machine: str) -> str:
    """Return the page: the machine, a row for each claim, and a line for each benchmark."""
    rows = [
        f"|{'' if row else report.name}|{what}|{measured}|{aim}|"
        for report in reports
        for row, (what, measured, aim) in enumerate(report.claims)
    ]
    lines = [f"- **{report.name}**: {report.run}" for report in reports]
    table = ["|benchmark|what|measured|aim|", "|---|---|---|---|", *rows]
    return "\n".join([HEAD, about_machine, TABLE, *table, "", RUNS, *lines]) + "\n"


def _output(command: list[str], limit: float) -> str:
    """Return what a command prints, ending with all processes that it started."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=errors, start_new_session=True)
        try:
            code = process.wait(limit)
            ending = f"\n{FAILED[0]} {code}" if code else ""
        except subprocess.TimeoutExpired:
            ending = f"\n{FAILED[1]} {limit:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [""])[-1]
        return (out.read().rstrip() + (f"{ending} {last}".rstrip() if ending else "")).strip()


def main() -> None:
    """Run them and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*modules(), []])
    parser.add_argument("--full", action="store_true", help="the long simulations at full length")
    parser.add_argument("--seconds", type=float, default=600, help="the most that one benchmark may take")
    options = parser.parse_args()
    chosen = options.names or list(modules())
    old = kept(PAGE.read_text("utf-8"), chosen) if options.names and PAGE.is_file() else []
    reports: list[Report] = []
    where = machine()
    for name in chosen:
        print(f"{name} ...", flush=True)
        reports.append(run(name, options.full, options.seconds))
        print(reports[-1].output, flush=True)
        whole = sorted([*old, *reports], key=lambda report: report.name)
        PAGE.write_text(page(whole, where), encoding="utf-8")


if __name__ == "__main__":
    main()
