"""A small study on a stub server of known law: all its tables once more by plain loops, and set by LaTeX."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.paper.study_tables import SMALL, Told, compared
from tests.rigs.typesetting import needs_latex, typeset

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Path]:
    folder = tmp_path_factory.mktemp("study")
    return compared(folder, SMALL), folder / "report"


def test_every_cell_is_what_plain_loops_over_the_replies_say(study: tuple[Told, Path]) -> None:
    told, _ = study
    assert told.differ == []
    assert told.agree > 500 and told.files == 34
    held, intervals = told.covered
    assert held >= intervals - 1


@needs_latex
@pytest.mark.parametrize(
    "document", [r"\documentclass[conference,compsoc]{IEEEtran}", r"\documentclass{article}"]
)
def test_latex_sets_every_table_of_a_study(study: tuple[Told, Path], document: str, tmp_path: Path) -> None:
    _, report = study
    files = sorted(report.glob("*.tex"))
    assert len(files) == 17
    typeset(document, [file.read_text("utf-8") for file in files], tmp_path)
