"""The curve of accuracy against dollars and seconds, against values worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from keff.analysis.estimates import Settings, analyze
from keff.analysis.money import Tariff
from keff.analysis.results.estimates import Analysis
from keff.analysis.terms import Terms
from keff.reading.arrays import record_of_votes
from keff.report import advice_series
from keff.sampling.cost import Price
from keff.stats.votes import Votes


def found(terms: Terms, *, timed: bool = True) -> Analysis:
    rng = np.random.default_rng(0)
    correct = (rng.random((40, 8)) < rng.beta(2, 1, (40, 1))).astype(int)
    answers = np.where(correct, 0, rng.integers(1, 4, correct.shape))
    seconds = np.tile(np.arange(1.0, 9), (40, 1)) if timed else None
    votes = Votes(answers, correct, tokens=np.full((40, 8), 100.0), seconds=seconds)
    return analyze(record_of_votes(votes), Settings(k_max=8, terms=terms))


PRICED = Terms(tariff=Tariff({"m": Price(prompt=0, output=10)}))


@pytest.mark.slow
def test_a_fixed_number_of_paths_costs_its_tokens() -> None:
    drawn = advice_series.dollars(found(PRICED))
    assert [(row["mark"], row["cost"]) for row in drawn["curve"]] == [
        (str(k), pytest.approx(k * 1e-3)) for k in (1, 2, 4, 8)
    ]
    (chosen,) = drawn["chosen"]
    assert isinstance(chosen["cost"], float) and 1e-3 <= chosen["cost"] <= 8e-3


@pytest.mark.slow
def test_rules_stand_by_their_cost_and_time_beside_today() -> None:
    analysis = found(Terms())
    drawn = advice_series.times(analysis)
    (today,), (chosen,) = drawn["today"], drawn["chosen"]
    assert (today["policy"], today["cost"], today["p95"]) == ("fixed:8", 1, 1)
    assert chosen["policy"] == analysis.decision.policy
    best = [row for row in analysis.decision.timed if not row.dominated]
    # The recommendation too, where nothing beats it: else the line would pass above a better rule.
    assert [row["policy"] for row in drawn["best"]] == [row.policy for row in best]
    # The line goes down: of rules that none beats the dearer is the faster, at one of the two quantiles.
    assert all(mine.p50 > other.p50 or mine.p95 > other.p95 for mine, other in pairwise(best))


@pytest.mark.slow
def test_nothing_is_drawn_without_prices_or_times() -> None:
    bare = found(Terms(), timed=False)
    assert bare.curve == () and advice_series.dollars(bare) == {} == advice_series.dollars(bare)
