"""Study files: the grids that ship, and what a wrong file says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from keff.errors import UsageError
from keff.paper import layout
from keff.sampling.grid import cells, read_study

STUDIES = Path(__file__).resolve().parents[2] / "studies"
MINIMAL = (
    'name = "s"\nruns = "r"\nmodels = [{ name = "m" }]\ntasks = [{ name = "t" }]\narms = [{ name = "sc" }]\n'
)


def test_the_papers_grid_is_whole() -> None:
    grid = list(cells(read_study(STUDIES / "paper.toml")))
    arms = Counter(cell.arm.name for cell in grid)
    assert arms["sc8"] == arms["pt8"] == 5 * 12 * 5
    assert (arms["sc32"], arms["sc32qa"], arms["sc32reasoning"]) == (3 * 5, 2 * 3, 3)
    assert {cell.task.name for cell in grid} == set(layout.BENCHMARKS)
    assert len({cell.folder for cell in grid}) == len(grid)
    assert {cell.model.label for cell in grid} == set(layout.MODELS.values())


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
