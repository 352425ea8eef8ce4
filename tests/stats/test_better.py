"""Paired differences: exact tests against enumeration and known tests, error rates under known laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy

from keff.stats.repeats import Repeats
from keff.stats.scores import holm, paired_test, sign_flips


def scores(y, clusters=None) -> Repeats:
    return Repeats.of_scores(list(y), clusters)


def drawn(rng, theta, m):
    return (rng.random((theta.size, m)) < theta[:, None]).astype(float)


@pytest.mark.parametrize("seed", range(4))
def test_sign_flips_are_the_enumeration(seed: int) -> None:
    terms = np.random.default_rng(seed).integers(-3, 4, 9) / 4
    sums = np.array([np.array(signs) @ np.abs(terms) for signs in itertools.product((1, -1), repeat=9)])
    p, exact = sign_flips(terms)
    assert exact
    assert p == pytest.approx(np.mean(np.abs(sums) >= abs(terms.sum()) - 1e-9), abs=1e-12)


def test_terms_without_a_common_step_are_drawn() -> None:
    terms = np.random.default_rng(0).normal(0.3, 1, 12)
    sums = np.array([np.array(signs) @ np.abs(terms) for signs in itertools.product((1, -1), repeat=12)])
    p, exact = sign_flips(terms)
    assert exact
    assert p == pytest.approx(np.mean(np.abs(sums) >= abs(terms.sum())), abs=0.015)


def test_single_answers_give_mcnemars_exact_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(80) < 0.5, rng.random(80) < 0.65
    found = paired_test(scores(a[:, None].astype(float)), scores(b[:, None].astype(float)))
    discordant, up = int(np.sum(a != b)), int(np.sum(b & ~a))
    assert found.p_value == pytest.approx(scipy.stats.binomtest(up, discordant).pvalue, abs=1e-12)
    assert found.noise is None and found.same_model_chance is None and found.repeats_needed is None


def test_many_questions_give_the_paired_t_test() -> None:
    rng = np.random.default_rng(2)
    theta = rng.beta(1, 1, 4000)
    a, b = drawn(rng, theta, 4), drawn(rng, np.clip(theta + 0.01, 0, 1), 4)
    found = paired_test(scores(a), scores(b))
    wanted = scipy.stats.ttest_rel(b.mean(axis=1), a.mean(axis=1))
    assert found.p_value == pytest.approx(wanted.pvalue, rel=1e-9)
    interval = wanted.confidence_interval()
    assert found.difference.limits == pytest.approx((interval.low, interval.high), abs=2e-5)


def test_whole_clusters_flip() -> None:
    rng = np.random.default_rng(3)
    y, z = drawn(rng, np.full(12, 0.4), 3), drawn(rng, np.full(12, 0.7), 3)
    alone = paired_test(scores(y), scores(z))
    ids = np.tile(np.arange(12), 3)
    thrice = paired_test(scores(np.tile(y, (3, 1)), ids), scores(np.tile(z, (3, 1)), ids))
    assert thrice.p_value == pytest.approx(alone.p_value)
    assert thrice.difference.value == pytest.approx(alone.difference.value)


def test_an_interval_without_0_is_a_rejection() -> None:
    rng = np.random.default_rng(4)
    for n in (4, 6, 9, 15, 40):
        theta = rng.beta(1, 1, n)
        for _ in range(20):
            found = paired_test(
                scores(drawn(rng, theta, 2)), scores(drawn(rng, np.clip(theta + 0.3, 0, 1), 2))
            )
            lo, hi = found.difference.limits
            assert found.p_value < 0.05 or lo <= 0 <= hi


@pytest.mark.slow
def test_the_same_model_is_called_better_or_worse_in_one_of_twenty() -> None:
    rng, called, chances = np.random.default_rng(5), 0, []
    for _ in range(400):
        theta = rng.beta(0.7, 0.5, 60)
        found = paired_test(scores(drawn(rng, theta, 4)), scores(drawn(rng, theta, 4)))
        called += found.decided
        chances.append(found.same_model_chance)
    assert called <= 32  # 20 expected; more than 32 is a chance of 1 in 200
    assert np.mean(np.array(chances) < 0.1) == pytest.approx(0.1, abs=0.045)


@pytest.mark.slow
def test_the_interval_covers_and_what_is_needed_finds() -> None:
    rng, hits, found_with = np.random.default_rng(6), 0, []
    truth = 0.08
    for _ in range(200):
        theta = rng.beta(2, 2, 80) * 0.9
        found = paired_test(scores(drawn(rng, theta, 2)), scores(drawn(rng, theta + truth, 2)))
        lo, hi = found.difference.limits
        hits += lo <= truth <= hi
    assert hits >= 182
    theta = rng.beta(2, 2, 4000) * 0.9
    large = paired_test(scores(drawn(rng, theta, 2)), scores(drawn(rng, theta + truth, 2)))
    needed = math.ceil(large.questions_needed * (large.difference.value / truth) ** 2)
    for _ in range(200):
        theta = rng.beta(2, 2, needed) * 0.9
        found_with.append(
            paired_test(scores(drawn(rng, theta, 2)), scores(drawn(rng, theta + truth, 2))).decided
        )
    assert np.mean(found_with) == pytest.approx(0.8, abs=0.1)


def test_repeats_alone_may_never_decide() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.beta(1, 1, 30), rng.beta(1, 1, 30)
    found = paired_test(scores(drawn(rng, a, 8)), scores(drawn(rng, b, 8)))
    assert found.repeats_needed is None or found.difference.value**2 * 30 > 8 * np.var(a - b)
    same = paired_test(scores([[1, 0]] * 5), scores([[0, 1]] * 5))
    assert same.questions_needed is None and same.p_value == 1.0
    assert same.difference.lo < 0 < same.difference.hi


def test_holm_is_the_step_down() -> None:
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
