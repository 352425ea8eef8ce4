"""Run every benchmark in this folder in turn, and write what they print to docs/benchmarks.md.

    python -m benchmarks [NAME ...] [--full]

Without ``--full`` the long simulations are shortened. Each benchmark is a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "benchmarks.md"
SHORT = {
    "bounds_coverage": ["--repeats", "20"],
    "coverage": ["100"],
    "extraction": ["--fuzz", "50000"],
    "gateway": ["--clients", "16", "--seconds", "4", "--turns", "2"],
    "plurality_beyond_pilot": ["--draws", "3"],
}
PACKAGES = (
    "numpy",
    "scipy",
    "openai",
    "altair",
    "vl-convert-python",
    "starlette",
    "uvicorn",
    "aiohttp",
    "xllamacpp",
)
HEAD = """# Benchmarks

Written by `make bench`. Ratios are measured side by side in one process group on one machine, so they mean more than the
times beside them.
"""


def names() -> list[str]:
    """Return the benchmarks: every file here that has a main."""
    return sorted(file.stem for file in FOLDER.glob("[a-z]*.py") if "def main()" in file.read_text("utf-8"))


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
        f"- {len(os.sched_getaffinity(0))} cores ({model}), {memory} GB, load average {load:.1f} at the start\n"
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


def run(name: str, full: bool, limit: float) -> str:
    """Run one benchmark and return its section."""
    arguments = [] if full else SHORT.get(name, [])
    started = time.perf_counter()
    text = _output([sys.executable, "-m", f"benchmarks.{name}", *arguments], limit)
    seconds = time.perf_counter() - started
    asked = f" {' '.join(arguments)}" if arguments else ""
    return f"## {name}\n\n{about(name)}\n\n`python -m benchmarks.{name}{asked}`, {seconds:.0f} s\n\n```text\n{text}\n```\n"


def _output(command: list[str], limit: float) -> str:
    """Return what a command prints, ending with all processes that it started."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=FOLDER.parent, stdout=out, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(limit)
            ending = f"\nexit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            ending = f"\nnot finished in {limit:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [""])[-1]
        return (out.read().rstrip() + (f"{ending} {last}".rstrip() if ending else "")).strip()


def about(name: str) -> str:
    """Return the first paragraph of a benchmark's docstring."""
    source = (FOLDER / f"{name}.py").read_text("utf-8")
    return " ".join(source.split('"""')[1].split("\n\n")[0].split())


def main() -> None:
    """Run them and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*names(), []])
    parser.add_argument("--full", action="store_true", help="the long simulations at full length")
    parser.add_argument("--seconds", type=float, default=1200, help="the most that one benchmark may take")
    options = parser.parse_args()
    parts = [HEAD, machine()]
    for name in options.names or names():
        print(f"{name} ...", flush=True)
        parts.append(run(name, options.full, options.seconds))
        print(parts[-1], flush=True)
        if not options.names:
            PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
