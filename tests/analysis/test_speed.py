"""Tokens and times of rules in resamples of the questions, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from keff.analysis.replay.speed import speeds
from keff.policy import parse_policy
from keff.stats.time.latency import quantile, resampled_quantiles
from keff.stats.votes import Votes
from keff.stats.voting.draws import Draws, permuted


def test_quantiles_of_a_resample_are_those_of_its_questions() -> None:
    times = np.array([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]])
    found = resampled_quantiles(times, np.array([[1.0, 1, 1], [2, 0, 0], [0, 0, 3]]), (0.5, 1.0))
    assert found.tolist() == [[3, 1, 10], [20, 2, 20]]


def test_the_spread_over_resamples_is_the_interval_of_the_quantile() -> None:
    rng = np.random.default_rng(1)
    times = rng.gamma(4.0, 1.0, (80, 1)) * rng.gamma(9.0, 1 / 9, (80, 50))
    weights = rng.multinomial(80, np.ones(80) / 80, 1000).astype(float)
    found = resampled_quantiles(times, weights, (0.95,))[0]
    known = quantile(times, 0.95, np.arange(80))
    assert np.quantile(found, [0.025, 0.975]) == pytest.approx([known.lo, known.hi], rel=0.06)


def test_rules_are_timed_by_tokens_where_no_seconds_are_known() -> None:
    votes = Votes(np.zeros((6, 8), int), None, tokens=np.full((6, 8), 10.0))
    draws = permuted(votes, 8, 3, np.random.default_rng(0))
    rules = [parse_policy(spec) for spec in ("fixed:8", "lead_k:3,cap=8", "lead_k:3,cap=8,in_flight=2")]
    found = speeds(draws, rules, np.ones((2, 6)))
    assert found is not None and found.tokens is not None
    assert found.p50.tolist() == found.p95.tolist() == [[10, 10, 20]] * 2
    assert found.tokens[0].tolist() == [80, 30, 40]
    assert speeds(Draws(draws.codes), rules, np.ones((2, 6))) is None
