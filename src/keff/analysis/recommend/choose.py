"""Which rule serves the aim best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from keff.analysis.recommend.aim import Aim
from keff.analysis.recommend.outlook import Outlook, losses
from keff.analysis.recommend.rules import CURTAILED, SAFE
from keff.analysis.replay import Bench
from keff.policy import parse_policy
from keff.stats.votes import FloatArray

Mask = NDArray[np.bool_]

BUDGET_SURE = 1.2816
"""Standard deviations of the one-sided 90% quantile, in which a budget bounds the mean paths."""


def choose(outlook: Outlook, aim: Aim) -> tuple[int, str]:
    """Return the place of the rule that serves the aim best, and why in a few words."""
    if aim.budget is not None:
        return within(outlook, aim.budget), (
            f"the closest to the vote at the cap with at most {aim.budget:g} paths per question, 90% sure"
        )
    if aim.budget_mean is not None:
        return within(outlook, aim.budget_mean, sure=0), (
            f"the closest to the vote at the cap with {aim.budget_mean:g} paths per question expected"
        )
    if aim.value_per_correct is not None and aim.cost_per_path is not None:
        return _worth_most(outlook, aim.value_per_correct, aim.cost_per_path)
    kept, labels = f"{100 * aim.share:.6g}%", "" if outlook.accuracy else _UNLABELLED
    if aim.confidence is not None:
        return retaining_surely(outlook, aim.share, aim.confidence), (
            f"the fewest paths that keep {kept} of the accuracy at the cap, {aim.confidence:.0%} sure{labels}"
        )
    return retaining(outlook, aim.share), (
        f"the fewest paths expected to keep {kept} of the accuracy at the cap{labels}"
    )


_UNLABELLED = ", if answers are right as often as paths agree (no labels)"


def retaining(outlook: Outlook, share: float) -> int:
    """Return the cheapest rule whose posterior mean loss is at most 1 - ``share`` of the level."""
    return _cheapest(outlook, _enough(outlook, share, None))


def retaining_surely(outlook: Outlook, share: float, sure: float) -> int:
    """Return the cheapest rule that keeps ``share`` of the level with probability ``sure``."""
    return _cheapest(outlook, _enough(outlook, share, sure))


def _enough(outlook: Outlook, share: float, sure: float | None) -> Mask:
    if sure is not None:
        return np.asarray(chance_to_keep(outlook, share) >= sure)
    return np.asarray(outlook.lost <= (1 - share) * outlook.level + 1e-12)


def that_passes(outlook: Outlook, bench: Bench, index: int, aim: Aim) -> int:
    """Return the rule, or the next one in paths that is good enough, that keeps its share in all orders.

    Rules are chosen by some of the orders that ``keff replay`` draws; what it prints must not fall short.
    """
    whole = bench.fixed.accuracy
    assert whole is not None
    least = aim.share * float(whole[:, bench.fixed.cap - 1].mean()) - 1e-12
    enough = _enough(outlook, aim.share, aim.confidence)
    enough[SAFE] = False
    candidates: list[int] = np.argsort(outlook.paths, kind="stable").tolist()
    for rule in candidates:
        if enough[rule] and outlook.paths[rule] >= outlook.paths[index]:
            right = bench.outcome(parse_policy(outlook.specs[rule])).accuracy
            if right is not None and float(right.mean()) >= least:
                return rule
    return CURTAILED


def chance_to_keep(outlook: Outlook, share: float) -> FloatArray:
    """Return the probability that each rule keeps ``share`` of the level on this workload [C]."""
    every = np.arange(len(outlook.paths))
    lost = losses(outlook, every)
    return np.asarray((lost <= 1 - share + 1e-12).mean(axis=0), np.float64)


def _cheapest(outlook: Outlook, enough: Mask) -> int:
    """Return the cheapest of the rules that are good enough; curtailment always is."""
    paths = np.where(enough, outlook.paths, np.inf)
    paths[SAFE] = np.inf  # the default for when nothing is known, no choice of a pilot
    paths[CURTAILED] = outlook.paths[CURTAILED]
    return int(np.argmin(paths))


def within(outlook: Outlook, budget: float, sure: float = BUDGET_SURE) -> int:
    """Return the rule that loses least among those whose mean paths are at most ``budget``.

    The mean over future questions is log-normal around what is expected; its quantile counts at ``sure``
    standard deviations above.
    """
    affordable = outlook.paths * np.exp(sure * outlook.spread) <= budget + 1e-9
    return int(np.argmin(np.where(affordable, outlook.lost + 1e-9 * outlook.paths, np.inf)))


def _worth_most(outlook: Outlook, value: float, cost: float) -> tuple[int, str]:
    worth = -value * outlook.lost - cost * outlook.paths
    if cost == 0:
        return int(np.argmax(worth)), "paths cost nothing, so the most accuracy"
    return int(np.argmax(worth)), f"one more correct answer is worth {value / cost:g} paths"


def needed_items(outlook: Outlook, aim: Aim) -> int | None:
    """Return how many times the pilot's questions would let a rule short of the cap pass; None if no number.

    Only what is unknown of the share lost narrows with more questions; the workload's own price does not.
    """
    for times in (2, 4, 8, 16, 32):
        factor = outlook.factor / times**0.5
        lost = outlook.lost * (1 + factor**2) / (1 + outlook.factor**2)
        index, _ = choose(replace(outlook, factor=factor, lost=lost), aim)
        if index != CURTAILED:
            return times
    return None
