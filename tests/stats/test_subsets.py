"""Subset choice: finds a bad slot, does not believe luck, and reports an honest number."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from keff.stats.branches.weights import choose_subset, weighted_vote
from keff.stats.votes import Votes


def simulate(rng, p, rho, n):
    h = ndtri(np.asarray(p))
    score = math.sqrt(rho) * rng.normal(size=(n, 1)) + math.sqrt(1 - rho) * rng.normal(size=(n, h.size))
    return Votes.from_correct((score < h).astype(int))


def subset_credit(votes, subset):
    return weighted_vote(votes.paths(subset), np.ones(len(subset)))


UNEQUAL = [0.9, 0.85, 0.8, 0.1, 0.1, 0.15]


def test_useless_slots_are_pruned():
    rng = np.random.default_rng(0)
    choice = choose_subset(simulate(rng, UNEQUAL, 0.3, 150), rng)
    assert choice.adopted and set(choice.candidate) <= {0, 1, 2}
    truth = subset_credit(simulate(rng, UNEQUAL, 0.3, 20_000), choice.candidate).mean()
    assert choice.accuracy == pytest.approx(truth, abs=0.08)
    assert choice.accuracy - choice.full == pytest.approx(choice.gain)


@pytest.mark.slow
def test_equal_slots_mostly_keep_all_and_the_report_is_not_optimistic():
    """With nothing to gain, the favourite looks better on its own items; the nested number does not."""
    adopted, nested, own = 0, [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        votes = simulate(rng, [0.6] * 6, 0.5, 100)
        choice = choose_subset(votes, rng)
        adopted += choice.adopted
        nested.append(choice.gain)
        own.append(subset_credit(votes, choice.candidate).mean() - choice.full)
    assert adopted <= 20
    error = np.std(nested) / math.sqrt(60)
    assert np.mean(nested) < 3 * error < np.mean(own)


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
    votes = Votes(np.where(right, 0, 1), right.astype(int))
    choice = choose_subset(votes, rng, "plurality")
    assert choice.adopted
    assert set(choice.candidate) <= {0, 1}


def test_clusters_stay_together_and_widen_the_error():
    rng = np.random.default_rng(3)
    base = simulate(rng, UNEQUAL, 0.3, 60)
    rows = np.repeat(np.arange(60), 5)
    repeated = Votes(None, base.correct[rows], clusters=rows)
    loose = Votes.from_correct(base.correct[rows])
    assert choose_subset(repeated, rng).se > 1.5 * choose_subset(loose, rng).se


def test_too_few_questions_for_the_folds():
    with pytest.raises(ValueError, match="folds"):
        choose_subset(Votes.from_correct([[1, 0], [0, 1], [1, 1]]), np.random.default_rng(0))
