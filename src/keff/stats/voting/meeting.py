"""Whether right answers meet: how often two right paths of a question hold the same answer key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from keff.records import Estimate, Note
from keff.stats.inference.resampling import group_sums
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import alike, one_of_each
from keff.stats.voting.correlation import equal_pairs

# With fewer questions that have two right paths, r is not known.
LEAST_QUESTIONS = 20

# Below this r, right paths are split over several keys, and a model of one right key misleads.
MEETS = 0.8


@dataclass(frozen=True, slots=True)
class Meeting:
    """What pairs of right paths say: r with its interval, and a smoothed r (``centre``) with its error.

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
        """Return the chance that r is below 0.8, also when the smoothed r were larger by ``shift`` [...].

        1 without any pair of right paths: then nothing shows that right answers meet.
        """
        moved = np.asarray(shift, np.float64)
        if not self.questions:
            return np.ones_like(moved)
        return np.asarray(stdtr(self.questions, (MEETS - self.centre - moved) / self.error), np.float64)


@lru_cache(maxsize=2)
def right_answers_meet(votes: Votes, level: float = 0.95) -> Meeting:
    """Return r = pairs of right paths with one key / pairs of right paths, with an interval over questions.

    A ratio of sums over clusters. Its error is the jackknife's first order (linearised) one, after adding two
    imagined clusters of half the mean weight, one that meets and one that does not: without them a pilot
    whose right answers all meet would claim certainty. Student's t with (clusters - 1) degrees of freedom,
    cut at 0 and 1. Kept for the last votes asked for. The value is NaN, with the warning ``meeting_unknown``,
    below 20 questions with two right paths; ``chance_below`` is then still what the few pairs say. Raises
    ValueError without answers or gold labels.
    """
    same, pairs = right_pairs(votes)
    known, ids = alike(votes), votes.cluster_ids
    questions = int(known.counts[pairs > 0].sum())
    if not questions:
        return Meeting(_unknown(votes, questions), math.nan, math.nan, same, pairs, known.counts)
    if votes.n_clusters == votes.n:
        units = questions
        ratio, centre, error = _ratio(same, pairs, known.counts)
    else:
        units = int(np.count_nonzero(np.bincount(ids[(pairs > 0)[known.back]])))
        both = group_sums(np.column_stack([same, pairs])[known.back], ids, votes.n_clusters)
        top, bottom = both[:, 0], both[:, 1]
        ratio, centre, error = _ratio(top, bottom, np.ones(top.size, np.int64))
    if questions < LEAST_QUESTIONS:
        return Meeting(_unknown(votes, questions), centre, error, same, pairs, known.counts)
    half = float(stdtrit(units, (1 + level) / 2)) * error
    lo, hi = max(min(centre - half, ratio), 0.0), min(max(centre + half, ratio), 1.0)
    notes = (_SPLIT,) if ratio < MEETS else ()
    r = Estimate(ratio, lo, hi, "cluster jackknife", units, votes.k, notes)
    return Meeting(r, centre, error, same, pairs, known.counts)


_SPLIT = Note(
    "right_answers_differ",
    "Right paths of a question often hold different answers, so they do not add up in a vote: check how "
    "answers are compared, or judge answers by what they do before voting.",
)


def _unknown(votes: Votes, questions: int) -> Estimate:
    text = f"Only {questions} questions have two right paths, and {LEAST_QUESTIONS} are needed"
    note = Note("meeting_unknown", f"{text} to say whether right answers meet.")
    return Estimate(math.nan, None, None, "cluster jackknife", questions, votes.k, (note,))


def right_pairs(votes: Votes) -> tuple[FloatArray, FloatArray]:
    """Return the pairs of right paths with one key, and all pairs of right paths, of each pattern [u]."""
    some = one_of_each(votes)
    codes = np.where(some.scored() > 0, some.answered(), -1)
    right = np.sum(codes >= 0, axis=1).astype(np.float64)
    return equal_pairs(codes), right * (right - 1) / 2


def ratio_by_weights(weights: FloatArray, meeting: Meeting) -> FloatArray:
    """Return the smoothed r of resamples: ``weights`` [B, u] of patterns."""
    known = np.where(meeting.pairs > 0, meeting.counts, 0)
    extra = float(known @ meeting.pairs / known.sum()) if known.any() else 1.0
    return (weights @ meeting.same + extra / 2) / (weights @ meeting.pairs + extra)


def _ratio(same: FloatArray, pairs: FloatArray, counts: IntArray) -> tuple[float, float, float]:
    """Return the ratio, the smoothed ratio and its standard error over clusters, ``counts`` of each kind."""
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
