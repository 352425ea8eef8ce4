"""What a policy costs at the prices given: per question, per thousand, and per step of the curve."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from keff.analysis.money import Rates
from keff.analysis.results.money import Bill, Change, Step
from keff.records import Interval
from keff.stats.inference.intervals import interval_mean
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.plurality import plurality_at_k

THOUSAND = 1000


def bill_of(cost: Interval | None, votes: Votes, rates: Rates, volume: int | None) -> Bill:
    """Return the bill of a policy whose questions cost ``cost`` on average."""
    return Bill(
        model=rates.model,
        per_path=mean_of(rates.alone(votes), votes, "recorded cost of a path"),
        per_1000=_times(cost, THOUSAND),
        volume=volume,
        for_volume=None if volume is None else _times(cost, volume),
        steps=steps_of(votes, rates),
    )


def steps_of(votes: Votes, rates: Rates) -> tuple[Step, ...]:
    """Return the steps of the recorded curve of plurality at powers of two, and at all paths."""
    if votes.correct is None or votes.answers is None:
        return ()
    curve = plurality_at_k(votes)
    tokens = None if votes.tokens is None else votes.tokens.mean(axis=1)
    busy = None if votes.seconds is None else votes.seconds.mean(axis=1)
    # Fixed K is one request, so a further path adds no prompt.
    extra = float(rates.dollars(np.ones(votes.n), np.zeros(votes.n), tokens, busy).mean())
    places = [*(2**power for power in range(votes.k.bit_length()) if 2**power < votes.k), votes.k]
    return tuple(
        step(low, high, float(curve[high - 1] - curve[low - 1]), (high - low) * extra)
        for low, high in pairwise(places)
    )


def step(low: int, high: int, points: float, dollars: float) -> Step:
    """Return a step of the curve; a right answer has no price where the curve does not rise."""
    return Step(low, high, points, dollars, dollars / points if points > 1e-9 else None)


def mean_of(values: FloatArray, votes: Votes, method: str) -> Interval:
    """Return the mean of one value per question [n], with its cluster-robust interval."""
    mean = interval_mean(values, votes.cluster_ids)
    return Interval(mean.value, mean.lo, mean.hi, f"{method}, {mean.method}")


def pays_back(spent: float | None, change: Change | None) -> float | None:
    """Return after how many questions the savings have paid for the pilot; None where nothing is saved."""
    if spent is None or change is None or change.dollars is None or change.dollars.value >= 0:
        return None
    return spent / -change.dollars.value


def _times(value: Interval | None, times: int) -> Interval | None:
    if value is None:
        return None
    lo, hi = (None if end is None else end * times for end in (value.lo, value.hi))
    return Interval(value.value * times, lo, hi, value.method)
