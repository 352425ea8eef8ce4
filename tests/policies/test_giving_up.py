"""``give_up``: how often it gives up, and what that costs, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from keff.analysis.walks import run
from keff.errors import PolicyError
from keff.policy import Stop, View, gave_up, parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.calibration import Calibration
from keff.stats.voting.draws import permute_paths


def test_it_gives_up_as_often_as_birthdays_all_differ() -> None:
    """M of D equally likely answers differ with chance D! / (D - M)! / D^M: M paths are drawn, else 9."""
    days, m, n, rng = 12, 4, 40_000, np.random.default_rng(1)
    draws = permute_paths(Votes(rng.integers(0, days, (n, 9)), None), 9, 1, rng)
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
        "lead_k:3,weight=log_odds,give_up=1",
        "esc:3,weight=log_odds,give_up=0.4",
        "lead_k:3,give_up=0.4",
        "switch:0.9,give_up=0.4",
        "cascade:A(fixed:1)/B(fixed:1),give_up=4",
    ],
)
def test_what_cannot_give_up_is_refused(spec: str) -> None:
    with pytest.raises(PolicyError, match="give_up"):
        parse_policy(spec)


# Chances of a bad and of a good path, which floats hold exactly.
HALVES = Calibration((0.0, 1.0), (0.25, 0.75), (1.0, 1.0), 0.5)


def test_a_weighted_vote_gives_up_where_the_paths_so_far_look_wrong() -> None:
    """A path is good with chance s. The mean of 2 is below .6 unless both are good, that of 3 unless all are.

    Of 4 one may be bad: so s^2 of the votes go beyond 2 paths, and s^3 beyond 3 and beyond 4.
    """
    share, n, rng = 0.6, 40_000, np.random.default_rng(2)
    good = (rng.random((n, 5)) < share).astype(np.float64)
    votes = Votes(np.tile(np.arange(5), (n, 1)), None, confidences=good)
    rule = parse_policy("fixed:5,weight=log_odds,give_up=0.6", {"confidence": HALVES})
    stop = run(rule, permute_paths(votes, 5, 1, rng)).stop
    for paths, on in ((2, share**2), (3, share**3), (4, share**3)):
        error = 4 * math.sqrt(on * (1 - on) / n)
        assert float(np.mean(stop > paths)) == pytest.approx(on, abs=error)


@pytest.mark.parametrize(
    ("keys", "given", "stops"),
    [
        (["a", "b"], [0.0, 0.0], True),
        (["a", "b"], [1.0, 1.0], False),
        (["a"], [0.0], False),
        (["a", None], [0.0, 0.0], False),
        (["a", "b"], [0.0, float("nan")], False),
        (["a", "b", "c"], [0.0, float("nan"), 0.0], True),
    ],
)
def test_abstentions_and_paths_without_a_confidence_say_nothing_of_the_question(
    keys: list[str | None], given: list[float], *, stops: bool
) -> None:
    rule = parse_policy("lead_k:3,cap=8,weight=log_odds,give_up=0.3", {"confidence": HALVES})
    assert isinstance(rule.decide(View(keys, given)), Stop) is stops
