"""Paired changes from what is deployed today, and cached prompts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.money import Tariff, path_dollars, rates
from keff.analysis.replay import Replaying, replay
from keff.analysis.results.words import summary
from keff.analysis.terms import Terms
from keff.reading.arrays import record_of_votes
from keff.sampling.cost import Price
from keff.stats.votes import Votes


def workload(n: int = 60, k: int = 8, seed: int = 1) -> Votes:
    """Questions of very different difficulty, whose paths take 1 second and more by length."""
    rng = np.random.default_rng(seed)
    correct = (rng.random((n, k)) < rng.beta(2, 1, (n, 1))).astype(int)
    answers = np.where(correct, 0, rng.integers(1, 4, (n, k)))
    tokens = np.round(100 * rng.gamma(4, 1, (n, 1)) * rng.uniform(0.8, 1.2, (n, k)))
    return Votes(answers, correct, tokens=tokens, seconds=1 + tokens / 50)


@pytest.mark.slow
@pytest.mark.parametrize(("now", "retain"), [("fixed:4", 0.99), ("fixed:8", 0.9), ("fixed:8", 0.99)])
def test_the_change_from_today_is_paired_and_for_new_questions(now: str, retain: float) -> None:
    settings = Settings(k_max=8, aim=Aim(retain=retain, slower=None), terms=Terms(now=now))
    found = analyze(record_of_votes(workload()), settings).decision
    points, expected = found.change.points, found.accuracy
    assert points is not None and points.limits is not None
    assert expected is not None and expected.limits is not None
    lo, hi = points.limits
    assert lo < points.value < hi
    assert hi - lo < 0.7 * (expected.limits[1] - expected.limits[0])
    assert "paired" in points.method
    how = Replaying(now=now)
    seen = replay(workload(), [found.policy], np.random.default_rng(0), how).policies[0].change
    assert seen is not None and seen.accuracy is not None and seen.accuracy.limits is not None
    # Both hold two imagined units; the expected change leans on other workloads besides.
    assert lo < seen.accuracy.value < hi


CACHED = Votes(
    np.array([[0, 0, 1], [1, 0, 0]]),
    None,
    tokens=np.full((2, 3), 10.0),
    prompt_tokens=np.full((2, 3), 100.0),
    cached_tokens=np.array([[0.0, 80, 80], [0, 80, 80]]),
)


def test_cached_prompts_by_hand() -> None:
    tariff = Tariff({"m": Price(prompt=2, output=10, cached=0.5)})
    known = rates(CACHED, "m", tariff)
    assert known.cached == pytest.approx(0.8)
    whole = 2 * (100 + 20 + 20) * 2 + 2 * (80 + 80) * 0.5 + 60 * 10
    assert known.cost_of_record(CACHED) == pytest.approx(whole / 1e6)
    ones = np.ones(2)
    three = known.dollars(3 * ones, 3 * ones, 30 * ones, None)
    assert three.tolist() == pytest.approx([(100 * 2 + 2 * (20 * 2 + 80 * 0.5) + 300) / 1e6] * 2)
    assert path_dollars(CACHED, tariff.prices["m"])[0].tolist() == pytest.approx([300 / 1e6] * 3)
    plain = rates(CACHED, "m", Tariff({"m": Price(prompt=2, output=10)}))
    assert plain.dollars(3 * ones, 3 * ones, 30 * ones, None).tolist() == pytest.approx([900 / 1e6] * 2)


@pytest.mark.slow
def test_both_bills_where_todays_paths_may_share_a_prompt() -> None:
    """Eight paths of one request send one prompt, eight requests send eight; other costs are the same."""
    votes = workload()
    votes = replace(votes, prompt_tokens=np.full((votes.n, votes.k), 300.0))
    tariff = Tariff({"m": Price(prompt=2, output=10)})
    decision = analyze(
        record_of_votes(votes), Settings(aim=Aim(retain=0.9, slower=None), terms=Terms(tariff=tariff))
    ).decision
    one, apart = decision.change.dollars, decision.change.dollars_apart
    assert one is not None and apart is not None
    assert one.value - apart.value == pytest.approx(7 * 300 * 2 / 1e6)
    assert "separate requests" in "\n".join(summary(decision))
    without = analyze(record_of_votes(workload()), Settings(terms=Terms(tariff=tariff))).decision
    assert without.change.dollars is not None and without.change.dollars_apart is None
