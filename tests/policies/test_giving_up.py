"""``give_up=M``: how often it gives up, and what that costs, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from keff.analysis.walks import run
from keff.errors import PolicyError
from keff.policy import gave_up, parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.draws import permuted


def test_it_gives_up_as_often_as_birthdays_all_differ() -> None:
    """M of D equally likely answers differ with chance D! / (D - M)! / D^M: M paths are drawn, else 9."""
    days, m, n, rng = 12, 4, 40_000, np.random.default_rng(1)
    draws = permuted(Votes(rng.integers(0, days, (n, 9)), None), 9, 1, rng)
    stop = run(parse_policy(f"fixed:9,give_up={m}"), draws).stop
    apart = math.perm(days, m) / days**m
    share = float(np.mean(stop == m))
    assert set(np.unique(stop)) == {m, 9}
    assert share == pytest.approx(apart, abs=4 * math.sqrt(apart * (1 - apart) / n))


def test_an_abstention_is_no_answer_of_its_own() -> None:
    policy = parse_policy("lead_k:3,give_up=3")
    assert gave_up(policy, ["a", "b", "c"]) and not gave_up(policy, ["a", None, "c"])
    assert not gave_up(parse_policy("lead_k:3"), ["a", "b", "c"])
    assert (
        parse_policy("lead_k:3,give_up=3,in_flight=2").spec == "lead_k:3,give_up=3,in_flight=2,order=launch"
    )


@pytest.mark.parametrize(
    "spec",
    [
        "lead_k:3,give_up=1",
        "lead_k:3,give_up=x",
        "lead_k:3,weight=log_odds,give_up=4",
        "cascade:A(fixed:1)/B(fixed:1),give_up=4",
    ],
)
def test_what_cannot_give_up_is_refused(spec: str) -> None:
    with pytest.raises(PolicyError, match="give_up"):
        parse_policy(spec)
