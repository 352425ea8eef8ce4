"""Every rule is played against its own sentence, with up to six answers and abstentions."""

from __future__ import annotations

import re

import numpy as np
import pytest

from how_many import examples
from keff.analysis.results.words import in_words
from keff.policies._table import TablePolicy
from keff.policy import Stop, View, parse_policy, tally

SPECS = [
    *[f"budget:{k},cap={cap}{b}" for k in (1.26, 2.5, 4) for cap in (8, 24) for b in ("", ",b=2", ",b=64")],
    "budget:1.05,b=2,cap=12",
    *[f"lead_k:{lead},cap={cap}" for lead in (2, 3, 4) for cap in (4, 16, 32)],
    *[f"budget:{k},cap={cap},b=64" for k in (1.05, 2, 3, 4) for cap in (5, 8, 16)],
    *[f"adaptive_consistency:{sure},cap={cap}" for sure in (0.8, 0.95) for cap in (3, 16, 32)],
]


def said_of(sentence: str, v1: int, v2: int, n: int) -> bool | None:
    """Return what a sentence says of a state: stop (True), go on (False), or it leaves open (None)."""
    leads = re.findall(r"by (\d+)(?: from answer (\d+) on)?", sentence)
    if leads:
        return any(v1 - v2 >= int(lead) and n >= int(path or 0) for lead, path in leads)
    places = {int(low): int(high) for high, low in re.findall(r"(\d+)-(\d+)", sentence)}
    if v2 in places and v1 >= places[v2]:
        return True
    # Of two answers alone the lead that is told is the least.
    open_ = "other leads can be enough" in sentence and (v2 not in places or n > v1 + v2)
    return None if open_ else False


@pytest.mark.parametrize("spec", SPECS)
def test_a_rule_does_what_its_sentence_says(spec: str) -> None:
    policy, sentence = parse_policy(spec), in_words(spec, finer=True)
    assert isinstance(policy, TablePolicy)
    for said in (sentence, in_words(spec)):
        assert f"never draw more than {policy.cap}." in said or f"Always draw {policy.cap} answers" in said
    # By numpy: drawn by hypothesis, the paths of one question cost more than walking along them.
    rng = np.random.default_rng()
    for _ in range(examples(25)):
        # The first answer more often than the others by a share of its own: some questions are soon decided.
        codes = rng.integers(0, rng.integers(1, 7), rng.integers(0, policy.cap))
        codes[rng.random(codes.size) < rng.random()] = 0
        read = rng.random(codes.size) < 0.8
        keys = [str(code) if seen else None for code, seen in zip(codes, read, strict=True)]
        for n in range(len(keys) + 1):
            seen = tally(keys[:n])
            said = said_of(sentence, seen.v1, seen.v2, n)
            stopped = isinstance(policy.decide(View(keys[:n])), Stop)
            assert said is None or said == stopped, f"{sentence}: {seen.v1} to {seen.v2} after {n} of {keys}"


def test_the_sentence_that_was_false_is_caught() -> None:
    """The reading can fail: 'closer votes go on' is false of 3 to 1 with third answers."""
    old = "Stop once an answer leads 2-0, 4-1 or 5-2; closer votes go on, up to 32 answers."
    keys = [*"abacdaefghijkl"]
    policy = parse_policy("budget:1.26")
    places = [(n, tally(keys[:n])) for n in range(1, len(keys) + 1)]
    told = [said_of(old, seen.v1, seen.v2, n) for n, seen in places]
    done = [isinstance(policy.decide(View(keys[:n])), Stop) for n, _ in places]
    assert told != done


def test_waves_are_told_with_their_rule() -> None:
    plain = in_words("lead_k:3")
    told = in_words("lead_k:3,wave=4")
    assert told == f"Draw at least 4 at a time, and after each wave decide: s{plain[1:]}"
    assert in_words("lead_k:3,wave=3+5").startswith("Draw at least 3, then 5 at a time")


def test_a_rule_over_branches_names_each_branch_and_the_votes_that_count() -> None:
    assert in_words("cascade:large(lead_k:2,cap=8)") == in_words("lead_k:2,cap=8")
    fresh = in_words("cascade:small(lead_k:2,cap=4)/large(fixed:1),keep=fresh")
    small = "Ask small: stop once an answer leads by 2; never draw more than 4."
    open_ = "If the answer is still open, ask large once."
    assert fresh == f"{small} {open_} Each branch looks at its own votes only."
    assert in_words("cascade:small(lead_k:2,cap=4)/large(fixed:1)").endswith("earlier branches count too.")
    assert in_words("cascade:small(retry:3)/large(retry:1)").endswith("If no answer passes, ask large once.")
    assert in_words("mix:small(k=3)/large(k=1)").startswith("Draw 3 of small and 1 of large in one round")
