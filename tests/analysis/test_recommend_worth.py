"""What a share of the votes is worth, and recommendations where votes are worth little or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from keff.analysis.recommend import Aim
from keff.analysis.recommend.outlook import LEAST_PRICE, Outlook
from keff.analysis.recommend.prior import GENERIC
from keff.analysis.recommend.worth import Labels, fit_calibration, fit_slope, left_out_share
from keff.stats.correlation import agreement_items
from keff.stats.partitions import COMPONENTS
from keff.stats.plurality import plurality_at_k
from keff.stats.votes import Votes
from recommend_rig import advise, outlook, workload

pytestmark = pytest.mark.slow


def test_a_workload_of_one_answer_each_needs_one_path() -> None:
    same = Votes(np.zeros((60, 8), int), np.ones((60, 8), int))
    assert advise(same, Aim(retain=0.99)).policy == "fixed:1"


def test_without_labels_paths_are_chosen_and_accuracy_is_not_claimed(pilot: Votes) -> None:
    found = advise(Votes(pilot.answers, None), Aim(retain=0.99))
    assert found.expected is None and found.kept is None
    assert found.expected_paths is not None and 1 < found.expected_paths < 20


def test_a_tiny_pilot_gets_the_safe_default_with_its_cap() -> None:
    assert advise(workload(6, 8, 4), Aim(retain=0.9)).policy == "adaptive_consistency:0.95"
    few = advise(workload(50, 2, 4), Aim(retain=0.9), cap=16)
    assert (few.policy, few.verdict) == ("adaptive_consistency:0.95,cap=16", "pilot too small")
    unknown = advise(Votes.from_correct(np.ones((30, 8), int)))
    assert (unknown.policy, unknown.expected_paths) == ("adaptive_consistency:0.95", None)


def test_the_slope_tells_shares_that_are_worth_something_from_those_that_are_not() -> None:
    right = workload(400, 8, 5)
    assert right.answers is not None
    steep = fit_slope(Labels.of(right))
    # Correct at random, answer by answer: the leader is no better than another.
    answer_is_right = np.random.default_rng(7).random((400, 4)) < 0.5
    lucky = np.take_along_axis(answer_is_right, right.answers, 1).astype(int)
    flat = fit_slope(Labels.of(Votes(right.answers, lucky)))
    assert steep.value > 0.7 > 0.35 > flat.value
    assert steep.sd < GENERIC.slope.sd
    assert fit_slope(Labels.of(Votes(right.answers, None))).value == pytest.approx(GENERIC.slope.at(1))


def labels(votes: Votes) -> Labels:
    told = Labels.of(votes)
    assert told is not None
    return told


@pytest.mark.parametrize("truth", [0.5, 0.8, 1.0])
def test_calibration_comes_back(truth: float) -> None:
    """An answer of share s is right with probability ``truth`` * s.

    Then p is ``truth`` times the agreement.
    """
    rng = np.random.default_rng(8)
    share = rng.beta(2, 2, 4000)
    answers = (rng.random((4000, 8)) > share[:, None]).astype(int)
    first = rng.random(4000) < truth * share
    second = ~first & (rng.random(4000) < truth * (1 - share) / (1 - truth * share))
    right = np.where(answers == 0, first[:, None], second[:, None]).astype(int)
    found = fit_calibration(labels(Votes(answers, right)))
    assert found.value == pytest.approx(truth, abs=4 * found.sd)
    assert found.sd < 0.02
    few = Votes(answers[:12], right[:12])
    raw, generic = few.p / agreement_items(few).mean(), GENERIC.calibration.value
    assert abs(fit_calibration(labels(few)).value - generic) < abs(raw - generic)


def test_votes_that_are_worth_little_are_not_paid_for() -> None:
    """Two workloads of the same votes.

    Where wrong answers meet as often as right ones, fewer paths will do.
    """
    good = workload(80, 8, 9)
    assert good.answers is not None
    coin = np.random.default_rng(10).random((80, 4)) < 0.5
    poor = Votes(good.answers, np.take_along_axis(coin, good.answers, 1).astype(int))
    aim = Aim(retain=0.99)
    assert (advise(poor, aim).expected_paths or 0) < (advise(good, aim).expected_paths or 0)


def test_what_a_share_costs_has_a_floor_that_goes_with_the_accuracy(found: Outlook) -> None:
    """Whatever the labels say, what is lost in share counts for something."""
    least = GENERIC.price.trusted * LEAST_PRICE * found.level
    assert np.all(found.lost >= least * np.maximum(found.share, 0))


@pytest.mark.parametrize("answers", ["none", "different"])
def test_a_pilot_without_a_vote_to_count_is_named_and_gets_no_number(answers: str) -> None:
    codes = np.full((50, 8), -1) if answers == "none" else np.tile(np.arange(8), (50, 1))
    right = np.zeros((50, 8), int)
    right[:20] = codes[:20] == 0
    found = advise(Votes(codes, right), Aim(retain=0.99))
    assert (found.verdict, found.policy) == ("pilot too small", "adaptive_consistency:0.95")
    assert found.because.endswith("so there is no vote to count")
    assert (found.expected, found.kept, found.expected_paths, found.differs) == (None, None, None, None)


def test_left_out_share_is_counted_by_hand() -> None:
    votes = Votes(np.array([[0, 0, 1], [0, 1, -1], [2, 2, 2]]), None)
    # First row: leaving out a 0 leaves a tie of 0 and 1 (one half, twice); leaving out 1 leaves 0 0 (none).
    assert left_out_share(votes).tolist() == pytest.approx([1 / 3, 0, 1])


def test_the_generic_prior_fits_the_components() -> None:
    assert GENERIC.weights.shape == (len(COMPONENTS),)
    assert GENERIC.weights.sum() == pytest.approx(1, abs=0.01)


def wrong_attractor(n: int, k: int, seed: int) -> Votes:
    """One path is right 4 times in 10, and the other answer is always the same: voting hurts."""
    answers = (np.random.default_rng(seed).random((n, k)) > 0.4).astype(int)
    return Votes(answers, (answers == 0).astype(int), tokens=np.full((n, k), 10.0))


def test_one_path_is_expected_to_do_what_one_path_did() -> None:
    pilot = wrong_attractor(80, 8, 1)
    found = advise(pilot, Aim(), "do not vote")
    assert found.policy == "fixed:1" and found.expected is not None
    assert found.expected.value == pytest.approx(pilot.p)
    assert found.expected.lo is not None and found.expected.hi is not None
    assert found.expected.lo < 0.4 < found.expected.hi
    assert found.kept is not None and found.kept.value > 1


@pytest.mark.parametrize("cap", [1, 4, 12])
def test_a_pilot_longer_than_the_cap_tells_the_accuracy_at_the_cap(cap: int) -> None:
    pilot = workload(200, 24, 3)
    found = outlook(pilot, cap)
    assert found.accuracy is not None
    assert found.accuracy.value == pytest.approx(plurality_at_k(pilot)[cap - 1])


def test_hard_questions_that_take_more_tokens_cost_more() -> None:
    easy, hard = np.zeros((40, 8), int), np.tile([0, 1], (40, 4))
    tokens = np.repeat([[100.0], [1000.0]], 40, axis=0) * np.ones(8)
    pilot = Votes(np.vstack([easy, hard]), None, tokens=tokens)
    single, several = advise(pilot, Aim(budget=1), cap=16), advise(pilot, Aim(budget=8), cap=16)
    assert single.expected_tokens == pytest.approx(550)
    assert several.expected_tokens is not None and several.expected_paths is not None
    assert several.expected_tokens > 1.2 * 550 * several.expected_paths


def test_the_reason_says_what_was_asked(pilot: Votes) -> None:
    free = advise(pilot, Aim(value_per_correct=2, cost_per_path=0)).because
    assert free.startswith("paths cost nothing")
    assert "keep 99.95% of" in advise(pilot, Aim(retain=0.9995)).because
    assert "less than half a point" in advise(pilot, Aim(retain=0.99), "single path").because
    assert advise(workload(1, 8, 4)).because.startswith("1 question x 8 paths cannot")
