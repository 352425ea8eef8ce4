"""Figures of a decision with their intervals, from the joint posterior and the choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from keff.analysis.decision.aim import Aim
from keff.analysis.decision.chain import full_spec
from keff.analysis.decision.posterior import JointPosterior
from keff.analysis.decision.timing import Timing
from keff.analysis.results.decision import Differences, Kept, TimedRule
from keff.records import Interval, frozen
from keff.stats.votes import BoolArray, FloatArray

POINTS = "posterior mean shrunk to other workloads, paired cluster_bootstrap, as many new questions"
COSTS = "cluster_bootstrap, as many new questions"

Quantity = Literal["paths", "tokens", "dollars"]


@frozen
class Figures:
    """Posterior figures of the rule at index ``rule``, against the reference at the last index."""

    posterior: JointPosterior
    rule: int

    @property
    def last(self) -> int:
        """The index of the reference."""
        return len(self.posterior.specs) - 1

    def cost(self, name: Quantity, *, change: bool = False) -> Interval | None:
        """Return the mean of a cost per question (``change``: minus the reference's); None where unknown."""
        values, means = getattr(self.posterior.new, name), getattr(self.posterior.population, name)
        if values is None or means is None:
            return None
        drawn, expected = (each[:, self.rule] - change * each[:, self.last] for each in (values, means))
        return interval_of(float(expected.mean()), drawn, COSTS)

    def dollars_against_single_requests(self) -> Interval | None:
        """Return the dollars minus those of a reference that sends one request per path.

        None where that is the same bill: prompts have no price, or it draws its paths by requests anyway.
        """
        dollars, new, posterior = (
            self.cost("dollars", change=True),
            self.posterior.new,
            self.posterior.population,
        )
        if (
            dollars is None
            or new.dollars is None
            or new.extra_prompt_dollars is None
            or not np.any(new.extra_prompt_dollars > 0)
        ):
            return None
        drawn = new.dollars[:, self.rule] - new.dollars[:, self.last] - new.extra_prompt_dollars[:, 0]
        assert posterior.extra_prompt_dollars is not None
        return interval_of(dollars.value - float(posterior.extra_prompt_dollars.mean()), drawn, COSTS)

    def points(self) -> Interval | None:
        """Return the accuracy minus the reference's; None without labels."""
        if self.posterior.new.level is None:
            return None
        return interval_of(
            0.0 - float(self.posterior.loss[self.rule]), -self.posterior.new.loss[:, self.rule], POINTS
        )

    def accuracy(self) -> Interval | None:
        """Return the accuracy; None without labels."""
        posterior = self.posterior
        if posterior.new.level is None or posterior.level is None:
            return None
        right = np.clip(posterior.new.level - posterior.new.loss[:, self.rule], 0.0, 1.0)
        value = float(np.clip(posterior.level - posterior.loss[self.rule], 0.0, 1.0))
        return interval_of(value, right, POINTS)

    def agreement(self) -> Interval:
        """Return how often the rule gives the reference's answer."""
        same = 1 - self.posterior.population.flips[:, self.rule]
        return interval_of(float(same.mean()), same, "replayed and shrunk")

    def change(self, timing: Timing | None) -> Differences:
        """Return the changes against the reference: cost, seconds, accuracy."""
        p50, p95, low, high = (
            (None, None, None, None) if timing is None else timing.quantile_changes(self.rule)
        )
        return Differences(
            self.cost("paths", change=True),
            self.cost("tokens", change=True),
            self.cost("dollars", change=True),
            p50,
            p95,
            self.points(),
            low,
            high,
            self.dollars_against_single_requests(),
        )

    def kept(self, aim: Aim) -> Kept | None:
        """Return the share of the reference's accuracy that the rule keeps, at most 1: a ratio of means.

        None where the reference is never right, and without labels. Without limits where its accuracy on as
        many new questions may be 0.
        """
        posterior, rule = self.posterior, self.rule
        if posterior.level is None or posterior.new.level is None or posterior.population.level is None:
            return None
        if posterior.level * posterior.questions < 0.5:
            return None
        value = min(1 - float(posterior.loss[rule]) / posterior.level, 1.0)
        kept = Interval(value, None, None, POINTS)
        if posterior.new.level.min() > 0:
            share = np.minimum(1 - posterior.new.loss[:, rule] / posterior.new.level, 1.0)
            kept = interval_of(value, share, POINTS)
        # An aim by paths or money asks for no share, so there is none to be sure of.
        sure = asked = None
        if aim.asks_share:
            asked = aim.share
            lost = posterior.population.loss[:, rule] - (1 - asked) * np.maximum(
                posterior.population.level, 0.0
            )
            sure = float(np.mean(lost <= 1e-12))
        of = full_spec(posterior.specs[self.last])
        return Kept(kept.value, kept.lo, kept.hi, kept.method, sure, aim.confidence, of, asked)

    def one_run_change(self) -> Interval | None:
        """Return the accuracy change with a prediction interval for one run of each rule."""
        points = self.points()
        if points is None or points.limits is None:
            return None
        lo, hi = points.limits
        run = 1.96 * float(self.posterior.run_variance[self.rule]) ** 0.5
        below, above = np.hypot(points.value - lo, run), np.hypot(hi - points.value, run)
        return replace(
            points,
            # Where a run adds nothing, rounding may not make this interval the narrower one.
            lo=min(points.value - float(below), lo),
            hi=max(points.value + float(above), hi),
            method=f"{POINTS}, one run with other paths",
        )


def timed_rules(posterior: JointPosterior, timing: Timing, within: BoolArray) -> tuple[TimedRule, ...]:
    """Return the rules ``within`` the aim [C] with their cost and time, the cheapest first.

    A rule is dominated where another one costs no more, and takes no longer at both quantiles.
    """
    cost = posterior.cost / max(float(posterior.cost[-1]), 1e-12)
    places = np.flatnonzero(within)
    order = [int(place) for place in places[np.argsort(cost[places], kind="stable")]]
    rows: list[TimedRule] = []
    for place in order:
        p50, p95 = timing.ratios[place].tolist()
        points = None if posterior.level is None else 0.0 - float(posterior.loss[place])
        dominated = any(row.p50 <= p50 and row.p95 <= p95 for row in rows)
        mean = float(timing.means[place])
        rows.append(
            TimedRule(
                full_spec(posterior.specs[place]), float(cost[place]), mean, p50, p95, points, dominated
            )
        )
    return tuple(rows)


def interval_of(value: float, draws: FloatArray, method: str) -> Interval:
    """Return a posterior mean with its central 95% credible interval."""
    lo, hi = np.quantile(draws, [0.025, 0.975])
    return Interval(value, min(float(lo), value), max(float(hi), value), method)
