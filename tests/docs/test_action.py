"""The action's own steps, run as a workflow would: baseline, repeats until it is decided, one comment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rigs.github import GitHub, comment, serving

REPO = Path(__file__).resolve().parents[2]
STEPS: list[dict[str, Any]] = yaml.safe_load((REPO / "action.yml").read_text("utf-8"))["runs"]["steps"]

# Asks 150 questions once; the seed is the file's folder and name, and BROKEN of them fail.
EVALUATE = """
import json, os, random, sys
file = os.environ["KEFF_OUT"]
rates = random.Random(0)
chance = random.Random("/".join(file.split("/")[-2:]))
with open(file, "w") as out:
    for i in range(150):
        rate = rates.betavariate(2, 0.5) * (i >= int(os.environ.get("BROKEN", 0)))
        answer = "4" if chance.random() < rate else "5"
        print(json.dumps({"id": f"q{i}", "gold_answer": "4", "all_answers": [answer]}), file=out)
"""

pytestmark = pytest.mark.integration


def step(name: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one step of the action in a folder, as bash -e -o pipefail does on a runner."""
    (script,) = [each["run"] for each in STEPS if each.get("name") == name]
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"PATH": path, "GITHUB_OUTPUT": str(folder / "output"), "RUN": f"{sys.executable} evaluate.py"}
    given |= {"GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "HOME": str(folder)}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder, env=given | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("lost", "code", "verdict"), [(0, "0", "### Pass"), (30, "3", "### Worse")])
def test_the_steps_repeat_until_it_is_decided(tmp_path: Path, lost: int, code: str, verdict: str) -> None:
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    assert step("baseline", tmp_path, REPEATS="8").returncode == 0
    assert len(list((tmp_path / "keff-baseline").iterdir())) == 8
    gate = {"POINTS": "5", "MOST": "8", "BROKEN": str(lost)}
    done = step("gate", tmp_path, **gate)
    assert done.returncode == 0, done.stderr
    repeats = len(list((tmp_path / "keff-run").iterdir()))
    assert (tmp_path / "output").read_text() == f"code={code}\n" and 1 <= repeats < 8
    assert verdict in (tmp_path / "comment.md").read_text() == (tmp_path / "summary.md").read_text()
    assert step("verdict", tmp_path, CODE=code).returncode == int(code)
    # Run again, it goes on with its repeats and draws none anew.
    assert step("gate", tmp_path, **gate).returncode == 0
    assert len(list((tmp_path / "keff-run").iterdir())) == repeats


@pytest.mark.parametrize(("strict", "code"), [("false", "0"), ("true", "5")])
def test_an_undecided_run_fails_where_asked_and_is_commented(tmp_path: Path, strict: str, code: str) -> None:
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    assert step("baseline", tmp_path, REPEATS="1").returncode == 0
    done = step("gate", tmp_path, POINTS="1", MOST="1", STRICT=strict)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == f"code={code}\n"
    assert "### Not decided" in (tmp_path / "comment.md").read_text()
    assert step("verdict", tmp_path, CODE=code).returncode == int(code)


def test_an_evaluation_that_fails_fails_the_step(tmp_path: Path) -> None:
    assert step("baseline", tmp_path, REPEATS="2", RUN="exit 7").returncode == 7


def test_values_reach_scripts_through_the_environment_alone() -> None:
    assert all("${{" not in each.get("run", "") for each in STEPS), "an expression in a script runs as code"


@pytest.fixture
def github() -> Iterator[GitHub]:
    if shutil.which("gh") is None:
        pytest.skip("gh is not installed")
    with serving() as found:
        yield found


def artifact(
    run: int, day: int, *, branch: str = "main", of: int = 1, expired: bool = False
) -> dict[str, Any]:
    made = {"id": run, "head_branch": branch, "head_repository_id": of}
    when = f"2026-11-{day:02}T10:00:00Z"
    return {"name": "keff-baseline", "expired": expired, "created_at": when, "workflow_run": made}


def test_the_baseline_is_the_newest_of_the_default_branch_of_this_repository(
    tmp_path: Path, github: GitHub
) -> None:
    asked = github.environment | {"BRANCH": "main", "OWN": "1"}
    none = step("find", tmp_path, **asked)
    assert none.returncode == 2 and "run this workflow once on main" in none.stdout
    github.artifacts = [
        artifact(11, 3),
        artifact(12, 9),
        artifact(13, 20, branch="main", of=2),  # a fork's
        artifact(14, 21, branch="feature"),
        artifact(15, 22, expired=True),
    ]
    assert step("find", tmp_path, **asked).returncode == 0
    assert (tmp_path / "output").read_text() == "id=12\n"


def test_a_pull_request_has_one_comment_which_is_updated(tmp_path: Path, github: GitHub) -> None:
    text = '<!-- keff -->\n### Pass "now" @here $HOME\n'
    quoted = comment(2, f"> {text}", "User")
    github.comments = [comment(1, "<!-- other -->"), quoted, comment(3, text, "User")]
    before = [dict(each) for each in github.comments]
    asked = github.environment | {"NUMBER": "7"}
    for body in (text, text.replace("Pass", "Worse")):
        (tmp_path / "comment.md").write_text(body)
        done = step("comment", tmp_path, **asked)
        assert done.returncode == 0, done.stderr
        assert github.comments == [*before, comment(4, body)]
