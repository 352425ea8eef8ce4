"""Whether right answers meet: how often two right paths of a question hold the same answer key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from keff.records import Estimate, Note
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

    ``pairs`` [n] are the pairs of right paths of each question, ``same`` [n] those of them with one key.
    """

    r: Estimate
    centre: float
    error: float
    same: FloatArray
    pairs: FloatArray

    @property
    def questions(self) -> int:
        """The number of questions with two right paths."""
        return int(np.sum(self.pairs > 0))

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
    questions = int(np.sum(pairs > 0))
    if not questions:
        return Meeting(_unknown(votes, questions), math.nan, math.nan, same, pairs)
    units = int(np.count_nonzero(np.bincount(votes.cluster_ids[pairs > 0])))
    ratio, centre, error = _ratio(same, pairs, votes.cluster_ids)
    if questions < LEAST_QUESTIONS:
        return Meeting(_unknown(votes, questions), centre, error, same, pairs)
    half = float(stdtrit(units, (1 + level) / 2)) * error
    lo, hi = max(min(centre - half, ratio), 0.0), min(max(centre + half, ratio), 1.0)
    notes = (_SPLIT,) if ratio < MEETS else ()
    r = Estimate(ratio, lo, hi, "cluster jackknife", units, votes.k, notes)
    return Meeting(r, centre, error, same, pairs)


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
    """Return the pairs of right paths with one key, and all pairs of right paths, of each question [n]."""
    some, back = one_of_each(votes), alike(votes).back
    codes = np.where(some.scored() > 0, some.answered(), -1)
    right = np.sum(codes >= 0, axis=1).astype(np.float64)
    return equal_pairs(codes)[back], (right * (right - 1) / 2)[back]


def ratio_by_weights(weights: FloatArray, meeting: Meeting, first: IntArray) -> FloatArray:
    """Return the smoothed r of resamples: ``weights`` [B, u] of patterns, ``first`` [u] an item of each."""
    same, pairs = meeting.same[first], meeting.pairs[first]
    extra = float(meeting.pairs[meeting.pairs > 0].mean()) if np.any(meeting.pairs > 0) else 1.0
    return (weights @ same + extra / 2) / (weights @ pairs + extra)


def _ratio(same: FloatArray, pairs: FloatArray, groups: IntArray) -> tuple[float, float, float]:
    """Return the ratio, the smoothed ratio and its standard error over clusters."""
    top, bottom = np.bincount(groups, same), np.bincount(groups, pairs)
    top, bottom = top[bottom > 0], bottom[bottom > 0]
    half = float(bottom.mean()) / 2
    ratio = float(top.sum() / bottom.sum())
    top, bottom = np.append(top, [half, 0.0]), np.append(bottom, [half, half])
    centre = float(top.sum() / bottom.sum())
    count = top.size
    residual = top - centre * bottom
    error = float(np.sqrt(count / (count - 1) * (residual @ residual)) / bottom.sum())
    return ratio, centre, error
