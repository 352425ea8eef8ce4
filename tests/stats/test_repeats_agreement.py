"""Repeats and paired differences against statsmodels, scipy and pingouin, where they have the quantity."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from keff.stats.intervals import wilson
from keff.stats.repeats import (
    Repeats,
    components,
    icc,
    icc_interval,
    quantiles,
)
from keff.stats.resampling import clustered_se
from keff.stats.scores import chance_all, holm, moment, paired_test


def graded(seed: int, n: int = 40, m: int = 5) -> np.ndarray:
    """Draw scores from 0 to 1 [n, m] in eleven steps, with questions of unlike difficulty."""
    rng = np.random.default_rng(seed)
    return rng.binomial(10, rng.beta(1.5, 1.0, n)[:, None], (n, m)) / 10


def test_pass_powers_are_scipys_laws() -> None:
    right, count = np.array([0, 3, 5, 8]), np.full(4, 8)
    for k in range(1, 9):
        expected = stats.hypergeom.pmf(k, count, right, k)
        np.testing.assert_allclose(chance_all(right, count, k), expected, atol=1e-12)
        assert float(moment(0.6, 0.3, k)) == pytest.approx(stats.beta(1.4, 14 / 15).moment(k), rel=1e-9)


def test_the_sign_flip_test_of_graded_scores_is_scipys_permutation_test() -> None:
    a, b = graded(1, n=12), graded(2, n=12)
    apart = b.mean(axis=1) - a.mean(axis=1)
    ours = paired_test(Repeats.of_scores(list(a)), Repeats.of_scores(list(b))).p_value
    theirs = stats.permutation_test(
        (apart,), np.mean, permutation_type="samples", n_resamples=2**12, alternative="two-sided"
    )
    assert ours == pytest.approx(theirs.pvalue, abs=1e-9)


@pytest.mark.parametrize(("both", "first", "second"), [(30, 4, 11), (10, 0, 6), (25, 9, 9)])
@pytest.mark.integration
def test_single_answers_are_statsmodels_mcnemar(both: int, first: int, second: int) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    a = [1] * (both + first) + [0] * (second + 5)
    b = [1] * both + [0] * first + [1] * second + [0] * 5
    ours = paired_test(*(Repeats.of_scores([[x] for x in side]) for side in (a, b))).p_value
    assert ours == pytest.approx(tables.mcnemar([[both, first], [second, 5]], exact=True).pvalue, rel=1e-9)


@pytest.mark.integration
def test_clustered_errors_power_and_holm_are_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api")
    power = pytest.importorskip("statsmodels.stats.power")
    multiple = pytest.importorskip("statsmodels.stats.multitest")
    means = graded(3).mean(axis=1)
    clusters = np.arange(means.size) // 3
    fit = api.OLS(means, np.ones(means.size)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert clustered_se(means, clusters) == pytest.approx(float(fit.bse[0]), rel=1e-9)
    needed = power.NormalIndPower().solve_power(nobs1=1.0, ratio=0, alpha=0.05, power=0.8)
    # The chance of finding it on the wrong side, which the usual formula leaves out, is 1e-6.
    assert quantiles() == pytest.approx(float(needed), abs=1e-5)
    p = [0.004, 0.03, 0.02, 0.6]
    np.testing.assert_allclose(holm(p), multiple.multipletests(p, method="holm")[1], rtol=1e-12)


@pytest.mark.integration
def test_wilsons_limits_are_statsmodels_for_many_answers() -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    size = 10**7  # the quantile of t is the normal one
    theirs = proportion.proportion_confint(0.3 * size, size, method="wilson")
    assert wilson(0.3, 0.21 / size, size) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.integration
def test_components_are_those_of_statsmodels_mixed_model() -> None:
    """Of equal repeats REML is the analysis of variance."""
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    y = graded(4)
    groups = np.repeat(np.arange(len(y)), y.shape[1])
    fit = mixed.MixedLM(y.ravel(), np.ones((y.size, 1)), groups).fit(reml=True, method="powell")
    ours = components(Repeats.of_scores(list(y)))
    assert ours is not None
    assert ours.repeats == pytest.approx(fit.scale, rel=1e-3)
    assert ours.questions == pytest.approx(float(fit.cov_re[0, 0]), rel=1e-3)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")  # its own, of the frames that it uses
def test_the_correlation_is_pingouins_icc1() -> None:
    pingouin = pytest.importorskip("pingouin")
    frames = pytest.importorskip("pandas")
    y = graded(5)
    n, m = y.shape
    frame = frames.DataFrame(
        {"question": np.repeat(np.arange(n), m), "run": np.tile(np.arange(m), n), "score": y.ravel()}
    )
    table = pingouin.intraclass_corr(frame, targets="question", raters="run", ratings="score").iloc[0]
    repeats = Repeats.of_scores(list(y))
    assert icc(repeats) == pytest.approx(float(table["ICC"]), abs=1e-6)
    found = icc_interval(repeats)
    # F of normal scores against influence values of any: alike in width, not equal.
    lo, hi = next(table[name] for name in table.index if str(name).startswith("CI95"))
    assert found is not None and found.limits is not None
    assert found.limits == pytest.approx((float(lo), float(hi)), abs=0.06)
