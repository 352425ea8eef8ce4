"""The decision in words, and rules told by where they stop."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from keff.analysis.results.decision import Bill, Decision, Differences, Kept, Seconds
from keff.analysis.results.words import first_sentence, in_words, sentences
from keff.policy import Sample, Stop, View, parse_policy
from keff.records import Interval
from keff.report.headline import headline

TOLD = {
    "fixed:1": "One path, no vote.",
    "fixed:8": "Always 8 paths, then the most frequent answer.",
    "lead_k:2,cap=8": "Stop when one answer leads by 2; at most 8 paths.",
    "curtailed:cap=3": "Stop when no other answer can catch up; at most 3 paths.",
    "budget:3,cap=8,b=64": "Stop when one answer leads by 3, or by 2 from path 6 on; at most 8 paths.",
    "adaptive_consistency:0.95": "Stop when the vote stands at 4 to 0, 6 to 1 or 8 to 2; at most 32 paths.",
}


def change(lo: float | None, hi: float | None) -> Interval:
    return Interval(0.0, lo, hi, "given")


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


def decided(verdict: Any = "vote", policy: str = "lead_k:2,cap=8", **known: Any) -> Decision:
    whole = {
        "expected_paths": Interval(3.6, 3.2, 4.0, "given"),
        "change": Differences(paths=Interval(-4.4, -4.8, -4.0, "given"), points=change(-0.011, 0.004)),
    }
    return Decision(verdict, policy, "voting gains 4 points", "fixed:8", **{**whole, **known})


def test_the_first_sentence_says_what_to_draw_instead_of_what_is_drawn() -> None:
    assert sentences(decided())[:2] == [
        "Draw 3.6 paths instead of 8: -55% paths, accuracy +0.0 [-1.1, +0.4] points.",
        "Stop when one answer leads by 2; at most 8 paths (lead_k:2,cap=8).",
    ]
    tokens = decided(
        change=Differences(
            paths=Interval(-4.4, None, None, "given"),
            tokens=Interval(-60.0, None, None, "given"),
            dollars=Interval(-0.002, None, None, "given"),
            p50_ratio=Interval(0.6, None, None, "given"),
            p95_ratio=Interval(0.999, None, None, "given"),
        ),
        expected_tokens=Interval(40.0, None, None, "given"),
    )
    said = "Draw 3.6 paths instead of 8: -60% tokens, -$2 per 1,000 questions, p50 time -40%, p95 +0%."
    assert first_sentence(tokens) == said
    once = decided("ask once", "fixed:1", expected_paths=Interval(1.0, 1.0, 1.0, "given"))
    assert first_sentence(once).startswith("Ask once instead of drawing 8 paths: -81% paths")
    assert first_sentence(decided(policy="fixed:8")) == "Keep drawing 8 paths."
    other = first_sentence(replace(decided(), reference="lead_k:3,cap=8"))
    assert other.startswith("Draw 3.6 paths instead of 8.0 by lead_k:3,cap=8: ")
    nothing = Decision(None, "curtailed:cap=8", "9 questions cannot decide: record at least 10", "fixed:8")
    assert first_sentence(nothing) == "No decision: 9 questions cannot decide: record at least 10."
    assert {tile.detail for tile in headline(nothing, None, None).tiles[:2]} == {
        "without a decision nothing is replayed"
    }
    blind = decided(change=Differences(), agreement=Interval(0.97, 0.95, 0.99, "replayed"))
    assert first_sentence(blind).endswith("the same answer on 97.0% [95.0, 99.0] of questions.")


def test_one_word_for_the_verdict_and_what_is_open_apart_from_what_is_settled() -> None:
    kept = Kept(0.994, 0.985, 1.0, "given", confidence=0.93, of="fixed:8", asked=0.99)
    open_ = decided("undecided", kept=kept, settled="Stopping early is safe", open="Whether voting pays")
    said = sentences(open_)
    assert said[2].startswith(
        "Keeps 99.4% [98.5, 100.0] of the accuracy of 8 paths; there is a 93% chance that"
    )
    assert said[3:] == ["Undecided: whether voting pays.", "Stopping early is safe."]
    assert str(open_) == "\n".join(said)
    top = headline(open_, None, None)
    assert (top.tone, top.badge, top.rule) == ("wait", "Undecided", "lead_k:2,cap=8")
    assert top.why == ("Undecided: whether voting pays", "Stopping early is safe")
    badges = [headline(decided(verdict), None, None).badge for verdict in ("vote", "ask once", None)]
    assert badges == ["Vote", "Ask once", "No decision"]
    assert headline(decided(), None, None).why == ("Vote: voting gains 4 points",)
    further = sentences(replace(open_, measured=False, run_change=change(-0.03, 0.02)), verbose=True)
    assert "predicted beyond the paths recorded" in further[2]
    assert "One run with other paths would show +0.0 [-3.0, +2.0] points." in further


def test_tiles_tell_what_is_kept_saved_paid_and_waited_for() -> None:
    kept = Kept(0.987, 0.97, 1.0, "given", confidence=0.62, of="fixed:8", asked=0.99)
    bare = [tile.label for tile in headline(decided(kept=kept), None, None).tiles]
    assert bare == ["Accuracy kept, of 8 paths", "Paths saved, against 8 paths"]
    each, thousand = Interval(0.0025, 0.002, 0.003, "given"), Interval(2.5, 2.0, 3.0, "given")
    bill = Bill("gpt", change(None, None), each, thousand, None, None, (), 1.0, None)
    seconds = Seconds(Interval(3.0, 2.0, 4.0, "given"), Interval(9.5, 8.0, 11.0, "given"))
    tiles = {tile.label: tile for tile in headline(decided(kept=kept), bill, seconds).tiles}
    assert [tile.value for tile in tiles.values()] == [
        "98.7% [97.0, 100.0]",
        "55%",
        "$2.5 [2, 3]",
        "9.5 [8.0, 11.0]",
    ]
    assert "a 62% chance that this workload keeps at least 99%" in tiles["Accuracy kept, of 8 paths"].detail
    assert "instead of 8; accuracy +0.0 [-1.1, +0.4] points" in tiles["Paths saved, against 8 paths"].detail
