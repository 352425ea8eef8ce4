"""Calibration of a confidence on labelled votes: its AUC within questions, and P(right) by level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri, stdtrit

from keff.records import Interval
from keff.stats.resampling import FOLDS, cluster_folds
from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes
from keff.stats.voting.calibration import GRAIN, LIGHTEST, Calibration, uninformative
from keff.stats.voting.correlation import anova_c

# Places at which a calibration is written down: what lies between neighbours is a straight line.
KNOTS = 33

# Prior standard deviation of a slope: log odds of being right for one logit of the rank. A score that ranks
# nine of ten pairs right has a slope of about 2.
SLOPE_SD = 2.0

# Least and largest evidence of an ordinary vote, in nats: where paths of a question repeat each other, the
# formula for independent ones leaves this range, and weights would follow confidence alone, or not at all.
ORDINARY = (1.0, 4.0)

# Pairs of a question at most, or hardly more: further ones repeat what these say.
PAIRS = 64

# Logits of ranks are read to a 64th, a hundredth of their spread: equal ones are one row of a regression.
PLACES = 64

# Newton steps at most.
STEPS = 30


def within_auc(votes: Votes, confidences: FloatArray) -> Interval:
    """Return the within-question AUC of a confidence: P(right path above wrong path of the same question).

    Over all such pairs, ties one half; paths without an answer or a finite confidence are in none. 95%
    cluster-robust t limits of the ratio, None where fewer than two clusters hold such a pair. NaN without
    pairs. Raises ValueError without labels.
    """
    right, wrong = _right_and_wrong(votes, confidences)
    rights = right.sum(axis=1)
    pairs = np.asarray(rights * wrong.sum(axis=1), np.float64)
    # Mann and Whitney's U of each question: paths that are in no pair rank above all others.
    values, place = np.unique(np.where(right | wrong, confidences, np.inf), return_inverse=True)
    row: IntArray = np.arange(votes.n, dtype=np.int64)[:, None]
    mine = place.reshape(right.shape) + row * values.size
    ordered: IntArray = np.sort(mine, axis=1).ravel()
    twice = np.searchsorted(ordered, mine) + np.searchsorted(ordered, mine, "right") + 1 - 2 * row * votes.k
    higher: FloatArray = (np.where(right, twice, 0).sum(axis=1) - rights * (rights + 1)) / 2
    method = "pairs within questions, cluster_t"
    total = float(pairs.sum())
    if total == 0:
        return Interval(float("nan"), None, None, method)
    value = float(higher.sum()) / total
    ids = votes.cluster_ids
    held = np.bincount(ids, pairs) > 0
    units = int(held.sum())
    if units < 2:
        return Interval(value, None, None, method)
    apart = np.bincount(ids, higher - value * pairs)[held]
    half = float(stdtrit(units - 1, 0.975) * np.sqrt(apart @ apart * units / (units - 1)) / total)
    # One imagined pair that is ordered wrongly keeps a perfect order of few pairs from certainty.
    half = max(half, 1 / (units + 1) if value in (0.0, 1.0) else 0.0)
    return Interval(value, max(value - half, 0.0), min(value + half, 1.0), method)


def informs(auc: Interval, several: int = 1) -> bool:
    """Return whether the interval of an AUC excludes one half.

    Of ``several`` confidences each has to be surer (Bonferroni), so that noise passes in 5% of records
    however many there are. The limits are read as normal ones.
    """
    if auc.limits is None:
        return False
    half = max(auc.limits[1] - auc.value, auc.value - auc.limits[0])
    # Bonferroni: of several confidences the best one looks better than it is.
    return abs(auc.value - 0.5) > half * float(ndtri(1 - 0.025 / several)) / float(ndtri(0.975))


def calibrate(votes: Votes, confidences: FloatArray) -> Calibration:
    """Return the calibration of a confidence [n, K] on labelled votes.

    Logistic in the logit of the confidence's rank among all paths, so that any monotone number will do: the
    chance from all paths (each worth less, the more alike those of a question are), the weight from pairs
    of a right and a wrong path of one question, in which what questions differ in cancels (conditional
    logistic). Slopes have a normal prior around 0, which is the base rate. An ordinary vote is worth
    logit(base) - log(q), q the chance that two wrong paths agree. Where the interval of ``within_auc`` holds
    one half, it is flat; where it is below, the sign is turned.
    """
    right, wrong = _right_and_wrong(votes, confidences)
    base = (float(right.sum()) + 1) / (float(right.sum() + wrong.sum()) + 2)
    auc = within_auc(votes, confidences)
    if not informs(auc):
        return uninformative(base)
    sign = 1 if auc.value > 0.5 else -1
    known = right | wrong
    given: FloatArray = sign * np.nan_to_num(confidences)
    values, ranks = _ranks(given[known])
    if values.size < 2:
        return uninformative(base)
    z = np.zeros(given.shape)
    z[known] = np.round(logit(np.interp(given[known], values, ranks)) * PLACES) / PLACES
    level, slope = _chances(votes, right, known, z)
    pairs, weight = _pairs(right, wrong, z)
    within = max(_logistic(pairs, np.ones(pairs.size), weight, level=False)[1], 0.0)
    ordinary = float(np.clip(logit(base) - np.log(_wrong_agree(votes, wrong)), *ORDINARY))
    shares: FloatArray = np.linspace(float(ranks[0]), float(ranks[-1]), KNOTS)
    at = values[np.unique(np.searchsorted(ranks, shares).clip(max=values.size - 1))]
    knots: FloatArray = logit(np.interp(at, values, ranks))
    rare = 0.5 / (votes.n_clusters + 1)  # so many questions show no rarer error
    most = -float(logit(rare))
    chances: FloatArray = np.clip(expit(level + slope * knots), rare, 1 - rare)
    # Weights differ by what tells paths of one question apart, and no more than errors can be rare.
    steps: FloatArray = np.clip(within * (knots - _base_rate_z(z[known], within, base)), -most, most)
    weights: FloatArray = np.round(np.maximum(1 + steps / ordinary, LIGHTEST) * GRAIN) / GRAIN
    order = slice(None, None, sign)
    return Calibration(
        tuple((sign * at)[order].tolist()),
        tuple(chances[order].tolist()),
        tuple(weights[order].tolist()),
        base,
        sign,
    )


def _ranks(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, rising, and their mean ranks as shares strictly between 0 and 1."""
    ordered: FloatArray = np.sort(values)
    starts = np.flatnonzero(np.append(True, np.diff(ordered) > 0))
    counts = np.diff(np.append(starts, ordered.size))
    return ordered[starts], (starts + counts / 2) / ordered.size


def _chances(votes: Votes, right: BoolArray, known: BoolArray, z: FloatArray) -> tuple[float, float]:
    """Return intercept and slope of the log odds of a right path in z, over the paths of all questions."""
    similar = float(np.clip(np.nan_to_num(anova_c(votes)), 0.0, 1.0)) if votes.k > 1 else 0.0
    # Paths of a question say less than as many of different ones.
    each = 1 / (1 + (float(known.sum(axis=1).mean()) - 1) * similar)
    level, slope = _logistic(z[known], right[known], np.full(int(known.sum()), each))
    return level, max(slope, 0.0)


def cross_fit(
    votes: Votes,
    confidences: FloatArray,
    rng: np.random.Generator,
    *,
    resampled: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Return cross-fitted chances and weights [n, K]: each question's from the other folds of clusters.

    ``resampled``: from a resample of the clusters, drawn with replacement.
    With fewer clusters than folds, as many folds as clusters; with one nothing is known of any path.
    """
    folds = min(FOLDS, votes.n_clusters)
    if folds < 2:
        nothing = uninformative(0.5)
        return nothing.chance(confidences), nothing.weight(confidences)
    fold, groups, times = cluster_folds(votes, folds, rng), votes.n_clusters, None
    if resampled:
        # One resample for all folds: apart, their errors would cancel in a mean over questions.
        times = np.bincount(rng.integers(groups, size=groups), minlength=groups)
    chances, weights = np.empty(confidences.shape), np.empty(confidences.shape)
    for part in range(folds):
        held = fold == part
        rows = np.flatnonzero(~held)
        if times is not None:
            rows = np.repeat(rows, times[votes.cluster_ids[rows]])
        found = calibrate(votes.take(rows), confidences[rows])
        chances[held], weights[held] = found.chance(confidences[held]), found.weight(confidences[held])
    return chances, weights


def _right_and_wrong(votes: Votes, confidences: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return masks of the right and of the wrong paths [n, K] among those that vote and are rated."""
    rated = np.isfinite(confidences)
    if votes.answers is not None:
        rated = rated & (votes.answers >= 0)
    right = votes.scored() == 1
    return rated & right, rated & ~right


def _pairs(right: BoolArray, wrong: BoolArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return z(right) - z(wrong) of every mixed pair within a question, and its weight.

    A question with r right and w wrong paths holds r w pairs, of which up to ``PAIRS`` are looked at, and no
    more to learn than min(r, w) of them.
    """
    r, w = right.sum(axis=1), wrong.sum(axis=1)
    step = np.maximum(1, r * w // PAIRS)
    size = -(-r * w // step)
    row: IntArray = np.repeat(np.arange(r.size, dtype=np.int64), size)
    # The place of each pair among all of its question: one right path after the other.
    place = (np.arange(row.size) - _before(size)[row]) * step[row]
    high = z[right][_before(r)[row] + place // w[row]]
    low = z[wrong][_before(w)[row] + place % w[row]]
    return high - low, (np.minimum(r, w) / np.maximum(size, 1))[row]


def _before(counts: IntArray) -> IntArray:
    return np.cumsum(counts) - counts


def _logistic(
    z: FloatArray, y: NDArray[Any], weight: FloatArray, *, level: bool = True
) -> tuple[float, float]:
    """Return intercept (0 without one) and slope of a weighted logistic regression, by Newton's steps.

    The slope has a prior. Equal ``z`` are one row: the sums of their weights and of their ``y`` suffice.
    """
    values, weights, right = _sums(z, weight, weight * y)
    x = np.stack([np.full(values.size, float(level)), values], axis=1)
    # The level of a pilot that is all right is finite with half a path of each kind.
    prior = np.diag([1e-3, 1e-3 + 1 / SLOPE_SD**2])
    found = np.zeros(2)
    for _ in range(STEPS):
        p = expit(x @ found)
        bend = (x * (weights * p * (1 - p))[:, None]).T @ x + prior
        step = np.linalg.solve(bend, x.T @ (right - weights * p) - prior @ found)
        # Newton's first step can overshoot where all chances are near 0 or 1.
        found = found + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return float(found[0]), float(found[1])


def _sums(z: FloatArray, *each: FloatArray) -> tuple[FloatArray, ...]:
    """Return the distinct values of z, rounded to 1/PLACES, and the sums of columns over each."""
    steps = np.rint(z * PLACES).astype(np.int64)
    least = int(steps.min())
    sums = np.stack([np.bincount(steps - least, numbers) for numbers in each]).astype(np.float64)
    held = np.flatnonzero(sums[0])
    return (held + least) / PLACES, *sums[:, held]


def _base_rate_z(z: FloatArray, slope: float, base: float) -> float:
    """Return the z at which P(right) is the base rate, by the slope within questions."""
    if slope <= 0:
        return 0.0
    even, (values, counts) = float(logit(base)), _sums(z, np.ones(z.size))
    # All chances are below the base rate at one of these levels, and above it at the other.
    low, high = even - slope * float(values.max()), even - slope * float(values.min())
    # Halved until doubles end: scipy.optimize takes longer to import.
    while low < (level := (low + high) / 2) < high:
        below = counts @ (expit(level + slope * values) - base) < 0
        low, high = (level, high) if below else (low, level)
    return (even - level) / slope


def _wrong_agree(votes: Votes, wrong: BoolArray) -> float:
    """Return P(two wrong paths of a question agree), with one pseudo-pair of each kind."""
    if votes.answers is None:
        return 0.5
    names = np.nonzero(wrong)[0] * (1 + int(votes.answers.max())) + votes.answers[wrong]
    alike, size = np.unique(names, return_counts=True)[1], wrong.sum(axis=1)
    return (int(alike @ (alike - 1)) + 1) / (int(size @ (size - 1)) + 2)
