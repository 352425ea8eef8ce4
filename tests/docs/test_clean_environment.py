"""The README from nothing: its install line in a new environment, then its commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs_pages import README, REPO, commands, offline, prepared
from raw_server import http, raw_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def shell(line: str, folder: Path, environment: Path) -> str:
    """Run a line as a user would who has activated the environment."""
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KEFF_"))}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        # Bytecode of all packages takes longer than their download; most of it is never run.
        env=plain | {"PATH": path, "VIRTUAL_ENV": str(environment), "PIP_NO_COMPILE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which nothing is but what the README's first install line puts there."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (line,) = re.findall(r"^pip install -e '\.\[report,serve\]'", README.read_text("utf-8"), re.MULTILINE)
    shell(f"{line} -q", REPO, folder)
    return folder


def test_the_commands_of_the_readme_need_no_more_than_its_install_line(
    environment: Path, tmp_path: Path
) -> None:
    prepared(tmp_path)
    said = shell("\n".join(offline(README)), tmp_path, environment)
    assert "instead of" in said
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_the_gateway_of_the_readme_starts_in_that_environment(environment: Path, tmp_path: Path) -> None:
    line = next(line for line in commands(README) if line.startswith("keff serve --upstream"))
    with raw_server(lambda *_: http(b"{}")) as url:
        mine = line.replace("http://127.0.0.1:8000/v1", url)
        assert mine != line
        shell(f"{mine} --port 0 --check", tmp_path, environment)
        server = [environment / "bin" / "keff", *shlex.split(mine)[1:], "--port", "0"]
        process = subprocess.Popen(server, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        with process:
            assert process.stderr is not None
            assert json.loads(process.stderr.readline())["event"] == "listening"
            process.terminate()
