"""Whether a run became worse than its baseline on the same questions, looked at after every repeat.

Given how many answers of a question are right on both sides together, which of them are the run's is chance
where nothing changed: the mean and the variance of the difference are exact (hypergeometric; for graded
scores those of a permutation), whatever the questions' rates. Looks are paid for by alpha spending (Lan and
DeMets 1983) with the bound of O'Brien and Fleming.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from keff.records import Interval, frozen
from keff.stats.repeats import Repeats
from keff.stats.votes import FloatArray

# Chance over all looks of "worse" where nothing changed, and of a pass where the whole tolerance is lost.
FALSE_ALARM, FALSE_PASS = 0.025, 0.05

# Nodes of the integrals over one look: twice as many move no bound by 1e-6.
NODES = 120

# Standard deviations below which a path of the test statistic is left out of the integrals.
FAR = 8.0


def error_budget(information: float, alpha: float) -> float:
    """Return the error that may be spent up to a share 0 to 1 of the information (O'Brien and Fleming)."""
    return 2 * float(ndtr(ndtri(alpha / 2) / math.sqrt(information)))


@lru_cache(maxsize=64)
def bounds(
    information: tuple[float, ...], alpha: float, spend: Callable[[float, float], float] = error_budget
) -> tuple[float, ...]:
    """Return the one-sided bound of z at each look, for increasing shares 0 to 1 of the information.

    ``spend`` tells the error that may be spent up to a share of the information, of ``alpha`` in all. The
    chance that a standard Brownian motion first crosses at a look is what the look may spend, by
    recursive integration over the paths that have not crossed (Armitage, McPherson and Rowe 1969).
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    found, before, paid = list[float](), 0.0, 0.0
    at, mass = np.zeros(1), np.ones(1)
    for share in information:
        step = math.sqrt(share - before)
        due = spend(share, alpha) - paid
        low = -FAR * math.sqrt(share)
        limit = _crossing_value(at, mass, step, due, low)
        found.append(limit / math.sqrt(share))
        grid = low + (limit - low) * (nodes + 1) / 2
        kernel = np.exp(-0.5 * ((grid[:, None] - at) / step) ** 2) / (step * math.sqrt(2 * math.pi))
        at, mass = grid, (kernel @ mass) * weights * (limit - low) / 2
        before, paid = share, paid + due
    return tuple(found)


def _crossing_value(at: FloatArray, mass: FloatArray, step: float, due: float, low: float) -> float:
    """Return the value that paths, ``at`` points with probability ``mass``, pass next with chance ``due``."""
    from scipy.optimize import brentq  # a seventh of a second, which other commands do not need

    return float(brentq(lambda x: float(mass @ ndtr((at - x) / step)) - due, low, 2 * FAR))


@frozen
class Look:
    """What one look says: the difference with its interval, and the chance to pass if nothing changed.

    ``difference`` is run minus baseline on the scale 0 to 1. Its limits hold at all looks together, the lower
    one in all but ``FALSE_PASS`` of runs, the upper one in all but ``FALSE_ALARM``. ``chance_to_pass`` is
    that at the last look of a run in which nothing changed, had it not been decided before.
    """

    difference: Interval
    chance_to_pass: float


def conditional_variance(baseline: Repeats, run: Repeats, run_count: FloatArray | None = None) -> float:
    """Return the variance of the difference of both means, given each question's scores on both sides.

    Over the ways to say which of a question's b + r scores are the run's: s^2 (1/b + 1/r), s^2 the sample
    variance of all b + r; for right and wrong that of the hypergeometric law. ``run_count`` [n] tells it for
    other numbers of repeats of the run.
    """
    b, r = baseline.count, run.count
    both = baseline.second + run.second + b * r / (b + r) * (run.mean - baseline.mean) ** 2
    each = both / (b + r - 1) * (1 / b + 1 / (r if run_count is None else run_count))
    return float(each.sum()) / run.n**2


def look(baseline: Repeats, run: Repeats, tolerance: float, most: int, more: float = 0.0) -> Look:
    """Return what a run of so many repeats says, of ``most`` repeats at which it is looked at.

    ``tolerance`` is the loss to be ruled out, on the scale 0 to 1. The variance of the lower limit is at
    least that of the tolerance lost on questions that were always right, tolerance (1 - tolerance) / (n r):
    of few questions all may be right by chance. ``more`` is the variance that other sources of paths add.
    """
    now = int(run.count.max())
    most = max(most, now)
    b, r = (1 / float(np.mean(1 / side.count)) for side in (baseline, run))
    # Where questions are missing in some repeats, all looks have as much less information as this one.
    known = 1 / b + 1 / (most * r / now)
    shares = tuple(known / (1 / b + 1 / (at * r / now)) for at in range(1, most + 1))
    worse, passed = (bounds(shares, alpha) for alpha in (FALSE_ALARM, FALSE_PASS))
    floor = tolerance * (1 - tolerance) / run.n
    variance = conditional_variance(baseline, run) + more
    last = conditional_variance(baseline, run, run.count * most / now) + more
    value = float((run.mean - baseline.mean).mean())
    lo = value - passed[now - 1] * math.sqrt(max(variance, floor / r + more))
    hi = value + worse[now - 1] * math.sqrt(variance)
    chance = float(ndtr(tolerance / math.sqrt(max(last, floor * now / (most * r) + more)) - passed[-1]))
    method = "conditional, all looks (O'Brien and Fleming)"
    return Look(Interval(value, max(lo, -1.0), min(hi, 1.0), method), chance)


# Rates of right answers that a question may have: the midpoints of equal steps on the arcsine scale.
RATES: FloatArray = np.sin(np.pi / 2 * (np.arange(24) + 0.5) / 24) ** 2

# Weight of an even law of rates beside the suite's questions: a few of them rule out no rare rate.
EVEN_QUESTIONS = 4

# Shares of questions that lost, or gained, from 1 in 500 to a half; a suite leaves open which.
SHARES: FloatArray = np.array([0.0, *np.geomspace(0.002, 0.5, 14)])

# Rounds of expectation and maximisation; more move no probability by a hundredth.
ROUNDS = 60

# A question is named that got worse with this probability.
SURE = 0.9


def worse_chances(baseline: Repeats, run: Repeats) -> FloatArray:
    """Return the posterior probability [n] that the run answers each question right less often.

    Empirical Bayes: rates of the baseline have an unknown law on ``RATES``, and a question kept its rate,
    lost (any lower rate) or gained (any higher one) with unknown shares. The law maximises the likelihood of
    the suite; the shares are averaged over, each of ``SHARES`` as likely before. Graded scores count as
    fractions of right answers, which vary less.
    """
    cells = np.stack([run.count, baseline.count, run.count * run.mean, baseline.count * baseline.mean], 1)
    kinds, back, times = np.unique(cells.round(9), axis=0, return_inverse=True, return_counts=True)
    log, other = np.log(RATES), np.log(1 - RATES)
    new, old = (
        np.exp(right * log + (count - right) * other)
        for right, count in ((kinds[:, [2]], kinds[:, [0]]), (kinds[:, [3]], kinds[:, [1]]))
    )
    size = RATES.size
    below = np.concatenate([np.zeros((kinds.shape[0], 1)), np.cumsum(new, 1)[:, :-1]], 1)
    above = np.cumsum(new[:, ::-1], 1)[:, ::-1] - new
    ranks = np.arange(size)
    lower, higher = below / np.maximum(ranks, 1), above / np.maximum(size - 1 - ranks, 1)
    each = np.stack([old * new, old * lower, old * higher])
    law, shares = np.full(size, 1 / size), np.array([0.9, 0.05, 0.05])
    for _ in range(ROUNDS):
        joint = shares[:, None, None] * each * law
        joint *= (times / joint.sum((0, 2)))[:, None]
        shares, law = joint.sum((1, 2)) / times.sum(), joint.sum((0, 1)) + EVEN_QUESTIONS / size
        law /= law.sum()
    return _average_chance(each @ law, np.asarray(times, np.float64))[back.ravel()]


def _average_chance(each: FloatArray, times: FloatArray) -> FloatArray:
    """Return the chance of a loss [kinds], from the likelihoods [3, kinds] of kept, lost and gained."""
    lost, gained = (shares.ravel()[:, None] for shares in np.meshgrid(SHARES, SHARES[:-1]))
    whole = (1 - lost - gained) * each[0] + lost * each[1] + gained * each[2]
    fit = np.log(whole) @ times
    weight = np.exp(fit - fit.max())
    return np.asarray((weight / weight.sum()) @ (lost * each[1] / whole), np.float64)
