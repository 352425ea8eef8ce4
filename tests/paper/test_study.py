"""A study on the fake engine: sampled, resumed and reported; without some of its runs, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.cli.study import Actions, command
from keff.errors import RunError, UsageError
from keff.paper.reproduce import Reproducing
from keff.paper.study import report
from keff.sampling.grid import read_study

TOML = """
name = "fake"
runs = "{runs}"
n = 12
seeds = [1, 2]
models = [{{ name = "toy", engine = "fake", options = {{ p = 0.7, c = 0.4 }} }}]
arms = [{{ name = "sc", k = 8 }}, {{ name = "pt", templates = "all", k = 8 }}]

[[tasks]]
name = "sums"
label = "Sums"
domain = "Math"
data = "sums.jsonl"
options = {{ template = "t.toml" }}
"""
QUICK = Reproducing(replicates=200)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rows = ({"id": f"s{i}", "question": f"What is {i} + 2?", "answer": str(i + 2)} for i in range(20))
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.toml").write_text("templates = [" + ", ".join(f'"Way {i}."' for i in range(8)) + "]\n")
    file = tmp_path / "study.toml"
    file.write_text(TOML.format(runs=tmp_path / "runs"))
    return file


def test_a_study_is_sampled_once_and_reported(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(Actions.run, study, json=True)
    first = json.loads(capsys.readouterr().out)["runs"]
    assert [one["drawn"] for one in first] == [96] * 4
    command(Actions.run, study, json=True)
    again = json.loads(capsys.readouterr().out)["runs"]
    assert [(one["drawn"], one["kept_before"]) for one in again] == [(0, 96)] * 4
    found = report(read_study(study), QUICK)
    assert sorted(found.tables) == sorted(
        ["table1", "table2", "table3", "table4", "table8", "table9", "table10", "table11"]
    )
    assert found.missing == found.problems == []
    (cell,) = found.cells
    assert (cell["benchmark"], cell["n_sc"], cell["n_pt"]) == ("Sums", 24, 24)
    assert found.tables["table1"][0]["p"] == pytest.approx(0.7, abs=0.25)


def test_a_run_that_fails_does_not_stop_the_others(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = '{ name = "dead", engine = "openai", model = "m", base_url = "http://127.0.0.1:9/v1", '
    dead += "options = { max_retries = 0 } }, "
    study.write_text(study.read_text().replace("models = [", f"models = [{dead}").replace("n = 12", "n = 2"))
    with pytest.raises(RunError, match="4 of 8 runs are incomplete"):
        command(Actions.run, study, json=True)
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [one.get("drawn", 0) > 0 for one in runs] == [False] * 4 + [True] * 4


def test_a_report_of_half_a_study_lists_what_is_missing(study: Path) -> None:
    with pytest.raises(UsageError, match="4 are missing"):
        report(read_study(study), QUICK)
    study.write_text(study.read_text().replace('{ name = "pt", templates = "all", k = 8 }', ""))
    command(Actions.run, study)
    study.write_text(TOML.format(runs=study.parent / "runs"))
    found = report(read_study(study), QUICK)
    assert [Path(name).name for name in found.missing] == ["pt-1", "pt-2"]
    assert "table2" in found.tables
    assert "table3" not in found.tables
