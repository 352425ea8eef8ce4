"""Choice of the rule to deploy and verdict on voting, both from the joint posterior."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from keff.analysis.decision.aim import Aim
from keff.analysis.decision.posterior import JointPosterior
from keff.analysis.decision.timing import SURE_OF_TIME, Timing
from keff.analysis.results.decision import VotingVerdict
from keff.records import Interval, frozen
from keff.stats.votes import BoolArray, FloatArray

# An expected loss of accuracy of a tenth of a point is taken for a decision, whatever the aim allows.
NEGLIGIBLE = 0.001

# A budget of paths holds for as many new questions as the pilot has with this probability.
SURE_OF_BUDGET = 0.9


BoundKept: TypeAlias = Literal["both", "median", "neither"]

# Standard errors (one-sided 93%, so that fair coins are called a vote in 7% of pilots) by which the pilot
# alone must speak for a vote before that is the verdict: records hold few workloads where voting hurts, and
# their base rate is no evidence about this one.
LEAST_Z_OF_VOTE = 1.5

# Fair coins give with one path another answer than their vote in at least this share of the questions (.36
# where eight paths vote). Where a workload does so more seldom, most of it cannot be coins and less is at
# stake: the evidence asked for falls in proportion.
COIN_FLIPS = 0.25


@frozen
class Choice:
    """Index of the rule to deploy, with the verdict on voting and its expected gain.

    ``gain`` is the posterior mean accuracy of the vote minus that of one path, by the rule to deploy, or by
    the reference where that is one path. ``regret_of_one_path`` is the expected loss of asking
    once when voting is better; ``p_vote_worse`` the probability that voting lowers accuracy.
    ``cheapest`` is the place of the rule that any time would allow, where it is another one, and ``kept``
    which bounds on time the rule keeps.
    """

    rule: int
    verdict: VotingVerdict
    gain: float
    regret_of_one_path: float
    p_vote_worse: float
    cheapest: int | None = None
    kept: BoundKept = "both"


def choose(
    posterior: JointPosterior,
    aim: Aim,
    allowed: BoolArray | None = None,
    timing: Timing | None = None,
) -> Choice:
    """Return the rule that serves an aim and the verdict; ``allowed`` [C] masks rules below the cap.

    What is kept small are dollars where there are prices, else tokens, else paths. With ``timing`` the rule
    keeps to the aim's bound on time (``slower``).
    """
    may = np.ones(len(posterior.specs), np.bool_) if allowed is None else allowed
    if timing is None or aim.slower is None:
        return _choice(posterior, aim, _rule(posterior, aim, np.where(may, posterior.cost, np.inf)))
    rule, kept = fast_enough(posterior, aim, may, timing, aim.slower)
    cheapest = _rule(posterior, aim, np.where(may, posterior.cost, np.inf))
    return _choice(posterior, aim, rule, None if cheapest == rule else cheapest, kept)


def _choice(
    posterior: JointPosterior, aim: Aim, rule: int, cheapest: int | None = None, kept: BoundKept = "both"
) -> Choice:
    """Return a rule with the verdict on voting."""
    gain = posterior.gain(rule)
    once, vote = float(np.maximum(gain, 0).mean()), float(np.maximum(-gain, 0).mean())
    # No reader follows a vote that lost on the very questions shown, and few workloads pay for it.
    helped = float(posterior.measured[posterior.voting(rule)]) > 0
    coins = min(float(posterior.population.flips[:, posterior.single].mean()) / COIN_FLIPS, 1.0)
    seen = posterior.z_vote is not None and posterior.z_vote > LEAST_Z_OF_VOTE * coins
    most = max(allowed_loss(posterior, aim), NEGLIGIBLE)
    if rule != posterior.single:
        verdict: VotingVerdict = "vote" if vote <= most and seen and helped else "undecided"
    else:
        # An aim that pays for one path only is served by it, whatever a vote would add.
        verdict = "ask once" if not aim.asks_share or once <= most else "undecided"
    hurts = float(np.mean(gain < 0))
    return Choice(rule, verdict, float(gain.mean()), once, hurts, cheapest, kept)


def stated_gain(posterior: JointPosterior, choice: Choice) -> Interval:
    """Return the posterior mean gain of voting over one path, with 95% limits.

    The limits hold what the pilot alone shows and what the posterior draws say. What other workloads show
    moves the middle, and makes the draws narrower for workloads like them only: of fair coins, which are
    not, the draws held the truth in 66 to 84% of pilots.
    """
    gain = posterior.gain(choice.rule)
    voting = posterior.voting(choice.rule)
    low, high = np.quantile(gain, [0.025, 0.975])
    if posterior.level is not None:
        alone = posterior.gain_alone[:, voting]
        low, high = min(low, alone[0]), max(high, alone[1])
    return Interval(float(gain.mean()), float(low), float(high), "posterior of the gain over one path")


def allowed_loss(posterior: JointPosterior, aim: Aim) -> float:
    """Return the accuracy a rule may lose against the better of one path and the reference.

    Without labels losses are parts of the reference's accuracy, which then counts as 1.
    """
    level = 1.0 if posterior.level is None else posterior.level
    return (1 - aim.share) * max(level - min(float(posterior.loss[posterior.single]), 0.0), 0.0)


def fast_enough(
    posterior: JointPosterior, aim: Aim, may: BoolArray, timing: Timing, slower: float
) -> tuple[int, BoundKept]:
    """Return the cheapest rule within the aim that is surely fast enough, and which time bounds it keeps.

    The slowest answers are those whose paths all run long, which no vote shortens: below today's time the
    95th percentile is held to today's where nothing keeps it lower, and where no median is so low either, the
    rule with the lowest median is taken.
    """
    within = within_aim(posterior, aim) & may
    if not within.any():
        within = may.copy()
    ways: tuple[tuple[tuple[float, float], BoundKept], ...] = (
        ((slower, slower), "both"),
        ((slower, max(slower, 1.0)), "median"),
    )
    for bounds, kept in ways:
        fast = within & timing.within(bounds)
        while fast.any():
            rule = _rule(posterior, aim, np.where(fast, posterior.cost, np.inf))
            if np.all(timing.certainty(rule, bounds) >= SURE_OF_TIME):
                return rule, kept
            fast[rule] = False
    return int(np.argmin(np.where(within, timing.ratios[:, 0], np.inf))), "neither"


def within_aim(posterior: JointPosterior, aim: Aim) -> BoolArray:
    """Return a mask of the rules that meet the aim [C]; all of them where right answers have a price."""
    if aim.asks_share:
        allowed = allowed_loss(posterior, aim) + 1e-12
        if aim.confidence is None:
            return _loss(posterior) <= allowed
        better = np.minimum(posterior.population.loss[:, [posterior.single]], 0.0)
        return np.mean(posterior.population.loss - better <= allowed, axis=0) >= aim.confidence
    if aim.budget is not None:
        return np.quantile(posterior.new.paths, SURE_OF_BUDGET, axis=0) <= aim.budget + 1e-9
    return np.ones(len(posterior.specs), np.bool_)


def _loss(posterior: JointPosterior) -> FloatArray:
    """Return the mean loss of each rule against the better of one path and the reference [C]."""
    # Rounding must not hide the rule that is as good as the better one.
    return np.round(posterior.loss - min(float(posterior.loss[posterior.single]), 0.0), 12)


def _rule(posterior: JointPosterior, aim: Aim, cost: FloatArray) -> int:
    """Return the index of the cheapest rule that meets the aim; for a budget, of the most accurate.

    ``cost`` [C] is infinite where a rule may not be deployed.
    """
    may, loss, within = np.isfinite(cost), _loss(posterior), within_aim(posterior, aim)
    if aim.value_per_correct is not None and aim.cost_per_path is not None:
        worth = aim.value_per_correct * loss + aim.cost_per_path * posterior.paths
        return int(np.argmin(np.where(may, worth, np.inf)))
    if not aim.asks_share:
        return _most_accurate(loss, may & within, cost)
    within &= may
    today = within & (posterior.paths <= posterior.paths[-1] + 1e-9)
    within = today if today.any() else within  # more than today only where nothing else will do
    if within.any():
        return int(np.argmin(np.where(within, cost, np.inf)))
    return _most_accurate(loss, may, cost)


def _most_accurate(loss: FloatArray, may: BoolArray, cost: FloatArray) -> int:
    """Return the index of the rule with the lowest expected loss, ties to the cheapest."""
    best = np.min(np.where(may, loss, np.inf))
    return int(np.argmin(np.where(may & (loss <= best), cost, np.inf)))
