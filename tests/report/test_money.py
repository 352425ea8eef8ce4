"""The curve of accuracy against dollars and seconds, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from keff.analysis.estimates import Settings, analyze
from keff.analysis.money import Tariff
from keff.analysis.results.estimates import Analysis
from keff.analysis.terms import Terms
from keff.reading.arrays import record_of_votes
from keff.report import money_series
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
    drawn = money_series.dollars(found(PRICED))
    assert [(row["mark"], row["cost"]) for row in drawn["curve"]] == [
        (str(k), pytest.approx(k * 1e-3)) for k in (1, 2, 4, 8)
    ]
    (chosen,) = drawn["chosen"]
    assert isinstance(chosen["cost"], float) and 1e-3 <= chosen["cost"] <= 8e-3


@pytest.mark.slow
def test_the_longest_of_all_paths_is_known_and_of_one_path_the_95th_percentile() -> None:
    curve = money_series.seconds(found(Terms()))["curve"]
    assert curve[-1]["cost"] == 8 and curve[0]["cost"] == pytest.approx(8, abs=1)
    costs = [float(str(row["cost"])) for row in curve]
    assert costs == sorted(costs)


def test_nothing_is_drawn_without_prices_or_times() -> None:
    bare = found(Terms(), timed=False)
    assert bare.curve == () and money_series.dollars(bare) == {} == money_series.seconds(bare)
