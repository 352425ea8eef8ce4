"""Predicted plurality beyond the pilot: by the answer model, by a line in 1/K, or by an abstention floor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from keff.records import Interval, frozen
from keff.stats.intervals import wilson
from keff.stats.models.answer_model import AnswerModel
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import resampled_counts, vote_patterns
from keff.stats.voting.correlation import ratio_by_weights, right_answers_meet
from keff.stats.voting.plurality import plurality_at_k_patterns

# Standard deviation of what the answer model errs in plurality@k beyond sampling, for each unit of 1/K0 -
# 1/k, and that of the line in 1/k, on workloads whose right answers do not meet (two families: rough).
# Learned by ``benchmarks.constants.learn_gain`` from 61 recorded workloads of 17 families by data set, each
# counting alike; .058 to .074 and .24 to .73 where any one family is left out.
MODEL_SD = 0.0702
LINE_SD = 0.235

# Rounds of EM from a flat start: stopping early is what smooths a law of any shape.
ROUNDS = 100


def free_gains(model: AnswerModel, k: int, weights: FloatArray) -> FloatArray:
    """Return the mean gain [B] from K0 to ``k`` paths under the nonparametric law of (theta, g).

    The weights are of the patterns of the model's items. The ``AnswerModel`` takes the chance of a right path
    to follow a beta law, and wrong answers to scatter alike at every chance. Here the law over the whole grid
    is fitted to the votes alone, anew to each row of weights. It is far noisier; that is what it is for. A
    workload whose curve turns after the pilot (easy questions that soon gain, and others that lose slowly) is
    not of the beta's kind, and the few votes that show it are not outvoted by a shape.
    """
    unique, step, count = model.flat, model.step(k), model.pool_weights(weights)
    share = count / count.sum(axis=1, keepdims=True)
    law = np.full((len(weights), unique.shape[1]), 1 / unique.shape[1])
    for _ in range(ROUNDS):
        law = law * ((share / (law @ unique.T)) @ unique)
    each = (law @ (unique * step).T) / (law @ unique.T)
    return np.asarray((each * share).sum(axis=1), np.float64)


# Quantiles of a fit that takes milliseconds each: enough for whole percents.
REPLICATES = 300
# Resamples to which the free law is fitted: enough for a standard error within a tenth.
FREE_REPLICATES = 60

# The line in 1/K goes through plurality at 3 to K0 paths: at 1 and 2 there is no vote to speak of.
FIRST_OF_LINE = 3

# From this weight on a forecast is named after the line.
LINE_RULES = 0.5


@frozen
class PluralityForecast:
    """Predicted plurality accuracy at ``k`` paths, and its ``gain`` over the pilot's K0 paths.

    ``gain_error`` is the standard error of the gain by sampling, ``between`` that of workloads on top of it.
    """

    k: int
    plurality: Interval
    gain: Interval
    gain_error: float
    between: float


def predict_plurality(votes: Votes, ks: Sequence[int], level: float = 0.95) -> tuple[PluralityForecast, ...]:
    """Predict plurality@k for each of ``ks`` from a pilot of n items x K0 paths, with intervals.

    Up to K0 the value is the exact average over subsets of paths. Beyond, a gain is added to plurality@K0:
    (1 - w) times that of the ``AnswerModel``, which takes right paths to share one answer, plus w times that
    of the least-squares line in 1/k through k = 3..K0, which does not; w is the chance that fewer than 0.8 of
    the pairs of right paths hold one answer (``right_answers_meet``). The sum is kept within 0 and the share
    of items of which any path answers.

    Intervals are for the items' population at ``level``: the standard error of the whole by cluster bootstrap
    (300 resamples, fixed seed), widened by what left-out workloads erred beyond it, a standard deviation
    proportional to 1/K0 - 1/k (``MODEL_SD``). Student's t for the gain, Wilson's form for the level.
    Deterministic. Needs two items with two paths each. Raises ValueError without answers or gold labels.
    """
    return Forecaster(votes, ks).forecasts(level)


class Forecaster:
    """Predicted plurality of one pilot, from the sample and its bootstrap resamples.

    Row 0 of ``weights`` [1 + B, u] counts the sample's patterns, the others those of resamples.
    """

    def __init__(self, votes: Votes, ks: Sequence[int]) -> None:
        self.votes, self.ks, self.units = votes, ks, votes.n_clusters
        self.weights = _weights(votes)
        self.curves = self.weights @ plurality_at_k_patterns(votes)
        self.curves /= self.weights.sum(axis=1, keepdims=True)
        self.beyond = [k for k in dict.fromkeys(ks) if k > votes.k]
        if self.beyond:
            meeting = right_answers_meet(votes)
            ratio = ratio_by_weights(self.weights, meeting)
            # The chance that right answers do not meet, of the sample and its resamples [1 + B].
            self.line_share = meeting.chance_below(ratio - ratio[0])
            self.model = AnswerModel(votes, max(self.beyond))
            self.modelled = self.model.gains(self.beyond, self.weights)
            self.slope = _slopes(self.curves)

    def forecasts(self, level: float) -> tuple[PluralityForecast, ...]:
        """Return the forecast at each of ``ks``."""
        return tuple(
            self._inside(k, level) if k <= self.votes.k else self._outside(k, level) for k in self.ks
        )

    def _inside(self, k: int, level: float) -> PluralityForecast:
        at = self.curves[:, k - 1]
        return self._forecast(k, at, at - self.curves[:, -1], "subsets", 0.0, level)

    def _outside(self, k: int, level: float) -> PluralityForecast:
        k0 = self.votes.k
        by_model = self.modelled[:, self.beyond.index(k)]
        by_line = self.slope * (1 / k - 1 / k0)
        now = self.curves[:, -1]
        gain = (1 - self.line_share) * by_model + self.line_share * by_line
        most = np.maximum(self.model.answering(k), now)
        level_at = np.clip(now + gain, 0.0, most)
        method = "line in 1/K" if self.line_share[0] > LINE_RULES else "answer_model"
        between = MODEL_SD + float(self.line_share[0]) * (LINE_SD - MODEL_SD)
        extra = float(np.hypot(between * (1 / k0 - 1 / k), self._least_error(k)))
        return self._forecast(k, level_at, level_at - now, method, extra, level)

    def _least_error(self, k: int) -> float:
        """Return a model-based standard error of the gain, for resamples that do not differ."""
        # Resamples that hardly differ would claim certainty: the model says then how far items spread.
        return self.model.spread(k) / max(self.units - 1, 1) ** 0.5 if self.modelled.std() < 1e-3 else 0.0

    def free_gain(self, k: int) -> tuple[float, float]:
        """Return the gain of ``k`` paths over one, and its standard error, without a parametric law.

        Beyond the pilot the free law (``free_gains``) stands in place of the model.
        """
        curves = self.curves[: 1 + FREE_REPLICATES]
        gain = curves[:, min(k, self.votes.k) - 1] - curves[:, 0]
        if k > self.votes.k:
            free = free_gains(self.model, k, self.weights[: 1 + FREE_REPLICATES])
            line = self.line_share[: 1 + FREE_REPLICATES]
            by_line = self.slope[: 1 + FREE_REPLICATES] * (1 / k - 1 / self.votes.k)
            gain = gain + (1 - line) * free + line * by_line
        return float(gain[0]), float(gain[1:].std())

    def _forecast(
        self, k: int, at: FloatArray, gains: FloatArray, method: str, between: float, level: float
    ) -> PluralityForecast:
        gain, error, now = float(gains[0]), float(gains[1:].std()), float(at[0])
        # No item may seem surer than by the binomial law of its share, whatever resamples say.
        variance = max(now * (1 - now) / self.units, float(at[1:].var())) + between**2
        half = float(stdtrit(max(self.units - 1, 1), (1 + level) / 2)) * float(np.hypot(error, between))
        return PluralityForecast(
            k,
            Interval(now, *wilson(now, variance, max(self.units, 2), level), method),
            Interval(gain, gain - half, gain + half, method),
            error,
            between,
        )


@lru_cache(maxsize=1)
def _weights(votes: Votes) -> FloatArray:
    """Return pattern weights of the sample and its bootstrap resamples [1 + B, u], kept for the last."""
    counts = vote_patterns(votes).counts
    weights = np.empty((1 + REPLICATES, counts.size))
    weights[0] = counts
    for row, drawn in zip(
        weights[1:], resampled_counts(votes, REPLICATES, np.random.default_rng(0)), strict=True
    ):
        row[:] = drawn
    weights.setflags(write=False)
    return weights


def _slopes(curves: FloatArray) -> FloatArray:
    """Return the least-squares slopes [B] of plurality curves [B, K0] against 1/k through k = 3..K0."""
    k0 = curves.shape[1]
    x: FloatArray = 1 / np.arange(min(FIRST_OF_LINE, k0 - 1), k0 + 1, dtype=np.float64)
    x_c = x - x.mean()
    return np.asarray(curves[:, -x.size :] @ x_c / (x_c @ x_c), np.float64)
