import math

import numpy as np
import pytest

from keff.stats.betabinomial import betabinom_logpmf
from keff.stats.correlation import pooled_c, pooled_from_hist
from keff.stats.pilot import half_width, pilot_options, pilot_size
from keff.stats.runs import cross_run_c, run_effect
from keff.stats.votes import Votes


def repeated(rng, items, runs, k, jitter):
    """Items sampled in several runs; ``jitter`` is the run's own effect on the log odds of an item."""
    logit = rng.normal(1, 2, items)
    theta = 1 / (1 + np.exp(-(np.tile(logit, runs) + jitter * rng.standard_normal(items * runs))))
    return Votes.from_correct(rng.random((items * runs, k)) < theta[:, None], np.tile(np.arange(items), runs))


def test_cross_run_c_counts_pairs_of_different_rows():
    matrix = np.array([[1, 1], [1, 0], [0, 0], [0, 1], [1, 1]])
    votes = Votes.from_correct(matrix, clusters=[0, 0, 1, 1, 2])
    p = matrix.mean()
    pairs = [a * b for x, y in ((0, 1), (2, 3)) for a in matrix[x] for b in matrix[y]]
    assert cross_run_c(votes) == pytest.approx((np.mean(pairs) - p * p) / (p * (1 - p)))


def test_a_run_effect_is_found_and_only_when_there_is_one():
    rng = np.random.default_rng(4)
    none = run_effect(repeated(rng, 400, 5, 4, 0.0), rng)
    some = run_effect(repeated(rng, 400, 5, 4, 1.5), rng)
    assert none.lo < 0 < none.hi
    assert some.lo > 0
    votes = repeated(rng, 50, 3, 4, 0.5)
    assert run_effect(votes, rng).value == pytest.approx(pooled_c(votes) - cross_run_c(votes))


def test_without_repeats_there_is_no_run_effect_to_see():
    votes = Votes.from_correct([[1, 0], [1, 1], [0, 0]])
    effect = run_effect(votes, np.random.default_rng(0))
    assert math.isnan(effect.value)
    assert [note.code for note in effect.warnings] == ["no_repeats"]
    with pytest.raises(ValueError, match="two paths"):
        run_effect(Votes.from_correct([[1], [0]]), np.random.default_rng(0))


def test_planned_precision_is_what_pilots_have():
    hist = np.random.default_rng(8).multinomial(200, np.exp(betabinom_logpmf(4, 0.8, 0.6)), 4000)
    spread = float(np.std(pooled_from_hist(hist)))
    assert half_width(200, 4, 0.8, 0.6) == pytest.approx(1.96 * spread, rel=0.05)


def test_pilot_size_is_the_least_that_reaches_the_target():
    n = pilot_size(0.1, 4, 0.8, 0.6)
    assert half_width(n, 4, 0.8, 0.6) <= 0.1 < half_width(n - 1, 4, 0.8, 0.6)


def test_three_or_four_paths_are_cheapest_for_c():
    """At equal paths the design finds K = 3 or 4 best at (.8, .6): .071 .068 .069 .082 for 2, 3, 4, 8."""
    options = pilot_options(0.1, 0.8, 0.6)
    assert options[0].k in (3, 4)
    assert [option.paths for option in options] == sorted(option.paths for option in options)
    for k, error in ((2, 0.071), (3, 0.068), (4, 0.069), (8, 0.082)):
        assert half_width(400 // k, k, 0.8, 0.6) / 1.96 == pytest.approx(error, abs=0.0015)


@pytest.mark.parametrize(
    "call",
    [
        lambda: half_width(1, 4, 0.5, 0.5),
        lambda: half_width(10, 1, 0.5, 0.5),
        lambda: half_width(10, 4, 1.0, 0.5),
        lambda: half_width(10, 4, 0.5, 1.0),
        lambda: pilot_size(0.0, 4, 0.5, 0.5),
    ],
)
def test_impossible_plans_are_refused(call):
    with pytest.raises(ValueError):
        call()
