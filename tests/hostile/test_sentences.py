"""The sentences of a decision hold on records at the edge: no gold answers, nothing ever right."""

from __future__ import annotations

import keff

ALIKE = [["4"] * 6] * 29 + [["4"] * 5 + ["5"]]


def test_asking_once_without_gold_answers_says_nothing_of_accuracy() -> None:
    decision = keff.analyze(ALIKE, gold_answer=None).decision
    assert decision.verdict == "ask once"
    assert decision.because.startswith("one path gives today's answer on 9")
    assert decision.kept is None and decision.change.points is None


def test_asking_once_of_a_model_that_is_never_right_keeps_no_share() -> None:
    decision = keff.analyze(ALIKE, gold_answer=["7"] * 30).decision
    assert decision.verdict == "ask once" and decision.kept is None
    assert "keeps" not in decision.because
