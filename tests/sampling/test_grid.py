"""Study files: the grids that ship, and what a wrong file says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from keff.errors import UsageError
from keff.paper import records
from keff.sampling.grid import cells, read_study

RECORD = '{ model = "m", task = "t", arm = "sc", seed = 7, path = "x" }'
STUDIES = Path(__file__).resolve().parents[2] / "studies"
MINIMAL = (
    'name = "s"\nruns = "r"\nmodels = [{ name = "m" }]\ntasks = [{ name = "t" }]\narms = [{ name = "sc" }]\n'
)


def test_the_papers_grid_is_whole() -> None:
    grid = list(cells(read_study(STUDIES / "paper.toml")))
    arms = Counter(cell.arm.name for cell in grid)
    assert arms["sc8"] == arms["pt8"] == 5 * 12 * 5
    assert (arms["sc32"], arms["sc32qa"], arms["sc32reasoning"]) == (3 * 5, 2 * 3, 3)
    assert {cell.task.name for cell in grid} == set(records.BENCHMARKS)
    assert len({cell.folder for cell in grid}) == len(grid)
    assert {cell.model.label for cell in grid} == set(records.MODELS.values())


def test_the_small_grid_has_its_files_beside_it() -> None:
    study = read_study(STUDIES / "small.toml")
    assert len(list(cells(study))) == 6
    for task in study.tasks:
        assert task.data is not None
        lines = (STUDIES / task.data).read_text().splitlines()
        assert len(lines) >= study.n
        assert (STUDIES / task.options["template"]).is_file()


def test_runs_can_go_elsewhere() -> None:
    study = read_study(STUDIES / "small.toml")
    assert all(cell.folder.is_relative_to("/elsewhere") for cell in cells(study, Path("/elsewhere")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("runs", "folder"), "runs: Field required"),
        (('"m" }', '"m", colour = "red" }'), r"models\.0\.colour: Extra inputs are not permitted"),
        (('{ name = "m" }', '{ name = "m" }, { name = "m" }'), "the model 'm' is listed twice"),
        (('"sc" }', '"sc", models = ["x"] }'), "sc names 'x', which is not listed"),
        (('"t" }', '"a/b" }'), r"tasks\.0\.name: String should match"),
        (("[{", "[["), "not TOML"),
    ],
)
def test_a_wrong_file_names_the_field(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(MINIMAL)
    assert len(list(cells(read_study(file)))) == 1
    file.write_text(MINIMAL.replace(*change, 1))
    with pytest.raises(UsageError, match=message):
        read_study(file)
    with pytest.raises(UsageError, match="No such file"):
        read_study(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"sc" }', '"sc", against = "pt" }'), "arm sc names 'pt', which is not listed"),
        (('"sc" }', '"sc", against = "sc" }'), "arm sc names 'sc', which is not listed"),
        (('"sc" }', '"sc", tables = ["table7"] }'), "there is no table 'table7': write some of saturation"),
        (('"sc" }', '"sc", tables = ["matrix"] }'), "Tables 3 and 8 compare two arms"),
        (('"sc" }', '"sc", policy = "lead_k:x" }'), r"arms\.0\.policy"),
        (('"sc" }', '"sc", seeds = [1, 1] }'), "m t sc seed 1 and m t sc seed 1 have one folder"),
        (('"sc" }', '"a-", seeds = [1] }, { name = "a", seeds = [-1] }'), "have one folder, r/m/t/a--1"),
        (('"sc" }', '"sc" }, { name = "SC" }'), "have one folder"),
        (('"m" }', '".." }'), r"models\.0\.name: String should match"),
        (('"sc" }', '"sc", models = [] }'), "arm sc has no cell"),
        (('name = "s"', 'name = "s"\ntables = { table9x = {} }'), "tables names 'table9x'"),
        (
            ('name = "s"', f'name = "s"\nrecords = [{RECORD}]'),
            "record x is not a cell",
        ),
    ],
)  # fmt: skip
def test_a_file_that_refers_to_nothing_is_refused(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    file = tmp_path / "study.toml"
    assert change[0] in MINIMAL
    file.write_text(MINIMAL.replace(*change, 1))
    with pytest.raises(UsageError, match=message):
        read_study(file)


def test_records_stand_for_a_seed_or_for_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    head = 'seeds = [1, 2]\nrecords = [{ model = "m", task = "t", arm = "sc", path = "log.jsonl"%s }]\n'
    file.write_text(head % "" + MINIMAL)
    (cell,) = cells(read_study(file))
    assert (cell.folder, cell.record) == (tmp_path / "log.jsonl", str(tmp_path / "log.jsonl"))
    file.write_text(head % ", seed = 2" + MINIMAL)
    assert [cell.record is None for cell in cells(read_study(file))] == [True, False]


def test_what_an_arm_says_decides_its_tables(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(MINIMAL.replace('"sc" }', '"sc" }, { name = "pt", templates = "all", against = "sc" }'))
    plain, templated = read_study(file).arms
    assert plain.enters == {"table1", "table2", "table4", "table10", "table11"}
    assert templated.enters == {"table3", "table8"}
