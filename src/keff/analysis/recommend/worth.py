"""What a share of the votes is worth in accuracy: from the labels of a pilot, shrunk to what records show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keff.analysis.recommend.prior import GENERIC, Belief, Prior
from keff.stats.alike import alike, one_of_each
from keff.stats.correlation import agreement_patterns
from keff.stats.mixture import vote_counts
from keff.stats.plurality import plurality_at_k_patterns
from keff.stats.resampling import grouped
from keff.stats.votes import FloatArray, IntArray, Votes


@dataclass(frozen=True)
class Labels:
    """What the labels of each question say [n].

    The accuracy of one path (``right``) and how often two paths agree, and the ``gain`` in accuracy from 1
    path to K - 1 with the ``rise`` in share as the path left out sees it.
    """

    right: FloatArray
    agreement: FloatArray
    gain: FloatArray
    rise: FloatArray

    @classmethod
    def of(cls, pilot: Votes) -> Labels | None:
        """Return None without labels, or with fewer than three paths."""
        if pilot.correct is None or pilot.k < 3:
            return None
        # All of it goes by pattern, of which a large pilot has few.
        some, curve = one_of_each(pilot), plurality_at_k_patterns(pilot)
        agreement, gain = agreement_patterns(pilot), curve[:, pilot.k - 2] - curve[:, 0]
        by_pattern = cls(some.scored().mean(axis=1), agreement, gain, left_out_share(some) - agreement)
        return by_pattern.take(alike(pilot).back)

    def take(self, items: IntArray) -> Labels:
        """Return the labels of some questions."""
        return Labels(self.right[items], self.agreement[items], self.gain[items], self.rise[items])


def fit_slope(labels: Labels | None, prior: Prior = GENERIC) -> Belief:
    """Return the slope from the pilot's labels, shrunk to that of recorded generations.

    Two things speak: how well votes are calibrated, and the gain in accuracy against the rise in share (both
    unbiased). Without labels votes are taken at face value: calibrated.
    """
    if labels is None or len(labels.right) < 2:
        return Belief(prior.slope.at(1.0), prior.slope.sd)
    calibration = fit_calibration(labels, prior)
    expected = prior.slope.at(calibration.value)
    sd = float(np.hypot(prior.slope.sd, prior.slope.gradient * calibration.sd))
    rise = max(float(labels.rise.mean()), 1e-6)
    error = _mean_error(labels.gain - expected * labels.rise) / rise
    return _join(Belief(float(labels.gain.mean()) / rise, error), Belief(expected, sd))


def fit_calibration(labels: Labels, prior: Prior = GENERIC) -> Belief:
    """Return p over the agreement of two paths, shrunk to that of recorded generations."""
    level = max(float(labels.agreement.mean()), 1e-6)
    ratio = float(labels.right.mean()) / level
    return _join(
        Belief(ratio, _mean_error(labels.right - ratio * labels.agreement) / level), prior.calibration
    )


def _mean_error(values: FloatArray) -> float:
    """Return the standard error of a mean [n]; a pilot without any spread does not claim certainty."""
    return float(np.sqrt((np.var(values, ddof=1) + 1e-6) / len(values)))


def _join(first: Belief, second: Belief) -> Belief:
    """Return the mean of two beliefs by their precision."""
    precisions = np.array([first.sd, second.sd]) ** -2.0
    value = float(precisions @ [first.value, second.value] / precisions.sum())
    return Belief(value, float(precisions.sum() ** -0.5))


def left_out_share(pilot: Votes) -> FloatArray:
    """Return how often the plurality of all paths but one has the answer of that one [n], ties split.

    Leaving out a vote for the leader keeps it ahead unless its lead is one vote; no other vote agrees.
    """
    counts = np.sort(vote_counts(pilot)[0], axis=1)[:, ::-1]
    top, rest = counts[:, 0], counts[:, 1:]
    second = rest.max(axis=1, initial=0)
    tied = (rest == second[:, None]).sum(axis=1)
    lead = top - second
    wins = np.where(lead > 1, 1.0, np.where((lead == 1) & (second > 0), 1 / (1 + tied), 0.0))
    return np.asarray(wins * top / pilot.k, np.float64)


def measured(right: FloatArray, clusters: IntArray) -> Belief:
    """Return the mean of an accuracy by question [n] with its standard error over clusters [n]."""
    ids, sizes = grouped(clusters)
    sums = np.bincount(ids, right - right.mean())
    # Two imagined clusters, one right and one wrong, keep a perfect pilot from claiming certainty.
    spread = (np.square(sums).sum() + 0.5 * np.square(sizes.mean())) / np.square(sizes.mean())
    groups = len(sizes)
    return Belief(float(right.mean()), float(np.sqrt(spread / (groups * max(groups - 1, 1)))))
