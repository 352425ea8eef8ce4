"""What is said and voted on at the edge: no gold answers, nothing ever right, answers that are no text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import keff
from keff.errors import UsageError
from keff.stats.branches.covariance import correlation_intervals

ALIKE = [["4"] * 6] * 29 + [["4"] * 5 + ["5"]]


def test_asking_once_without_gold_answers_says_nothing_of_accuracy() -> None:
    decision = keff.analyze(ALIKE, gold_answer=None).decision
    assert decision.verdict == "ask once"
    assert decision.because.startswith("one answer is the same as today's on 9")
    assert decision.kept is None and decision.change.points is None


def test_of_a_model_that_is_never_right_the_gold_answers_are_looked_at_first() -> None:
    decision = keff.analyze(ALIKE, gold_answer=["7"] * 30).decision
    assert decision.verdict is None and decision.kept is None
    assert "no answer was right" in decision.because and "keff read" in decision.because


def test_an_aim_that_asks_for_no_share_is_not_sure_to_keep_it() -> None:
    answers = [["4"] * (3 + place % 6) + ["5"] * (5 - place % 6) for place in range(30)]
    analysis = keff.analyze(answers, gold_answer=["4"] * 30, budget=3)
    assert analysis.decision.kept is not None and analysis.decision.kept.confidence is None
    assert "what is asked" not in str(analysis)


def test_the_range_of_a_correlation_holds_its_estimate() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        theta = rng.integers(0, 2, 6)
        a, b = (rng.random((6, 3)) < 0.2 + 0.6 * theta[:, None] for _ in range(2))
        for row in correlation_intervals([a.astype(np.int64), b.astype(np.int64)]):
            for one in row:
                assert one.lo is None or one.lo <= one.value
                assert one.hi is None or one.value <= one.hi


@pytest.mark.parametrize("answers", [[1, 2, 2], [None, {"a": 1}], ["4", 4.0]])
def test_a_vote_on_what_is_no_text_says_what_to_write(answers: Any) -> None:
    with pytest.raises(UsageError, match=r"vote takes answers as text, or None, not \w+: \[str\("):
        keff.vote(answers)
