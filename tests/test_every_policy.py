"""The contract that every policy keeps, live and replayed: one rule, whoever drives it."""

from __future__ import annotations

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from how_many import examples
from keff import plugins
from keff.analysis.walks import decisions, run
from keff.errors import PolicyError
from keff.policy import ConfidenceVote, Fittable, Policy, Sample, Stop, Vectorised, View, parse_policy, tally
from keff.stats.voting.calibration import Calibration
from keff.stats.voting.draws import Draws

OURS = (
    "adaptive_consistency:0.9999999",
    "fixed:7",
    "curtailed:cap=12",
    "lead_k:2,cap=12",
    "lead_k:3",
    "adaptive_consistency:0.9",
    "esc:3,cap=11",
    "e_value:0.1,cap=24",
    "budget:3",
    "budget:2.4,b=8,cap=16",
    "pilot_budget:0.97",
    "pilot_budget:0.95,a=0.8,w=0.5,cap=20",
    "lead_k:3,cap=14,weight=confidence,temperature=0.5",
    "lead_k:3,wave=4",
    "esc:3,cap=11,wave=4",
    "e_value:0.1,cap=24,wave=5",
    "lead_k:3,cap=14,wave=3,weight=confidence,temperature=0.5",
    "budget:3,cap=12,wave=3+5",
    "fixed:7,weight=log_odds",
    "curtailed:cap=9,weight=log_odds",
    "lead_k:3,cap=14,weight=log_odds",
    "lead_k:2,weight=log_odds,wave=3",
    "adaptive_consistency:0.9,weight=log_odds",
    "budget:2.4,b=8,cap=16,weight=log_odds",
    "esc:3,cap=11,weight=log_odds",
    "switch:0.8,cap=12",
    "switch:0.97,cap=9,else=log_odds",
    "switch:0.9,wave=3",
    "budget:1.4,b=8,cap=9,weight=log_odds,give_up=0.55",
    "lead_k:3,weight=log_odds,give_up=0.5,wave=3",
    "fixed:1,weight=log_odds,give_up=0.5",
    "lead_k:3,give_up=4",
    "fixed:8,give_up=3",
    "e_value:0.1,cap=24,give_up=2",
    "lead_k:3,cap=14,give_up=3,wave=4,weight=confidence,temperature=0.5",
)
KNOWN = {"confidence": Calibration((0.1, 0.5, 0.9), (0.3, 0.6, 0.95), (0.5, 1.0, 1.75), 0.6)}
"""Held by the policies that need a calibration."""
BRANCHING = {"cascade", "mix"}
"""Policies over several branches: their own test is tests/policies/test_cascade.py."""

NAMES = sorted(set(plugins.names("policy")) - BRANCHING)
SPECS = (*OURS, *sorted(set(NAMES) - {spec.partition(":")[0] for spec in OURS} - {"adaptive_k"}))
"""A policy without a row of its own is held to the contract as it is by default."""

MONOTONE = [
    spec
    for spec in OURS
    if not any(word in spec for word in ("weight=", "wave=", "give_up=", "switch", "esc", "e_value"))
]
"""Not the certificate, which counts only after an answer first appears: an earlier vote can cost it one."""

keys = drawn.lists(["a", "b", "c", "d", None], 32)


def confidences(n: int) -> list[float]:
    return np.random.default_rng(3).random(n).tolist()


@cache
def made(spec: str) -> Policy:
    return parse_policy(spec, KNOWN)


def stop_of(spec: str, votes: list[str | None]) -> tuple[int, Stop]:
    *_, (n, last) = decisions(made(spec), votes, confidences(len(votes)))
    assert isinstance(last, Stop)
    return n, last


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_has_a_summary_and_working_defaults(name: str) -> None:
    assert plugins.summaries("policy")[name].endswith(".")
    policy = parse_policy(name)
    assert 1 <= policy.cap == 32
    assert parse_policy(policy.spec).spec == policy.spec


@pytest.mark.parametrize("spec", SPECS)
def test_the_spec_makes_the_same_policy_again(spec: str) -> None:
    policy = made(spec)
    again = made(policy.spec)
    assert again.spec == policy.spec
    assert (again.cap, again.needs) == (policy.cap, policy.needs)
    votes = ["a", "b", "a", "a", None, "c"] * 6
    assert stop_of(policy.spec, votes) == stop_of(spec, votes)


@pytest.mark.parametrize("spec", SPECS)
@given(votes=keys)
@settings(max_examples=examples(20), deadline=None)
def test_it_stops_by_its_cap_and_answers_what_was_seen(spec: str, votes: list[str | None]) -> None:
    n, stop = stop_of(spec, votes)
    assert 1 <= n <= made(spec).cap
    seen = votes[:n]
    assert stop.answer in seen or (stop.answer is None and set(seen) <= {None})
    assert stop.reason
    if not any(word in spec for word in ("weight=", "switch", "retry")):
        assert stop.answer == tally(seen).leader


@pytest.mark.parametrize("spec", SPECS)
@given(votes=keys)
@settings(max_examples=examples(20), deadline=None)
def test_drawing_ahead_stops_where_one_path_at_a_time_does(spec: str, votes: list[str | None]) -> None:
    policy = made(spec)
    one_by_one = next(
        n
        for n in range(1, len(votes) + 1)
        if isinstance(policy.decide(View(votes[:n], confidences(n))), Stop)
    )
    assert stop_of(spec, votes)[0] == one_by_one


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_replay_decides_as_the_live_policy_does(spec: str) -> None:
    rng = np.random.default_rng(11)
    codes = rng.choice([-1, 0, 1, 2, 3], p=[0.1, 0.45, 0.25, 0.15, 0.05], size=(12, 20, 32)).astype(np.int16)
    scores = np.broadcast_to(np.array(confidences(32), np.float32), codes.shape)
    policy = made(spec)
    walks = run(policy, Draws(codes, correct=(codes == 0).astype(np.float32), confidences=scores))
    for place in np.ndindex(12, 20):
        votes = [None if code < 0 else str(code) for code in codes[place].tolist()]
        rounds, (n, stop) = max(enumerate(decisions(policy, votes, scores[place].tolist())))
        assert isinstance(stop, Stop)
        assert (walks.stop[place], walks.rounds[place]) == (n, rounds)
        tied = [key for key, count in tally(votes[:n]).counts.items() if count == tally(votes[:n]).v1]
        if "log_odds" in spec:
            weights = KNOWN["confidence"].weight(scores[place][:n]).tolist()
            sums = dict.fromkeys(filter(None, votes[:n]), 0.0)
            for vote, weight in zip(votes[:n], weights, strict=True):
                sums |= {vote: sums[vote] + weight} if vote else {}
            tied = [key for key in sums if sums[key] == max(sums.values())]
        if len(tied) == 1 or "weight=confidence" in spec or "switch" in spec:
            assert walks.answer[place] == (-1 if stop.answer is None else int(stop.answer))


@pytest.mark.parametrize("spec", OURS)
def test_every_policy_here_is_vectorised(spec: str) -> None:
    policy = parse_policy(spec)
    assert isinstance(policy.rule if isinstance(policy, ConfidenceVote) else policy, Vectorised)


@pytest.mark.parametrize("spec", MONOTONE)
@given(votes=keys, place=st.integers(0, 31))
@settings(max_examples=examples(20), deadline=None)
def test_a_vote_for_the_final_leader_never_delays_a_monotone_rule(
    spec: str, votes: list[str | None], place: int
) -> None:
    n, stop = stop_of(spec, votes)
    if stop.answer is None:
        return
    changed = list(votes)
    changed[min(place, n - 1)] = tally(votes[:n]).leader
    assert stop_of(spec, changed)[0] <= n


@pytest.mark.parametrize("spec", SPECS)
def test_renaming_the_answers_changes_nothing_else(spec: str) -> None:
    votes: list[str | None] = ["x", None, "y", "x", "z", "y", "x", "x"] * 4
    other = [None if key is None else {"x": "q", "y": "a", "z": "m"}[key] for key in votes]
    n, stop = stop_of(spec, votes)
    m, renamed = stop_of(spec, other)
    assert (n, stop.weight) == (m, renamed.weight)
    assert {"x": "q", "y": "a", "z": "m"}[stop.answer or "x"] == renamed.answer


@pytest.mark.parametrize("spec", SPECS)
def test_a_policy_travels_to_another_process(spec: str) -> None:
    policy = pickle.loads(pickle.dumps(made(spec)))
    votes = ["a", "a", "b", "a"] * 8
    assert list(decisions(policy, votes, confidences(32))) == list(
        decisions(made(spec), votes, confidences(32))
    )


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_but_abstentions_gives_no_answer_at_the_cap(spec: str) -> None:
    n, stop = stop_of(spec, [None] * 32)
    assert n == parse_policy(spec).cap
    assert stop.answer is None and stop.weight in (0.0, 0.5)


@pytest.mark.parametrize("spec", SPECS)
def test_a_view_longer_than_the_cap_is_cut_to_it(spec: str) -> None:
    policy = made(spec)
    votes = ["a", "b", "c", "d"] * 16
    at_cap = policy.decide(View(votes[: policy.cap], confidences(policy.cap)))
    assert isinstance(at_cap, Stop)
    assert policy.decide(View(votes, confidences(64))) == at_cap


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing_like_it:3", "unknown policy"),
        ("", "unknown policy"),
        ("lead_k:2.5", "an integer"),
        ("lead_k:0", "above 0"),
        ("lead_k:three", "must be an integer"),
        ("lead_k:3,cap=0", "cap must be"),
        ("lead_k:3,cap=1000", "cap must be"),
        ("lead_k:3,cap=2.5", "cap must be"),
        ("lead_k:3,3", "key=value"),
        ("lead_k:3,cap=4,cap=5", "twice"),
        ("lead_k:3,colour=red", "colour"),
        ("fixed:0", "cap must be"),
        ("fixed:2.5", "cap must be"),
        ("fixed:9,cap=8", "above its cap"),
        ("curtailed:8", "takes no value"),
        ("adaptive_consistency:1", "below 1"),
        ("adaptive_consistency:nan", "below 1"),
        ("esc:0", "above 0"),
        ("e_value:1.5", "below 1"),
        ("budget:40", "above its cap"),
        ("budget:4,b=-1", "b must be"),
        ("pilot_budget:0.98,a=1", "both a and w"),
        ("pilot_budget:0.98,a=1,w=1", "w in"),
        ("pilot_budget:0.98,a=x,w=y", "a must be"),
        ("adaptive_k:0", "above 0"),
        ("lead_k:3,weight=length", "weight must be"),
        ("lead_k:3,weight=log_odds,temperature=2", "needs weight=confidence"),
        ("lead_k:3,weight=log_odds,confidence=a/b", "is named by letters"),
        ("switch:1.5", "below 1"),
        ("switch:0.9,else=vote", "else must be"),
        ("switch:0.9,weight=log_odds", "else=log_odds"),
        ("cascade:S(lead_k:2,cap=2)/L(fixed:1),weight=log_odds", "over one branch"),
        ("lead_k:3,wave=0", "wave must be an integer from 1"),
        ("lead_k:3,wave=2.5", "wave must be an integer from 1"),
        ("lead_k:3,wave=3+x", "wave must be an integer from 1"),
        ("lead_k:3,rounds=2,agreement=0.5", "rounds= was removed: draw waves of given sizes"),
        ("cascade:S(lead_k:2,cap=2)/L(fixed:1),wave=2", "over one branch"),
        ("cascade:S(lead_k:2,cap=4,wave=2)/L(fixed:1)", "a rule over counts"),
        ("lead_k:3,weight=confidence,temperature=0", "temperature"),
    ],
)
def test_bad_specs_are_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says) as caught:
        parse_policy(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["lead_k:1", "adaptive_consistency:0.75", "budget:1", "pilot_budget:0.5"])
def test_a_rule_that_always_stops_after_one_path_warns(text: str) -> None:
    with pytest.warns(UserWarning, match="always stops after one path"):
        parse_policy(text)


def test_one_path_asked_for_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_policy("fixed:1")
        parse_policy("lead_k:1,cap=1")


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_that_can_be_fitted_says_whether_it_is(name: str) -> None:
    policy = parse_policy(name)
    assert isinstance(policy, Fittable) == (name in ("adaptive_k", "pilot_budget"))
    if isinstance(policy, Fittable):
        assert not policy.fitted


@pytest.mark.parametrize("spec", SPECS)
def test_the_first_decision_asks_for_paths(spec: str) -> None:
    first = made(spec).decide(View([]))
    assert isinstance(first, Sample) and first.m >= 1
