"""The tour names files that can be read in one sitting, and each package says where to begin."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
STEP = re.compile(r"^\d+\. (.*)$", re.MULTILINE)


def test_the_files_of_the_tour_exist_and_are_short() -> None:
    steps = STEP.findall((REPO / "docs" / "tour.md").read_text("utf-8"))
    assert len(steps) == 13
    for step in steps:
        files = re.findall(r"`([\w/]+\.py)`", step)
        assert files, step
        for file in files:
            lines = (REPO / "src" / "keff" / file).read_text("utf-8").count("\n")
            assert lines <= 250, (file, lines)


def test_each_package_says_what_comes_in_what_goes_out_and_what_to_read_first() -> None:
    for file in (REPO / "src" / "keff").rglob("__init__.py"):
        said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        room = file.parent.name
        assert "In: " in said and "Out: " in said, room
        first = re.search(r"^Read (.*?)$|Read (``.*?)$", said, re.MULTILINE)
        assert first is not None, room
        for name in re.findall(r"``([a-z_][\w.]*)``", first[0]):
            parts = name.split(".")
            place = (REPO / "src" if parts[0] == "keff" else file.parent).joinpath(*parts)
            assert place.is_dir() or place.with_suffix(".py").is_file(), (room, name)
