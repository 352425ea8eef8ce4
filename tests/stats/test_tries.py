import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import beta as beta_function
from scipy.stats import betabinom

from how_many import examples
from keff.stats.models.tries import TryLaw, fail_and_solve_chances, until_passed
from keff.stats.repeats import Repeats
from keff.stats.scores import any_right

quick = settings(max_examples=examples(40), deadline=None)
paths = st.lists(st.tuples(st.booleans(), st.floats(0, 9)), min_size=1, max_size=5)


@quick
@given(paths)
def test_sums_until_a_try_passes_are_means_over_all_orders(tries):
    passed = np.array([[each for each, _ in tries]])
    values = np.array([[value for _, value in tries]])
    k = len(tries)
    means = np.zeros(k + 1)
    for order in permutations(range(k)):
        for most in range(k + 1):
            for place in order[:most]:
                means[most] += values[0, place] / math.factorial(k)
                if passed[0, place]:
                    break
    np.testing.assert_allclose(until_passed(values, passed)[0], means, atol=1e-9)


@quick
@given(st.integers(1, 30), st.data())
def test_the_share_solved_within_the_record_is_hypergeometric(k, data):
    right = data.draw(st.integers(0, k))
    passed = np.arange(k)[None, :] < right
    solved = until_passed(passed.astype(float), passed)[0]
    expected = [1 - math.comb(k - right, m) / math.comb(k, m) for m in range(k + 1)]
    np.testing.assert_allclose(solved, expected, atol=1e-12)


def law(a, b, never=0.0, hidden=0.0):
    return TryLaw(np.array([a]), np.array([b]), np.array([never]), np.ones(1), hidden)


shapes = st.floats(0.05, 20)


@quick
@given(shapes, shapes, st.integers(0, 8), st.integers(0, 8), st.integers(0, 12))
def test_after_tries_of_a_question_the_law_is_the_updated_beta(a, b, right, wrong, further):
    """Without questions that are never solved, the posterior of a beta law has x and K - x more counts."""
    failing, solved = fail_and_solve_chances(law(a, b).after(right, right + wrong, further), 0.0)
    none = betabinom.pmf(0, further, a + right, b + wrong) if further else 1.0
    assert failing[-1] == pytest.approx(none, rel=1e-6, abs=1e-12)
    assert solved[-1] == pytest.approx(1 - none, rel=1e-6, abs=1e-9)


@quick
@given(shapes, shapes, st.floats(0, 0.9), st.integers(0, 6))
def test_another_try_after_failures_is_worth_what_bayes_says(a, b, never, failed):
    """P(right | m wrong) = (1 - w) E theta (1 - theta)^m / (w + (1 - w) E (1 - theta)^m)."""
    unit = beta_function(a, b)
    right = (1 - never) * beta_function(a + 1, b + failed) / unit
    left = never + (1 - never) * beta_function(a, b + failed) / unit
    assert law(a, b, never).next_right(failed)[0, failed] == pytest.approx(right / left, rel=1e-6)


@quick
@given(shapes, shapes, st.floats(0, 0.9), st.floats(0, 0.3), st.integers(1, 5), st.integers(0, 6), st.data())
def test_with_false_accepts_the_law_is_that_of_all_ways_to_pass(a, b, never, false, tried, further, data):
    """By integration over theta: a try passes with chance theta + f (1 - theta)."""
    a, b = a + 1, b + 1  # so that the sum over a fine grid is exact enough
    passed = data.draw(st.integers(0, tried))
    theta = (np.arange(4000) + 0.5) / 4000
    density = theta ** (a - 1) * (1 - theta) ** (b - 1)
    weight = (1 - never) * density / density.sum()
    theta, weight = np.append(theta, 0.0), np.append(weight, never)
    passes = theta + false * (1 - theta)
    weight = weight * passes**passed * (1 - passes) ** (tried - passed)
    if weight.sum() < 1e-9:
        return
    weight /= weight.sum()
    failing, solved = fail_and_solve_chances(law(a, b, never, false).after(passed, tried, further), false)
    assert failing[-1] == pytest.approx(weight @ (1 - passes) ** further, abs=1e-4)
    expected = sum(weight @ ((1 - passes) ** j * theta) for j in range(further))
    assert solved[-1] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("false_accept", [0.0, 0.1])
def test_the_law_is_found_again(false_accept):
    """3,000 questions of 8 tries, a fifth of them never solved: what further tries reach is known."""
    rng = np.random.default_rng(7)
    theta = np.where(rng.random(3000) < 0.2, 0.0, rng.beta(1.0, 1.5, 3000))
    right = rng.binomial(8, theta)
    passed = right + rng.binomial(8 - right, false_accept)
    found = TryLaw.of(passed, np.full(3000, 8), hidden=false_accept)
    for tries in (1, 8, 32):
        mean, lo, hi = found.interval(1 - found.unsolved_shares(32)[:, tries])
        assert lo - 0.01 < 1 - np.mean((1 - theta) ** tries) < hi + 0.01
        assert hi - lo < 0.12
        assert lo <= mean <= hi
    assert found.share_never[1] < 0.2 < found.share_never[2]


def test_clusters_count_as_so_many_questions():
    """Four copies of each question say no more than one of each."""
    right, tried = np.array([0, 1, 1, 2, 3, 4, 4, 0] * 5), np.full(40, 4)
    alone = TryLaw.of(right, tried)
    copied = TryLaw.of(np.tile(right, 4), np.tile(tried, 4), units=40)
    np.testing.assert_allclose(copied.share_never, alone.share_never)


def test_pass_at_k_does_not_promise_what_is_never_solved():
    """A third of the questions is never solved, the others by every second try."""
    rng = np.random.default_rng(3)
    theta = np.repeat([0.0, 0.5], [100, 200])
    repeats = Repeats.of_counts(rng.binomial(8, theta), np.full(300, 8))
    found = any_right(repeats, 32)
    assert found.value == pytest.approx(2 / 3, abs=0.04)
    assert found.lo < 2 / 3 < found.hi < 0.8
