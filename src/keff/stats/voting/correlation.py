"""Correlation of path correctness, the bias of Eq. 3, and agreement of answers, of right ones apart."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from keff.records import Estimate, Note, frozen
from keff.stats.resampling import group_sums
from keff.stats.votes import FloatArray, IntArray, Votes, as_hist
from keff.stats.voting.alike import answer_runs, mean_of_items, one_of_each, pooled_counts, vote_patterns


def second_order_c(hist: ArrayLike) -> FloatArray:
    """Return c of Eq. 3 minus its leading bias [...], estimated by sample variances (nonparametric).

    ``hist`` are count histograms N_0..N_K [..., K+1]; questions count as independent. The bias is half the
    second derivatives of c in the means of S/K and of S(S-1)/(K(K-1)) times their covariances; what is left
    is of order 1/n^2. Towards p = 0 or 1 its standard deviation is a few percent larger than that of
    ``anova_c``, which takes out the bias at even odds only. NaN when all paths are right or all wrong.
    """
    weights = np.asarray(hist, np.float64)
    k = weights.shape[-1] - 1
    s = np.arange(k + 1, dtype=np.float64)
    u, w, n = s / k, s * (s - 1) / (k * (k - 1)), weights.sum(axis=-1)
    p, joint = weights @ u / n, weights @ w / n
    variance = (weights @ (u * u) / n - p * p) * n / (n - 1)
    covariance = (weights @ (u * w) / n - p * joint) * n / (n - 1)
    c, scale, tilt = pooled_from_hist(weights), p * (1 - p), 1 - 2 * p
    with np.errstate(divide="ignore", invalid="ignore"):
        twice = (2 * c * tilt**2 + 4 * p * tilt - 2 * (1 - c) * scale) / scale**2
        return c - (twice * variance / 2 - tilt / scale**2 * covariance) / n


def pooled_c(source: Votes | ArrayLike) -> float:
    """Return the correctness correlation c of the paper's Eq. 3, averaged over all pairs of paths.

    ``source`` is votes, or the count histogram N_0..N_K [K+1] alone: with S_i correct of K paths,
    c = (K Var(S/K) / (p(1-p)) - 1) / (K-1), the variance with divisor n (the Fleiss-Cuzick intraclass
    correlation). Biased downwards by about (1-c)(1+(K-1)c)/(nK); ``anova_c`` corrects that. NaN when all
    paths are right or all wrong. Raises ValueError for one path or one item.
    """
    return float(pooled_from_hist(_check_counts(source)))


def anova_c(source: Votes | ArrayLike) -> float:
    """Return the bias-corrected correctness correlation: exactly the one-way ANOVA ICC(1).

    ``source`` as for ``pooled_c``. c_adj = (nKc + 1 - c) / (nK - (1-c)(K-1)) with the pooled c, which
    removes the bias of the squared mean in numerator and denominator. The default estimate of c. NaN when
    all paths are right or all wrong. Raises ValueError for one path or one item.
    """
    hist = _check_counts(source)
    return float(unbias(pooled_from_hist(hist), hist.sum(), hist.size - 1))


def pooled_from_hist(hist: NDArray[Any]) -> FloatArray:
    """Return the pooled c [...] of histograms [..., K+1]; NaN where degenerate. For resampling."""
    weights = np.asarray(hist, np.float64)
    k = weights.shape[-1] - 1
    s = np.arange(k + 1, dtype=np.float64)
    n = weights.sum(axis=-1)
    first, second = weights @ s, weights @ (s * s)
    return pooled_from_sums(n, first, second, k)


def pooled_from_sums(n: ArrayLike, first: ArrayLike, second: ArrayLike, k: int) -> FloatArray:
    """Return the pooled c from the number of items, the sum of S and the sum of S^2 (arrays alike)."""
    n, first, second = np.asarray(n, float), np.asarray(first, float), np.asarray(second, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = k * (n * second - first * first) / (first * (n * k - first))
        return np.where((first <= 0) | (first >= n * k), np.nan, (ratio - 1.0) / (k - 1.0))


def unbias(c: ArrayLike, n: ArrayLike, k: int) -> FloatArray:
    """Return the bias-corrected c_adj of a pooled c, from n (effective) independent items of k paths."""
    c, n = np.asarray(c, float), np.asarray(n, float)
    return (n * k * c + 1.0 - c) / (n * k - (1.0 - c) * (k - 1.0))


# So many items go into a product at once, so that memory does not grow with the record.
CORRELATED_ROWS = 2**16


@lru_cache(maxsize=2)
def correlation_matrix(votes: Votes) -> FloatArray:
    """Return the Pearson correlations [K, K] of path columns over items, read-only; NaN for constant ones."""
    n, sums, both = votes.n, np.zeros(votes.k), np.zeros((votes.k, votes.k))
    # Single precision holds the counts of so many items exactly.
    for start in range(0, n, CORRELATED_ROWS):
        scores = votes.scored()[start : start + CORRELATED_ROWS].astype(np.float32)
        sums += scores.sum(axis=0, dtype=np.float64)
        both += scores.T @ scores
    spread = n * sums - sums * sums
    scale = np.where(spread > 0, np.sqrt(spread), np.nan)
    found = (n * both - np.outer(sums, sums)) / np.outer(scale, scale)
    found.setflags(write=False)
    return found


def pearson_c(votes: Votes) -> tuple[float, int]:
    """Return the mean pairwise Pearson correlation of path columns, and how many pairs were dropped.

    A pair with a constant column is undefined and dropped; when all are, the value is NaN. For template
    slots, and for parity with the paper's tables; for exchangeable paths use ``anova_c``. Raises ValueError
    for one path or one item.
    """
    _at_least_two(votes.n, votes.k)
    values = correlation_matrix(votes)[np.triu_indices(votes.k, 1)]
    kept = values[~np.isnan(values)]
    return (float(kept.mean()) if kept.size else math.nan), int(values.size - kept.size)


def correctness_agreement(source: Votes | ArrayLike) -> float:
    """Return the share of path pairs that are both right or both wrong (the paper's Agree, Table 1)."""
    hist = as_hist(source)
    k = hist.size - 1
    if k < 2:
        raise ValueError("agreement needs at least two paths")
    s = np.arange(k + 1)
    same = s * (s - 1) + (k - s) * (k - s - 1)
    return float(hist @ same / (hist.sum() * k * (k - 1)))


def agreement(votes: Votes) -> float:
    """Return the mean pairwise agreement of answers, a label-free number; see ``agreement_patterns``."""
    return float(mean_of_items(agreement_patterns(votes), votes))


@lru_cache(maxsize=1)
def agreement_patterns(votes: Votes) -> FloatArray:
    """Return the share of path pairs with the same answer, of each pattern [u]; needs no gold labels.

    Unbiased for any K. An abstention agrees with nothing. Read-only and kept. Raises ValueError for one path.
    """
    if votes.k < 2:
        raise ValueError("agreement needs at least two paths")
    agreements = 2 * equal_pairs(one_of_each(votes).answered()) / (votes.k * (votes.k - 1))
    agreements.setflags(write=False)
    return agreements


def fleiss_kappa(votes: Votes) -> float:
    """Return Fleiss' kappa of the answers: agreement beyond chance, (A - E) / (1 - E).

    E is the sum of squared pooled answer shares, so the answer set must be closed (choice, binary): codes
    mean the same answer in every item. Abstentions agree with nothing and count among the paths. NaN where
    all paths gave the same answer, for then E is 1.
    """
    codes = votes.answered()
    shares = pooled_counts(codes) / codes.size
    chance = float(shares @ shares)
    return math.nan if math.isclose(chance, 1.0) else (agreement(votes) - chance) / (1 - chance)


def equal_pairs(codes: IntArray) -> FloatArray:
    """Return the pairs with equal non-negative codes in each row [n]."""
    item, length, _, voting = answer_runs(codes, None)
    pairs = np.where(voting, length * (length - 1) / 2, 0.0)
    return np.bincount(item, weights=pairs, minlength=len(codes)).astype(np.float64)


def _check_counts(source: Votes | ArrayLike) -> IntArray:
    hist = as_hist(source)
    _at_least_two(int(hist.sum()), hist.size - 1)
    return hist


def _at_least_two(n: int, k: int) -> None:
    if k < 2:
        raise ValueError("correlation needs at least two paths per item")
    if n < 2:
        raise ValueError("correlation needs at least two items")


# With fewer questions that have two right paths, r is not known.
LEAST_QUESTIONS = 20

# Below this r, right paths are split over several keys, and a model of one right key misleads.
MEETS = 0.8


@frozen
class Meeting:
    """Agreement r of right paths, with its interval, and a smoothed r (``centre``) with its standard error.

    ``pairs`` [u] are the pairs of right paths of a question of each pattern, ``same`` [u] those of them with
    one key, and ``counts`` [u] its questions.
    """

    r: Estimate
    centre: float
    error: float
    same: FloatArray
    pairs: FloatArray
    counts: IntArray

    @property
    def questions(self) -> int:
        """The number of questions with two right paths."""
        return int(self.counts[self.pairs > 0].sum())

    def chance_below(self, shift: ArrayLike = 0.0) -> FloatArray:
        """Return P(r < 0.8), also for a smoothed r raised by ``shift`` [...].

        1 without any pair of right paths: then nothing shows that right answers meet.
        """
        moved = np.asarray(shift, np.float64)
        if not self.questions:
            return np.ones_like(moved)
        return np.asarray(stdtr(self.questions, (MEETS - self.centre - moved) / self.error), np.float64)


@lru_cache(maxsize=2)
def right_answers_meet(votes: Votes, level: float = 0.95) -> Meeting:
    """Return r, the share of pairs of right paths with the same key, with an interval over questions.

    A ratio of sums over clusters. Its error is the jackknife's first order (linearised) one, after adding two
    imagined clusters of half the mean weight, one that meets and one that does not: without them a pilot
    whose right answers all meet would claim certainty. Student's t with (clusters - 1) degrees of freedom,
    cut at 0 and 1. Kept for the last votes asked for. The value is NaN, with the warning ``meeting_unknown``,
    below 20 questions with two right paths; ``chance_below`` is then still what the few pairs say. Raises
    ValueError without answers or gold labels.
    """
    same, pairs = right_pairs(votes)
    known, ids = vote_patterns(votes), votes.cluster_ids
    questions = int(known.counts[pairs > 0].sum())
    units, ratio, centre, error = questions, math.nan, math.nan, math.nan
    if votes.n_clusters == votes.n and questions:
        ratio, centre, error = _ratio(same, pairs, known.counts)
    elif questions:
        units = int(np.count_nonzero(np.bincount(ids[(pairs > 0)[known.back]])))
        both = group_sums(np.column_stack([same, pairs])[known.back], ids, votes.n_clusters)
        ratio, centre, error = _ratio(both[:, 0], both[:, 1], np.ones(len(both), np.int64))
    if questions < LEAST_QUESTIONS:
        r = _unknown(votes, questions)
    else:
        half = float(stdtrit(units, (1 + level) / 2)) * error
        lo, hi = max(min(centre - half, ratio), 0.0), min(max(centre + half, ratio), 1.0)
        notes = (_SPLIT,) if ratio < MEETS else ()
        r = Estimate(ratio, lo, hi, "cluster jackknife", units, votes.k, notes)
    return Meeting(r, centre, error, same, pairs, known.counts)


_SPLIT = Note(
    "right_answers_differ",
    "Right paths of a question often give different answers, so they do not add up in a vote. Check how keff "
    "compares answers (keff read), or compare them by what they do before voting.",
)


def _unknown(votes: Votes, questions: int) -> Estimate:
    few = f"Too few questions with two right paths ({questions} of {LEAST_QUESTIONS})"
    note = Note("meeting_unknown", f"{few} to check that keff recognises equal answers as equal.")
    return Estimate(math.nan, None, None, "cluster jackknife", questions, votes.k, (note,))


def right_pairs(votes: Votes) -> tuple[FloatArray, FloatArray]:
    """Return the number of right pairs with the same key, and of all right pairs, of each pattern [u]."""
    some = one_of_each(votes)
    codes = np.where(some.scored() > 0, some.answered(), -1)
    right = np.sum(codes >= 0, axis=1).astype(np.float64)
    return equal_pairs(codes), right * (right - 1) / 2


def ratio_by_weights(weights: FloatArray, meeting: Meeting) -> FloatArray:
    """Return the smoothed r of resamples, given as pattern weights [B, u]."""
    known = np.where(meeting.pairs > 0, meeting.counts, 0)
    extra = float(known @ meeting.pairs / known.sum()) if known.any() else 1.0
    return (weights @ meeting.same + extra / 2) / (weights @ meeting.pairs + extra)


def _ratio(same: FloatArray, pairs: FloatArray, counts: IntArray) -> tuple[float, float, float]:
    """Return r, the smoothed r and its standard error over clusters, for ``counts`` of each pattern."""
    top, bottom, times = same[pairs > 0], pairs[pairs > 0], counts[pairs > 0]
    half = float(times @ bottom / times.sum()) / 2
    ratio = float(times @ top / (times @ bottom))
    top, bottom = np.append(top, [half, 0.0]), np.append(bottom, [half, half])
    times = np.append(times, [1, 1])
    total = float(times @ bottom)
    centre = float(times @ top) / total
    count = int(times.sum())
    residual = top - centre * bottom
    error = float(np.sqrt(count / (count - 1) * (times @ residual**2)) / total)
    return ratio, centre, error
