"""What is believed of every rule on questions like the pilot's: paths, loss, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keff.analysis.recommend.played import (
    JUDGED,
    Played,
    Summary,
    replayed,
    sampled,
    simulated,
    some_orders,
)
from keff.analysis.recommend.prior import GENERIC, Belief, Prior
from keff.analysis.recommend.rules import CURTAILED, SINGLE
from keff.analysis.recommend.sums import Sums
from keff.analysis.recommend.worth import Labels, fit_slope, measured
from keff.analysis.replay import Bench
from keff.stats.alike import alike
from keff.stats.plurality import plurality_at_k_patterns
from keff.stats.resampling import grouped
from keff.stats.votes import FloatArray, IntArray, Votes

LEAST_PRICE = 0.3
"""Even where the labels say that votes are worth nothing, answers may not change without end: a unit of
share is taken to be worth at least this part of the accuracy."""

PATHS_VARIANCE, PATHS_MODEL = 1.5, 0.05
"""Real questions differ more in the paths they take than simulated ones do (variance), and workloads differ
from the model (a relative standard deviation)."""

UNSEEN = 0.02
"""The share that one more question of the pilot might have lost: a pilot hardly sees what deep rules lose."""

LAW_DRAWS = 4_000


@dataclass(frozen=True)
class Material:
    """What is known of each question [n]: how the rules did, and the labels.

    ``right`` is the accuracy of one path and ``top`` that of the plurality of all its paths, at most the cap
    (None without labels). ``bench`` replays recorded paths of at most 20,000 questions in many more orders,
    as ``keff replay`` does.
    ``sample`` are the places of the questions that were played where the pilot is large (None: all): where
    rules were simulated, labels and clusters are still those of all questions. ``summary`` is what ``played``
    says on average, which is all that is believed of it.
    """

    played: Played
    summary: Summary
    labels: Labels | None
    right: FloatArray | None
    top: FloatArray | None
    clusters: IntArray
    paths: int
    bench: Bench | None = None
    sample: IntArray | None = None

    @property
    def groups(self) -> int:
        """The number of clusters of the questions."""
        return grouped(self.clusters)[1].size

    @property
    def recorded(self) -> bool:
        """Whether the rules were replayed on recorded paths."""
        return self.paths >= self.played.rules.cap

    def without(self, part: IntArray) -> Material:
        """Return what is known without some questions that were replayed, all of their clusters.

        ``played`` stays that of all questions.
        """
        rest = np.setdiff1d(np.arange(len(self.clusters)), part)
        return replace(
            self,
            summary=self.summary.without(Summary.of(self.played, self.clusters, part)),
            labels=None if self.labels is None else self.labels.take(rest),
            right=None if self.right is None else self.right[rest],
            top=None if self.top is None else self.top[rest],
            clusters=self.clusters[rest],
        )


def gather(votes: Votes, cap: int, rng: np.random.Generator, prior: Prior = GENERIC) -> Material:
    """Play every rule: by replay where at least ``cap`` paths of each question are recorded, else simulated.

    Needs answers and at least two paths.
    """
    if votes.k < cap:
        bench, sample = None, sampled(votes.n, rng)
        some = votes if sample is None else votes.take(sample)
        played, known = simulated(some, cap, prior.weights, rng), votes
    else:
        bench, played, known, sample = _replayed(votes, cap, rng)
    labels = right = top = None
    if votes.correct is not None:
        # The curves of all questions are known by now; those of some of them would be found anew.
        rows = None if known is votes else sample
        labels, right = Labels.of(votes), known.scored().mean(axis=1)
        labels = labels if labels is None or rows is None else labels.take(rows)
        back = alike(votes).back if rows is None else alike(votes).back[rows]
        top = plurality_at_k_patterns(votes)[:, min(votes.k, cap) - 1][back]
    clusters = known.cluster_ids
    own = clusters if bench is not None or sample is None else clusters[sample]
    summary = Summary.of(played, own)
    return Material(played, summary, labels, right, top, clusters, votes.k, bench, sample)


def _replayed(
    votes: Votes, cap: int, rng: np.random.Generator
) -> tuple[Bench, Played, Votes, IntArray | None]:
    """Return the bench, how the rules did on some of its questions, their votes, and their places."""
    judged = sampled(votes.n, rng, JUDGED)
    some = votes if judged is None else votes.take(judged)
    bench = Bench.of(some, [], cap, rng)
    sample = sampled(some.n, rng)
    known = some if sample is None else some.take(sample)
    played = replayed(known, some_orders(bench.draws, sample))
    return bench, played, known, sample if judged is None or sample is None else judged[sample]


@dataclass(frozen=True)
class Outlook:
    """What is believed of C rules.

    ``paths`` [C] are mean paths and ``spread`` [C] the relative standard deviation of that mean. ``share``
    [C] is the answer share that is lost against the vote at the cap and ``differs`` [C] how often the answer
    is another. ``lost`` [C] is the posterior mean of the accuracy lost; it is known up to a normal error
    ``lost_sd`` [C] (the price of a share) and a log-normal factor of relative error ``factor`` [C] (the
    share). ``at_stake`` [C] is the share that may be lost, one unseen question included; doubt goes with it.
    ``level`` is what there is to keep: the ``accuracy`` at the cap; without labels the share of its answer.
    ``single`` is the accuracy of one path, ``leader`` [cap + 1] the mean share of the plurality.
    """

    specs: list[str]
    paths: FloatArray
    spread: FloatArray
    share: FloatArray
    at_stake: FloatArray
    differs: FloatArray
    lost: FloatArray
    lost_sd: FloatArray
    factor: FloatArray
    slope: Belief
    level: float
    leader: FloatArray
    accuracy: Belief | None
    single: Belief | None


def believe(known: Material, prior: Prior = GENERIC) -> Outlook:
    """Return what the material says, joined with what workloads are like in general."""
    played, summary = known.played, known.summary
    share, paths = summary.share.mean, summary.paths.mean
    slope, cap = fit_slope(known.labels, prior), played.rules.cap
    rise = float(played.leader[cap] - played.leader[min(known.paths, cap)])
    accuracy = None if known.top is None else _reached(measured(known.top, known.clusters), slope, rise)
    level = float(played.leader[-1]) if accuracy is None else accuracy.value
    worth = Belief(max(slope.value, LEAST_PRICE * level, 1e-6), slope.sd)
    at_stake = np.maximum(share, 0.0) + UNSEEN / known.groups
    at_stake[CURTAILED] = 0.0  # never another answer than that of the cap
    lost, lost_sd, factor = _lost(known, at_stake, worth, prior)
    noise = PATHS_VARIANCE * summary.paths.variance / np.square(paths)
    return Outlook(
        played.rules.specs,
        paths,
        np.sqrt(noise + (0 if known.recorded else PATHS_MODEL**2)) * (paths > 1),
        share,
        at_stake,
        summary.differs.mean,
        lost,
        lost_sd,
        factor,
        slope,
        level,
        played.leader,
        accuracy,
        None if known.right is None else measured(known.right, known.clusters),
    )


def _reached(seen: Belief, slope: Belief, rise: float) -> Belief:
    """Return the accuracy at the cap from that at the pilot's paths, the share still rising by ``rise``."""
    value = float(np.clip(seen.value + slope.value * rise, 0, 1))
    return Belief(value, float(np.hypot(seen.sd, slope.sd * rise)))


def _lost(
    known: Material, at_stake: FloatArray, worth: Belief, prior: Prior
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the accuracy that each rule loses, its normal error and its log-normal one."""
    share, variance = np.maximum(known.summary.share.mean, 0.0), known.summary.share.variance
    factor = np.where(share > 0, np.minimum(np.sqrt(variance) / np.maximum(share, 1e-12), 1), 1.0)
    # A product of positive numbers, each known up to a factor, has its mean above its middle.
    skew = 1 + np.square(factor) + min((worth.sd / worth.value) ** 2, 1)
    lost, sd = prior.price.trusted * worth.value * share * skew, prior.price.sd(worth) * at_stake
    lost[SINGLE] /= prior.price.trusted  # from one path to many is what the slope was measured on
    if not known.recorded or known.summary.right is None:
        return lost, sd, factor
    return _with_labels(known.summary.right, known.played.rules.families, lost, sd)


def _with_labels(
    right: Sums, families: list[slice], lost: FloatArray, sd: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Join the loss that was replayed with labels with what the share lost says of it.

    The result is never below what was replayed, nor below the loss of a rule of the same family that draws
    more: the least of many measured losses is too small by chance.
    """
    seen, noise = right.mean, right.variance
    weight = np.square(sd) / (np.square(sd) + noise + 1e-12)
    worst = np.maximum(seen, weight * seen + (1 - weight) * lost)
    for family in families:
        worst[family] = np.maximum.accumulate(worst[family][::-1])[::-1]
    return worst, np.sqrt(weight * noise), np.zeros_like(lost)


def losses(outlook: Outlook, rules: NDArray[np.intp]) -> FloatArray:
    """Draw the share of the level that rules lose on a workload like this [draws, rules].

    The price of a unit of share is normal (it can be negative: voting hurts there), the share log-normal.
    The mean of each column is ``lost`` over the level. The same draws every time.
    """
    normal = np.random.default_rng(0).standard_normal((2, LAW_DRAWS, 1))
    width = np.sqrt(np.log1p(np.square(outlook.factor[rules])))
    around = outlook.lost[rules] + outlook.lost_sd[rules] * normal[0]
    return around * np.exp(width * normal[1] - width**2 / 2) / max(outlook.level, 1e-9)
