"""The free law: it follows a curve that turns after the pilot, which a beta law cannot."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from by_item import plurality_at_k_items
from keff.stats.models.answer_model import AnswerModel
from keff.stats.models.plurality_model import Forecaster, free_gains
from keff.stats.votes import Votes
from keff.stats.voting.alike import vote_patterns

LOW, HIGH, HARD = 0.35, 0.95, 0.6


def majority(k: int, right: float) -> float:
    """Return the chance that more than half of k votes are right, and half of that of a tie."""
    tie = scipy.stats.binom.pmf(k / 2, k, right) if k % 2 == 0 else 0.0
    return float(scipy.stats.binom.sf(k // 2, k, right) + 0.5 * tie)


def truth(k: int) -> float:
    return HARD * majority(k, LOW) + (1 - HARD) * majority(k, HIGH)


def turning(n: int) -> Votes:
    """Two answers: most questions are misled at .35, the others right at .95."""
    rng = np.random.default_rng(0)
    right = np.where(np.arange(n) < HARD * n, LOW, HIGH)
    codes = (rng.random((n, 8)) > right[:, None]).astype(np.int64)
    return Votes(codes, 1 - codes)


def test_a_free_law_comes_nearer_to_a_fall_after_the_pilot() -> None:
    votes = turning(4000)
    model = AnswerModel(votes, 32)
    fall = truth(32) - truth(8)
    assert fall < -0.04
    every = vote_patterns(votes).counts[None]
    free, shaped = free_gains(model, 32, every)[0], model.gains([32], every)[0, 0]
    assert abs(free - fall) < abs(shaped - fall)
    assert free < 2 / 3 * fall


def test_items_of_equal_votes_count_by_their_weight() -> None:
    """Twice the weight is the same item twice."""
    votes = turning(60)
    rows = np.r_[np.arange(60), np.arange(20)]
    weights = np.ones((1, 60))
    weights[0, :20] = 2
    twice = Votes(votes.answered()[rows], votes.scored()[rows])
    once = free_gains(AnswerModel(votes, 32), 32, np.bincount(vote_patterns(votes).back, weights[0])[None])[0]
    # Nothing abstains, but for what the smoothed rate of it has it: a thousandth of the votes.
    model = AnswerModel(twice, 32)
    assert free_gains(model, 32, vote_patterns(twice).counts[None])[0] == pytest.approx(once, abs=1e-3)


def test_within_the_pilot_it_is_what_was_measured() -> None:
    votes = turning(200)
    gain, error = Forecaster(votes, [5]).free_gain(5)
    gains = plurality_at_k_items(votes)[:, 4] - plurality_at_k_items(votes)[:, 0]
    assert gain == pytest.approx(gains.mean(), abs=1e-12)
    # Sixty resamples know a standard error within a tenth.
    assert error == pytest.approx(gains.std() / 200**0.5, rel=0.35)
