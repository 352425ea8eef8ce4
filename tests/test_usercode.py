"""Code of the user runs only when this command line names it; runs, plans and logs never cause it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import keff
from keff import plugins
from keff.analysis.estimates import Settings, analyze
from keff.analysis.plans import make_plan
from keff.errors import PlanError, PluginError, UsageError
from keff.gateway.vote.extraction import reader_of
from keff.reading.open import open_record
from keff.sampling import RUN_FILE
from keff.sampling.manifest import Manifest
from keff.usercode import Stamp, UserCode, require_same_code, without_code

SCORER = """from pathlib import Path
Path("{mark}").touch()
def f(text, gold):
    return (text.split()[-1], text.split()[-1] == gold)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the fake engine that was made with a scorer, and the mark that its file leaves."""
    (tmp_path / "own.jsonl").write_text(
        "".join(json.dumps({"id": f"q{i}", "question": f"{i}?", "answer": str(i)}) + "\n" for i in range(4))
    )
    (tmp_path / "mine.py").write_text(SCORER.format(mark=tmp_path / "ran"))
    done = sample(tmp_path)
    assert done == 0
    (tmp_path / "ran").unlink()
    return tmp_path / "run"


def sample(folder: Path, *more: str) -> int:
    arguments = [
        "sample",
        str(folder / "own.jsonl"),
        "--engine",
        "fake",
        "--run",
        str(folder / "run"),
        "--k",
        "3",
    ]
    return keff(*arguments, "--scorer", f"{folder / 'mine.py'}:f", *more).returncode


def test_the_manifest_records_name_and_hash_and_names_no_code(run: Path) -> None:
    manifest = json.loads((run / RUN_FILE).read_text())
    stamp = UserCode.parse(f"{run.parent / 'mine.py'}:f", "scorer").stamp
    assert manifest["code"] == {"scorer": stamp.to_dict()}
    assert "scorer" not in manifest["task_options"]


@pytest.mark.slow
def test_nothing_that_reads_a_run_runs_its_scorer(run: Path) -> None:
    record = open_record(run)
    analysis = analyze(record, Settings())
    plan = make_plan(record, analysis)
    for arguments in (["analyze", run], ["export", run, "-o", run.parent / "out.jsonl"], ["score", run]):
        keff(*map(str, arguments))
    assert not (run.parent / "ran").exists()
    assert plan.task is not None
    assert plan.task["code"]["scorer"]["name"] == "mine.py:f"
    assert "scorer" not in plan.task["options"]
    with pytest.raises(PlanError, match="scorer"):
        reader_of(plan)


def test_score_needs_the_flag_again_and_the_same_file(run: Path) -> None:
    flag = ("--scorer", f"{run.parent / 'mine.py'}:f")
    done = keff("score", run)
    assert done.returncode == 2
    assert "add --scorer FILE.py:function" in done.stderr
    assert keff("score", run, *flag).returncode == 0
    (run.parent / "mine.py").write_text("def f(text, gold):\n    return False\n")
    done = keff("score", run, *flag)
    assert done.returncode == 2
    assert "is another file" in done.stderr
    assert open_record(run).ballot.votes.p != 0


def test_a_scorer_that_was_changed_on_purpose_is_recorded_and_the_run_resumes(run: Path) -> None:
    (run.parent / "mine.py").write_text("def f(text, gold):\n    return False\n")
    assert keff("score", run, "--scorer", f"{run.parent / 'mine.py'}:f", "--changed").returncode == 0
    assert open_record(run).ballot.votes.p == 0
    assert sample(run.parent, "--k", "4") == 0


@pytest.mark.parametrize(
    "option",
    ["scorer", *(pytest.param(name, marks=pytest.mark.slow) for name in ("unsafe_exec", "answer_key"))],
)
def test_a_run_folder_of_somebody_else_names_code_in_vain(run: Path, option: str) -> None:
    manifest: dict[str, Any] = json.loads((run / RUN_FILE).read_text())
    evil = run.parent / "evil.py"
    evil.write_text(f'open("{run.parent / "stolen"}", "w")\ndef f(*_):\n    return True\n')
    manifest["task_options"][option] = True if option == "unsafe_exec" else f"{evil}:f"
    manifest |= {"code": {}, "seal": None}
    (run / RUN_FILE).write_text(json.dumps(manifest))
    read = Manifest.read(run)
    assert option not in read.task_options
    assert option not in open_record(run).info.options
    assert read.unsafe_exec == (option == "unsafe_exec")
    keff("analyze", run)
    keff("score", run)
    assert not (run.parent / "stolen").exists()


def test_a_task_name_from_a_manifest_is_a_name_and_no_path(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit")
    for name in (str(tmp_path / "evil"), "../tasks/gsm8k", "sub/evil", "os.path"):
        with pytest.raises(PluginError, match="unknown task"):
            plugins.load("task", name)


def test_settle_refuses_what_is_missing_or_different(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(text):\n    return text\n")
    given = UserCode.parse(f"{tmp_path / 'a.py'}:f", "answer key")
    require_same_code("the plan", "answer_key", given.stamp, given.stamp)
    require_same_code("the plan", "answer_key", None, None)
    with pytest.raises(UsageError, match=r"--answer-key FILE\.py:function"):
        require_same_code("the plan", "answer_key", given.stamp, None)
    with pytest.raises(UsageError, match="put the old one back"):
        require_same_code("the plan", "answer_key", Stamp("a.py:f", "0" * 64), given.stamp)


def test_what_is_hashed_is_what_runs(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("def f():\n    return 1\n")
    code = UserCode.parse(f"{file}:f", "scorer")
    file.write_text("def f():\n    return 2\n")
    assert code.load()() == 1
    assert without_code({"data": "x", "scorer": "y", "unsafe_exec": True, "answer_key": "z"}) == {"data": "x"}


@pytest.mark.parametrize("option", ['scorer = "evil.py:f"', "unsafe_exec = true"])
def test_a_study_file_names_no_code(tmp_path: Path, option: str) -> None:
    (tmp_path / "study.toml").write_text(
        f'name = "s"\nruns = "{tmp_path / "runs"}"\nmodels = [{{name = "m", engine = "fake"}}]\n'
        f'tasks = [{{name = "starter", options = {{{option}}}}}]\narms = [{{name = "sc", k = 2}}]\n'
    )
    done = keff("study", "run", tmp_path / "study.toml")
    assert done.returncode == 2
    assert "trusted only from the command line" in done.stderr
