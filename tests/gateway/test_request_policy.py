"""The policy of a request: the plan's, another, capped, off; never larger than allowed."""

from __future__ import annotations

import pytest

from keff.errors import PlanError
from keff.gateway.errors import Problem
from keff.gateway.request import Wish
from keff.gateway.request_policy import policy_of_plan, settled

PLAN = policy_of_plan("budget:4,cap=24")


@pytest.mark.parametrize(
    ("wish", "spec"),
    [
        (Wish(), "budget:4,cap=24"),
        (Wish(cap=12), "budget:4,cap=12"),
        (Wish(policy="lead_k:3"), "lead_k:3"),
        (Wish(policy="lead_k:3,cap=9", cap=5), "lead_k:3,cap=5"),
        (Wish(policy="curtailed", cap=5), "curtailed:cap=5"),
        (Wish(policy="fixed:8", cap=5), "fixed:5"),
        (Wish(policy="fixed:4", cap=5), "fixed:4"),
        (Wish(k=3), "fixed:3"),
        (Wish(k=1), "fixed:1"),
        (Wish(policy="off"), "fixed:1"),
    ],
)
def test_the_policy_of_a_request(wish: Wish, spec: str) -> None:
    assert settled(PLAN, wish, 32).spec == spec


@pytest.mark.parametrize(
    "wish",
    [
        Wish(k=33),
        Wish(cap=33),
        Wish(policy="fixed:256"),
        Wish(policy="fixed:1e12"),
        Wish(policy="fixed:33,cap=33"),
        Wish(policy="lead_k:3,cap=256"),
        Wish(policy="budget:3,b=1,cap=64"),
    ],
)
def test_more_paths_than_allowed_are_refused(wish: Wish) -> None:
    with pytest.raises(Problem, match="more than the 32") as problem:
        settled(PLAN, wish, 32)
    assert problem.value.code == "too_many_paths"


@pytest.mark.parametrize(
    "spec", ["nope", "lead_k:x", "fixed:0", "esc:2,esc=3", "fixed:nan", "adaptive_k", "lead_k:inf"]
)
def test_a_wrong_policy_is_refused(spec: str) -> None:
    with pytest.raises(Problem) as problem:
        settled(PLAN, Wish(policy=spec), 32)
    assert problem.value.code == "invalid_policy"


def test_a_plan_that_needs_labels_is_not_served() -> None:
    with pytest.raises(PlanError, match="adaptive_k"):
        policy_of_plan("adaptive_k")
