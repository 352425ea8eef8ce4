"""Repeated scores of the same questions: variance components, and the noise of a mean score.

The model: question i has an unknown mean score theta_i and variance v_i of one answer; answers to a question
are independent given both. c is then the intraclass correlation of answers, Var(theta) / (Var(theta) + mean
v).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri, ndtri, stdtrit

from keff.records import Interval, frozen
from keff.stats.intervals import interval_c
from keff.stats.resampling import clustered_variance
from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes, cluster_numbers

# Scales that scores are on, the narrowest first that holds them all.
SCALES = ((0.0, 1.0), (1.0, 10.0), (0.0, 10.0), (0.0, 100.0))


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """Repeated scores of n questions, as sufficient statistics on the scale 0 to 1.

    ``count`` [n] repeats of each question, ``mean`` [n] of its scores, ``second`` and ``fourth`` [n] the sums
    of squares and of fourth powers of deviations from that mean. ``clusters`` [n] are the independent units
    (None: the questions). ``binary`` says that every score is 0 or 1. ``scale`` are the ends of the scale
    that scores were on.
    """

    count: IntArray
    mean: FloatArray
    second: FloatArray
    fourth: FloatArray
    clusters: IntArray | None = None
    binary: bool = True
    scale: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of_votes(cls, votes: Votes) -> Repeats:
        """Return repeated scores 0 and 1 from right and wrong paths; ValueError without gold labels."""
        count = np.full(votes.n, votes.k, np.int64)
        return cls.of_counts(votes.counts, count, votes.clusters if votes.n_clusters < votes.n else None)

    @classmethod
    def of_counts(cls, right: IntArray, count: IntArray, clusters: IntArray | None = None) -> Repeats:
        """Return repeated scores 0 and 1 from the right answers [n] and the repeats of each question."""
        p = right / count
        wrong = count - right
        return cls(count, p, 1.0 * right * (1 - p), right * (1 - p) ** 4.0 + wrong * p**4.0, clusters)

    @classmethod
    def of_scores(cls, rows: Sequence[ArrayLike], clusters: IntArray | None = None) -> Repeats:
        """Return repeated scores from one sequence of any length of 1 or more for each question.

        Raises ValueError for a score that is not finite, or on none of the scales 0 to 1, 1 to 10, 0 to 10
        and 0 to 100.
        """
        values = [np.asarray(row, np.float64).ravel() for row in rows]
        flat = np.concatenate(values)
        scale = _scale(flat)
        unit = (flat - scale[0]) / (scale[1] - scale[0])
        count = np.array([row.size for row in values], np.int64)
        return cls.of_paths(np.repeat(np.arange(count.size), count), unit, clusters, scale)

    @classmethod
    def of_paths(
        cls,
        question: IntArray,
        score: FloatArray,
        clusters: IntArray | None = None,
        scale: tuple[float, float] = (0.0, 1.0),
    ) -> Repeats:
        """Return repeated scores from the question, numbered from 0, and the score (0 to 1) of each path."""
        count = np.bincount(question).astype(np.int64)
        mean = np.bincount(question, score, count.size) / count
        apart = score - mean[question]
        second, fourth = (
            np.bincount(question, apart**power, count.size).astype(np.float64) for power in (2, 4)
        )
        binary = bool(np.all((score == 0) | (score == 1)))
        return cls(count, mean, second, fourth, clusters, binary, scale)

    @property
    def n(self) -> int:
        """The number of questions."""
        return self.count.size

    @property
    def units(self) -> int:
        """The number of independent units (clusters)."""
        return self.n if self.clusters is None else int(np.unique(self.clusters).size)

    @property
    def ids(self) -> IntArray:
        """The cluster of each question [n], numbered 0..G-1."""
        return cluster_numbers(self.clusters, self.n)

    @property
    def k(self) -> int:
        """The smallest number of repeats of a question."""
        return int(self.count.min())

    @property
    def right(self) -> FloatArray:
        """How many answers of each question are right [n], for scores of 0 and 1."""
        return np.rint(self.mean * self.count)

    @property
    def several(self) -> BoolArray:
        """A mask of the questions with two repeats or more [n]."""
        return self.count > 1

    @property
    def variances(self) -> FloatArray:
        """The unbiased variance of one answer, for each question with two repeats or more [m]."""
        return self.second[self.several] / (self.count[self.several] - 1)

    def take(self, places: IntArray, clusters: IntArray | None = None) -> Repeats:
        """Return the repeats of selected questions (by index), with new ``clusters``."""
        parts = (self.count[places], self.mean[places], self.second[places], self.fourth[places])
        return Repeats(*parts, clusters, self.binary, self.scale)

    @classmethod
    def nothing(cls, n: int, scale: tuple[float, float]) -> Repeats:
        """Return n questions without a repeat, to which ``more`` adds some."""
        none = np.zeros(n)
        return cls(np.zeros(n, np.int64), none, none, none, scale=scale)

    def more(self, other: Repeats, places: IntArray) -> Repeats:
        """Return these with the repeats of another log on the same scale, its questions at ``places`` here.

        Sums of squares are added as Chan, Golub and LeVeque (1983) do; fourth powers of graded scores cannot
        be, and are NaN.
        """
        a, b = self.count[places], other.count
        apart, whole = other.mean - self.mean[places], a + b
        count, mean, second = self.count.copy(), self.mean.copy(), self.second.copy()
        count[places] = whole
        mean[places] += apart * b / whole
        second[places] += other.second + apart**2 * a * b / whole
        binary = self.binary and other.binary
        if binary:
            some = np.maximum(count, 1)
            counted = Repeats.of_counts(np.rint(mean * count).astype(np.int64), some)
            return replace(counted, count=count, scale=self.scale)
        return Repeats(count, mean, second, np.full(count.size, np.nan), None, False, self.scale)

    def on_scale(self, scale: tuple[float, float]) -> Repeats:
        """Return the same scores on a wider scale."""
        wide = scale[1] - scale[0]
        by = (self.scale[1] - self.scale[0]) / wide
        mean = (self.scale[0] - scale[0]) / wide + by * self.mean
        second, fourth = by**2 * self.second, by**4 * self.fourth
        return replace(self, mean=mean, second=second, fourth=fourth, binary=False, scale=scale)


def _scale(values: FloatArray) -> tuple[float, float]:
    bad = values[~np.isfinite(values)]
    if bad.size:
        raise ValueError(f"a score is {bad[0]:g}: scores are finite numbers")
    low, high = float(values.min()), float(values.max())
    for scale in SCALES:
        if scale[0] <= low and high <= scale[1]:
            return scale
    raise ValueError(
        f"scores go from {low:g} to {high:g}: they must be on 0 to 1, 1 to 10, 0 to 10 or 0 to 100"
    )


@frozen
class Within:
    """Mean variance of one answer within a question, the variance of that estimate, and its largest share."""

    value: float
    variance: float
    largest: float
    questions: int

    def limits(self) -> tuple[float, float]:
        """Return the 95% gamma limits of Fay and Feuer (1997) for a sum of many small, rare contributions.

        Near normal limits where many questions vary; 0 and some three questions' worth where none does.
        """
        low = _gamma(self.value, self.variance, 0.975) if self.value > 0 else 0.0
        more, spread = self.value + self.largest, self.variance + self.largest**2
        return min(low, self.value), max(_gamma(more, spread, 0.025), self.value)


def _gamma(mean: float, variance: float, above: float) -> float:
    """Return the value that a gamma variable of this mean and variance exceeds with probability ``above``."""
    if variance <= 0:
        return mean
    return variance / (2 * mean) * float(chdtri(2 * mean**2 / variance, above))


def within_variance(repeats: Repeats) -> Within | None:
    """Return the within-question variance of one answer; None where no question has two repeats.

    Its own variance is that over other repeats of these very questions, not over other questions: the
    variance of each s^2 given its question, E(s^4) - v^2, with the unbiased estimate of v^2 from four repeats
    or more, and that of the beta-binomial law (scores of 0 and 1) or mean(v)^2 <= mean(v^2) otherwise.
    """
    some = repeats.several
    if not np.any(some):
        return None
    count, second, fourth = repeats.count[some], repeats.second[some], repeats.fourth[some]
    each = second / (count - 1)
    value, n = float(each.mean()), each.size
    square = np.full(n, value**2)
    if repeats.binary:
        square[:] = max(_law_square(repeats, value), value**2)
    many = count > 3
    m = count[many].astype(np.float64)
    square[many] = ((m * m - 3 * m + 3) * second[many] ** 2 - m * (m - 1) * fourth[many]) / (
        m * (m - 1) * (m - 2) * (m - 3)
    )
    variance = max(float(np.sum(each**2 - square)), 0.0) / n**2
    varied = each[each > 0]
    typical = float(varied.mean()) if varied.size else float(np.max(_most_variance(count)))
    # Repeats that agree by chance leave no variance: a thousandth of a typical one keeps limits finite.
    return Within(value, max(variance, (value * typical / n) * 1e-3), typical / n, n)


def _most_variance(count: IntArray) -> FloatArray:
    """Return the largest variance per question of mixed outcome [n], for an upper limit of rare events.

    v / P(mixed in m) over theta: 1/m where mixed answers are rare, 1/4 over 1 - 2^(1-m) at an even chance.
    """
    m = count.astype(np.float64)
    return np.maximum(1 / m, 0.25 / (1 - 2 ** (1 - m)))


def _law_square(repeats: Repeats, value: float) -> float:
    """Return E[(theta (1 - theta))^2] under the beta law of the repeats' mean and correlation."""
    p, c = float(repeats.mean.mean()), icc(repeats)
    if not 0 < p < 1 or not 0 < c < 1:
        return value**2
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    s = a + b
    return a * (a + 1) * b * (b + 1) / (s * (s + 1) * (s + 2) * (s + 3))


@frozen
class Components:
    """Variance components of one answer: between clusters (0 without any), between questions, within."""

    clusters: float
    questions: float
    repeats: float


def components(repeats: Repeats) -> Components | None:
    """Return the moment estimates of the variance components; None where no question has two repeats.

    Between questions: the variance of question means less that of their repeats. Between clusters: the mean
    product of the deviations of two questions of one cluster. Each question counts alike; none is below 0.
    """
    inside = within_variance(repeats)
    if inside is None or repeats.n < 2:
        return None
    between = _variance_between(repeats)
    shared = 0.0
    if repeats.clusters is not None and repeats.units > 1:
        apart = repeats.mean - repeats.mean.mean()
        sums = np.bincount(repeats.ids, apart)
        sizes = np.bincount(repeats.ids)
        pairs = float(np.sum(sizes * (sizes - 1)))
        # The mean is that of these very questions: products of deviations from it are low by its own
        # variance.
        product = (float(sums @ sums) - float(apart @ apart)) / pairs if pairs else 0.0
        shared = min(max(product + clustered_variance(repeats.mean, repeats.ids), 0.0), max(between, 0.0))
    return Components(shared, max(between - shared, 0.0), inside.value)


def _variance_between(repeats: Repeats) -> float:
    """Return the variance between the questions' true means; its unbiased estimate may be negative."""
    inside = within_value(repeats) or 0.0
    return float(repeats.mean.var(ddof=1)) - inside * float(np.mean(1 / repeats.count))


def icc(repeats: Repeats) -> float:
    """Return the intraclass correlation of two answers to a question; NaN without variance or repeats.

    Exactly the one-way ANOVA ICC(1) where every question has as many repeats.
    """
    inside = within_value(repeats)
    if inside is None or repeats.n < 2:
        return math.nan
    between = _variance_between(repeats)
    total = between + inside
    return between / total if total > 0 else math.nan


def within_value(repeats: Repeats) -> float | None:
    """Return the within-question variance of one answer; None where no question has two repeats."""
    return float(repeats.variances.mean()) if np.any(repeats.several) else None


def own_variances(repeats: Repeats) -> FloatArray:
    """Return each question's variance of one answer [n]; the others' mean for a question asked once."""
    own = np.full(repeats.n, within_value(repeats) or 0.0)
    own[repeats.several] = repeats.variances
    return own


def icc_interval(repeats: Repeats) -> Interval | None:
    """Return the intraclass correlation with its interval; None where no question has two repeats.

    Of scores of 0 and 1, equally many each: ``intervals.interval_c``. Otherwise a t interval on Fisher's
    scale half log((1 + (m - 1) c) / (1 - c)), m the harmonic mean of repeats, from influence values summed by
    cluster.
    """
    c = icc(repeats)
    if not np.any(repeats.several) or repeats.n < 2:
        return None
    if repeats.binary and repeats.k == int(repeats.count.max()):
        columns = np.arange(repeats.k) < repeats.right[:, None]
        return interval_c(Votes.from_correct(columns, repeats.clusters)).interval
    method = "delta, Fisher scale"
    if math.isnan(c) or repeats.units < 2:
        return Interval(c, None, None, method)
    some = repeats.several
    own = own_variances(repeats)
    square = (repeats.mean - repeats.mean.mean()) ** 2 - own / repeats.count
    m = 1 / float(np.mean(1 / repeats.count[some]))
    total = _variance_between(repeats) + float(own.mean())
    se = math.sqrt(clustered_variance(((1 - c) * square - c * own) / total, repeats.ids))
    # Inside the range of an intraclass correlation, whose ends have no variance.
    bounded = min(max(c, -0.99 / max(m - 1, 1e-9)), 1 - 1e-9)
    z = 0.5 * math.log((1 + (m - 1) * bounded) / (1 - bounded))
    slope = m / (2 * (1 - bounded) * (1 + (m - 1) * bounded))
    reach = float(stdtrit(repeats.units - 1, 0.975)) * se * slope
    lo, hi = ((math.exp(2 * x) - 1) / (math.exp(2 * x) + m - 1) for x in (z - reach, z + reach))
    return Interval(c, min(lo, c), max(hi, c), method)


def run_to_run(repeats: Repeats) -> Interval | None:
    """Return the standard deviation of the mean score of one run on these very questions.

    sqrt(mean v / n), which is sqrt(p(1-p)(1-c)/n) for right and wrong. Gamma interval over other repeats of
    the same questions. No score between 0 and 1 has a variance above 1/4 (Popoviciu 1935), though its
    unbiased estimate may. None where no question has two repeats.
    """
    inside = within_variance(repeats)
    if inside is None:
        return None
    value, lo, hi = (math.sqrt(min(x, 0.25) / repeats.n) for x in (inside.value, *inside.limits()))
    return Interval(value, lo, hi, "gamma, given these questions")


def quantiles() -> float:
    """Return z(.975) + z(.80) = 2.80: standard errors of a difference found with 80% power at 5%."""
    # Two-sided at 5%, with a power of 80%: the textbook's sum of two quantiles.
    return float(ndtri(0.975) + ndtri(0.8))
