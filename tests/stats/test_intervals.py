import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.stats.influence import (
    LAW_SD,
    Fits,
    bayes_fits,
    bootstrap_fits,
    influence,
    model_variance,
    summarise,
)
from keff.stats.intervals import (
    bootstrap_means,
    interval_c,
    interval_mean,
    majority_fits,
)
from keff.stats.models.betabinomial import betabinom_logpmf, majority_curve
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_star_interval
from keff.stats.voting.correlation import anova_c, pooled_from_hist, unbias

quick = settings(max_examples=examples(40), deadline=None)
hists = st.lists(st.integers(0, 40), min_size=3, max_size=9).filter(
    lambda h: sum(h[1:]) > 0 < sum(h[:-1]) and sum(h) > 1
)


def codes(estimate):
    return [note.code for note in estimate.warnings]


def pilots(n, k, p, c, number, seed):
    """Count histograms of simulated pilots, and how often each occurs."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.exp(betabinom_logpmf(k, p, c)), number)


def vote_interval(fits, k):
    """The interval of the majority of ``k`` paths."""
    return fits.majority_interval(fits.majority(k)[:, -1], k)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "p", "c"), [(50, 4, 0.8, 0.6), (50, 8, 0.93, 0.33), (40, 3, 0.5, 0.0), (50, 4, 0.05, 0.3)]
)
def test_hybrid_wilson_covers(n, k, p, c):
    """At least 92% of 250 seeded pilots, less two standard errors; the benchmark does it at length."""
    inside = 0
    for hist in pilots(n, k, p, c, 250, seed=k):
        estimate = interval_c(hist)
        inside += estimate.lo is not None and estimate.lo <= c <= estimate.hi
    assert inside / 250 >= 0.92 - 2 * math.sqrt(0.95 * 0.05 / 250)


@pytest.mark.slow
def test_repeated_runs_are_not_taken_as_independent():
    """30 items x 5 runs x 4 paths: rows as independent would cover about 77%."""
    rng, inside, careless = np.random.default_rng(2), 0, 0
    for _ in range(120):
        theta = np.tile(rng.beta(0.8 * 2 / 3, 0.2 * 2 / 3, 60), 5)
        votes = Votes.from_correct(rng.random((300, 4)) < theta[:, None], np.tile(np.arange(60), 5))
        estimate = interval_c(votes)
        assert estimate.n == 60
        inside += estimate.lo <= 0.6 <= estimate.hi
        alone = interval_c(votes.hist)
        careless += alone.lo <= 0.6 <= alone.hi
    assert inside / 120 >= 0.90
    assert careless / 120 <= 0.88


@quick
@given(hists)
def test_every_interval_holds_its_value_and_is_within_range(hist):
    estimate = interval_c(hist)
    assert estimate.value == anova_c(hist)
    if "model_rejected" in codes(estimate):
        assert (estimate.lo, estimate.hi) == (None, None)
        return
    assert estimate.lo <= estimate.value + 1e-9
    assert estimate.value - 1e-9 <= estimate.hi <= 1
    wider = interval_c(hist, level=0.99)
    assert wider.lo <= estimate.lo + 1e-9
    assert wider.hi >= estimate.hi - 1e-9


@quick
@given(hists, st.floats(0.01, 0.2))
def test_intervals_of_k_star_hold_k_star_and_shrink_with_the_interval_of_c(hist, epsilon):
    wide, narrow = interval_c(hist, level=0.95), interval_c(hist, level=0.5)
    # Where the narrow one rejects the model there is no interval, and nothing is excluded.
    assume("model_rejected" not in codes(narrow))
    lo, hi = k_star_interval(wide, epsilon, 64)
    inner_lo, inner_hi = k_star_interval(narrow, epsilon, 64)
    assert 1 <= lo <= inner_lo <= inner_hi <= hi <= 64


def test_c_of_a_large_record_is_found_with_the_normal_width():
    hist = np.round(20_000 * np.exp(betabinom_logpmf(6, 0.6, 0.4))).astype(int)
    estimate = interval_c(hist)
    assert estimate.lo < 0.4 < estimate.hi
    assert estimate.hi - estimate.lo == pytest.approx(2 * 1.96 * summarise(hist).se, rel=0.08)


def test_all_right_or_all_wrong_items_give_no_certainty():
    estimate = interval_c([10, 0, 0, 0, 20])
    assert estimate.value == 1
    assert 0.3 < estimate.lo < 0.99
    assert estimate.hi > 0.98


@pytest.mark.parametrize("hist", [[0, 0, 0, 40], [40, 0, 0, 0]])
def test_degenerate_records_still_bound_the_vote(hist):
    estimate = interval_c(hist)
    assert math.isnan(estimate.value)
    assert (estimate.lo, estimate.hi) == (None, None)
    assert codes(estimate) == ["degenerate"]
    lo, hi = vote_interval(majority_fits(hist), 15)
    assert 0 <= lo <= hi <= 1
    assert hi - lo < 0.2


def test_anti_correlated_slots_are_said_to_fit_no_exchangeable_model():
    estimate = interval_c([0, 200, 0, 0, 0])
    assert codes(estimate) == ["model_rejected"]
    assert (estimate.value, estimate.lo, estimate.hi) == (-1 / 3, None, None)


def test_too_little_is_refused_or_warned_about():
    with pytest.raises(ValueError, match="two paths"):
        interval_c([3, 4])
    with pytest.raises(ValueError, match="two items"):
        interval_c([0, 1, 0])
    with pytest.raises(ValueError, match="level"):
        interval_c([3, 4, 5], level=1.0)
    assert "few_items" in codes(interval_c([2, 2, 2]))
    one = interval_c(Votes.from_correct([[1, 0], [1, 1], [0, 0]], clusters=[0, 0, 0]))
    assert codes(one) == ["one_cluster"]
    assert one.lo is None


def test_influence_is_the_derivative_of_c():
    """Moving a little mass to count s changes the pooled c at the rate of its centred influence."""
    hist, step = np.array([12.0, 3, 4, 6, 25]), 1e-6
    c, n = float(pooled_from_hist(hist)), hist.sum()
    p = float(hist @ np.arange(5)) / (4 * n)
    values = influence(4, p, c)
    values = values - hist @ values / n
    for s in range(5):
        moved = (1 - step) * hist / n + step * np.eye(5)[s]
        assert (float(pooled_from_hist(moved)) - c) / step == pytest.approx(values[s], rel=1e-4, abs=1e-5)
    assert summarise(hist).se == pytest.approx(math.sqrt(hist @ values**2 / (n * (n - 1))))


def test_model_variance_is_the_sampling_variance_of_c():
    drawn = pooled_from_hist(pilots(2000, 4, 0.8, 0.6, 4000, seed=1))
    assert float(np.var(drawn)) * 2000 == pytest.approx(
        float(model_variance(4, 0.8, np.array([0.6]))[0]), rel=0.08
    )


def test_count_bins_resample_like_items():
    hist = np.array([9, 5, 4, 5, 17])
    items = np.repeat(np.arange(5), hist)
    rng = np.random.default_rng(3)
    by_item = [
        float(unbias(pooled_from_hist(np.bincount(rng.choice(items, 40), minlength=5)), 40, 4))
        for _ in range(3000)
    ]
    assert np.std(bootstrap_fits(summarise(hist), rng, 3000).c) == pytest.approx(np.std(by_item), rel=0.06)


def test_bayes_posterior_matches_a_fine_integral():
    hist = np.array([4, 3, 5, 8, 20])
    p, c = np.linspace(0.00125, 0.99875, 400)[:, None], np.linspace(0.00125, 0.99875, 400)[None, :]
    log = betabinom_logpmf(4, p, c) @ hist
    mass = np.exp(log - log.max()) / np.sqrt(p * (1 - p))
    mass /= mass.sum()
    fits = bayes_fits(summarise(hist))
    assert fits.weight @ fits.c == pytest.approx(float((mass * c).sum()), abs=2e-3)
    assert fits.weight @ fits.p == pytest.approx(float((mass * p).sum()), abs=1e-3)
    lo, hi = fits.interval(fits.c)
    np.testing.assert_allclose(
        [lo, hi], np.interp([0.025, 0.975], np.cumsum(mass.sum(axis=0)), c[0]), atol=6e-3
    )


def test_predicted_votes_carry_their_own_uncertainty():
    hist = np.array([9, 5, 4, 5, 17])
    fits = majority_fits(hist)
    one, many = vote_interval(fits, 1), vote_interval(fits, 31)
    assert one[0] < 96 / 160 < one[1]
    three = vote_interval(fits, 3)
    assert three[0] < majority_curve(3, 96 / 160, anova_c(hist))[-1] < three[1]
    gap = fits.interval(fits.majority(31)[:, -1] - fits.majority(31)[:, 0])
    assert gap[1] - gap[0] < many[1] - many[0]


def test_bootstrap_fits_agree_with_bayes_on_a_large_record():
    hist = np.round(3000 * np.exp(betabinom_logpmf(8, 0.7, 0.5))).astype(int)
    bayes, boot = (
        vote_interval(fits, 31)
        for fits in (bayes_fits(summarise(hist)), bootstrap_fits(summarise(hist), np.random.default_rng(0)))
    )
    assert bayes == pytest.approx(boot, abs=0.004)
    assert bootstrap_fits(summarise(hist), np.random.default_rng(0), 50).c.shape == (50,)


def test_means_by_cluster():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(40), 5)
    values = np.repeat(rng.normal(size=40), 5)
    robust = interval_mean(values, clusters)
    apart = interval_mean(values[::5])
    assert robust.n == 40
    assert (robust.value, robust.lo, robust.hi) == pytest.approx((apart.value, apart.lo, apart.hi))
    drawn = bootstrap_means(np.column_stack([values, 2 * values]), clusters, rng, 4000)
    assert drawn.shape == (4000, 2)
    np.testing.assert_allclose(drawn[:, 1], 2 * drawn[:, 0])
    assert drawn[:, 0].std() == pytest.approx((robust.hi - robust.lo) / 2 / 2.02, rel=0.08)


def test_means_without_variation_say_so():
    assert codes(interval_mean([0.0, 0.0, 0.0])) == ["no_variation"]
    assert codes(interval_mean([0.0, 1.0], [3, 3])) == ["one_cluster"]


def test_bootstrap_means_weigh_items_of_uneven_clusters_alike():
    values = np.array([[1.0], [1.0], [1.0], [0.0]])
    drawn = bootstrap_means(values, np.array([0, 0, 0, 1]), np.random.default_rng(1), 2000)
    assert set(np.round(drawn[:, 0], 6)) == {0.0, 0.75, 1.0}


def test_the_laws_own_error_widens_the_majority_beyond_two_paths():
    """With certain p and c the interval is the law's alone: logit-normal, with LAW_SD (1 - 2/k)."""
    sure = Fits(np.array([0.7]), np.array([0.4]), np.array([1.0]))
    assert sure.majority_interval([0.7], 1) == sure.majority_interval([0.7], 2) == pytest.approx((0.7, 0.7))
    for k in (4, 32):
        value = 0.75
        lo, hi = sure.majority_interval([value], k)
        step = 1.96 * LAW_SD * (1 - 2 / k)
        odds = value / (1 - value) * np.exp([-step, step])
        assert (lo, hi) == pytest.approx(tuple(odds / (1 + odds)), abs=0.01)
    assert 0 <= sure.majority_interval([0.0], 32)[0] <= sure.majority_interval([1.0], 32)[1] <= 1
