"""Jobs of a workflow run here as the service would run them, and end at the first failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import run_workflow

MATRIX = {"python": ["3.11", "3.12"], "include": [{"python": "9.99", "os": "none"}]}


HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def job(*commands: str, python: str = HERE) -> dict[str, Any]:
    setup = {"uses": "actions/setup-python@0", "with": {"python-version": python}}
    return {"steps": [setup, *({"run": command} for command in commands)]}


def test_each_combination_of_a_matrix_is_run() -> None:
    assert list(run_workflow.cells({})) == [{}]
    assert list(run_workflow.cells({"strategy": {"matrix": MATRIX}})) == [
        {"python": "3.11"},
        {"python": "3.12"},
        {"python": "9.99", "os": "none"},
    ]
    assert run_workflow.filled("a ${{ matrix.left-out }} b", {"left-out": "x"}) == "a x b"


@pytest.mark.slow
def test_steps_run_in_a_clean_checkout_and_end_at_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept").write_text("in the repository")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "kept"], ["commit", "-qm", "One"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "not-kept").write_text("beside it")
    monkeypatch.setattr(run_workflow, "REPO", tmp_path)
    assert not run_workflow.run(
        "here", job('ls; echo "of $GITHUB_REF_NAME"', "exit 3", "echo never"), {}, "v1.0.0"
    )
    out = capfd.readouterr().out
    assert "not run here: actions/setup-python" in out and "of v1.0.0" in out
    assert "kept" in out.split() and "not-kept" not in out
    assert "exit code 3" in out and "never" not in out


def test_a_python_that_is_not_here_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_workflow.run("here", job("echo never", python="9.99"), {}, "")
    out = capfd.readouterr().out
    assert "Python 9.99 is not on this machine" in out and "never" not in out
