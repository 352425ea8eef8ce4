"""How far judges are right together and agree, where each judges some of the questions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keff.records import Interval
from keff.stats.influence import InfluenceSummary
from keff.stats.intervals import hybrid_wilson
from keff.stats.resampling import clustered_variance, group_sums
from keff.stats.votes import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """How often two of K judges differ in being right: half the chance, for each pair.

    ``same`` [K, K] on a question that both judged (NaN: there is none), ``apart`` [K, K] on two questions of
    different clusters. Unbiased, whatever cells are missing.
    """

    same: FloatArray
    apart: FloatArray

    @classmethod
    def of(cls, right: IntArray, given: BoolArray, ids: IntArray) -> Together:
        """Count the pairs of verdicts [n, K] that are right, of those that were given."""
        cast = given.astype(np.float64)
        good = right * cast
        clusters = int(ids.max()) + 1

        def differ(ones: FloatArray, all_: FloatArray) -> FloatArray:
            crossed = ones.T @ all_
            return (crossed + crossed.T) / 2 - ones.T @ ones

        within, units = group_sums(good, ids, clusters), group_sums(cast, ids, clusters)
        total = np.atleast_2d(good.sum(axis=0)), np.atleast_2d(cast.sum(axis=0))
        pairs, others = cast.T @ cast, total[1].T @ total[1] - units.T @ units
        with np.errstate(divide="ignore", invalid="ignore"):
            same, apart = differ(good, cast) / pairs, (differ(*total) - differ(within, units)) / others
        np.fill_diagonal(same, math.nan)
        return cls(same, apart)

    @property
    def met(self) -> BoolArray:
        """Which pairs judged a question both [K, K]."""
        return np.isfinite(self.same)

    def c(self, chosen: BoolArray | None = None) -> float:
        """Return the correlation of being right, over all pairs of the ``chosen`` judges [K] alike.

        1 - (half the chance to differ on a question) / (that on two questions): ``anova_c`` where no cell is
        missing. NaN where no pair met, or all are right or wrong.
        """
        kept = np.ones(len(self.same), bool) if chosen is None else chosen
        within, apart = self.same[np.ix_(kept, kept)], self.apart[np.ix_(kept, kept)]
        seen, whole = within[np.isfinite(within)], float(apart[np.isfinite(apart)].mean())
        return 1 - float(seen.mean()) / whole if seen.size and whole > 0 else math.nan


def c_of_judges(right: IntArray, given: BoolArray, ids: IntArray, level: float = 0.95) -> Interval:
    """Return ``Together.c`` of all judges with the limits of ``hybrid_wilson``.

    Its standard error is the larger of that of the influence values of questions, by cluster, and that of the
    beta-binomial law for as many pairs of answers in questions of equally many judges. Pairs that judged
    fewer questions together weigh as much as others, so it counts fewer questions.
    """
    together, k = Together.of(right, given, ids), right.shape[1]
    c, clusters = together.c(), int(np.max(ids)) + 1
    cast = given.astype(np.float64)
    good, counts = right * cast, cast.sum(axis=0)
    p = float((good.sum(axis=0) / counts).mean())
    if not math.isfinite(c) or clusters < 2 or not 0 < p < 1:
        return Interval(c, None, None, "hybrid_wilson")
    met = together.met
    pairs = cast.T @ cast
    weight = np.where(met, 1 / np.maximum(pairs, 1), 0.0) / met.sum()
    differ = np.where(met, together.same, 0.0)
    within = ((good @ weight) * (cast - good)).sum(axis=1) - ((cast @ (weight * differ)) * cast).sum(axis=1)
    mean = (1 - 2 * p) * ((good - cast * (good.sum(axis=0) / counts)) / counts).sum(axis=1) / k
    whole = p * (1 - p)
    # Clustered variances are of means: the values are parts of a sum.
    values = len(right) * ((1 - c) * mean - within) / whole
    size = cast.sum(axis=1)
    of_question = float((size * (size - 1)).mean())
    judges = max(round((1 + math.sqrt(1 + 4 * of_question)) / 2), 2)
    uneven = float(pairs[met].mean() * (1 / pairs[met]).mean())
    questions = clusters * of_question / (judges * (judges - 1)) / uneven
    se = math.sqrt(clustered_variance(values, ids))
    none = np.zeros(judges + 1, np.int64)
    summary = InfluenceSummary(none, len(right), clusters, p, c, se, questions)
    limits = hybrid_wilson(summary, level)
    if limits is None:
        return Interval(c, None, None, "hybrid_wilson")
    return Interval(c, min(limits[0], c), max(limits[1], c), "hybrid_wilson")
