"""Every rule is played against its own sentence, with up to six answers and abstentions."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.analysis.results.words import boundaries, in_words
from keff.policies._table import TablePolicy
from keff.policy import Policy, Stop, View, parse_policy, tally

SPECS = [
    *[f"budget:{k},cap={cap}{b}" for k in (1.26, 2.5, 4) for cap in (8, 24) for b in ("", ",b=2", ",b=64")],
    "budget:1.05,b=2,cap=12",
    *[f"lead_k:{lead},cap={cap}" for lead in (2, 3, 4) for cap in (4, 16, 32)],
    *[f"budget:{k},cap={cap},b=64" for k in (1.05, 2, 3, 4) for cap in (5, 8, 16)],
    *[f"adaptive_consistency:{sure},cap={cap}" for sure in (0.8, 0.95) for cap in (3, 16, 32)],
]


def said_of(sentence: str, v1: int, v2: int, n: int, others: int) -> bool | None:
    """Return what a sentence says of a state: stop (True), go on (False), or it leaves open (None)."""
    leads = re.findall(r"by (\d+)(?: from path (\d+) on)?", sentence)
    if leads:
        return any(v1 - v2 >= int(lead) and n >= int(path or 0) for lead, path in leads)
    places = {int(low): int(high) for high, low in re.findall(r"(\d+) to (\d+)", sentence)}
    if v2 in places and v1 >= places[v2]:
        return True
    if v2 <= 2:
        closer = re.search(r"closer votes stop from path (\d+)", sentence, re.IGNORECASE)
        open_ = closer is not None and n >= int(closer[1]) and others > 0
        return None if open_ else False
    if "asks for less the fewer paths are left" in sentence:
        return None
    lead = re.search(r"takes a lead of at least (\d+)", sentence)
    return None if lead and v1 - v2 >= int(lead[1]) else False


@cache
def told(spec: str) -> tuple[Policy, str]:
    return parse_policy(spec), boundaries(spec)


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_a_rule_does_what_its_sentence_says(spec: str, data: st.DataObject) -> None:
    policy, sentence = told(spec)
    assert isinstance(policy, TablePolicy)
    assert f"at most {policy.cap} paths" in sentence or f"Draw {policy.cap} paths" in sentence
    assert f"{policy.cap} paths" in in_words(spec)
    answers = data.draw(st.integers(1, 6))
    key = st.one_of(st.integers(0, answers - 1), st.just(0), st.none())
    keys = [None if k is None else str(k) for k in data.draw(st.lists(key, max_size=policy.cap - 1))]
    for n in range(len(keys) + 1):
        seen = tally(keys[:n])
        said = said_of(sentence, seen.v1, seen.v2, n, n - seen.v1 - seen.v2)
        stopped = isinstance(policy.decide(View(keys[:n])), Stop)
        assert said is None or said == stopped, f"{sentence}: {seen.v1} to {seen.v2} after {n}"


def test_the_sentence_that_was_false_is_caught() -> None:
    """The reading can fail: 'closer votes go on' is false of 3 to 1 with third answers."""
    old = "Stop when the vote stands at 2 to 0, 4 to 1 or 5 to 2; closer votes go on, up to 32 paths."
    keys = [*"abacdaefghijkl"]
    policy = parse_policy("budget:1.26")
    places = [(n, tally(keys[:n])) for n in range(1, len(keys) + 1)]
    told = [said_of(old, seen.v1, seen.v2, n, n - seen.v1 - seen.v2) for n, seen in places]
    done = [isinstance(policy.decide(View(keys[:n])), Stop) for n, _ in places]
    assert told != done


def test_waves_are_told_with_their_rule() -> None:
    plain = in_words("lead_k:3")
    assert in_words("lead_k:3,wave=4") == f"At least 4 paths at a time, and after each wave: {plain}"
    assert in_words("lead_k:3,wave=3+5").startswith("At least 3, then 5 paths at a time")
