"""The tour names files that exist and can be read in one sitting."""

from __future__ import annotations

import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
STEP = re.compile(r"^\d+\. (.*)$", re.MULTILINE)


def test_the_files_of_the_tour_exist_and_are_short() -> None:
    steps = STEP.findall((REPO / "docs" / "tour.md").read_text("utf-8"))
    assert len(steps) == 14
    for step in steps:
        files = re.findall(r"`([\w/]+\.py)`", step)
        assert files, step
        for file in files:
            lines = (REPO / "src" / "keff" / file).read_text("utf-8").count("\n")
            assert lines <= 350, (file, lines)
