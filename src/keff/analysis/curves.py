"""Votes by the number of paths: measured, with bands, and predicted."""

from __future__ import annotations

import math

import numpy as np

from keff.analysis.bill import mean_of
from keff.analysis.money import Rates
from keff.analysis.results.estimates import Band, Bands, Curve, Limits, Predicted
from keff.analysis.results.money import CurvePoint, Seconds
from keff.analysis.times import timed
from keff.records import Interval
from keff.stats.inference.intervals import majority_fits, majority_method, pattern_means
from keff.stats.models.betabinomial import majority_curve
from keff.stats.models.bounds import majority_bounds
from keff.stats.models.plurality_model import predict_plurality
from keff.stats.time.latency import quantile
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import alike
from keff.stats.voting.correlation import anova_c
from keff.stats.voting.majority import majority_at_k, majority_binomial, majority_table
from keff.stats.voting.plurality import plurality_at_k, plurality_at_k_patterns, plurality_items

# Random orders of the paths of a question, for the longest of the first K.
ORDERS, FEWEST_ORDERS = 32, 2

# So many paths at most in all orders: more would not move a quantile.
TIMED_CELLS = 2**23


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


# Enough that the 2.5% and 97.5% quantiles of a band rest on 50 resamples each.
BAND_REPLICATES = 2000
# From more recorded paths, bounds are hardly wider than sampling error, and slow to find.
BOUNDED_PATHS = 16


def by_k(values: FloatArray) -> Curve:
    """Return a curve [K] by its number of paths, from 1."""
    return dict(enumerate(map(float, values), 1))


def measured(votes: Votes, level: float, seed: int) -> tuple[Curve, Curve | None, Bands]:
    """Return majority and plurality at 1..K paths, averaged over subsets, with their bootstrap bands.

    Plurality is None where only correctness was recorded. Needs gold labels.
    """
    right = votes.counts[alike(votes).first]
    tables = [majority_table(votes.k)[:, right].T]
    if votes.answers is not None:
        tables.append(plurality_at_k_patterns(votes))
    # Both go by the same resamples: drawing these is what bands cost.
    rng = np.random.default_rng(seed)
    means = pattern_means(np.hstack(tables), votes, rng, BAND_REPLICATES)
    limits = np.quantile(means, [(1 - level) / 2, 1 - (1 - level) / 2], axis=0)
    bands = [_band(range(1, votes.k + 1), *each) for each in np.split(limits, len(tables), axis=1)]
    # By counts of right paths, so that it is the same to the digit whether answers are known or not.
    majority = by_k(majority_at_k(votes))
    if votes.answers is None:
        return majority, None, Bands(bands[0], None)
    return majority, by_k(plurality_at_k(votes)), Bands(*bands)


def _band(ks: range | list[int], lows: FloatArray, highs: FloatArray) -> dict[int, Limits]:
    return {k: (float(low), float(high)) for k, low, high in zip(ks, lows, highs, strict=True)}


def prediction_ks(k_max: int) -> list[int]:
    """Return the powers of two up to ``k_max``, and ``k_max`` itself."""
    powers = [2**power for power in range(int(math.log2(k_max)) + 1)]
    return sorted({*powers, k_max})


def predicted(votes: Votes, k_max: int, level: float) -> Predicted:
    """Return what votes of up to ``k_max`` paths should do; needs gold labels."""
    ks = prediction_ks(k_max)
    several = votes.n > 1 and votes.k > 1
    return Predicted(
        binomial={k: float(majority_binomial(k, votes.p)) for k in ks},
        beta_binomial=_beta_binomial(votes, ks, level),
        bounds=_bounds(votes, [k for k in ks if k > votes.k], level) if several else None,
        plurality={row.k: row.plurality.interval for row in predict_plurality(votes, ks, level)}
        if several and votes.answers is not None
        else None,
    )


def _bounds(votes: Votes, beyond: list[int], level: float) -> Band | None:
    if not beyond or votes.k > BOUNDED_PATHS:
        return None
    return _band(beyond, *majority_bounds(votes, beyond, level))


def _beta_binomial(votes: Votes, ks: list[int], level: float) -> dict[int, Interval] | None:
    c = usable_c(votes)
    if c is None:
        return None
    fits, curve = majority_fits(votes), majority_curve(ks[-1], votes.p, c)
    curves, method = fits.majority(ks[-1]), majority_method(votes.k)
    out: dict[int, Interval] = {}
    for k in ks:
        value, (lo, hi) = float(curve[k - 1]), fits.majority_interval(curves[:, k - 1], k, level)
        out[k] = Interval(value, min(lo, value), max(hi, value), f"{method}, with the law's error")
    return out


def usable_c(votes: Votes) -> float | None:
    """Return c as the beta-binomial model takes it; None where it is undefined."""
    if votes.k < 2 or votes.n < 2 or votes.p in (0.0, 1.0):
        return None
    return min(max(anova_c(votes), 0.0), 1.0)
