"""Bounds on majority vote: against linear programming, closed forms and random mixing laws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, linprog

from keff.stats.models.betabinomial import majority_table
from keff.stats.models.bounds import majority_bounds, optimum
from keff.stats.votes import Votes

THETA = np.sin(np.linspace(0, np.pi / 2, 3001)) ** 2


def bounds_at(source: object, k: int, level: float = 0.95) -> tuple[float, float]:
    lo, hi = majority_bounds(source, [k], level)  # type: ignore[arg-type]
    return float(lo[0]), float(hi[0])


def beta_binomial(k0: int, p: float, c: float) -> NDArray[np.float64]:
    return np.asarray(
        scipy.stats.betabinom.pmf(np.arange(k0 + 1), k0, p * (1 - c) / c, (1 - p) * (1 - c) / c)
    )


def many(law: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return counts of so many questions that hardly any sampling error is left."""
    return np.round(law * 100_000_000).astype(np.int64)


def cells(k0: int, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(scipy.stats.binom.pmf(np.arange(k0 + 1)[:, None], k0, theta))


def vote(k: int, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    s = np.arange(k + 1)
    return ((s > k / 2) + 0.5 * (s == k / 2)) @ cells(k, theta)


def most_likely(hist: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return a grid, the likeliest mixing law on it by EM, and an upper limit on the log-likelihood."""
    theta = THETA[::30]
    grid = cells(hist.size - 1, theta)
    weight = np.full(theta.size, 1 / theta.size)
    for _ in range(3000):
        weight = weight * ((hist / (grid @ weight)) @ grid) / hist.sum()
    law = grid @ weight
    gap = np.max((hist / law) @ cells(hist.size - 1, THETA)) - hist.sum()
    return theta, weight, float(hist @ np.log(law) + gap)


@pytest.mark.parametrize(
    "share",
    [beta_binomial(8, 0.8, 0.6), beta_binomial(19, 0.6, 0.5), np.eye(18)[[0, 17]].T @ [0.4, 0.6]],
    ids=["few", "many", "each question always or never right"],
)
def test_a_law_of_a_mixture_is_its_own_nearest(share: NDArray[np.float64]) -> None:
    """What its distance is above none is allowed as well, and many questions make that much of a bound."""
    grid = cells(share.size - 1, THETA[::3])
    dual, law = optimum(share, grid, np.zeros(grid.shape[1]))
    assert float(scipy.special.rel_entr(share, law).sum()) == pytest.approx(0, abs=3e-7)
    assert dual * law == pytest.approx(share, abs=1e-5)


@pytest.mark.parametrize(("k0", "low", "high"), [(4, 0.771, 0.853), (8, 0.808, 0.826)])
def test_many_questions_give_the_bounds_of_the_law(k0: int, low: float, high: float) -> None:
    lo, hi = bounds_at(many(beta_binomial(k0, 0.8, 0.6)), 32)
    assert [lo, hi] == pytest.approx([low, high], abs=3e-3)


# Each law under two shapes: the program is solved alike in all of them.
@pytest.mark.parametrize(
    ("p", "c", "k0", "k"),
    [
        (0.8, 0.6, 3, 9),
        (0.05, 0.3, 3, 9),
        pytest.param(0.43, 0.45, 4, 32, marks=pytest.mark.slow),
        pytest.param(0.8, 0.6, 6, 11, marks=pytest.mark.slow),
    ],
)
def test_bounds_enclose_linear_programming_and_close_in_on_it(p: float, c: float, k0: int, k: int) -> None:
    law = beta_binomial(k0, p, c)
    lo, hi = bounds_at(many(law), k)
    inner = [s * linprog(s * vote(k, THETA), A_eq=cells(k0, THETA), b_eq=law).fun for s in (1, -1)]
    assert lo <= inner[0]
    assert hi >= inner[1]
    assert [float(lo), float(hi)] == pytest.approx(inner, abs=3e-3)


def test_bounds_meet_where_the_counts_fix_the_vote() -> None:
    for k in (3, 5, 8):
        lo, hi = bounds_at(many(beta_binomial(8, 0.7, 0.3)), k)
        truth = majority_table(8)[k - 1] @ beta_binomial(8, 0.7, 0.3)
        assert lo <= truth <= hi
        assert [lo, hi] == pytest.approx([truth, truth], abs=2e-3)


@pytest.mark.parametrize("law", [[0, 0, 1, 0, 0], [0, 1, 1, 0]])
def test_a_law_that_no_mixture_has_keeps_its_bounds(law: list[int]) -> None:
    lo, hi = bounds_at([20 * x for x in law], 32, 0.95)
    assert 0 <= lo <= hi <= 1


@pytest.mark.parametrize(("right", "n"), [(0, 20), (13, 20), (80, 100), (100, 100)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_one_path_is_the_chernoff_interval(right: int, n: int, level: float) -> None:
    """With K0 = k = 1 the bounds are the p with n KL(share, p) = log(2 / alpha)."""
    share = right / n

    def excess(p: float) -> float:
        terms = [x * np.log(x / y) for x, y in ((share, p), (1 - share, 1 - p)) if x > 0]
        return float(n * sum(terms) - np.log(2 / (1 - level)))

    low = 0.0 if right == 0 else brentq(excess, 1e-12, share)
    high = 1.0 if right == n else brentq(excess, share, 1 - 1e-12)
    assert bounds_at([n - right, right], 1, level) == pytest.approx([low, high], abs=1e-4)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 4, 8]), st.sampled_from([3, 8, 32]))
def test_every_likely_mixing_law_is_inside(seed: int, k0: int, k: int) -> None:
    """Any law whose likelihood is within the threshold of an upper limit on the greatest obeys the bounds.

    The laws are blends of the likeliest with random ones; a share u of another costs at most -40 log(1-u).
    """
    rng = np.random.default_rng(seed)
    hist = rng.multinomial(40, rng.dirichlet(np.ones(k0 + 1)))
    grid, likeliest, greatest = most_likely(hist)
    other = np.array([rng.multinomial(3, np.full(grid.size, 1 / grid.size)) / 3 for _ in range(400)])
    u = rng.random((400, 1)) ** 2
    laws = (1 - u) * likeliest + u * other
    with np.errstate(divide="ignore"):
        fit = np.log(laws @ cells(k0, grid).T) @ hist
    votes = laws[fit >= greatest - np.log(40)] @ vote(k, grid)
    assert votes.size > 40
    lo, hi = bounds_at(hist, k, 0.95)
    assert votes.min() >= lo - 1e-9
    assert votes.max() <= hi + 1e-9


@pytest.mark.slow
def test_level_widens() -> None:
    widths = [np.diff(bounds_at([4, 3, 5, 8, 30], 32, level))[0] for level in (0.5, 0.9, 0.99)]
    assert widths == sorted(widths)
    assert widths[0] < widths[2] - 0.05


@pytest.mark.slow
def test_bounds_hold_for_samples_of_an_extremal_law() -> None:
    """The law that attains the upper bound leaves no slack: over 15 samples a 95% bound may miss few."""
    law = beta_binomial(4, 0.43, 0.45)
    found = linprog(-vote(32, THETA), A_eq=cells(4, THETA), b_eq=law)
    rng = np.random.default_rng(3)
    bounds = np.array([bounds_at(rng.multinomial(100, law / law.sum()), 32) for _ in range(15)])
    assert np.sum(-found.fun > bounds[:, 1]) <= 2
    assert np.mean(bounds[:, 1] - bounds[:, 0]) < 0.6


@pytest.mark.slow
def test_mirror_image() -> None:
    hist = np.array([3, 4, 1, 6, 20])
    sizes = [1, 4, 9, 33]
    lo, hi = majority_bounds(hist, sizes)
    flipped_lo, flipped_hi = majority_bounds(hist[::-1], sizes)
    np.testing.assert_allclose(lo, 1 - flipped_hi, atol=1e-4)
    np.testing.assert_allclose(hi, 1 - flipped_lo, atol=1e-4)
    matrix = (np.arange(4) < np.repeat(np.arange(5), hist)[:, None]).astype(int)
    alone = bounds_at(Votes.from_correct(matrix), 33)
    assert alone == pytest.approx([lo[3], hi[3]], abs=1e-9)


@pytest.mark.parametrize("source", [[3.5, 4], [-1, 4], [0, 0]])
def test_bad_input(source: list[float]) -> None:
    with pytest.raises(ValueError, match="histogram"):
        majority_bounds(source, [3])
