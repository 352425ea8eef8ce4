"""Which rule serves the aim, and whether to vote at all: both read from the joint posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keff.analysis.decision.aim import Aim
from keff.analysis.decision.posterior import LEVEL_UNKNOWN, JointPosterior
from keff.analysis.results.decision import VotingVerdict
from keff.stats.votes import FloatArray

NEGLIGIBLE = 0.001
"""An expected loss of accuracy of a tenth of a point is taken for a decision."""

SURE_OF_BUDGET = 0.9
"""A budget of paths holds for as many new questions as the pilot has with this probability."""


SHOWN = 1.4
"""Standard errors (one-sided 92%) by which the pilot alone must speak for a vote before that is the verdict:
records hold few workloads where voting hurts, and their base rate is no evidence about this one."""


@dataclass(frozen=True)
class Choice:
    """The place of the rule to deploy, and what is expected of voting.

    ``gain`` is the posterior mean accuracy of the vote minus that of one path, by the rule to deploy, or by
    the reference where that is one path. ``once_loses`` and ``vote_loses`` are the expected losses of asking
    once and of voting when the other is better; ``hurts`` the probability that voting lowers accuracy.
    """

    rule: int
    verdict: VotingVerdict
    gain: float
    once_loses: float
    vote_loses: float
    hurts: float


def choose(known: JointPosterior, aim: Aim, allowed: NDArray[np.bool_] | None = None) -> Choice:
    """Return the rule for an aim and the verdict; ``allowed`` [C] are the rules below the cap (None: all).

    What is kept small are dollars where there are prices, else paths.
    """
    dollars = known.population.dollars
    cost = known.paths if dollars is None else dollars.mean(axis=0)
    rule = _rule(known, aim, np.where(True if allowed is None else allowed, cost, np.inf))
    voting = rule if rule != known.single else len(known.specs) - 1
    loss = known.population.loss
    gain = loss[:, known.single] - loss[:, voting]
    once, vote = float(np.maximum(gain, 0).mean()), float(np.maximum(-gain, 0).mean())
    hurts = float(np.mean(gain < 0))
    mean = float(gain.mean())
    seen = known.shown is not None and known.shown > SHOWN
    if rule != known.single:
        verdict: VotingVerdict = "vote" if vote <= NEGLIGIBLE and seen else "open"
    else:
        beyond = gain - allowed_loss(known, aim)
        # An aim that pays for one path only is served by it, whatever a vote would add.
        settled = not aim.asks_share or once <= NEGLIGIBLE
        settled = settled or float(np.maximum(beyond, 0).mean()) <= NEGLIGIBLE
        verdict = "ask once" if settled else "open"
    return Choice(rule, verdict, mean, once, vote, hurts)


def allowed_loss(known: JointPosterior, aim: Aim) -> float:
    """Return the accuracy that a rule may lose against the better of one path and the reference."""
    level = LEVEL_UNKNOWN if known.level is None else known.level
    return (1 - aim.share) * max(level - min(float(known.loss[known.single]), 0.0), 0.0)


def _rule(known: JointPosterior, aim: Aim, cost: FloatArray) -> int:
    """Return the place of the cheapest rule within the aim; for a budget, of the most accurate.

    ``cost`` [C] is infinite where a rule may not be deployed.
    """
    may = np.isfinite(cost)
    # Rounding must not hide the rule that is as good as the better one.
    loss = np.round(known.loss - min(float(known.loss[known.single]), 0.0), 12)
    if aim.value_per_correct is not None and aim.cost_per_path is not None:
        worth = aim.value_per_correct * loss + aim.cost_per_path * known.paths
        return int(np.argmin(np.where(may, worth, np.inf)))
    if aim.asks_share:
        allowed = allowed_loss(known, aim) + 1e-12
        within = loss <= allowed
        if aim.confidence is not None:
            better = np.minimum(known.population.loss[:, [known.single]], 0.0)
            within = np.mean(known.population.loss - better <= allowed, axis=0) >= aim.confidence
        within &= may
        today = within & (known.paths <= known.paths[-1] + 1e-9)
        within = today if today.any() else within  # more than today only where nothing else will do
        if within.any():
            return int(np.argmin(np.where(within, cost, np.inf)))
        return _most_accurate(loss, may, cost)
    if aim.budget is not None:
        affordable = np.quantile(known.new.paths, SURE_OF_BUDGET, axis=0) <= aim.budget + 1e-9
    else:
        assert aim.budget_mean is not None
        affordable = known.paths <= aim.budget_mean + 1e-9
    return _most_accurate(loss, may & affordable, cost)


def _most_accurate(loss: FloatArray, may: NDArray[np.bool_], cost: FloatArray) -> int:
    """Return the place of the rule that loses least, of equals the cheapest."""
    best = np.min(np.where(may, loss, np.inf))
    return int(np.argmin(np.where(may & (loss <= best), cost, np.inf)))
