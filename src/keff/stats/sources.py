"""Scores whose paths come from sources (prompts, judges, branches): what each adds to the variance.

The model: score = mean + question + source + trial, the first three random and crossed, a trial being one
answer of one source to one question (its interaction and its luck). Cells may be missing or repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import binom, chdtri, stdtrit

from keff.records import Interval, frozen
from keff.stats.intervals import wilson
from keff.stats.repeats import Repeats, icc_interval
from keff.stats.resampling import clustered_variance
from keff.stats.votes import FloatArray, IntArray, Votes, cluster_numbers

# How the limits of a figure over sources are found, beside those over questions.
METHOD = "questions and sources, Satterthwaite"

# What is a smaller share of the whole variance is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SourceScores:
    """Scores on the scale 0 to 1 of N paths, each of one question and one source.

    ``question`` and ``source`` [N] are numbers from 0, ``score`` [N] what the path scored, ``names`` [S] the
    sources. ``clusters`` [n] are the independent units (None: the questions). ``random`` says that the
    sources are some of many; else they are all there are.
    """

    question: IntArray
    source: IntArray
    score: FloatArray
    names: tuple[str, ...]
    clusters: IntArray | None = None
    random: bool = True

    @classmethod
    def of_votes(
        cls, votes: Votes, names: tuple[str, ...] | None = None, *, random: bool = True
    ) -> SourceScores:
        """Return right paths as scores of the slots, else of the columns."""
        own = np.arange(votes.k) if votes.slots is None else np.unique(votes.slots, return_inverse=True)[1]
        return cls(
            np.repeat(np.arange(votes.n), votes.k),
            np.tile(own, votes.n),
            votes.scored().ravel().astype(np.float64),
            names or tuple(map(str, range(int(own.max()) + 1))),
            votes.clusters,
            random,
        )

    @property
    def n(self) -> int:
        """The number of questions."""
        return int(self.question.max()) + 1

    @property
    def size(self) -> int:
        """The number S of sources."""
        return len(self.names)

    @property
    def ids(self) -> IntArray:
        """The cluster of each question [n], numbered 0..G-1."""
        return cluster_numbers(self.clusters, self.n)

    @property
    def repeated(self) -> bool:
        """Whether a source answers some question more than once."""
        return np.unique(self.question * self.size + self.source).size < self.score.size

    @property
    def question_means(self) -> FloatArray:
        """The mean score of each question [n]."""
        count = np.bincount(self.question, minlength=self.n)
        return np.bincount(self.question, self.score, self.n) / count

    @property
    def means(self) -> FloatArray:
        """The mean score of each source [S] on the questions that it answered."""
        count = np.bincount(self.source, minlength=self.size)
        return np.bincount(self.source, self.score, self.size) / count

    @property
    def weights(self) -> FloatArray:
        """The weight of each source [S] in the mean of all question means; they sum to 1."""
        count = np.bincount(self.question, minlength=self.n)
        return np.bincount(self.source, 1 / count[self.question], self.size) / self.n

    def keep(self, chosen: FloatArray | IntArray) -> SourceScores:
        """Return the paths of some sources, a mask [S], and the questions that these answered."""
        rows = np.asarray(chosen, bool)[self.source]
        kept, question = np.unique(self.question[rows], return_inverse=True)
        number = np.cumsum(np.asarray(chosen, bool)) - 1
        return SourceScores(
            question.astype(np.int64),
            number[self.source[rows]],
            self.score[rows],
            tuple(name for name, taken in zip(self.names, chosen, strict=True) if taken),
            None if self.clusters is None else self.clusters[kept],
            self.random,
        )

    def take(self, rows: IntArray) -> SourceScores:
        """Return the paths of some questions, by index without repetition, numbered in their order."""
        number = np.full(self.n, -1, np.int64)
        number[rows] = np.arange(rows.size)
        kept = number[self.question] >= 0
        return replace(
            self,
            question=number[self.question[kept]],
            source=self.source[kept],
            score=self.score[kept],
            clusters=None if self.clusters is None else self.clusters[rows],
        )

    def repeats(self) -> Repeats:
        """Return the scores as repeats of their questions, whatever their sources."""
        return Repeats.of_paths(self.question, self.score, self.clusters)


@frozen
class SourceVariance:
    """Variances of one path's score: of questions, sources and trials, unbiased and so perhaps below 0.

    ``trials`` is that of one answer of one source: its ``interaction`` with the question and its luck. The
    two are told apart only where sources answer a question twice (None: not told apart).
    """

    questions: float
    sources: float
    trials: float
    interaction: float | None

    @property
    def luck(self) -> float:
        """The variance of one more answer of a source to a question; with its interaction where not told."""
        return max(self.trials - (self.interaction or 0.0), 0.0)

    def standard_error(
        self, questions: int, sources: int, trials: int = 1, *, same_questions: bool = False
    ) -> float:
        """Return the standard error of the mean score where every source answers every question.

        On new questions, or over other sources and trials on the same ones. More than one trial needs
        ``interaction``.
        """
        fixed = max(self.interaction or 0.0, 0.0)
        inside = max(self.sources, 0.0) / sources + (fixed + self.luck / trials) / (questions * sources)
        return math.sqrt(inside + (0.0 if same_questions else max(self.questions, 0.0) / questions))


def source_variance(scores: SourceScores) -> SourceVariance | None:
    """Return the variances of questions, sources and trials; None where the design cannot tell them apart.

    Each is a difference of mean squared differences of two paths: of other questions and other sources, of
    one source, of one question, of both (Koch 1968). Unbiased for any pattern of missing cells, and the
    usual mean squares where there are none. Two questions of one cluster do not count as other questions.
    """
    s = scores
    score: FloatArray = s.score - s.score.mean()
    ids: IntArray = s.ids[s.question]
    pairs = {
        "all": _pairs(np.zeros_like(ids), score),
        "cluster": _pairs(ids, score),
        "source": _pairs(s.source, score),
        "cluster and source": _pairs(ids * s.size + s.source, score),
        "question": _pairs(s.question, score),
        "cell": _pairs(s.question * s.size + s.source, score),
    }
    other = pairs["all"] - pairs["cluster"] - pairs["source"] + pairs["cluster and source"]
    same_source = pairs["source"] - pairs["cluster and source"]
    same_question = pairs["question"] - pairs["cell"]
    if min(other[1], same_source[1], same_question[1]) < 0.5:
        return None
    apart, one_source, one_question = (part[0] / part[1] for part in (other, same_source, same_question))
    luck = pairs["cell"][0] / pairs["cell"][1] if pairs["cell"][1] else None
    trials = one_source + one_question - apart

    def rounded(part: float) -> float:
        """Return a difference, 0 where it is rounding."""
        return float(part) if abs(part) > ROUNDING * apart else 0.0

    return SourceVariance(
        questions=rounded(apart - one_question),
        sources=rounded(apart - one_source),
        trials=rounded(trials),
        interaction=None if luck is None else rounded(trials - luck),
    )


def _pairs(group: IntArray, score: FloatArray) -> FloatArray:
    """Return half the sum of squared differences over ordered pairs of a group, and how many pairs [2]."""
    count = np.bincount(group).astype(np.float64)
    total, square = np.bincount(group, score), np.bincount(group, score**2)
    return np.array([count @ square - total @ total, count @ (count - 1)])


@frozen
class ScoreSpread:
    """The mean score over questions and sources, with the variance that each adds to it.

    ``of_questions`` and ``of_sources`` add up to the variance of ``value``; ``freedom`` are Satterthwaite's
    degrees of freedom of the sum.
    """

    value: float
    of_questions: float
    of_sources: float
    freedom: float

    @property
    def variance(self) -> float:
        """The variance of the mean over other questions and other sources."""
        return self.of_questions + self.of_sources


def score_spread(scores: SourceScores, variance: SourceVariance | None) -> ScoreSpread:
    """Return the mean of question means with its variance over questions and, if random, over sources.

    Over questions: the sandwich of question means, by cluster, which holds the trials too. Over sources:
    sigma_s^2 times the sum of squared weights; nothing where its estimate is below 0.
    """
    means, units = scores.question_means, int(scores.ids.max()) + 1
    value, of_questions = float(means.mean()), clustered_variance(means, scores.ids)
    if not scores.random or variance is None:
        return ScoreSpread(value, of_questions, 0.0, units - 1)
    square = float(np.sum(scores.weights**2))
    of_sources = max(variance.sources, 0.0) * square
    # The mean square of sources holds trials too, and its luck is that of the difference.
    seen = max(variance.sources + variance.trials / scores.n, 0.0) * square
    luck = of_questions**2 / max(units - 1, 1) + seen**2 / max(scores.size - 1, 1)
    freedom = (of_questions + of_sources) ** 2 / luck if luck > 0 else float(units - 1)
    return ScoreSpread(value, of_questions, of_sources, max(min(freedom, units + scores.size), 1.0))


def variance_left_out(figures: FloatArray) -> FloatArray:
    """Return the variance over sources of figures without each of them [S, ...], by the jackknife."""
    return np.asarray((len(figures) - 1) * figures.var(axis=0), np.float64)


def without_each(scores: SourceScores) -> list[SourceScores]:
    """Return the scores without each source in turn."""
    return [scores.keep(kept) for kept in np.eye(scores.size) == 0]


def mean_score(spread: ScoreSpread, units: int, level: float = 0.95) -> Interval:
    """Return the score for questions and sources like these, with Wilson's limits."""
    lo, hi = wilson(spread.value, spread.variance, units, level, spread.freedom)
    return Interval(spread.value, lo, hi, METHOD)


def _one_source(scores: SourceScores, variance: SourceVariance) -> float:
    """Return the variance of one source's score of all questions, once each, around the mean of sources."""
    return max(variance.sources + variance.trials / scores.n, 0.0)


def new_source(scores: SourceScores, variance: SourceVariance, level: float = 0.95) -> Interval:
    """Return the score that another source would give on these questions, with a t interval over sources.

    A prediction: the variance of one source's score and that of the mean of those at hand.
    """
    value = float(scores.question_means.mean())
    spread = _one_source(scores, variance) * (1 + float(np.sum(scores.weights**2)))
    half = float(stdtrit(scores.size - 1, (1 + level) / 2)) * math.sqrt(spread)
    return Interval(value, max(value - half, 0.0), min(value + half, 1.0), "t over sources")


def source_sd(scores: SourceScores, variance: SourceVariance, level: float = 0.95) -> Interval:
    """Return the standard deviation between sources' scores beyond the luck of trials.

    Chi-square limits of the variance of sources' scores, S - 1 degrees of freedom, less what trials add.
    """
    luck = max(variance.trials, 0.0) / scores.n
    lo, hi = _chi_square(scores, variance, level)
    ends = (math.sqrt(max(end - luck, 0.0)) for end in (lo, hi))
    value = math.sqrt(max(variance.sources, 0.0))
    low, high = ends
    return Interval(value, min(low, value), max(high, value), "chi-square over sources")


def run_of_one_source(scores: SourceScores, variance: SourceVariance, level: float = 0.95) -> Interval:
    """Return the standard deviation of the score of a run by one new source on these very questions."""
    lo, hi = _chi_square(scores, variance, level)
    value = math.sqrt(_one_source(scores, variance))
    return Interval(value, math.sqrt(lo), math.sqrt(hi), "chi-square over sources")


def _chi_square(scores: SourceScores, variance: SourceVariance, level: float) -> tuple[float, float]:
    free, seen = scores.size - 1, _one_source(scores, variance)
    low, high = (float(chdtri(free, tail)) for tail in ((1 - level) / 2, (1 + level) / 2))
    return free * seen / low, free * seen / high


def run_gap(scores: SourceScores, variance: SourceVariance, level: float = 0.95) -> float:
    """Return what the runs of two new sources differ by through chance alone in 1 - ``level`` of pairs."""
    t = float(stdtrit(scores.size - 1, (1 + level) / 2))
    return t * math.sqrt(2 * _one_source(scores, variance))


def all_right(scores: SourceScores, k: int, *, wrong: bool = False) -> FloatArray:
    """Return the chance [n] that answers of k different sources to a question are all right, or all wrong.

    The mean over subsets of k sources of the product of their mean scores: the elementary symmetric
    polynomial over C(S, k), unbiased. Needs scores of 0 and 1, and k sources for every question.
    """
    cell = scores.question * scores.size + scores.source
    count = np.bincount(cell, minlength=scores.n * scores.size).reshape(scores.n, scores.size)
    right = np.bincount(cell, scores.score, count.size).reshape(count.shape)
    share = np.where(count > 0, (count - right if wrong else right) / np.maximum(count, 1), 0.0)
    products = np.zeros((k + 1, scores.n))
    products[0] = 1.0
    for column in share.T:
        products[1:] += products[:-1] * column
    return np.asarray(products[k] / binom((count > 0).sum(1), k), np.float64)


def over_sources(scores: SourceScores, each: Callable[[SourceScores], FloatArray]) -> Interval:
    """Return the mean of a figure of each question, with limits over questions and sources.

    Over sources by the jackknife. It holds some of what the questions' own variance holds, so limits are
    rather too wide than too narrow.
    """
    values, units = each(scores), int(scores.ids.max()) + 1
    found: FloatArray = np.array([each(left).mean() for left in without_each(scores)])
    of_questions = clustered_variance(values, scores.ids)
    of_sources = float(variance_left_out(found))
    luck = of_questions**2 / max(units - 1, 1) + of_sources**2 / max(scores.size - 1, 1)
    freedom = (of_questions + of_sources) ** 2 / luck if luck > 0 else units - 1
    value = float(values.mean())
    lo, hi = wilson(value, of_questions + of_sources, units, freedom=freedom)
    return Interval(value, lo, hi, f"{METHOD}; jackknife")


def correlation(scores: SourceScores, variance: SourceVariance, level: float = 0.95) -> Interval:
    """Return the correlation of two sources' answers to a question: sigma_q^2 over the whole variance.

    Limits on Fisher's scale. Over questions those of repeats; over sources the jackknife, of which the
    product of two halves of the questions is taken: their luck is independent, so it is not counted twice.
    """
    value, too_few = _share_of_questions(variance), "too few sources"
    around, units = icc_interval(scores.repeats()), int(scores.ids.max()) + 1
    if around is None or around.limits is None or min(scores.size, units) < 3 or not -1 < value < 1:
        return Interval(value, None, None, too_few)
    halves = [scores.take(np.flatnonzero(scores.ids % 2 == side)) for side in (0, 1)]
    moved = [_moved_by_source(half) for half in halves]
    # Of each source, how far it moves z in one half times that in the other.
    of_sources = (scores.size - 1) * float(np.mean(moved[0] * moved[-1]))
    if not math.isfinite(of_sources):
        return Interval(value, None, None, too_few)
    lo, hi = (math.atanh(min(max(end, -0.999), 0.999)) for end in around.limits)
    of_questions = ((hi - lo) / 2 / float(stdtrit(units - 1, 0.975))) ** 2
    of_sources = max(of_sources, 0.0)
    whole = of_questions + of_sources
    luck = of_questions**2 / max(units - 1, 1) + of_sources**2 / (scores.size - 1)
    half = float(stdtrit(whole**2 / luck, (1 + level) / 2)) * math.sqrt(whole) if luck > 0 else 0.0
    middle = math.atanh(value)
    return Interval(value, math.tanh(middle - half), math.tanh(middle + half), METHOD)


def _moved_by_source(scores: SourceScores) -> FloatArray:
    """Return what Fisher's z of the correlation is without each source, less the mean [S]; NaN if unknown."""
    found = [source_variance(left) for left in without_each(scores)]
    z = np.arctanh([math.nan if each is None else _share_of_questions(each) for each in found])
    return np.asarray(z - z.mean(), np.float64)


def _share_of_questions(variance: SourceVariance) -> float:
    total = variance.questions + variance.sources + variance.trials
    return min(max(variance.questions / total, -0.999), 0.999) if total > 0 else math.nan


@frozen
class SourceLuck:
    """Variance of a difference of two scores that sources add, and that the luck of their trials does.

    ``freedom`` are the degrees of freedom of ``sources``.
    """

    sources: float
    trials: float
    freedom: float


def luck_of_difference(first: SourceScores | None, second: SourceScores | None) -> SourceLuck | None:
    """Return what sources add to a difference of scores on the same questions; None where neither has any.

    Where both sides have the same sources the differences are those of each source, so what a source adds to
    both cancels; else each side adds its own. Fixed sources add their trials alone. A side without sources
    adds nothing here.
    """
    sides = [side for side in (first, second) if side is not None]
    if not sides:
        return None
    if first is not None and second is not None and set(first.names) == set(second.names):
        sides = [_differences(first, second)]
    value = trials = freedom = 0.0
    for side in sides:
        found = source_variance(side)
        if found is None:
            continue
        trials += found.luck / side.score.size
        if side.random:
            trials += max(found.interaction or 0.0, 0.0) / (side.n * side.size)
            added = max(found.sources, 0.0) * float(np.sum(side.weights**2))
            value += added
            freedom += added**2 / max(side.size - 1, 1)
    return SourceLuck(value, trials, value**2 / freedom if freedom > 0 else math.inf)


def _differences(first: SourceScores, second: SourceScores) -> SourceScores:
    """Return second minus first of every cell that both have."""
    place = {name: number for number, name in enumerate(second.names)}
    own = np.array([place[name] for name in first.names], np.int64)[first.source]
    sizes = second.n * second.size
    cells = first.question * second.size + own, second.question * second.size + second.source
    counts = [np.bincount(cell, minlength=sizes) for cell in cells]
    sums = [np.bincount(cell, side.score, sizes) for cell, side in zip(cells, (first, second), strict=True)]
    both = np.flatnonzero(np.minimum(*counts) > 0)
    score: FloatArray = sums[1][both] / counts[1][both] - sums[0][both] / counts[0][both]
    questions, number = np.unique(both // second.size, return_inverse=True)
    return SourceScores(
        number.astype(np.int64),
        both % second.size,
        score,
        second.names,
        None if second.clusters is None else second.clusters[questions],
        first.random or second.random,
    )
