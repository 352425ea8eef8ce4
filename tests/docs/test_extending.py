"""One file adds one: the example of each guide, begun in a copy of the tree, keeps its contract."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import keff

REPO = Path(__file__).resolve().parents[2]
KINDS = {
    "task": "tests/test_every_task.py",
    "engine": "tests/test_every_engine.py",
    "policy": "tests/test_every_policy.py",
    "log": "tests/test_every_log.py",
    "space": "tests/answers/test_every_space.py",
}


def script() -> Any:
    spec = importlib.util.spec_from_file_location("new", REPO / "scripts" / "new.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_guide_begun_in_the_tree_keeps_the_contract(kind: str, tmp_path: Path) -> None:
    package = Path(str(keff.__file__)).parent
    shutil.copytree(package, tmp_path / "src" / "keff", ignore=shutil.ignore_patterns("__pycache__"))
    file = script().main(kind, "brand_new", tmp_path)
    ruff = [
        str(Path(sys.executable).with_name("ruff")),
        "check",
        "--config",
        str(REPO / "pyproject.toml"),
        "-q",
    ]
    checked = subprocess.run([*ruff, str(file)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    wanted = ["-q", "-p", "no:cacheprovider", "-k", "brand_new", KINDS[kind]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *wanted],
        cwd=REPO,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_what_cannot_be_begun_is_one_line(tmp_path: Path) -> None:
    new = script()
    for kind, name, says in (
        ("gadget", "x", "KIND is one of"),
        ("policy", "Two-Ahead", "a module name"),
        ("policy", "lead_k", "already"),
    ):
        with pytest.raises(SystemExit, match=says):
            new.main(kind, name, tmp_path)
