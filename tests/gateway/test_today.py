"""What is saved against what is deployed today: closed forms, enumeration, and over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest

from fault_server import Script
from gateway_rig import QUESTION, Options, Rig, make_plan
from keff.errors import PolicyError
from keff.gateway.traffic.savings import (
    LEAST_WHOLE,
    Baseline,
    GatewayChange,
    RequestCost,
    longest_of,
    paths_beside_today,
    planned_savings,
)
from keff.policy import parse_policy
from keff.sampling.cost import Price

Serve = Callable[..., Rig]
SEVEN = Script(answer=lambda *_: "The answer is 7.", latency=0.01)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_longest_of_k_is_the_mean_over_all_choices(k: int) -> None:
    times = [0.3, 0.1, 0.9, 0.4, 0.2]
    chosen = [max(subset) for subset in itertools.combinations(times, k)]
    assert longest_of(times, k) == pytest.approx(np.mean(chosen))


def test_with_fewer_times_than_k_they_are_drawn_again() -> None:
    times = [0.3, 0.1, 0.9]
    chosen = [max(draw) for draw in itertools.product(times, repeat=5)]
    assert longest_of(times, 5) == pytest.approx(np.mean(chosen))
    assert longest_of([], 3) is None


def test_a_reply_is_compared_with_k_paths_of_its_own() -> None:
    change = GatewayChange(Baseline("fixed:8", 8))
    change.take(RequestCost(0.5, 0.04, 4, at_once=0.2))
    change.take(RequestCost(0.1, 0.20, 10, at_once=0.3))
    told = change.comparison(None, (), None)
    assert told["against"] == "fixed:8"
    assert [told[name]["value"] for name in ("paths", "dollars", "seconds")] == pytest.approx(  # type: ignore[index]
        [(-4 + 2) / 2, (0.04 - 0.08 + 0.20 - 0.16) / 2, (0.3 - 0.2) / 2]
    )
    assert change.gauges()["keff_change_paths", (("against", "fixed:8"),)] == -1


def test_another_policy_is_replayed_on_the_requests_that_were_drawn_on() -> None:
    rows = [("a",) * 8, ("a", "b", "a", "b", "a", "a", "a", "a"), ("a", "a", "b", "a", "a", "a", "a", "a")]
    interval = paths_beside_today(parse_policy("lead_k:2,cap=8"), parse_policy("lead_k:3,cap=8"), rows)
    # By hand: lead 2 is reached after 2, 6 and 2 paths, lead 3 after 3, 7 and 5.
    assert interval is not None and interval.value == pytest.approx(((2 - 3) + (6 - 7) + (2 - 5)) / 3)
    change = GatewayChange(Baseline("lead_k:3,cap=8", None))
    change.take(RequestCost(1.0, 0.1, 2))
    told: Any = change.comparison(parse_policy("lead_k:2,cap=8"), rows, 0.01)
    assert told["paths"]["value"] == interval.value
    assert told["dollars"]["value"] == pytest.approx(0.01 * interval.value)
    assert told["seconds"] is None


def test_the_plan_says_what_its_figures_are_against_unless_something_else_is_stated() -> None:
    plan = make_plan(estimates={"decision": {"reference": "fixed:8"}})
    assert Baseline.of(None, plan) == Baseline("fixed:8", 8)
    assert Baseline.of("5", plan) == Baseline("fixed:5", 5)
    assert Baseline.of("lead_k:2", None) == Baseline(parse_policy("lead_k:2").spec, None)
    assert Baseline.of(None, make_plan()) is None and Baseline.of(None, None) is None
    with pytest.raises(PolicyError):
        Baseline.of("0", None)


def test_the_page_the_metrics_and_the_headers_say_it_with_its_sign(serve: Serve) -> None:
    price = Price(prompt=1, output=2)
    for now, sign, paths, several in (("8", "-", "-5", 1), ("8", "-", "-5", 4), ("2", "+", "+1", 1)):
        rig = serve(SEVEN, planless=True, options=Options(now=now, prices={"": price}, upstream_n=several))
        for number in range(4):
            body = {"model": "m", "messages": [{"role": "user", "content": f"What is {number}?"}]}
            assert rig.post(body).headers["x-keff-change"] == f"{paths} paths against fixed:{now}"
        base = rig.url.removesuffix("/v1")
        told = httpx2.get(f"{base}/keff", headers={"accept": "application/json"}).json()
        assert (told["now"], told["change"]["against"]) == (f"fixed:{now}", f"fixed:{now}")
        assert told["change"]["paths"]["value"] == int(paths)
        spent = rig.metric("keff_dollars_total") / 4
        today = spent * int(now) / 3
        if several > 1:  # one call, whose prompt of 7 tokens is billed once
            prompts = 1e-6 * rig.metric('keff_tokens_total{kind="prompt"}') / 4
            today = 7e-6 + (spent - prompts) * int(now) / 3
        assert told["change"]["dollars"]["value"] == pytest.approx(spent - today)
        # Three paths in one round beside K at once: it is what the vote itself takes.
        assert told["change"]["seconds"]["value"] is not None
        assert rig.metric(f'keff_change_paths{{against="fixed:{now}"}}') == int(paths)
        page = httpx2.get(f"{base}/keff", headers={"accept": "text/html"}).text
        words = ("46% less" if several > 1 else "62% less") if sign == "-" else "50% more"
        assert f"Dollars per request</span> <strong>{words}</strong>" in page
    quiet = serve(SEVEN, planless=True)
    assert "x-keff-change" not in quiet.post({"model": "m", "messages": QUESTION}).headers


def test_what_a_cut_path_cost_is_no_part_of_what_a_path_costs_today() -> None:
    """Two paths of 100 tokens came and 30 tokens of a third: today's eight would be 800."""
    spent = RequestCost(1.0, 0.23, 2, None, tokens=230, cut_tokens=30, cut_dollars=0.03)
    change = GatewayChange(Baseline("fixed:8", 8)).of(spent)
    assert (change["tokens"], round(change["dollars"], 9)) == (230 - 800, round(0.23 - 0.8, 9))


def test_a_prompt_that_all_paths_of_a_call_share_is_billed_once_today() -> None:
    """Calls of 4 and 2 paths of 50 tokens by a prompt of 100: today's one call of 8 has 500."""
    spent = RequestCost(1.0, 5.0, 6, tokens=500, shared_calls=2, prompt_tokens=200, prompt_dollars=2.0)
    change = GatewayChange(Baseline("fixed:8", 8)).of(spent)
    assert (change["tokens"], change["dollars"]) == (500 - 500, pytest.approx(5.0 - 5.0))


def test_todays_cost_is_that_of_requests_drawn_whole_once_there_are_enough() -> None:
    """Two paths of ten tokens come first, of eight that have thirty tokens on average."""
    reply, whole = (RequestCost(0.0, None, paths, tokens=tokens) for paths, tokens in ((2, 20), (8, 240)))
    change = GatewayChange(Baseline("fixed:8", 8))
    for shadows in range(LEAST_WHOLE + 1):
        change.take(reply)
        found, enough = change.saved("tokens"), shadows >= LEAST_WHOLE
        assert found is not None
        # What shadow requests draw after their replies is billed, too.
        billed, today = (shadows + 1) * 20 + shadows * (240 - 20), (240 if enough else 80) * (shadows + 1)
        assert found.value == pytest.approx(1 - billed / today)
        assert ("drawn whole" in found.method) == enough
        if shadows < LEAST_WHOLE:
            change.add_shadow_cost(reply, whole)


def test_before_requests_are_drawn_whole_the_saving_of_cancelled_paths_is_the_plans() -> None:
    """The plan expects 300 tokens in place of 500; what came first says nothing of the others."""
    figures = {"value": -200.0, "lo": -250.0, "hi": -150.0}
    rule = "lead_k:2,cap=8,in_flight=8,order=arrival"
    decision = {"policy": rule, "reference": "fixed:8", "change": {"tokens": figures}}
    decision["expected_tokens"] = {"value": 300.0, "lo": 250.0, "hi": 350.0}
    baseline = Baseline("fixed:8", 8)
    change = GatewayChange(baseline, cancels=True, planned=planned_savings(decision, rule, baseline))
    assert change.saved("tokens") is None
    change.take(RequestCost(0.0, None, 2, tokens=20, cancelled=6))
    found = change.saved("tokens")
    assert found is not None and found.method == "expected by the plan"
    assert (found.value, found.limits) == (pytest.approx(0.4), pytest.approx((0.3, 0.5)))
    assert change.interval("tokens") is None and change.interval("paths") is not None
    assert planned_savings(decision, "fixed:2", baseline) == {}
