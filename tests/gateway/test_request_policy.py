"""The policy of a request: the plan's, another, capped, off; never larger than allowed."""

from __future__ import annotations

import asyncio

import pytest

from keff.errors import PlanError
from keff.gateway.http.errors import Problem
from keff.gateway.http.request import Wish
from keff.gateway.vote import request_policy
from keff.gateway.vote.request_policy import KEPT, KEPT_CAP, RequestPolicies, policy_of_plan
from keff.policy import Policy

PLAN = policy_of_plan("budget:4,cap=24")


def settled(plan: Policy, wish: Wish, most: int, policies: RequestPolicies | None = None) -> Policy:
    return asyncio.run((policies or RequestPolicies()).settled(plan, wish, most))


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
        Wish(policy="pilot_budget:0.91, cap =256"),
        Wish(policy="pilot_budget:0.91,cap= 256"),
        Wish(policy="pilot_budget :0.91,\tcap\t=\t256"),
        Wish(policy="fixed : 256"),
        Wish(policy=" fixed:value =256"),
        Wish(policy="pilot_budget:0.91,cap=1e2000"),
    ],
)
def test_more_paths_than_allowed_are_refused_before_a_table_is_made(
    wish: Wish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However they are written: a table grows with the cube of its cap."""
    monkeypatch.setattr(request_policy, "parse_policy", lambda _: pytest.fail("it was made"))
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


def test_few_policies_of_requests_are_kept_and_no_large_ones() -> None:
    policies = RequestPolicies()
    for cap in range(2, 64):
        assert settled(PLAN, Wish(policy="lead_k:2", cap=cap), 64, policies).cap == cap
    assert len(policies._kept) == KEPT
    assert all(policy.cap <= KEPT_CAP for policy in policies._kept.values())
    again = settled(PLAN, Wish(policy="lead_k:2", cap=KEPT_CAP), 64, policies)
    assert settled(PLAN, Wish(policy="lead_k:2", cap=KEPT_CAP), 64, policies) is again


def test_a_plan_that_needs_labels_is_not_served() -> None:
    with pytest.raises(PlanError, match="adaptive_k"):
        policy_of_plan("adaptive_k")
