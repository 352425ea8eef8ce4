"""Prior from recorded workloads: how many answers a rule changes, and the accuracy a change costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from keff.analysis.decision.outcomes import RuleOutcomes
from keff.analysis.walks import run, share_changed
from keff.policy import Policy, in_flight_of
from keff.records import frozen
from keff.stats.intervals import IMAGINED
from keff.stats.models.mixture import GENERIC_WEIGHTS, prior_shares
from keff.stats.votes import FloatArray
from keff.stats.voting.draws import Draws

# The Monte Carlo error of a 2.5% quantile is then half a percent of probability.
DRAWS = 1_000


@frozen
class Prior:
    """Prior of the accuracy one changed answer costs, as a part of the reference's accuracy.

    ``one_path`` is the price for one path, ``deep`` that of the deepest rules times the cap of the reference:
    the fewer answers a rule changes, the closer are the votes that it changes. ``sd`` is the standard
    deviation from one workload to another. What leaving each of the others out does is measured by
    ``python -m benchmarks.analysis.decision --ablations``.

    ``wide_weight`` of the prior is symmetric around 0 with the standard deviation ``wide_sd``: records hold
    few workloads where voting hurts, and base rates must not decide against what a pilot measures.

    ``pseudo_questions`` of the generic workload, at the pilot's own rate for one path, stand beside it, for a
    pilot hardly sees the answers that deep rules change.

    For the weight of what was measured the variance of a loss over questions is at least ``least_variance``
    for each flip: few flips are all alike by chance. More leans further on the usual price: at .4 recorded
    workloads keep .05 points more at equal paths, but a wrong answer that is the mode (.60 against .35) is
    seen in 4% of pilots of 50 questions instead of 73%.

    Beside the losses stand two imagined clusters that differ by ``imagined``, one to either side, as beside
    measured differences (``paired_difference``).
    """

    one_path: float
    deep: float
    sd: float
    wide_weight: float = 0.1
    wide_sd: float = 0.6
    pseudo_questions: float = 10
    least_variance: float = 0.15
    imagined: float = IMAGINED

    def mean(self, ratio: FloatArray, cap: int) -> FloatArray:
        """Return the prior mean for rules [C], by changed answers relative to one path's (``ratio`` [C])."""
        deep = min(self.deep / cap, self.one_path)
        return deep + (self.one_path - deep) * np.clip(ratio, 0.0, 1.0)


# Fitted by ``benchmarks.constants.flip_price`` to recorded generations. ``deep`` is .05 to .16 by the orders
# that are replayed, and the larger leans towards more paths.
GENERIC = Prior(one_path=0.358, deep=0.155, sd=0.166)

SIMULATED, ORDERS = 2_000, 2


@lru_cache(maxsize=4)
def _generic_draws(cap: int) -> Draws:
    """Return simulated votes of generic questions, from the mixture fitted to recorded workloads."""
    rng = np.random.default_rng(0)
    edges = prior_shares(GENERIC_WEIGHTS, SIMULATED, rng).cumsum(axis=1)
    drawn = rng.random((SIMULATED, ORDERS * cap))
    codes = np.zeros(drawn.shape, np.int16)
    for edge in edges.T:
        codes += edge[:, None] < drawn
    # What is beyond the named answers is a new one each time.
    beyond = edges.shape[1] + np.arange(ORDERS * cap, dtype=np.int16)
    codes = np.where(codes < edges.shape[1], codes, beyond)
    return Draws(codes.astype(np.int16).reshape(SIMULATED, ORDERS, cap))


def generic_ratios(rules: Sequence[Policy]) -> FloatArray:
    """Return changed answers of each rule [C] on generic questions, relative to those of the first rule.

    The first is one path. On simulated votes of the generic workload; 0 where one path changes none. Rules
    with paths in flight count as in launch order: the generic workload knows no lengths. NaN for rules that
    read a confidence, which it does not know either.
    """
    rules = [flight.rule if (flight := in_flight_of(rule)) is not None else rule for rule in rules]
    draws = _generic_draws(max(policy.cap for policy in rules))
    today, known = run(rules[-1], draws), {rule.spec: rule for rule in rules}
    flips = {
        spec: np.nan
        if "confidence" in rule.needs
        else float(share_changed(run(rule, draws), today, draws).sum())
        for spec, rule in known.items()
    }
    found = np.array([flips[rule.spec] for rule in rules])
    return found / found[0] if found[0] > 0 else np.zeros_like(found)


def centred_normals(rng: np.random.Generator) -> FloatArray:
    """Return standard normal draws [S, 1] with mean exactly 0."""
    drawn = rng.standard_normal((DRAWS, 1))
    return drawn - drawn.mean()


@frozen
class PriceLaw:
    """Prior of the accuracy a changed answer costs: normal around ``mean`` [C], or a wide one around 0.

    ``sd`` and ``wide`` [C] are their standard deviations, ``wide_weight`` how much of it is the wide one.
    """

    mean: FloatArray
    sd: FloatArray
    wide: FloatArray
    wide_weight: float

    @classmethod
    def of(
        cls, seen: RuleOutcomes, ratios: FloatArray, cap: int, prior: Prior, level: float | None
    ) -> PriceLaw:
        """Return the prior on this workload's scale: prices are parts of the reference's accuracy."""
        # Without labels losses stay parts of that accuracy, as does what an aim allows.
        scale = (level or 1.0) if seen.right is None else float(np.clip(seen.rows.mean(seen.right), 0, 1))
        # Answers that were right with one path may be lost too, where the reference is hardly ever right.
        once = 0.0 if seen.loss is None else float(seen.rows.means(seen.loss)[seen.specs.index("fixed:1")])
        most = max(scale, scale - once)
        # What a confidence changes may gain as well as lose: from -.7 to +.7 of it on simulated laws. By a
        # narrow prior around 0, rules that stop early on weak confidences lost a point more than was stated.
        scored, wide = np.isnan(ratios), np.full_like(ratios, prior.wide_sd * most)
        mean = np.where(scored, 0.0, prior.mean(ratios, cap))
        return cls(mean * scale, np.where(scored, wide, prior.sd * most), wide, prior.wide_weight)

    def draw_losses(self, flips: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return losses drawn from the prior, for the changed answers [S, C] of each draw."""
        of_wide = rng.random((DRAWS, 1)) < self.wide_weight
        z = centred_normals(rng)
        return flips * np.where(of_wide, self.wide * z, self.mean + self.sd * z)

    def shrink_losses(
        self,
        raw: FloatArray,
        measured: FloatArray,
        variance: FloatArray,
        flips: FloatArray,
        mean_flips: FloatArray,
        single: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Return posterior losses: B times the resampled loss, 1 - B times the prior cost of its flips.

        B = prior / (prior + sampling variance). As the price is drawn anew for each resample, the variance of
        the draws is that of the posterior, B times the sampling variance. Each part of the mixture is as
        likely as it explains the ``measured`` loss of one path.
        """
        parts = (
            (1 - self.wide_weight, self.mean, self.sd),
            (self.wide_weight, 0 * self.mean, self.wide),
        )
        chance = [
            weight * _density(measured[single] - float(m[single]) * mean_flips[single], total)
            for weight, m, sd in parts
            for total in [variance[single] + (sd[single] * mean_flips[single]) ** 2]
        ]
        of_wide = rng.random((DRAWS, 1)) < chance[1] / max(sum(chance), 1e-300)
        z = centred_normals(rng)
        out: list[FloatArray] = []
        for _, m, sd in parts:
            prior = np.square(sd * mean_flips)
            b = np.divide(prior, prior + variance, out=np.ones_like(prior), where=prior + variance > 0)
            out.append(b * raw + (1 - b) * (m + sd * z) * flips)
        return np.where(of_wide, out[1], out[0])


def _density(distance: float, variance: float) -> float:
    if variance <= 0:
        return 1.0
    return float(np.exp(-0.5 * distance**2 / variance) / variance**0.5)
