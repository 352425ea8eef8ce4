"""Subset choice: finds a bad slot, does not believe luck, and reports an honest number."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from keff.stats.branches.weights import SubsetPlan, choose_subset, subset_credit
from keff.stats.votes import Votes


def simulate(rng, p, rho, n, clusters=None):
    h = ndtri(np.asarray(p))
    score = math.sqrt(rho) * rng.normal(size=(n, 1)) + math.sqrt(1 - rho) * rng.normal(size=(n, h.size))
    return Votes.from_correct((score < h).astype(int), clusters)


UNEQUAL = [0.9, 0.85, 0.8, 0.1, 0.1, 0.15]


@pytest.mark.parametrize("score", ["empirical", "copula"])
@pytest.mark.parametrize("family", ["all", "top"])
def test_useless_slots_are_pruned(family, score):
    rng = np.random.default_rng(0)
    choice = choose_subset(simulate(rng, UNEQUAL, 0.3, 150), rng, SubsetPlan(family, score))
    assert choice.adopted
    assert set(choice.slots) <= {0, 1, 2}
    fresh = simulate(rng, UNEQUAL, 0.3, 20_000)
    truth = subset_credit(fresh, tuple(choice.slots)).mean()
    assert choice.accuracy == pytest.approx(truth, abs=0.08)
    assert choice.accuracy - choice.full == pytest.approx(choice.gain)


def test_equal_slots_mostly_keep_all_and_the_report_is_not_optimistic():
    """With nothing to gain, the favourite looks better on its own items; the nested number does not."""
    adopted, nested, own = 0, [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        votes = simulate(rng, [0.6] * 6, 0.5, 100)
        choice = choose_subset(votes, rng, SubsetPlan(sizes=(3, 5)))
        adopted += choice.adopted
        nested.append(choice.gain)
        own.append(subset_credit(votes, tuple(choice.candidate)).mean() - choice.full)
    assert adopted <= 3
    assert np.mean(nested) < 0.005
    assert np.mean(own) > 0.015


def test_sizes_are_respected():
    rng = np.random.default_rng(1)
    votes = simulate(rng, UNEQUAL, 0.3, 60)
    assert choose_subset(votes, rng, SubsetPlan(sizes=(2,))).candidate.size == 2
    assert choose_subset(votes, rng, SubsetPlan("top", sizes=(6,))).candidate.size == 6


def test_a_tie_goes_to_the_larger_subset():
    votes = Votes.from_correct(np.repeat([[1, 1, 1], [0, 0, 0]], 10, axis=0))
    choice = choose_subset(votes, np.random.default_rng(0))
    np.testing.assert_array_equal(choice.candidate, [0, 1, 2])
    assert not choice.adopted
    assert choice.gain == 0


def test_plurality_rule_uses_answers():
    rng = np.random.default_rng(2)
    right = rng.random((120, 4)) < [0.9, 0.9, 0.05, 0.05]
    # The weak slots share one wrong answer, so they outvote nobody alone but tie the two good ones.
    answers = np.where(right, 0, 1)
    votes = Votes(answers, right.astype(int))
    choice = choose_subset(votes, rng, SubsetPlan(rule="plurality"))
    assert choice.adopted
    assert set(choice.slots) <= {0, 1}
    with pytest.raises(ValueError, match="empirical"):
        choose_subset(votes, rng, SubsetPlan(score="copula", rule="plurality"))


def test_clusters_stay_together_and_widen_the_error():
    rng = np.random.default_rng(3)
    base = simulate(rng, [0.7, 0.6, 0.5, 0.4], 0.3, 60)
    rows = np.repeat(np.arange(60), 5)
    repeated = Votes(None, base.correct[rows], clusters=rows)
    loose = Votes.from_correct(base.correct[rows])
    plan = SubsetPlan(sizes=(1,))
    assert choose_subset(repeated, rng, plan).se > 1.5 * choose_subset(loose, rng, plan).se


def test_bad_plans():
    rng = np.random.default_rng(0)
    votes = simulate(rng, [0.5] * 13, 0.2, 40)
    with pytest.raises(ValueError, match="family='top'"):
        choose_subset(votes, rng)
    with pytest.raises(ValueError, match="sizes"):
        choose_subset(votes, rng, SubsetPlan(sizes=(14,)))
    with pytest.raises(ValueError, match="folds"):
        choose_subset(votes.take(range(3)), rng, SubsetPlan("top"))
