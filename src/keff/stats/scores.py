"""Repeated scores: pass@k, pass^k, flips between runs, suspect gold answers, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import binom, ndtr, stdtr

from keff.records import Interval, frozen
from keff.stats.intervals import PAIRED, SampleMean, mean_share, paired_difference, wilson
from keff.stats.models.tries import TryLaw
from keff.stats.repeats import (
    Repeats,
    own_variances,
    quantiles,
    within_value,
)
from keff.stats.resampling import clustered_variance, group_sums, resampled_totals
from keff.stats.sources import SourceLuck
from keff.stats.votes import FloatArray, IntArray, cluster_numbers

# Quantiles of the share of wrong gold answers before looking: Beta(1, 29), with the mean (3.3%) and range
# (0.2 to 10%) of ten public test sets (Northcutt et al. 2021, "Pervasive label errors in test sets").
WRONG: FloatArray = np.asarray(1 - (1 - (np.arange(50) + 0.5) / 50) ** (1 / 29))

# Cells of a lead from 0 to 1.
STEPS = 100

# Standard deviation of the kernel that smooths leads; half of it changes posteriors by a few points.
WIDTH = 0.1


def posterior_wrong(lead: FloatArray) -> FloatArray:
    """Return the posterior probability [n] that each gold answer is wrong, from the lead of another answer.

    ``lead`` is the share of paths with the most frequent other answer less that with the gold one, -1 to 1.
    Where marking is right, leads have a density f; where the gold answer is wrong and the other is right,
    they have its mirror image. What is seen is h(s) = (1 - w) f(s) + w f(-s), so that f(-s) = ((1 - w) h(-s)
    - w h(s)) / (1 - 2w), and the posterior at lead s is w f(-s) / h(s), at most 1: how many more questions
    are answered right as firmly than are answered otherwise, weighed with w, averaged over what w may be
    (``WRONG``). h is smoothed by a normal kernel (``WIDTH``). Branches that share their errors raise h(s),
    and so are not taken for independent witnesses.
    """
    cell = np.rint((lead + 1) * STEPS).astype(np.int64)
    grid = np.arange(2 * STEPS + 1)
    kernel = np.exp(-0.5 * ((grid[:, None] - grid) / (WIDTH * STEPS)) ** 2)
    seen = kernel @ np.bincount(cell, minlength=grid.size)
    w = WRONG[:, None]
    mirrored = np.maximum((1 - w) * seen[::-1] - w * seen, 0.0) / (1 - 2 * w)
    # A share that nobody has needs no posterior, only a divisor.
    found = np.minimum(w * mirrored / np.maximum(seen, 1e-9), 1.0).mean(axis=0)
    return np.asarray(found[cell], np.float64)


def unsolved_yet(solved: FloatArray) -> tuple[float, float]:
    """Return the expected number of questions that more paths would newly solve, and its standard deviation.

    From the right paths of each question [n]: the second-order jackknife of species counts, 2 f1 - f2
    (Burnham and Overton 1978), f1 questions with one right path and f2 with two, at least Chao's bound
    f1 (f1 - 1) / (2 (f2 + 1)) and at most all that have none.
    """
    once, twice = float(np.sum(solved == 1)), float(np.sum(solved == 2))
    more = max(2 * once - twice, once * (once - 1) / (2 * (twice + 1)))
    return min(more, float(np.sum(solved == 0))), float(np.sqrt(4 * once + twice))


# As for other intervals: 2.5% quantiles from 25 resamples.
REPLICATES = 1000

# Standard deviation of what the beta-binomial law errs in logit pass^k, for each doubling of k beyond the
# repeats. 57 recorded workloads say .073 to .096 by the draw of trials, without any one family .061 to .108
# (``benchmarks.constants.score_spreads``): about the largest is taken.
BEYOND_SD = 0.095


def chance_all(right: FloatArray, count: IntArray, k: int) -> FloatArray:
    """Return the chance [n] that k of a question's answers, drawn without replacement, are all right.

    C(S, k) / C(m, k): unbiased for theta^k. Needs m >= k.
    """
    return np.asarray(binom(right, k) / binom(count, k), np.float64)


def moment(p: ArrayLike, c: ArrayLike, k: int) -> FloatArray:
    """Return E(theta^k) of the beta law with mean p and intraclass correlation c, which may be arrays.

    The product of (p(1-c) + jc) / (1 + (j-1)c) over j < k: p^k at c = 0, p at c = 1.
    """
    p, c = np.asarray(p, np.float64), np.clip(np.nan_to_num(np.asarray(c, np.float64)), 0.0, 1.0)
    out = np.array(p, np.float64)
    for j in range(1, k):
        out = out * (p * (1 - c) + j * c) / (1 + (j - 1) * c)
    return out


def all_right(repeats: Repeats, k: int) -> Interval:
    """Return pass^k: the share of questions that k answers in a row would all get right.

    Exact and unbiased up to the least number m of repeats. Beyond, pass^m times the ratio of the k-th and the
    m-th moment of the beta law with the mean and correlation of the repeats; its variance adds that of a
    cluster bootstrap and what the law erred on left-out recorded generations (``BEYOND_SD``). Needs scores of
    0 and 1.
    """
    return _moment_interval(repeats, k, ("right",))


def any_right(repeats: Repeats, k: int) -> Interval:
    """Return pass@k: the share of questions that at least one of k answers gets right.

    Exact and unbiased up to the least number m of repeats. Beyond, the share that m leave unsolved times what
    k - m further tries leave of it by the ``TryLaw``, which allows for questions that are never solved. Its
    variance adds that of the law's posterior and what the law erred elsewhere (``BEYOND_SD``).
    """
    m, ids = min(k, repeats.k), repeats.ids
    unsolved = chance_all(repeats.count - repeats.right, repeats.count, m)
    if k <= repeats.k:
        return replace(mean_share(1 - unsolved, ids), method=EXACT)
    law, left = _try_law(repeats), SampleMean.of(unsolved, ids)
    beyond = law.unsolved_shares(k)
    ratio, _, _ = law.interval(beyond[:, k] / beyond[:, m])
    spread = law.weight @ (beyond[:, k] / beyond[:, m] - ratio) ** 2
    at = 1 - left.value * ratio
    erred = BEYOND_SD * math.log2(k / m) * at * (1 - at)
    variance = left.variance * ratio**2 + left.value**2 * float(spread) + erred**2
    return Interval(at, *wilson(at, variance, left.units), TRIED)


@lru_cache(maxsize=2)
def _try_law(repeats: Repeats) -> TryLaw:
    """Return the law of the tries of some repeats."""
    return TryLaw.of(repeats.right.astype(np.int64), repeats.count, repeats.units)


def without_gradient(repeats: Repeats, size: int) -> Interval:
    """Return the share of groups of ``size`` answers to a question that are all right or all wrong.

    E[theta^G + (1 - theta)^G]: such a group has no spread of rewards, so no gradient where rewards are
    centred within groups. As ``all_right``.
    """
    return _moment_interval(repeats, size, ("right", "wrong"))


# Up to the recorded repeats a moment needs no model; beyond them it does, and the method says so.
EXACT, BEYOND = "unbiased; Wilson, clustered", "beta-binomial beyond the repeats; Wilson, clustered"
TRIED = "beta-binomial with a share never solved beyond the repeats; Wilson, clustered"


def _moment_interval(repeats: Repeats, k: int, ends: Sequence[str]) -> Interval:
    m = min(k, repeats.k)
    kinds, times, back = _distinct_counts(repeats)
    counted = {"right": kinds.right, "wrong": kinds.count - kinds.right}
    parts = [chance_all(counted[end], kinds.count, m) for end in ends]
    if k <= repeats.k:
        return replace(mean_share(np.sum(parts, axis=0)[back], repeats.ids), method=EXACT)
    own = own_variances(repeats)
    inside = np.bincount(back, own, times.size) / times
    rows = [np.ones(times.size), kinds.mean, kinds.mean**2, inside / kinds.count, *parts, inside]
    totals = np.stack(rows, axis=1)
    whole = (times @ totals)[:, None]
    rng = np.random.default_rng(0)
    if repeats.units == repeats.n:
        drawn = resampled_totals(totals, REPLICATES, rng, times) if repeats.n > 1 else whole
    else:
        drawn = resampled_totals(group_sums(totals[back], repeats.ids, repeats.units), REPLICATES, rng)
    value, each = np.zeros(1), np.zeros(drawn.shape[1])
    for place, end in enumerate(ends):
        value = value + _extrapolated_moment(whole, place, end, m, k)
        each = each + _extrapolated_moment(drawn, place, end, m, k)
    at = float(np.clip(value[0], 0.0, 1.0))
    law = BEYOND_SD * math.log2(k / m) * at * (1 - at)
    lo, hi = wilson(at, float(np.var(each)) + law**2, repeats.units)
    return Interval(at, lo, hi, BEYOND)


@lru_cache(maxsize=2)
def _distinct_counts(repeats: Repeats) -> tuple[Repeats, IntArray, IntArray]:
    """Return the distinct (right, repeats) as questions [u], their frequencies, and the row of each [n]."""
    name = repeats.count * (int(repeats.count.max()) + 1) + repeats.right.astype(np.int64)
    _, first, back, times = np.unique(name, return_index=True, return_inverse=True, return_counts=True)
    return repeats.take(first), times.astype(np.int64), back.ravel()


def _extrapolated_moment(totals: FloatArray, part: int, end: str, m: int, k: int) -> FloatArray:
    """Return E(theta^k) (or of 1 - theta) [B] from totals [., B], beyond the repeats by the beta law."""
    n, mean, square, noise, inside = totals[0], totals[1], totals[2], totals[3], totals[-1]
    p = mean / n
    between = (square / n - p * p) * n / np.maximum(n - 1, 1) - noise / n
    total = between + inside / n
    c = np.where(total > 0, between / np.where(total > 0, total, 1.0), 1.0)
    p = p if end == "right" else 1 - p
    seen, law = totals[4 + part] / n, moment(p, c, m)
    return seen * np.where(law > 0, moment(p, c, k) / np.where(law > 0, law, 1.0), 0.0)


def flips(repeats: Repeats) -> Interval:
    """Return the share of questions whose outcome differs between two runs, E[2 theta (1 - theta)].

    Needs scores of 0 and 1, and two repeats of every question.
    """
    some = np.flatnonzero(repeats.several)
    ids = cluster_numbers(repeats.ids[some], some.size)
    return replace(mean_share(np.clip(2 * repeats.variances, 0.0, 1.0), ids), method=EXACT)


# How the limits of a difference are found where other sources would do otherwise.
OVER_SOURCES = f"{PAIRED}, and sources (Satterthwaite)"

# Up to so many clusters that differ, the test is by exact counting; beyond, t and it agree to a digit.
FEW = 2000

# Cells of the law of a sum of signs; with more, as for graded scores, signs are drawn.
MOST_STEPS = 2**20

# Rounding of the transform: no smaller p-value is told by counting.
LEAST_P = 1e-12

# A factor of the transform so small adds nothing to any p-value that is told.
NEGLIGIBLE = 1e-25

# A p-value of 5% is then known to .15%.
DRAWS = 20_000
# Fixed, so that one pair of files has one p-value.
SEED = 0


@frozen
class Difference:
    """Paired difference of two scores on the shared questions, second minus first, on the scale 0 to 1.

    ``p_value`` is that of the sign-flip test of no difference, ``noise`` the standard deviation of the
    difference that repeats, or other sources, alone give on these very questions (None where no question has
    two repeats on either side), ``same_model_chance`` how often two runs of one model, of as many repeats,
    differ by as much or more. ``questions_needed`` and ``repeats_needed`` are how many in all would find the
    difference seen,
    were it the true one, with 80% power at 5%: None where no number would.
    """

    difference: Interval
    p_value: float
    noise: float | None
    same_model_chance: float | None
    questions_needed: int | None
    repeats_needed: int | None

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 0."""
        limits = self.difference.limits
        return limits is not None and (limits[0] > 0 or limits[1] < 0)


def paired_test(
    first: Repeats, second: Repeats, level: float = 0.95, luck: SourceLuck | None = None
) -> Difference:
    """Return the paired difference of two scores on the same questions; repeats may be unequally many.

    The interval is ``paired_difference`` of question means, so repeats and questions both are in it, and it
    reaches 0 where the exact test does not reject. The test flips the signs of the differences of whole
    clusters: exact under exchange of the two sides, McNemar's for single answers. ``luck`` is what sources of
    paths add: where other sources would do otherwise, the interval and the test are by t with Satterthwaite's
    degrees of freedom. Raises ValueError for unequal numbers of questions.
    """
    if first.n != second.n:
        raise ValueError(f"{first.n} and {second.n} questions cannot be paired")
    apart = second.mean - first.mean
    ids, units = second.ids, second.units
    value, more = float(apart.mean()), 0.0 if luck is None else luck.sources
    p_value, exact = sign_flips(np.bincount(ids, apart).astype(np.float64))
    inside = _within_variances(first, second)
    noise = None if inside is None else _noise(inside, first, second)
    chance = None if inside is None else _same_model(value, inside, first, second)
    if luck is not None:
        noise = math.sqrt(luck.sources + luck.trials)
        chance = _chance(value, noise**2)
    if units < 2:
        return Difference(Interval(value, None, None, "one cluster"), p_value, noise, None, None, None)
    answer = float(np.mean(1 / np.maximum(first.count, second.count)))
    variance, free = clustered_variance(apart, ids), float(units - 1)
    if luck is not None and more > 0:
        free = (variance + more) ** 2 / (variance**2 / (units - 1) + more**2 / luck.freedom)
    found = paired_difference(apart, ids, level, noise=more, answer=answer, freedom=free)
    assert found.limits is not None
    lo, hi = found.limits
    if more > 0:
        p_value = 2 * float(stdtr(free, -abs(value) / math.sqrt(variance + more)))
        method = OVER_SOURCES
    else:
        if exact and p_value >= 1 - level:
            lo, hi = min(lo, 0.0), max(hi, 0.0)
        elif not exact and variance > 0:
            p_value = 2 * float(stdtr(units - 1, -abs(value) / math.sqrt(variance)))
        method = PAIRED + (", sign flips" if exact else "")
    return Difference(
        Interval(value, lo, hi, method),
        p_value,
        noise,
        chance,
        questions_for_power(first.n, value, variance, more),
        None
        if inside is None or noise is None
        else _repeats_needed(first.n, value, sum(inside), variance + more - noise**2),
    )


def sign_flips(totals: FloatArray) -> tuple[float, bool]:
    """Return the two-sided p-value of a sign-flip (permutation) test of a sum, and whether it is exact.

    The law of the sum is the convolution of two-point laws on the grid that the terms share, through its
    characteristic function; of terms that share no such grid ``DRAWS`` signs are drawn. Not for more than
    ``FEW`` terms that are not 0.
    """
    # A cluster without a difference is the same under both signs.
    terms = np.abs(totals[np.abs(totals) > 1e-12])
    if terms.size == 0:
        return 1.0, True
    if terms.size > FEW:
        return math.nan, False
    seen = abs(float(totals.sum()))
    step = _grid(terms)
    size = 0 if step is None else round(float(terms.sum()) / step) * 2 + 2
    if step is None or size > MOST_STEPS:
        rng = np.random.default_rng(SEED)
        as_far = sum(
            int(np.sum(np.abs(rng.choice((-1.0, 1.0), (DRAWS // 20, terms.size)) @ terms) >= seen - 1e-9))
            for _ in range(20)
        )
        return (1 + as_far) / (DRAWS + 1), True
    whole, counts = np.unique(np.rint(terms / step).astype(np.int64), return_counts=True)
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    wave, left = np.ones(angle.size), np.arange(angle.size)
    for place in np.argsort(-counts):
        wave[left] *= np.cos(angle[left] * whole[place]) ** counts[place]
        # Few frequencies outlive the first terms; the rest only gets smaller.
        left = left[np.abs(wave[left]) > NEGLIGIBLE]
    law = np.fft.irfft(wave, size)
    reach = np.minimum(np.arange(size), size - np.arange(size))
    return float(min(max(law[reach >= round(seen / step)].sum(), LEAST_P), 1.0)), True


def _grid(terms: FloatArray) -> float | None:
    """Return the step of which all terms are whole multiples; None where it would be too small."""
    smallest = float(terms.min())
    # Means over a few repeats share a small denominator; beyond some tens anything fits by rounding.
    for part in range(1, 65):
        step = smallest / part
        # Means of few repeats are multiples of a small step, which rounding hides in the last digits only.
        if float(np.max(np.abs(terms / step - np.rint(terms / step)))) < 1e-6:
            return step
    return None


def _within_variances(first: Repeats, second: Repeats) -> tuple[float, float] | None:
    """Return the within-question variance of one answer on each side; None where no question has repeats.

    A side of single answers is taken to be as noisy as the other.
    """
    one, other = within_value(first), within_value(second)
    known = [value for value in (one, other) if value is not None]
    return (known[0], known[-1]) if known else None


def _noise(inside: tuple[float, float], first: Repeats, second: Repeats) -> float:
    sides = zip(inside, (first, second), strict=True)
    return math.sqrt(sum(value * float(np.mean(1 / side.count)) for value, side in sides) / first.n)


def _same_model(value: float, inside: tuple[float, float], first: Repeats, second: Repeats) -> float:
    """Return P(|difference| >= that seen) for two runs of one model, by the within-question variance."""
    return _chance(value, sum(inside) / 2 * float(np.mean(1 / first.count + 1 / second.count)) / first.n)


def _chance(value: float, variance: float) -> float:
    """Return the chance of a difference of ``value`` or more, on either side, where the mean one is 0."""
    if variance <= 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * ndtr(-abs(value) / math.sqrt(variance)))


# More questions than exist: said as never.
MOST_NEEDED = 10**9


def questions_for_power(n: int, value: float, variance: float, more: float = 0.0) -> int | None:
    """Return the questions in all that find a difference with 80% power; None where no number would.

    ``variance`` is that of the mean difference of ``n`` questions, ``more`` what no question changes.
    """
    left = (value / quantiles()) ** 2 - more
    if left <= 0 or n * variance >= MOST_NEEDED * left:
        return None
    # 100.0000000001 questions are 100.
    return max(2, math.ceil(n * variance / left - 1e-9))


def _repeats_needed(n: int, value: float, inside: float, between: float) -> int | None:
    """Return the repeats on each side that would resolve the difference; None where no number would.

    ``inside`` is the variance of one answer on both sides, ``between`` what repeats do not change.
    """
    if value == 0:
        return None
    both, left = inside / n, (value / quantiles()) ** 2 - max(between, 0.0)
    return max(1, math.ceil(both / left - 1e-9)) if left > 0 and both / left < MOST_NEEDED else None


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values [m] adjusted for multiple comparisons by Holm (1979)."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * (p.size - np.arange(p.size)))
    out = np.empty(p.size)
    out[order] = np.minimum(adjusted, 1.0)
    return out
