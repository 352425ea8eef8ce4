"""Calibration of a confidence: known laws, no information, signs, and its within-question AUC."""

from __future__ import annotations

import numpy as np
import pytest

from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.calibrate import calibrate, cross_fit, within_auc
from keff.stats.voting.calibration import Calibration, uninformative


def questions(
    seed: int, n: int = 400, k: int = 8, lift: float = 1.0, between: float = 0.0
) -> tuple[Votes, FloatArray]:
    """Paths right with a chance by question; the confidence is normal, ``lift`` higher for a right path."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0.5, 1.0, (n, 1))
    right = (rng.random((n, k)) < 1 / (1 + np.exp(-level))).astype(int)
    answers = np.where(right, 0, rng.integers(1, 4, (n, k)))
    score = lift * right + rng.normal(size=(n, k)) + between * level
    return Votes(answers=answers, correct=right), score


def test_the_auc_of_normal_confidences_is_the_closed_form() -> None:
    from scipy.special import ndtr

    votes, score = questions(0, n=3000, lift=1.2)
    auc = within_auc(votes, score)
    assert auc.limits is not None
    assert auc.value == pytest.approx(ndtr(1.2 / 2**0.5), abs=4 * (auc.limits[1] - auc.value) / 1.96)
    # What questions differ in is in none of the pairs, whatever monotone scale the numbers have.
    assert within_auc(votes, np.exp(score)).value == auc.value


def test_pairs_are_counted_by_hand() -> None:
    votes = Votes(np.array([[0, 1, 0], [0, 0, -1]]), np.array([[1, 0, 1], [1, 1, 0]]))
    score = np.array([[3.0, 2.0, 2.0], [1.0, 1.0, 9.0]])
    assert within_auc(votes, score).value == pytest.approx((1 + 0.5) / 2)
    assert within_auc(votes, score).limits is None


@pytest.mark.parametrize("k", [2, 8])
def test_limits_of_the_auc_cover(k: int) -> None:
    from scipy.special import ndtr

    truth, hits = ndtr(1 / 2**0.5), 0
    for seed in range(200):
        limits = within_auc(*questions(seed, n=80, k=k)).limits
        assert limits is not None
        hits += limits[0] <= truth <= limits[1]
    assert hits >= 180


def test_chances_are_calibrated_on_other_questions() -> None:
    votes, score = questions(1, n=1500)
    assert votes.correct is not None
    chances, _ = cross_fit(votes, score, np.random.default_rng(0))
    for lo, hi in ((0, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1)):
        here = (chances >= lo) & (chances < hi)
        assert votes.correct[here].mean() == pytest.approx(chances[here].mean(), abs=0.04)


def test_weights_rise_with_the_log_odds_within_questions() -> None:
    # The log likelihood ratio of a normal confidence with lift 1 is linear: a step of 1 is worth 1 nat.
    votes, score = questions(2, n=3000, between=2.0)
    found = calibrate(votes, score)
    base, same = found.base, 1 / 3
    ordinary = np.log(base / (1 - base)) - np.log(same)
    middle = np.median(score)
    spread = score.std()
    steps = found.weight(middle + spread * np.array([-0.5, 0.5]))
    assert (steps[1] - steps[0]) * ordinary == pytest.approx(1.0 * spread, rel=0.3)


@pytest.mark.parametrize("constant", [0.0, np.nan, np.inf])
def test_no_information_gives_equal_weights_exactly(constant: float) -> None:
    votes, _ = questions(3, n=50)
    score = np.full((50, 8), constant)
    found = calibrate(votes, score)
    assert not found.informs
    assert np.array_equal(found.weight([-5.0, 0.0, 1.0, np.nan, np.inf]), np.ones(5))


def test_noise_within_questions_is_flat_in_all_but_five_percent() -> None:
    informs = 0
    for seed in range(200):
        votes, score = questions(seed, n=60, between=1.0)
        mixed = np.random.default_rng(seed).permuted(score, axis=1)
        informs += calibrate(votes, mixed).informs
    assert informs <= 18  # 5% of 200, plus two and a half standard errors


def test_a_confidence_of_the_wrong_sign_is_turned() -> None:
    votes, score = questions(4)
    forward, turned = calibrate(votes, score), calibrate(votes, -score)
    assert (forward.sign, turned.sign) == (1, -1)
    at = np.linspace(-2, 3, 21)
    assert turned.chance(-at) == pytest.approx(forward.chance(at), abs=2e-3)
    assert turned.weight(-at) == pytest.approx(forward.weight(at), abs=2e-3)


def test_any_rising_scale_gives_the_same_calibration() -> None:
    votes, score = questions(5)
    plain, curved = calibrate(votes, score), calibrate(votes, np.exp(score))
    assert curved.chances == pytest.approx(plain.chances)
    assert curved.confidences == pytest.approx(np.exp(plain.confidences))


def test_a_yes_or_no_has_two_knots() -> None:
    votes, score = questions(6, lift=2.0)
    found = calibrate(votes, (score > 1).astype(float))
    assert found.confidences == (0.0, 1.0)
    assert found.chances[0] < found.base < found.chances[1]


def test_missing_confidences_are_ordinary_votes() -> None:
    found = calibrate(*questions(7))
    assert found.weight([np.nan]).tolist() == [1.0]
    assert found.chance([np.inf])[0] == pytest.approx(found.base, abs=1e-3)


def test_one_cluster_calibrates_nothing() -> None:
    votes, score = questions(8, n=5)
    alone = Votes(votes.answers, votes.correct, clusters=np.zeros(5, int))
    assert np.all(cross_fit(alone, score, np.random.default_rng(0))[1] == 1)
    assert within_auc(alone, score).limits is None


@pytest.mark.parametrize(
    "parts",
    [
        ((), (), ()),
        ((1.0, 0.0), (0.1, 0.2), (1.0, 1.0)),
        ((0.0, 1.0), (0.1,), (1.0, 1.0)),
        ((0.0,), (0.1,), (0.0,)),
    ],
)
def test_a_damaged_calibration_is_refused(parts: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(ValueError, match="rising"):
        Calibration(*parts, base=0.5)


def test_a_flat_one_is_the_base_rate() -> None:
    assert uninformative(0.75).chance([-1e9, 3.0]).tolist() == [0.75, 0.75]
