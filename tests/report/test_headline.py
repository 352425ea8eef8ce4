"""The recommendation in words: rules are told by where they stop, and a pilot that is too small says so."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from keff.analysis.results.comparison import Comparison
from keff.analysis.results.money import Bill, Change, Seconds
from keff.analysis.results.recommendation import Kept, Recommendation
from keff.analysis.results.rule_words import in_words
from keff.cli._summary import _verdict  # pyright: ignore[reportPrivateUsage]
from keff.policy import Sample, Stop, View, parse_policy
from keff.records import Interval
from keff.report.headline import arms_sentence, headline

TOLD = {
    "fixed:1": "One path, no vote.",
    "fixed:8": "Always 8 paths, then the most frequent answer.",
    "lead_k:3": "Stop when the vote stands at 3 to 0, 4 to 1 or 5 to 2; against 3 votes or more it takes "
    "a lead of at least 3; "
    "else go on, up to 32 paths.",
    "lead_k:3,cap=4": "Stop when the vote stands at 3 to 0; else go on, up to 4 paths.",
}


@pytest.mark.parametrize(("spec", "words"), TOLD.items())
def test_rules_are_told_in_words(spec: str, words: str) -> None:
    assert in_words(spec) == words


@pytest.mark.parametrize("spec", ["budget:2.47,b=8,cap=16", "adaptive_consistency:0.95", "pilot_budget:0.98"])
def test_the_votes_that_are_told_are_those_that_stop(spec: str) -> None:
    policy = parse_policy(spec)
    places = [(int(ahead), int(against)) for ahead, against in re.findall(r"(\d+) to (\d+)", in_words(spec))]
    assert [against for _, against in places] == [0, 1, 2]
    for ahead, against in places:
        assert isinstance(policy.decide(View(["a"] * ahead + ["b"] * against)), Stop)
        if ahead - 1 > against:
            assert isinstance(policy.decide(View(["a"] * (ahead - 1) + ["b"] * against)), Sample)


@pytest.mark.parametrize("spec", ["curtailed", "esc:4", "lead_k:3,weight=confidence,temperature=0.2"])
def test_other_rules_are_told_by_their_documentation(spec: str) -> None:
    assert len(in_words(spec)) > 20


def advice(verdict: Any, policy: str, **known: Any) -> Recommendation:
    nothing = dict.fromkeys(field.name for field in fields(Recommendation))
    return Recommendation(
        **nothing
        | {"verdict": verdict, "policy": policy, "k": 32, "because": "few", "expected_paths": 9.0}
        | known
    )


def test_a_small_pilot_is_said_to_be_one_with_what_to_do_meanwhile() -> None:
    safe, aimed = (
        advice("pilot too small", spec) for spec in ("adaptive_consistency:0.95,cap=16", "budget:3")
    )
    assert _verdict(safe).endswith(
        "to choose how many paths[/bold]; safe default: adaptive_consistency:0.95,cap=16"
    )
    assert _verdict(aimed).endswith("best for your aim: budget:3")
    tops = [headline(one, 32) for one in (safe, aimed)]
    assert [top.badge for top in tops] == ["Pilot too small"] * 2
    assert tops[0].sentence.endswith("use the safe default.")
    assert "aim" in tops[1].sentence
    assert tops[0].words.startswith("Stop when the vote stands at 4 to 0")


def test_a_rule_is_sold_by_what_it_keeps_and_only_as_far_as_that_is_known() -> None:
    kept = Kept(0.987, 0.97, 1.0, "simulated from the pilot", confidence=0.62)
    vote = advice("sample", "budget:3", kept=kept, same_answer=0.9)
    told = headline(vote, 32)
    assert "9.0 paths per question keep 98.7% of the accuracy of 32" in told.sentence
    assert (told.rule, told.saved) == ("budget:3", "72%")
    assert told.tiles[0].value == "98.7% [97.0, 100.0]"
    assert "62% sure that this workload keeps what was asked" in told.tiles[0].detail
    whole = replace(vote, replayed=Interval(0.991, 0.98, 1.0, "replayed"), optimism=0.004)
    assert "99.1%" not in str(headline(whole, 32)), "one number per fact: what is kept"
    blind = headline(replace(vote, kept=None), 32)
    assert "mostly with the answer" in blind.sentence
    assert blind.tiles[0].value == "90.0%"


def test_dollars_seconds_and_the_change_from_today_are_told_where_they_are_known() -> None:
    bare = [tile.label for tile in headline(advice("sample", "budget:3"), 32).tiles]
    assert bare == ["Same answer as 32 paths", "Paths saved"]
    known = advice(
        "sample",
        "budget:3",
        change=Change(
            "fixed:16", change(-0.02, 0.01), Interval(-7.0, None, None, "given"), change(None, None)
        ),
        bill=Bill("gpt", change(None, None), Interval(2.5, 2.0, 3.0, "given"), None, None, ()),
        expected_seconds=Seconds(Interval(3.0, 2.0, 4.0, "given"), Interval(9.5, 8.0, 11.0, "given")),
    )
    tiles = {tile.label: tile for tile in headline(known, 32).tiles[1:]}
    assert list(tiles) == [
        "Paths saved, against your 16 paths",
        "Dollars per 1,000 questions",
        "Seconds to answer, 95th percentile",
    ]
    assert [tile.value for tile in tiles.values()] == ["44%", "$2.5 [2, 3]", "9.5 [8.0, 11.0]"]
    detail = tiles["Paths saved, against your 16 paths"].detail
    assert "instead of 16 paths; accuracy changes by +0.0 [-2.0, +1.0] points" in detail


def change(lo: float | None, hi: float | None) -> Interval:
    return Interval(0.0, lo, hi, "given")


@pytest.mark.parametrize(
    ("rho", "vote", "said"),
    [
        ((-0.4, -0.2), (0.01, 0.1), "Its paths agree less; the vote is better."),
        ((0.2, 0.4), (-0.1, -0.01), "Its paths agree more; the vote is worse."),
        ((-0.4, -0.2), (-0.1, 0.1), "Its paths agree less; no difference of the vote is shown."),
        ((-0.1, 0.1), (0.01, 0.1), "No difference is shown in how much its paths agree; the vote is better."),
        (
            (None, None),
            (-0.1, 0.1),
            "These questions show no difference, neither in how much paths agree nor",
        ),
    ],
)
def test_two_arms_are_summed_up_by_what_their_intervals_exclude(rho: Any, vote: Any, said: str) -> None:
    nothing: Any = dict.fromkeys(field.name for field in fields(Comparison))
    compared = Comparison(**nothing | {"delta_rho": change(*rho), "delta_plurality": change(*vote)})
    assert arms_sentence(compared).startswith(said)
