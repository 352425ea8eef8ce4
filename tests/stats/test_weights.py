"""Weighted votes: by hand, by brute force, and what cross-fitting says of their gain."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from keff.stats.branches.weights import (
    choose_temperature,
    confidence_weights,
    judge_weights,
    log_odds_weights,
    oracle_optimism,
    slot_weights,
    weighted_majority,
    weighted_plurality,
    weighted_vote,
)
from keff.stats.models.betabinomial import majority_at_k
from keff.stats.votes import Votes


def in_sample_accuracy(votes, scheme):
    """The paper's oracle: weights learned from the very items that they judge."""
    return float(weighted_vote(votes, slot_weights(votes, scheme)).mean())


def probit_slots(rng, p, rho, n):
    """Slots of accuracies p whose normal scores share a factor."""
    h = ndtri(np.asarray(p))
    score = math.sqrt(rho) * rng.normal(size=(n, 1)) + math.sqrt(1 - rho) * rng.normal(size=(n, h.size))
    return Votes.from_correct((score < h).astype(int))


def plurality_by_hand(codes, right, weights):
    totals = {}
    for code, correct, weight in zip(codes, right, weights, strict=True):
        if code >= 0:
            tally = totals.setdefault(code, [0.0, []])
            tally[0] += weight
            tally[1].append(correct)
    top = max((total for total, _ in totals.values()), default=0.0)
    if top <= 1e-9 * sum(weights):
        return 0.0
    winners = [np.mean(r) for total, r in totals.values() if total >= top - 1e-9 * sum(weights)]
    return float(np.mean(winners))


@given(st.integers(0, 100_000))
def test_plurality_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, 4, (6, 5))
    right = ((rng.random((6, 5)) < 0.5) & (codes >= 0)).astype(int)
    weights = rng.choice([0.0, 0.1, 0.2, 0.3, 1.0], 5) + 0.1 * (rng.random() < 0.5)
    if not weights.any():
        weights[0] = 1.0
    want = [plurality_by_hand(c, r, weights) for c, r in zip(codes, right, strict=True)]
    np.testing.assert_allclose(weighted_plurality(Votes(codes, right), weights), want, atol=1e-12)


@given(st.integers(1, 7))
def test_equal_weights_are_the_majority_vote(k):
    matrix = np.array(list(itertools.product([0, 1], repeat=k)))
    votes = Votes.from_correct(matrix)
    for scale in (1.0, 0.1, 1e-5):
        credit = weighted_majority(votes, np.full(k, scale))
        assert credit.mean() == pytest.approx(float(majority_at_k(votes)[-1]))
        np.testing.assert_array_equal(credit, np.sign(2 * matrix.sum(axis=1) - k) / 2 + 0.5)


def test_rounding_does_not_break_a_tie():
    votes = Votes.from_correct([[1, 1, 0]])
    assert weighted_majority(votes, [0.1, 0.2, 0.3])[0] == 0.5
    assert weighted_majority(votes, [0.1, 0.2, 0.3 - 1e-6])[0] == 1.0
    answers = Votes(np.array([[0, 0, 1]]), np.array([[1, 1, 0]]))
    assert weighted_plurality(answers, [0.1, 0.2, 0.3])[0] == 0.5


def test_abstentions_carry_no_vote():
    votes = Votes(np.array([[-1, -1, 2], [-1, -1, -1]]), np.array([[0, 0, 1], [0, 0, 0]]))
    np.testing.assert_array_equal(weighted_plurality(votes, [5.0, 5.0, 0.1]), [1.0, 0.0])
    np.testing.assert_array_equal(weighted_plurality(votes, [5.0, 5.0, 0.0]), [0.0, 0.0])


def test_log_odds():
    np.testing.assert_allclose(log_odds_weights([0.3, 0.5, 0.8]), [0, 0, math.log(4)])
    for bad in ([0.0, 0.5], [1.0], [math.nan]):
        with pytest.raises(ValueError, match="log odds"):
            log_odds_weights(bad)


def test_log_odds_are_optimal_for_independent_slots():
    """Exact accuracy over all outcomes: no other weights on a grid do better (Nitzan and Paroush)."""
    p = np.array([0.9, 0.7, 0.6])
    matrix = np.array(list(itertools.product([0, 1], repeat=3)))
    chance = np.prod(np.where(matrix == 1, p, 1 - p), axis=1)
    votes = Votes.from_correct(matrix)
    best = chance @ weighted_majority(votes, log_odds_weights(p))
    for weights in itertools.product(range(5), repeat=3):
        if any(weights):
            assert chance @ weighted_majority(votes, weights) <= best + 1e-12


def test_schemes():
    votes = Votes.from_correct([[1, 0, 1], [1, 0, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(slot_weights(votes, "accuracy"), [1, 0.25, 0.25])
    np.testing.assert_array_equal(slot_weights(votes, "best_slot"), [1, 0, 0])
    np.testing.assert_allclose(slot_weights(votes, "log_odds"), [math.log(9), 0, 0])
    assert np.all(slot_weights(votes, "fisher") >= 0)
    alike = Votes.from_correct([[1, 0, 1]] * 4)
    np.testing.assert_array_equal(slot_weights(alike, "fisher"), [1, 1, 1])


def test_nothing_positive_means_uniform():
    wrong = Votes.from_correct(np.zeros((5, 3), int))
    for scheme in ("accuracy", "log_odds"):
        np.testing.assert_array_equal(slot_weights(wrong, scheme), [1, 1, 1])


def test_fisher_is_the_discriminant():
    rng = np.random.default_rng(0)
    votes = probit_slots(rng, [0.8, 0.7, 0.65], 0.3, 4000)
    y = votes.correct.astype(float)
    sigma = np.cov(y.T, ddof=0)
    want = np.linalg.solve(sigma + 0.01 * np.diag(sigma).mean() * np.eye(3), 2 * y.mean(axis=0) - 1)
    np.testing.assert_allclose(slot_weights(votes, "fisher"), want, rtol=1e-9)


def test_unequal_slots_gain_and_the_best_slot_stands_beside():
    rng = np.random.default_rng(1)
    train = probit_slots(rng, [0.95, 0.9, 0.15, 0.2, 0.2, 0.25, 0.3, 0.1], 0.3, 400)
    report = judge_weights(train, "log_odds", "binary", rng)
    assert report.cross_fitted - report.uniform == pytest.approx(report.gain)
    assert report.gain > 10 * report.se
    assert report.best_slot > report.uniform + 0.3
    fresh = probit_slots(rng, [0.95, 0.9, 0.15, 0.2, 0.2, 0.25, 0.3, 0.1], 0.3, 20_000)
    honest = float(weighted_vote(fresh, report.weights).mean())
    assert report.cross_fitted == pytest.approx(honest, abs=0.05)


@pytest.mark.slow
def test_cross_fitting_never_uses_the_items_own_fold():
    """Coin flips: the best slot looks better than 1/2 on the items that chose it, and not on the others."""
    rng = np.random.default_rng(2)
    votes = Votes.from_correct((rng.random((60, 8)) < 0.5).astype(int))
    inside = [in_sample_accuracy(votes.take(rng.integers(0, 60, 60)), "best_slot") for _ in range(100)]
    outside = [
        judge_weights(
            Votes.from_correct((rng.random((60, 8)) < 0.5).astype(int)), "best_slot", "binary", rng
        ).cross_fitted
        for _ in range(100)
    ]
    assert np.mean(inside) > 0.55
    assert np.mean(outside) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(("p", "c", "points"), [(0.8, 0.6, 0.49), (0.43, 0.45, 0.79), (0.93, 0.33, 0.34)])
def test_oracle_optimism_formula(p, c, points):
    assert 100 * oracle_optimism(p, c, 8, 250) == pytest.approx(points, abs=0.006)
    assert oracle_optimism(p, c, 7, 250) == 0.0


def test_oracle_optimism_by_simulation():
    rng = np.random.default_rng(3)
    gaps, p, c, n, k = [], 0.43, 0.45, 250, 8
    for _ in range(300):
        theta = rng.beta(p * (1 - c) / c, (1 - p) * (1 - c) / c, n)
        votes = Votes.from_correct((rng.random((n, k)) < theta[:, None]).astype(int))
        uniform = weighted_majority(votes, np.ones(k)).mean()
        gaps.append(in_sample_accuracy(votes, "accuracy") - uniform)
    assert np.mean(gaps) == pytest.approx(oracle_optimism(p, c, k, n), abs=4 * np.std(gaps) / math.sqrt(300))


def test_bad_weights():
    votes = Votes.from_correct([[1, 0]])
    for bad in ([1.0], [1.0, -1.0], [0.0, 0.0], [math.nan, 1.0]):
        with pytest.raises(ValueError, match="weights"):
            weighted_majority(votes, bad)


def test_every_path_may_have_its_own_weight():
    rng = np.random.default_rng(3)
    answers = rng.integers(0, 3, (30, 5))
    votes = Votes(answers, (answers == 0).astype(int))
    slots = rng.random(5)
    for rule in ("binary", "plurality"):
        own = weighted_vote(votes, np.tile(slots, (30, 1)), rule)
        np.testing.assert_allclose(own, weighted_vote(votes, slots, rule))
    alone = np.zeros((30, 5))
    alone[:, 2] = rng.random(30) + 0.1
    np.testing.assert_array_equal(weighted_vote(votes, alone, "plurality"), votes.scored()[:, 2])
    alone[7] = 0
    with pytest.raises(ValueError, match="not all zero"):
        weighted_vote(votes, alone)


def test_confidence_weights_are_the_softmax():
    given = np.array([[0.0, np.log(2.0), np.nan], [np.nan, np.nan, np.nan]])
    mean = math.sqrt(2.0)
    want = np.array([[1, 2, mean], [1, 1, 1]]) / np.array([[3 + mean], [3]])
    np.testing.assert_allclose(confidence_weights(given, 1.0), want)
    np.testing.assert_allclose(confidence_weights(given, 1e-3)[0], [0, 1, 0], atol=1e-12)


def test_the_temperature_trusts_confidences_as_far_as_they_are_right():
    rng = np.random.default_rng(4)
    right = (rng.random((400, 5)) < 0.6).astype(int)
    telling = Votes(right, right, confidences=right + rng.normal(0, 0.3, right.shape))
    noise = Votes(right, right, confidences=rng.normal(0, 1, right.shape))
    assert choose_temperature(telling, "binary") < choose_temperature(noise, "binary")
    sure = confidence_weights(telling.confidences, choose_temperature(telling, "binary"))
    assert weighted_vote(telling, sure).mean() > weighted_vote(telling, np.ones(5)).mean() + 0.15
