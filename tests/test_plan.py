"""Plans: written, read back, refused when foreign or newer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keff.errors import PlanError
from keff.plan import Plan, Profile

PLAN = Plan(
    policy="lead_k:3",
    space="numeric",
    estimates={"n": 3},
    profile=Profile(paths=4, votes=((4,), (4,), (3, 1))),
)


def test_a_plan_reads_back_equal(tmp_path: Path) -> None:
    PLAN.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == PLAN


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "not a plan"),
        ('{"policy": "x"}', "not a plan"),
        (PLAN.model_dump_json().replace("[3,1]", "[3,2]"), "not a plan"),
        (PLAN.model_copy(update={"schema_version": 99}).model_dump_json(), "upgrade keff"),
    ],
)
def test_a_foreign_or_newer_file_is_refused(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(PlanError, match=line):
        Plan.read(file)


def test_a_missing_plan_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="keff analyze -o"):
        Plan.read(tmp_path / "none.json")


def test_a_plan_of_schema_1_is_read_as_one_without_branches(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    old = PLAN.model_dump(mode="json", exclude={"branches", "cost_unit"}) | {"schema_version": 1}
    file.write_text(json.dumps(old))
    plan = Plan.read(file)
    assert plan.branches == () and plan.policy == PLAN.policy


def test_branches_of_a_plan_have_names_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    twice = PLAN.model_dump(mode="json") | {"branches": [{"name": "a"}, {"name": "a"}]}
    file.write_text(json.dumps(twice))
    with pytest.raises(PlanError, match="not a plan"):
        Plan.read(file)
