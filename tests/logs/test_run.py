"""Run folders that are being written, stopped by a policy, damaged, or on read-only media."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.logs.log_bases import unsealed
from command_line import keff
from keff.errors import StoreError
from keff.reading.open import open_record
from keff.reading.transfer import import_log
from keff.sampling.store import DATABASE, Run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    arguments = ("sample", "starter", "--engine", "fake", "--run", folder, "--n", "6", "--k", "4")
    assert keff(*arguments).returncode == 0
    return folder


def change(folder: Path, sql: str) -> None:
    unsealed(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        database.execute(sql)


def test_paths_that_are_not_scored_yet_are_scored_on_reading(run: Path) -> None:
    before = open_record(run)
    change(run, "delete from scores where path = 3")
    after = open_record(run)
    assert list(after.ballot.keys) == list(before.ballot.keys)
    assert after.ballot.votes.scored().tolist() == before.ballot.votes.scored().tolist()
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        (stored,) = database.execute("select count(*) from scores where path = 3").fetchone()
    assert stored == 0


def test_where_only_the_user_s_code_could_score_paths_are_left_out_and_said(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["code"] = {"scorer": {"name": "mine.py:f", "sha256": "0" * 64}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    change(run, "delete from scores where path = 3")
    record = open_record(run)
    assert record.ballot.votes.k == 3
    (note,) = (note for note in record.ballot.notes if note.code == "not_scored")
    assert note.message.startswith("6 paths are not scored yet")


@pytest.mark.slow
def test_analyze_works_beside_a_writer(run: Path) -> None:
    with Run.edit(run):
        assert keff("analyze", run).returncode == 0


@pytest.mark.slow
def test_a_run_that_a_policy_stopped_is_read_without_a_trim(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["policy"] = "lead_k:2"
    (run / "manifest.json").write_text(json.dumps(manifest))
    change(run, "drop trigger paths_stay")
    with closing(sqlite3.connect(run / DATABASE)) as database:
        items = [row[0] for row in database.execute("select item from items")]
    for item in items[:4]:
        change(run, f"delete from paths where path >= 2 and item = '{item}'")
    done = keff("analyze", run, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["n"], found["k"]) == (6, 2)
    (note,) = (note for note in found["warnings"] if note["code"] == "stopped_run")
    assert "the first 2 of each" in note["message"]


@pytest.mark.parametrize("column", ["messages", "gold", "meta"])
def test_damaged_json_of_an_item_is_one_clear_line(run: Path, column: str) -> None:
    change(run, f"update items set {column} = '[{{' where rowid = 2")
    with pytest.raises(StoreError, match=r"item '.*' is damaged .*restore the folder"):
        open_record(run)
    done = keff("score", run)
    assert "Traceback" not in done.stderr
    assert "is damaged" in done.stderr


@pytest.mark.slow
def test_runs_on_read_only_media_are_read(run: Path, tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap to mount a folder read-only with")
    assert not (run / f"{DATABASE}-wal").exists()
    bind = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(run), str(run), "--"]
    done = subprocess.run([*bind, "touch", str(run / "x")], capture_output=True, text=True, check=False)
    if "Read-only" not in done.stderr:
        pytest.skip(f"bubblewrap cannot mount here: {done.stderr[:80]}")
    command = [*bind, sys.executable, "-m", "keff", "analyze", str(run), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["k"] == 4


def test_seconds_branches_and_prompt_tokens_survive_an_import(tmp_path: Path) -> None:
    row = {
        "id": "q",
        "gold_answer": "4",
        "all_answers": ["4", "5"],
        "all_seconds": [0.5, None],
        "all_prompt_tokens": [7, 0],
        "branches": ["large", "small"],
        "model": "both",
    }
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(row) + "\n")
    import_log(log, tmp_path / "run")
    for path in (log, tmp_path / "run"):
        record = open_record(path)
        (question,) = record.ballot.questions
        assert record.branches == ("large", "small")
        assert question.prompt_tokens == (7, 0)
        assert question.seconds is not None
        assert question.seconds[0] == 0.5
        assert question.seconds[1] != question.seconds[1]


def test_sample_says_by_its_exit_code_that_paths_are_owed(run: Path) -> None:
    from keff.cli._sampling import check_whole
    from keff.errors import RunError
    from keff.sampling.job import Job
    from keff.sampling.sampler import Progress

    job = object.__new__(Job)
    object.__setattr__(job, "folder", run)
    with pytest.raises(RunError, match="3 paths are still owed"):
        check_whole(job, Progress(total=10, kept=2, done=5, failed=3))
    with pytest.raises(RunError, match="paths of 2 questions"):
        check_whole(job, Progress(done=5, failed=3, unfinished=2))
    check_whole(job, Progress(total=10, kept=2, done=5, stopped="the token budget is spent"))
    check_whole(job, Progress(total=10, kept=2, done=8, failed=3))
