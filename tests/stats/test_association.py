"""Rank and correlation tests against enumeration and scipy.stats."""

import itertools
import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.stats.branches.compare import mann_whitney, pearson_test

ALTERNATIVES = ["less", "greater", "two-sided"]


@pytest.mark.parametrize(("n1", "n2"), [(1, 5), (3, 4), (10, 10), (30, 40)])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_without_ties_as_scipy(n1, n2, alternative):
    rng = np.random.default_rng(n1)
    x, y = rng.normal(size=n1), rng.normal(0.5, size=n2)
    for mine, theirs in (("exact", "exact"), ("normal", "asymptotic")):
        got = mann_whitney(x, y, alternative, mine)
        want = scipy.stats.mannwhitneyu(x, y, alternative=alternative, method=theirs)
        assert got.u == want.statistic
        assert got.p == pytest.approx(want.pvalue, rel=1e-9)
        assert got.method == mine


@settings(max_examples=examples(30))
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=12), st.lists(st.integers(0, 4), min_size=1, max_size=9)
)
def test_with_ties_as_scipy(x, y):
    for alternative in ALTERNATIVES:
        got = mann_whitney(x, y, alternative, "normal")
        if len(set(x + y)) == 1:
            assert got.p == 1
            continue
        want = scipy.stats.mannwhitneyu(x, y, alternative=alternative, method="asymptotic")
        assert got.u == want.statistic
        assert got.p == pytest.approx(min(1.0, want.pvalue), rel=1e-9)


def test_exact_by_enumeration():
    x, y = [0.1, 0.7, 0.75], [0.2, 0.8, 0.9, 1.4]
    observed = sum(a > b for a in x for b in y)
    pool, low = x + y, 0
    for chosen in itertools.combinations(range(7), 3):
        rest = [pool[i] for i in range(7) if i not in chosen]
        low += sum(pool[i] > b for i in chosen for b in rest) <= observed
    assert mann_whitney(x, y, "less").p == pytest.approx(low / math.comb(7, 3), rel=1e-12)


def test_extreme_tails_keep_their_digits():
    x, y = np.arange(20.0), np.arange(20.0) + 100
    assert mann_whitney(x, y, "less").p == pytest.approx(1 / math.comb(40, 20), rel=1e-9)
    assert mann_whitney(y, x, "greater").p == pytest.approx(1 / math.comb(40, 20), rel=1e-9)


def test_bootstrapped_cells_are_separate_tests():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 10)), rng.normal(1, size=(50, 10))
    together = mann_whitney(x, y, "less")
    for b in range(50):
        assert together.p[b] == mann_whitney(x[b], y[b], "less").p
    fixed = mann_whitney(x, y[0], "less")
    assert fixed.p[3] == mann_whitney(x[3], y[0], "less").p


def test_exact_p_values_have_the_size_they_claim():
    rng = np.random.default_rng(1)
    p = mann_whitney(rng.normal(size=(4000, 6)), rng.normal(size=(4000, 7)), "less").p
    for attained in np.unique(p):
        assert np.mean(p <= attained) == pytest.approx(attained, abs=0.03)


def test_pearson_as_scipy_and_as_the_paper():
    rng = np.random.default_rng(2)
    x = rng.normal(size=12)
    y = x + rng.normal(size=12)
    want = scipy.stats.pearsonr(x, y)
    assert pearson_test(x, y) == pytest.approx((want.statistic, want.pvalue), rel=1e-12)
    # The paper's r = -0.62 at n = 12 has p = 0.032.
    a = rng.normal(size=12)
    a -= a.mean()
    b = rng.normal(size=12)
    b -= b.mean()
    b -= a * (a @ b) / (a @ a)
    r, p = pearson_test(a, -0.62 * a / np.linalg.norm(a) + math.sqrt(1 - 0.62**2) * b / np.linalg.norm(b))
    assert r == pytest.approx(-0.62)
    assert p == pytest.approx(0.032, abs=0.0005)


def test_ends():
    assert pearson_test([1, 2, 3], [2, 4, 6]) == (1.0, 0.0)
    assert math.isnan(pearson_test([1, 1, 1], [2, 4, 6])[0])


def test_bad_input():
    with pytest.raises(ValueError, match="not empty"):
        mann_whitney([], [1.0])
    with pytest.raises(ValueError, match="NaN"):
        mann_whitney([math.nan], [1.0])
    with pytest.raises(ValueError, match="without ties"):
        mann_whitney([1, 2], [2, 3], method="exact")
    with pytest.raises(ValueError, match="three"):
        pearson_test([1, 2], [1, 2])
