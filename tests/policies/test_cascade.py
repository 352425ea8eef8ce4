"""Cascades and mixes: the grammar, decisions by hand, and replay that decides as the live policy does."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drawn
from how_many import examples
from keff.analysis.mix.orders import BranchOrders, Orders
from keff.analysis.mix.search import replay_cascade, replay_mix
from keff.errors import PolicyError
from keff.policies.cascade import Cascade
from keff.policies.mix import Mix
from keff.policy import Branching, Policy, Sample, Stop, View, parse_policy, undecided, weighs

SPECS = (
    "cascade:S(lead_k:2,cap=2)/L(lead_k:2,cap=4)",
    "cascade:S(lead_k:2,cap=4)/L(fixed:1),keep=fresh",
    "cascade:S(lead_k:3,cap=5)/L(lead_k:2,cap=6),keep=fresh",
    "cascade:S(lead_k:3,cap=5)/L(budget:2,cap=6)",
    "cascade:S(lead_k:2,cap=3)/M(lead_k:2,cap=3)/L(lead_k:3,cap=6)",
    "cascade:S(lead_k:2,cap=3)/M(lead_k:2,cap=3)/L(lead_k:3,cap=6),keep=fresh",
    "cascade:S(adaptive_consistency:0.9,cap=6)/L(curtailed:cap=5)",
    "cascade:L(lead_k:2,cap=5)",
)


def drive(
    policy: Policy, queues: dict[str, list[str | None]], requests: list[str] | None = None
) -> tuple[list[str], list[str | None], Stop]:
    """Follow a policy over queues of votes; return the branches asked, the votes and the stop.

    The branch of each of its ``requests`` is noted there.
    """
    asked: list[str] = []
    keys: list[str | None] = []
    used = dict.fromkeys(queues, 0)
    while isinstance(decision := policy.decide(View(keys, branches=asked)), Sample):
        assert len(decision.branches) == decision.m >= 1
        if requests is not None:
            requests += dict.fromkeys(decision.branches)
        for branch in decision.branches:
            asked.append(branch)
            keys.append(queues[branch][used[branch]])
            used[branch] += 1
    return asked, keys, decision


@pytest.mark.parametrize("spec", SPECS)
def test_the_spec_makes_the_same_cascade_again(spec: str) -> None:
    policy = parse_policy(spec)
    assert isinstance(policy, Branching) and policy.spec == spec == parse_policy(policy.spec).spec


def test_a_clear_question_stays_with_the_first_branch() -> None:
    policy = parse_policy("cascade:S(lead_k:2,cap=3)/L(fixed:1)")
    asked, _, stop = drive(policy, {"S": ["a", "a", "b"], "L": ["c"]})
    assert asked == ["S", "S"] and stop.answer == "a"


def test_an_open_question_goes_on_and_keeps_its_votes() -> None:
    policy = parse_policy("cascade:S(lead_k:2,cap=2)/L(lead_k:2,cap=4)")
    asked, _, stop = drive(policy, {"S": ["a", "b"], "L": ["b", "b", "b", "b"]})
    assert asked == ["S", "S", "L", "L"] and stop.answer == "b"


def test_a_fresh_stage_counts_its_own_votes_only() -> None:
    policy = parse_policy("cascade:S(lead_k:3,cap=4)/L(fixed:1),keep=fresh")
    asked, _, stop = drive(policy, {"S": ["a", "a", "b", "a"], "L": ["b"]})
    # a, a, b: no lead of three is possible any more with one path left, so the question goes on at once.
    assert asked == ["S", "S", "S", "L"] and stop.answer == "b"


def test_earlier_votes_break_the_ties_of_a_fresh_stage() -> None:
    policy = parse_policy("cascade:S(lead_k:3,cap=3)/L(fixed:2),keep=fresh")
    _, _, stop = drive(policy, {"S": ["b", "a", "b"], "L": ["a", "b"]})
    assert stop.answer == "b"
    _, _, silent = drive(policy, {"S": ["a", "b", "b"], "L": [None, None]})
    assert silent.answer == "b"


def test_a_stage_that_cannot_settle_passes_on_without_its_last_paths() -> None:
    policy = parse_policy("cascade:S(lead_k:2,cap=3)/L(fixed:1)")
    asked, _, _ = drive(policy, {"S": ["a", "b", "a"], "L": ["c"]})
    assert asked == ["S", "S", "L"]


def test_nobody_answers() -> None:
    _, _, stop = drive(parse_policy(SPECS[0]), {"S": [None] * 9, "L": [None] * 9})
    assert stop.answer is None and stop.weight == 0


queues = drawn.lists(["0", "1", "2", None], 12)


@pytest.mark.parametrize("spec", SPECS)
@given(s=queues, m=queues, large=queues, right=st.integers(0, 2))
@settings(max_examples=examples(25), deadline=None)
def test_replay_decides_as_the_live_cascade_does(
    spec: str, s: list[str | None], m: list[str | None], large: list[str | None], right: int
) -> None:
    policy = parse_policy(spec)
    assert isinstance(policy, Cascade)
    votes = {"S": s, "M": m, "L": large}
    requests: list[str] = []
    asked, keys, stop = drive(policy, votes, requests)
    accuracy, cost = replay_cascade(policy, orders(votes, right), tuple(votes))
    assert cost[0] == billed(asked, requests)
    assert len(keys) <= policy.cap
    if accuracy[0] in (0.0, 1.0):  # else several answers are tied, and share the credit
        assert accuracy[0] == float(stop.answer == str(right))
    else:
        assert stop.answer is not None


PRICES = {"S": 1.0, "M": 10.0, "L": 100.0}


def billed(asked: list[str], requests: list[str]) -> float:
    """Return the bill: each path's price, 1000 times that for a branch's first request, half for others."""
    prompts = sum(PRICES[name] * (500 * requests.count(name) + 500) for name in set(requests))
    return sum(PRICES[name] for name in asked) + prompts


def orders(votes: dict[str, list[str | None]], right: int) -> Orders:
    """One row of orders: the votes of a question in launch order."""
    made: list[BranchOrders] = []
    for price, keys in zip(PRICES.values(), votes.values(), strict=True):
        codes = np.array([[-1 if key is None else int(key) for key in keys]], np.int16)
        spent = np.float32(price) * np.arange(len(keys) + 1, dtype=np.float32)[None]
        prompts = np.array([[1000 * price], [500 * price]], np.float32)
        made.append(BranchOrders(codes, (codes == right).astype(np.float32), spent, prompts))
    return Orders(tuple(made), 1, 1)


@given(s=queues, m=queues, large=queues, right=st.integers(0, 2))
@settings(max_examples=examples(60), deadline=None)
def test_replay_votes_as_the_live_mix_does(
    s: list[str | None], m: list[str | None], large: list[str | None], right: int
) -> None:
    policy = parse_policy("mix:S(k=3,weight=1)/M(k=2,weight=0.71)/L(k=1,weight=1.13)")
    assert isinstance(policy, Mix)
    votes = {"S": s, "M": m, "L": large}
    requests: list[str] = []
    asked, _, stop = drive(policy, votes, requests)
    assert asked == ["S"] * 3 + ["M"] * 2 + ["L"]
    accuracy, cost = replay_mix(policy, orders(votes, right), tuple(votes))
    assert cost[0] == billed(asked, requests)
    if accuracy[0] in (0.0, 1.0):  # else several answers are tied, and share the credit
        assert accuracy[0] == float(stop.answer == str(right))


def test_a_mix_takes_one_round_and_weighs_votes_by_their_branch() -> None:
    policy = parse_policy("mix:S(k=3)/L(k=1,weight=2.4)")
    first = policy.decide(View([]))
    assert first == Sample(4, ("S", "S", "S", "L"))
    stop = policy.decide(View(["a", "a", "a", "b"], branches=["S", "S", "S", "L"]))
    assert isinstance(stop, Stop) and stop.answer == "b" and stop.weight == pytest.approx(2.4 / 3.4)


def test_a_cut_short_view_is_asked_for_the_rest() -> None:
    policy = parse_policy("cascade:S(lead_k:3,cap=5)/L(fixed:1)")
    assert policy.decide(View(["a"], branches=["S"])) == Sample(2, ("S", "S"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("cascade", "needs its branches"),
        ("cascade:S(lead_k:2,cap=3)/S(fixed:1)", "never returns"),
        ("cascade:S(lead_k:2,cap=3)/L(esc:3)", "rule over counts"),
        ("cascade:S(lead_k:2,cap=3)/L(nonsense:3)", "nonsense"),
        ("cascade:S(lead_k:2,cap=3)/L e(fixed:1)", "NAME"),
        ("cascade:S(lead_k:2,cap=3),keep=some", "votes or fresh"),
        ("cascade:S(lead_k:2,cap=200)/L(lead_k:2,cap=100)", "256"),
        ("mix:S(k=3)/L(k=0)", "k of L"),
        ("mix:S(k=3,weight=-1)", "weight of S"),
        ("mix:S(k=3,weight=nan)", "weight of S"),
        ("mix:S(k=3,weight=0)", "above 0"),
        ("mix:S(paths=3)", "k=3,weight=1"),
        ("mix:S(k=many)", "k of S"),
        ("mix:S(3)", "k=3,weight=1"),
    ],
)
def test_bad_specs_end_in_one_line(spec: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        parse_policy(spec)


@pytest.mark.parametrize("spec", [SPECS[0], "mix:S(k=1)/L(k=1)"])
def test_votes_of_another_branch_are_refused(spec: str) -> None:
    with pytest.raises(PolicyError, match="come"):
        parse_policy(spec).decide(View(["a"], branches=["L"]))


@pytest.mark.parametrize("small", ["lead_k:2,cap=4", "fixed:2", "curtailed:cap=5"])
def test_no_stage_ends_on_a_lead_that_unread_answers_could_turn(small: str) -> None:
    """Whatever the unread answers are, the answer stays; else the last stage was drawn to its cap."""
    policy, rng, early = parse_policy(f"cascade:S({small})/L(lead_k:2,cap=6)"), random.Random(7), 0
    for _ in range(300):
        keys: list[str | None] = []
        asked: list[str] = []
        unread = 0
        while isinstance(said := policy.decide(View(keys, branches=asked, unread=unread)), Sample):
            for branch in said.branches:
                lost = rng.random() < 0.15
                keys.append(None if lost else rng.choice("7778"))
                asked.append(branch)
                unread += lost
        votes = Counter(key for key in keys if key is not None)
        worst = max((count for key, count in votes.items() if key != said.answer), default=0) + unread
        turns = unread > 0 and worst >= votes[said.answer or ""]
        assert asked.count("L") == 6 or not turns
        assert undecided(keys, unread, said.answer, weighted=weighs(policy)) == turns
        early += unread > 0 and asked.count("L") < 6
    assert early > 20
