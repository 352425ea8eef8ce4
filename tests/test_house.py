"""A class name means one thing in the whole package."""

from __future__ import annotations

import house


def test_every_class_name_has_one_meaning() -> None:
    files = sorted(house.SOURCES.rglob("*.py"))
    assert len(house.classes(files)) > 100, "the classes are read from src"
    assert house.shared_names(files) == {}
