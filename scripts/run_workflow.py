"""Run the steps of a workflow on this machine: a clean checkout, and an environment for each Python there is.

    python scripts/run_workflow.py FILE JOB... [--only WORD] [--tag vX.Y.Z]

Bash runs every ``run`` of a job in a fresh clone of HEAD, in a folder with nothing beside it. What only the
hosting service can do (``uses``) is named and passed over, and so is a Python that is not here.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml

REPO = Path(__file__).resolve().parent.parent
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
Cell = dict[str, str]


def cells(job: dict[str, Any]) -> Iterator[Cell]:
    """Yield each combination of a job's matrix; a job without one has a single empty combination."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    if matrix or not included:
        yield from (dict(zip(matrix, values, strict=True)) for values in product(*matrix.values()))
    yield from included


def filled(text: str, cell: Cell) -> str:
    """Return a text with the values of the matrix in it."""
    return re.sub(r"\$\{\{ matrix\.([\w-]+) \}\}", lambda found: str(cell[found[1]]), str(text))


def interpreter(version: str) -> str | None:
    """Return the path of Python ``version`` on this machine, or None."""
    if version == HERE:
        return sys.executable
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


def version_of(job: dict[str, Any], cell: Cell) -> str:
    """Return the Python that a job asks for, by its container, by setup-python or by the matrix."""
    asked = [
        step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")
    ]
    container = job.get("container", {}).get("image", "")
    named = re.search(r"python:(.+)-", filled(container, cell))
    return named[1] if named else filled(asked[0], cell) if asked else HERE


def run(name: str, job: dict[str, Any], cell: Cell, tag: str) -> bool:
    """Run one job; return whether every step that can run here ended well."""
    version, title = version_of(job, cell), " ".join([name, *cell.values()])
    python = interpreter(version)
    if python is None:
        print(f"== {title}: left out, Python {version} is not on this machine", flush=True)
        return True
    with tempfile.TemporaryDirectory(prefix="workflow-") as folder:
        checkout, environment = Path(folder) / "checkout", Path(folder) / "python"
        subprocess.run(["git", "clone", "-q", REPO, checkout], check=True)
        subprocess.run([python, "-m", "venv", environment], check=True)
        # The user's own settings of git stay as they are; CI is set as the service sets it.
        settings = {
            "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
            "GIT_CONFIG_GLOBAL": str(Path(folder) / "gitconfig"),
            "GITHUB_REF_NAME": tag,
            "CI": "true",
        }
        for step in job["steps"]:
            label = step.get("name") or step.get("uses") or step["run"]
            if "uses" in step:
                print(f"== {title}: not run here: {label}", flush=True)
                continue
            if step["run"].startswith("docker") and not shutil.which("docker"):
                print(f"== {title}: left out, docker is not on this machine: {label}", flush=True)
                continue
            own = {key: filled(value, cell) for key, value in step.get("env", {}).items()}
            print(f"== {title}: {label}", flush=True)
            began = time.monotonic()
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", filled(step["run"], cell)],
                cwd=checkout,
                env=os.environ | settings | own,
                check=False,
            )
            print(
                f"== {title}: exit code {done.returncode} after {time.monotonic() - began:.0f} s", flush=True
            )
            if done.returncode:
                return False
    return True


def main() -> None:
    """Run the jobs that are named, in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("--only", default="", help="only combinations of the matrix with this value")
    parser.add_argument("--tag", default="", help="the tag that a release is made of")
    options = parser.parse_args()
    jobs = yaml.safe_load(options.file.read_text("utf-8"))["jobs"]
    failed = [
        f"{name} {' '.join(cell.values())}"
        for name in options.jobs
        for cell in cells(jobs[name])
        if options.only in ("", *cell.values()) and not run(name, jobs[name], cell, options.tag)
    ]
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
