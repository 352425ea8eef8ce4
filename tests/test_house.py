"""The whole package keeps its goals: names, size, rooms, comments and options."""

from __future__ import annotations

import house
import pytest

GOALS = {
    "class names with two meanings": 0,
    "tokens": 415_000,
    "files": 360,
    "rooms at the top": 26,
    "options": 90,
}


@pytest.mark.slow
def test_the_house_is_within_its_limits_and_they_within_the_goals() -> None:
    found = {figure.name: figure for figure in house.figures()}
    assert [figure.line() for figure in found.values() if not figure.kept] == []
    for name, goal in GOALS.items():
        assert found[name].limit <= goal, name
    assert found["options"].value > 50, "the options are read from docs/help.md"
