"""What a rule keeps of the accuracy at the cap: predicted from a pilot, or measured on recorded paths."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr, stdtrit

from keff.analysis.recommend.aim import Aim
from keff.analysis.recommend.choose import choose
from keff.analysis.recommend.outlook import Material, Outlook, believe, losses
from keff.analysis.recommend.prior import GENERIC, Prior
from keff.analysis.recommend.rules import SINGLE
from keff.analysis.recommend.sums import Sums
from keff.analysis.results.decision import Kept
from keff.records import Interval
from keff.stats.resampling import grouped
from keff.stats.votes import FloatArray, IntArray

QUESTION_NOISE = 1.8
"""The variance from question to question of the accuracy lost, over share lost / mean paths: the upper
quartile over records."""

FOLDS = 10


def predicted(known: Material, outlook: Outlook, index: int, aim: Aim) -> Kept:
    """Return what is expected on as many new questions as the pilot has.

    The interval holds the price of a vote's share on this workload, the share lost, and the luck of the new
    questions; ``confidence`` leaves that luck out.
    """
    rule = np.array([index])
    lost = losses(outlook, rule)[:, 0] + _single_shift(outlook, index)
    spread = QUESTION_NOISE * outlook.at_stake[index] / outlook.paths[index]
    items = known.groups
    luck = np.random.default_rng(1).standard_normal(len(lost)) * np.sqrt(spread / items)
    lo, hi = np.quantile(1 - lost - luck / max(outlook.level, 1e-9), [0.025, 0.975])
    value = 1 - float(outlook.lost[index]) / max(outlook.level, 1e-9) - _single_shift(outlook, index)
    sure = float(np.mean(lost <= 1 - aim.share + 1e-12)) if aim.asks_share else None
    limits = max(min(float(lo), value), 0.0), max(float(hi), value)
    return Kept(value, *limits, "simulated from the pilot", sure, aim.confidence)


def _single_shift(outlook: Outlook, index: int) -> float:
    """Return what to add to the loss of one path: its accuracy was measured, whatever the slope says."""
    if index != SINGLE or outlook.single is None or outlook.accuracy is None:
        return 0.0
    seen = outlook.accuracy.value - outlook.single.value
    return (seen - float(outlook.lost[SINGLE])) / max(outlook.level, 1e-9)


def replayed(known: Material, index: int, aim: Aim) -> Kept:
    """Return what a rule that was not chosen for what it keeps does on the recorded questions."""
    assert known.played.right is not None and known.top is not None
    return _ratio(known.played.right[:, index], known.top, known.clusters, aim, "replayed")


def cross_fitted(known: Material, aim: Aim, prior: Prior = GENERIC) -> Kept:
    """Return what was replayed on questions that had no say in the choice of the rule.

    Questions are split into 10 parts by cluster; each part is judged by the rule that the others choose.
    """
    played, top = known.played, known.top
    assert played.right is not None and top is not None
    lost = np.zeros(len(top))
    for part in _folds(known.clusters):
        index, _ = choose(believe(known.without(part), prior), aim)
        lost[part] = played.right[part, index]
    return _ratio(lost, top, known.clusters, aim, "replayed, cross-fitted over questions")


def paths_interval(known: Material, outlook: Outlook, index: int) -> Interval:
    """Return the mean paths with the 95% interval of that of as many new questions as the pilot has."""
    value, cap = float(outlook.paths[index]), len(outlook.leader) - 1
    # The new questions are a sample too, as large as the pilot: their luck counts as much as the pilot's.
    factor = float(np.exp(1.96 * 2**0.5 * outlook.spread[index]))
    method = "replayed" if known.recorded else "simulated from the pilot"
    return Interval(value, max(value / factor, 1.0), min(value * factor, float(cap)), method)


def _folds(clusters: IntArray) -> list[IntArray]:
    groups = np.unique(clusters)
    order = np.random.default_rng(0).permutation(groups)
    parts = np.array_split(order, min(FOLDS, len(groups)))
    return [np.flatnonzero(np.isin(clusters, part)).astype(np.int64) for part in parts]


def _ratio(lost: FloatArray, top: FloatArray, clusters: IntArray, aim: Aim, method: str) -> Kept:
    """Return 1 - mean loss / mean level, with a t interval of the linearised ratio over clusters."""
    level = max(float(top.mean()), 1e-9)
    value = 1 - float(lost.mean()) / level
    residual = (lost - (1 - value) * top)[:, None]
    error = max(float(np.sqrt(Sums.of(residual, clusters).variance[0])) / level, 1e-9)
    freedom = max(grouped(clusters)[1].size - 1, 1)
    half = float(stdtrit(freedom, 0.975)) * error
    sure = float(stdtr(freedom, (value - aim.share) / error)) if aim.asks_share else None
    return Kept(value, max(value - half, 0.0), value + half, method, sure, aim.confidence)
