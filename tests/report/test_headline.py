"""The decision in words, and rules told by where they stop."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from keff.analysis.results.decision import Bill, Decision, Differences, Kept, Seconds
from keff.analysis.results.words import first_sentence, in_words, sentences, summary
from keff.policy import Sample, Stop, View, parse_policy
from keff.records import Interval
from keff.report.headline import headline

TOLD = {
    "fixed:1": "Ask once and do not vote.",
    "fixed:8": "Always draw 8 answers, then take the most frequent one.",
    "lead_k:2,cap=8": "Stop once an answer leads by 2; never draw more than 8.",
    "curtailed:cap=3": "Vote over 3 answers, stopping as soon as the result is certain.",
    "budget:3,cap=8,b=64": (
        "Stop once an answer leads by 3, or by 2 from answer 6 on; never draw more than 8."
    ),
    "adaptive_consistency:0.95": "Stop once an answer leads 4-0, 6-1 or 8-2; never draw more than 32.",
}


def change(lo: float | None, hi: float | None) -> Interval:
    return Interval(0.0, lo, hi, "given")


@pytest.mark.parametrize(("spec", "words"), TOLD.items())
def test_rules_are_told_in_words(spec: str, words: str) -> None:
    assert in_words(spec) == words


@pytest.mark.parametrize("spec", ["budget:2.47,b=8,cap=16", "adaptive_consistency:0.95", "pilot_budget:0.98"])
def test_the_votes_that_are_told_are_those_that_stop(spec: str) -> None:
    policy = parse_policy(spec)
    places = [(int(ahead), int(against)) for ahead, against in re.findall(r"(\d+)-(\d+)", in_words(spec))]
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


def test_the_first_sentences_say_what_to_draw_instead_of_what_is_drawn() -> None:
    assert sentences(decided())[:4] == [
        "Stop early: 3.6 answers on average instead of 8, 55% fewer answers.",
        "Accuracy stays about the same (95% interval -1.1 to +0.4 points).",
        "Rule: stop once an answer leads by 2; never draw more than 8.",
        "  lead_k:2,cap=8",
    ]
    tokens = decided(
        change=Differences(
            paths=Interval(-4.4, None, None, "given"),
            tokens=Interval(-60.0, None, None, "given"),
            dollars=Interval(-0.002, None, None, "given"),
            p50_ratio=Interval(0.6, None, None, "given"),
            p95_ratio=Interval(2.46, None, None, "given"),
            points=Interval(-0.005, -0.013, 0.003, "given"),
        ),
        expected_tokens=Interval(40.0, None, None, "given"),
    )
    assert summary(tokens) == [
        "Stop early: 3.6 answers on average instead of 8, 60% fewer tokens.",
        "Accuracy changes by about -0.5 points (95% interval -1.3 to +0.3).",
        "Answers take 40% less time (median); the slowest 5% take 2.5 times as long.",
        "This saves $2 per 1,000 questions.",
    ]
    once = decided("ask once", "fixed:1", expected_paths=Interval(1.0, 1.0, 1.0, "given"))
    assert first_sentence(once) == "Ask once instead of drawing 8 answers: 81% fewer answers."
    assert first_sentence(decided(policy="fixed:8")) == "Keep drawing 8 answers."
    other = first_sentence(replace(decided(), reference="lead_k:3,cap=8"))
    assert other.startswith("Stop early: 3.6 answers on average instead of 8.0 by lead_k:3,cap=8, ")
    nothing = Decision(None, "curtailed:cap=8", "9 questions cannot decide: record at least 10", "fixed:8")
    assert sentences(nothing) == ["No decision: 9 questions cannot decide: record at least 10."]
    assert headline(nothing, None, None).pairs == ()
    blind = decided(change=Differences(), agreement=Interval(0.97, 0.95, 0.99, "replayed"))
    assert "The answer is the same as today's on 97.0% of questions (95% interval 95.0 to 99.0)." in summary(
        blind
    )


def test_one_word_for_the_verdict_and_what_is_open_apart_from_what_is_settled() -> None:
    kept = Kept(0.994, 0.985, 1.0, "given", confidence=0.93, of="fixed:8", asked=0.99)
    open_ = decided("undecided", kept=kept, settled="Stopping early is safe", open="Whether voting pays")
    said = sentences(open_)
    sure = (
        "This keeps 99.4% of today's accuracy (95% interval 98.5 to 100.0). There is a 93% chance that it "
        "keeps at least 99%."
    )
    assert said[4:] == [sure, "Undecided: whether voting pays.", "Stopping early is safe."]
    assert str(open_) == "\n".join(said)
    top = headline(open_, None, None)
    assert (top.tone, top.badge, top.rule, top.sure) == ("wait", "Undecided", "lead_k:2,cap=8", sure)
    assert top.why == ("Whether voting pays.", "Stopping early is safe.")
    badges = [headline(decided(verdict), None, None).badge for verdict in ("vote", "ask once", None)]
    assert badges == ["Vote", "Ask once", "No decision"]
    assert headline(decided(), None, None).why == ("Voting gains 4 points.",)
    further = sentences(replace(open_, measured=False, run_change=change(-0.03, 0.02)), verbose=True)
    assert "This is predicted, since the rule draws more than you recorded." in further[4]
    assert "One run with other paths may show +0.0 points (95% interval -3.0 to +2.0)." in further


def test_three_pairs_of_bars_show_cost_time_and_accuracy() -> None:
    points = Interval(-0.005, -0.013, 0.003, "given")
    known = Differences(
        paths=Interval(-4.4, None, None, "given"),
        dollars=Interval(-0.0025, None, None, "given"),
        p95=Interval(5.0, None, None, "given"),
        points=points,
    )
    decision = decided(change=known, accuracy=Interval(0.705, 0.6, 0.8, "given"))
    accuracy = headline(decision, None, None).pairs[-1]
    assert [pair.title for pair in headline(decision, None, None).pairs] == [
        "Answers per question",
        "Accuracy",
    ]
    assert (accuracy.today, accuracy.keff) == pytest.approx((0.71, 0.705))
    assert accuracy.limits == pytest.approx((0.697, 0.713))
    assert (accuracy.change, accuracy.today_text, accuracy.keff_text) == (
        "0.5 points lower",
        "71.0%",
        "70.5%",
    )
    assert accuracy.detail == "95% interval of the change: -1.3 to +0.3 points"
    each, thousand = Interval(0.0025, 0.002, 0.003, "given"), Interval(2.5, 2.0, 3.0, "given")
    bill = Bill("gpt", change(None, None), each, thousand, None, None, (), 1.0, None)
    seconds = Seconds(Interval(3.0, 2.0, 4.0, "given"), Interval(9.5, 8.0, 11.0, "given"))
    cost, time, _ = headline(decision, bill, seconds).pairs
    assert (cost.title, cost.change, cost.today_text, cost.keff_text) == (
        "Dollars per 1,000 questions",
        "50% less",
        "$5",
        "$2.5",
    )
    assert (cost.today, cost.keff) == (1.0, 0.5)
    assert (time.change, time.today_text, time.keff_text) == ("2.1 times as long", "4.5 s", "9.5 s")
    assert (time.today, time.keff) == pytest.approx((4.5 / 9.5, 1.0))
