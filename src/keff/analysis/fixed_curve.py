"""Fixed numbers of paths on a record: how right, what they cost, and how long they take."""

from __future__ import annotations

import numpy as np

from keff.analysis.bill import mean_of
from keff.analysis.money import Rates
from keff.analysis.results.money import CurvePoint, Seconds
from keff.analysis.times import timed
from keff.records import Interval
from keff.stats.latency import quantile
from keff.stats.plurality import plurality_items
from keff.stats.votes import FloatArray, Votes

ORDERS, FEWEST_ORDERS = 32, 2
"""Random orders of the paths of a question, for the longest of the first K."""

TIMED_CELLS = 2**23
"""So many paths at most in all orders: more would not move a quantile."""


def fixed_curve(votes: Votes, rates: Rates | None) -> tuple[CurvePoint, ...]:
    """Return the points at powers of two and at all paths; none where neither prices nor times are known."""
    if rates is None and votes.seconds is None:
        return ()
    places = [*(2**power for power in range(votes.k.bit_length()) if 2**power < votes.k), votes.k]
    known = votes.correct is not None and votes.answers is not None
    some = None if votes.seconds is None else timed(votes)
    longest = None if some is None or some.seconds is None else _longest(some.seconds)
    return tuple(
        CurvePoint(
            paths=k,
            accuracy=mean_of(plurality_items(votes, k), votes, "plurality of the record") if known else None,
            dollars=None if rates is None else _dollars(votes, rates, k),
            seconds=None if longest is None or some is None else _times(longest[..., k - 1], some),
        )
        for k in places
    )


def _dollars(votes: Votes, rates: Rates, k: int) -> Interval:
    """Return the mean dollars of one request for k paths."""
    tokens = None if votes.tokens is None else votes.tokens.mean(axis=1) * k
    busy = None if votes.seconds is None else votes.seconds.mean(axis=1) * k
    ones = np.ones(votes.n)
    return mean_of(rates.dollars(k * ones, ones, tokens, busy), votes, "recorded cost of a path")


def _longest(seconds: FloatArray) -> FloatArray:
    """Return the longest of the first 1..K paths of each question in random orders [n, R, K]."""
    rng, (n, k) = np.random.default_rng(0), seconds.shape
    count = max(FEWEST_ORDERS, min(ORDERS, TIMED_CELLS // (n * k)))
    orders = rng.permuted(np.broadcast_to(seconds[:, None], (n, count, k)), axis=2)
    return np.maximum.accumulate(orders, axis=2, out=orders)


def _times(times: FloatArray, votes: Votes) -> Seconds:
    return Seconds(*(quantile(times, share, votes.cluster_ids) for share in (0.5, 0.95)))
