"""A study on the fake engine: sampled, resumed and reported; without some of its runs, too."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from keff import plugins, sandbox
from keff.cli.study import command
from keff.engines.fake import Fake
from keff.errors import RunError, SandboxError, UsageError
from keff.paper.records import ArmSample
from keff.paper.reproduce import Reproducing, write
from keff.paper.saturation import adaptive_k
from keff.paper.study import report
from keff.sampling.grid import read_study
from keff.sampling.manifest import Manifest
from keff.sampling.store import Run
from keff.stats.votes import Votes

pytestmark = pytest.mark.slow

TOML = """
name = "fake"
runs = "{runs}"
n = 12
seeds = [1, 2]
models = [{{ name = "toy", engine = "fake", options = {{ p = 0.7, c = 0.4 }} }}]
arms = [{{ name = "sc", k = 8 }}, {{ name = "pt", templates = "all", k = 8, against = "sc" }}]

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
    command("run", study, json=True)
    first = json.loads(capsys.readouterr().out)["runs"]
    assert [one["drawn"] for one in first] == [96] * 4
    command("run", study, json=True)
    again = json.loads(capsys.readouterr().out)["runs"]
    assert [(one["drawn"], one["kept_before"]) for one in again] == [(0, 96)] * 4
    found = report(read_study(study), QUICK)
    assert found.missing == found.problems == []
    assert sorted(found.tables) == sorted(
        ["arms", "table1", "table2", "table3", "table4", "table8", "table10", "table11"]
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
        command("run", study, json=True)
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [one.get("drawn", 0) > 0 for one in runs] == [False] * 4 + [True] * 4


def test_a_report_of_half_a_study_lists_what_is_missing(study: Path) -> None:
    with pytest.raises(UsageError, match="4 are missing"):
        report(read_study(study), QUICK)
    study.write_text(
        study.read_text().replace('{ name = "pt", templates = "all", k = 8, against = "sc" }', "")
    )
    command("run", study)
    study.write_text(TOML.format(runs=study.parent / "runs"))
    found = report(read_study(study), QUICK)
    assert [Path(name).name for name in found.missing] == ["pt-1", "pt-2"]
    assert "table2" in found.tables
    assert "table3" not in found.tables


def run(study: Path, capsys: pytest.CaptureFixture[str], **how: object) -> list[dict]:
    """Run a study and return its rows, whether or not it failed."""
    with suppress(RunError):
        command("run", study, json=True, **how)
    return json.loads(capsys.readouterr().out)["runs"]


def test_an_engine_starts_once_per_model_and_not_for_complete_cells(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[str] = []
    plain = Fake.start

    async def start(self: Fake) -> None:
        starts.append(self.name)
        await plain(self)

    monkeypatch.setattr(Fake, "start", start)
    run(study, capsys)
    assert len(starts) == 1
    (study.parent / "sums.jsonl").unlink()  # complete cells are told from their stores alone
    assert all(row["complete"] and row["drawn"] == 0 for row in run(study, capsys))
    assert len(starts) == 1


def test_cells_that_cannot_be_drawn_are_refused_before_the_first_path(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = study.read_text().replace("models = [", 'models = [{ name = "odd", engine = "warp" }, ')
    text += '[[tasks]]\nname = "gone"\ndata = "gone.jsonl"\n'
    study.write_text(text + '[[tasks]]\nname = "short"\ndata = "sums.jsonl"\nn = 21\n')
    for dry in (True, False):
        with pytest.raises(UsageError, match="20 of 24 cells cannot be drawn, so") as refused:
            command("run", study, dry_run=dry)
        said = str(refused.value)
        assert "odd sums sc seed 1 and 3 more: unknown engine 'warp'" in said
        assert "gone.jsonl does not exist" in said
        assert "task short has 20 questions and the study wants n = 21" in said
        assert said.count("\n") == 0
    assert not (study.parent / "runs").exists()
    command("run", study, only=["model=toy,task=sums"])  # the others, as the message says
    assert "all 4 runs are complete" in capsys.readouterr().err


def test_templates_that_do_not_divide_k_a_missing_extra_and_a_missing_jail_are_refused(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = study.read_text()
    study.write_text(text.replace('templates = "all", k = 8', 'templates = "all", k = 12'))
    with pytest.raises(UsageError, match="arm pt has k = 12 for 8 templates: make k a multiple of 8"):
        command("run", study)

    def absent(kind: str, name: str) -> None:
        raise plugins.missing_extra(ImportError(name="vllm"), f"the {kind} {name}")

    study.write_text(text)
    monkeypatch.setattr(plugins, "factory", absent)
    with pytest.raises(UsageError, match=r"needs the package vllm: pip install .*\[vllm\]'"):
        command("run", study, dry_run=True)
    monkeypatch.undo()

    def broken() -> None:
        raise SandboxError("the sandbox does not hold")

    rows = [
        {"task_id": i, "prompt": "p", "code": "def f(): pass", "test_list": ["assert f() is None"],
         "test_imports": []} for i in range(12)
    ]  # fmt: skip
    (study.parent / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    study.write_text(text + '\n[[tasks]]\nname = "mbpp"\ndata = "mbpp.jsonl"\n')
    monkeypatch.setattr(sandbox, "preflight", broken)
    with pytest.raises(UsageError, match=r"4 of 8 cells cannot be drawn.*the sandbox does not hold"):
        command("run", study, dry_run=True)


def test_a_run_folder_that_cannot_be_read_stops_no_other_cell(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = study.parent / "runs" / "toy" / "sums" / "sc-1"
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text("{}")
    (broken / "paths.sqlite").write_text("")
    with pytest.raises(RunError, match="1 of 4 runs are incomplete"):
        command("run", study, json=True)
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [row["cell"] for row in rows if not row["complete"]] == ["toy sums sc seed 1"]
    assert "is not a manifest of keff" in rows[0]["error"]


def test_a_study_without_one_right_path_says_so(study: Path) -> None:
    study.write_text(study.read_text().replace("p = 0.7, c = 0.4", "p = 0.0, c = 0.4"))
    command("run", study)
    assert any(
        line.startswith("no path of every arm is right") for line in report(read_study(study), QUICK).problems
    )


def test_changed_settings_of_cells_with_paths_are_refused_and_named(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(study, capsys)
    text = study.read_text()
    study.write_text(text.replace('"sc", k = 8', '"sc", k = 8, temperature = 0.9, thinking = 0'))
    with pytest.raises(UsageError, match=r"2 cells .*sc seed 1: temperature 0.7 -> 0.9, thinking None -> 0"):
        command("run", study)
    study.write_text(text.replace("c = 0.4", "c = 0.5"))
    rows = run(study, capsys)
    assert all("engine.c: 0.4 -> 0.5" in row["error"] for row in rows)
    study.write_text(text.replace("n = 12", "n = 14").replace('"sc", k = 8', '"sc", k = 9'))
    assert [row["drawn"] for row in run(study, capsys)] == [30, 30, 16, 16]
    study.write_text(text)
    assert [row["drawn"] for row in run(study, capsys)] == [0] * 4


def test_settings_of_arms_reach_their_runs_and_seeds_may_share_questions(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arms = 'arms = [{ name = "hot", k = 4, temperature = 1.1, top_p = 0.8, max_tokens = 77, thinking = 5 }, '
    arms += '{ name = "stop", k = 8, policy = "lead_k:2,cap=8" }]'
    lines = ["same_questions = true" if "arms =" in line else line for line in study.read_text().splitlines()]
    study.write_text(arms + "\n" + "\n".join(lines))
    rows = run(study, capsys)
    assert all(row["complete"] for row in rows)
    asked = []
    for row in rows:
        with Run.open(Path(row["run"])) as opened:
            asked.append([item.id for item in opened.items()])
    assert asked[0] == asked[1] == asked[2] == asked[3]
    sampling = Manifest.read(Path(rows[0]["run"])).config.sampling
    assert (sampling["temperature"], sampling["top_p"], sampling["max_tokens"]) == (1.1, 0.8, 77)
    assert (sampling["thinking"], Manifest.read(Path(rows[2]["run"])).policy) == (5, "lead_k:2,cap=8")
    assert rows[2]["drawn"] < 12 * 8
    assert [row["drawn"] for row in run(study, capsys)] == [0] * 4


def test_only_status_and_dry_run(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("run", study, dry_run=True, json=True)
    (row,) = json.loads(capsys.readouterr().out)["models"]
    assert (row["cells"], row["paths"], row["tokens"], row["hours"]) == (4, 384, 384 * 512, None)
    assert (row["dollars"], row["tokens_are"]) == (0, "at most: the token limit")
    assert not (study.parent / "runs").exists()
    assert [row["drawn"] for row in run(study, capsys, only=["model=toy,arm=sc", "seed=2"])] == [96]
    command("status", study, json=True)
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [(cell["stage"], cell["paths"]) for cell in cells] == [
        ("missing", 0), ("complete", 96), ("missing", 0), ("missing", 0)
    ]  # fmt: skip
    command("run", study, dry_run=True, json=True)
    (row,) = json.loads(capsys.readouterr().out)["models"]
    per_path = cells[1]["tokens"] / 96
    assert row["tokens"] == pytest.approx(288 * per_path, abs=1)
    assert row["hours"] == pytest.approx(row["tokens"] / row["tokens_per_second"] / 3600)
    command("status", study)
    command("run", study, dry_run=True)
    shown = capsys.readouterr().out
    assert "96/384" in shown
    for wrong, message in (
        ("task=x", "no such task; it has sums"),
        ("k=8", "write model=, task=, arm= or seed="),
    ):
        with pytest.raises(UsageError, match=message):
            command("status", study, only=[wrong])


def test_a_paid_model_is_asked_about(study: Path) -> None:
    text = 'models = [{ name = "far", model = "m", base_url = "https://api.example.org/v1" }, '
    study.write_text(study.read_text().replace("models = [", text))
    with pytest.raises(UsageError, match="far may cost money and there is no terminal to ask at: add --yes"):
        command("run", study)


def test_every_comparison_and_every_arm_stands_alone(study: Path, tmp_path: Path) -> None:
    """Two arms against one, an arm for the appendix, one for nothing: no row or figure mixes arms."""
    arms = 'arms = [{ name = "sc", k = 8 }, { name = "pt", templates = "all", k = 8, against = "sc" }, '
    arms += '{ name = "hot", k = 8, temperature = 1.5, against = "sc", tables = ["matrix", "reasoning"] }, '
    arms += '{ name = "lone", templates = "all", k = 8 }]'
    study.write_text("\n".join([arms, *(x for x in study.read_text().splitlines() if "arms =" not in x)]))
    command("run", study)
    found = report(read_study(study), QUICK)
    assert [(row["arm"], row["against"]) for row in found.tables["table3"]] == [("pt", "sc"), ("hot", "sc")]
    assert {row["arm"] for row in found.tables["table2"]} == {"sc"}
    assert {row["arm"] for row in found.tables["table9"]} == {"hot"}
    assert [row["arm"] for row in found.tables["arms"]] == ["sc", "pt", "hot", "lone"]
    assert found.problems == ['arm lone is in no table but "arms": say against = "ARM", or tables = [...]']
    assert set(found.headline["comparisons"]) == {"pt against sc", "hot against sc"}
    write(found, tmp_path)
    page = (tmp_path / "differences.md").read_text("utf-8")
    assert "Intervals of the change of rho: hot against sc" in page
    assert "rows of each arm separately, as only `keff reproduce` does" in page


def test_records_that_exist_are_cells(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of 30 questions with 8 answers each stands for the arm, and is never drawn into."""
    rng = np.random.default_rng(4)
    right = rng.random((30, 8)) < 0.6
    lines = [
        {"id": f"q{i}", "gold_answer": "1", "all_answers": ["1" if one else "2" for one in row]}
        for i, row in enumerate(right)
    ]
    (study.parent / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    record = 'records = [{ model = "toy", task = "sums", arm = "sc", path = "log.jsonl" }]\n'
    study.write_text(record + study.read_text())
    assert [row["drawn"] for row in run(study, capsys)] == [0, 96, 96]
    row = report(read_study(study), QUICK).tables["arms"][0]
    assert (row["arm"], row["n"], row["p"], row["seeds"]) == ("sc", 30, right.mean(), 1)


def test_a_k_star_beyond_the_paths_says_nothing_of_its_vote(study: Path) -> None:
    """With c near 0 K* passes the 8 paths: no retention, no vote at K*; with c = .6 both are there."""
    command("run", study)
    tables = report(read_study(study), QUICK).tables
    right = (np.random.default_rng(0).random((200, 8)) < 0.6).astype(int)
    votes = Votes(1 - right, right)
    loose = adaptive_k(ArmSample(votes, np.zeros(200, int), (), None), 200, np.random.default_rng(1))
    assert loose["k_star"] > 8
    assert [loose[name] for name in ("mv_star", "retained", "gap_lo", "average_retained")] == [None] * 4
    assert loose["c_cross_run"] is None  # no question repeats
    (row,) = tables["table4"]
    assert row["c_cross_run"] is None  # too few do
    assert (row["retained"] is None) == (row["k_star"] > 8)
