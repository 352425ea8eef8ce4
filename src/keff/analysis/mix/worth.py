"""Which plan to take by what a right answer is worth: V x accuracy - cost, with doubt about small gains."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from keff.analysis.mix.orders import Reals
from keff.analysis.mix.shrink import cluster_sums, errors, plans_at_once
from keff.stats.votes import FloatArray, IntArray

ERRORS = 1.0
"""Paired standard errors of V x accuracy - cost by which a plan must beat the best single branch at V.

Of 0, .5, 1, 1.5 and 2 on recorded groups (docs/branches-measured.md); any of .5 to 1.5 does nearly as well.
"""

STEPS = 16
"""Worths tried in each factor of ten: the curve names a change of plan to within a sixth."""

DEAREST = 1e5
"""The curve ends at this many mean costs of a plan: a right answer worth more changes no plan."""

QUANTILE = 1.2816
"""Standard normal: what is bounded is bounded with 90% probability."""

GAMBLE = 0.03
"""Accuracy that the default may lose against the best single branch's plan, with 90% probability."""


class WorthRule:
    """Chooses among plans by worth, from their accuracy and cost [P, n] on some questions.

    ``single`` [P] tells the plans of one branch, ``ids`` [n] number the clusters.
    """

    def __init__(
        self,
        accuracy: Reals,
        cost: Reals,
        single: np.ndarray[tuple[int], np.dtype[np.bool_]],
        ids: IntArray,
    ) -> None:
        self.accuracy, self.cost, self.single, self.ids = accuracy, cost, single, ids
        self.means, self.costs = accuracy.mean(axis=1, dtype=np.float64), cost.mean(axis=1, dtype=np.float64)
        self._paired: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}

    def at(self, worth: float, margin: float = ERRORS) -> int:
        """Return the plan at the worth of one right answer.

        The best single branch's plan, unless V x accuracy - cost of others is at least ``margin`` paired
        standard errors higher: then the highest of those.
        """
        net = worth * self.means - self.costs
        best = int(np.argmax(np.where(self.single, net, -np.inf)))
        gain = net - net[best]
        right, both, paid = self._paired.get(best) or self._paired.setdefault(best, self._paired_with(best))
        error = np.sqrt(np.maximum(worth**2 * right - 2 * worth * both + paid, 0))
        can = gain >= margin * error
        can[best] = True
        return int(np.argmax(np.where(can, gain, -np.inf)))

    @cached_property
    def curve(self) -> list[tuple[float, int]]:
        """The plan by worth: the worth from which each is taken, rising from 0."""
        low = max(float(self.costs.min()), 1e-300) / 2
        decades = max(math.log10(DEAREST * max(float(np.median(self.costs)), 2e-300) / low), 1.0)
        tried = [0.0, *(low * 10 ** (step / STEPS) for step in range(math.ceil(decades * STEPS) + 1))]
        taken = [(worth, self.at(worth)) for worth in tried]
        return [here for place, here in enumerate(taken) if place == 0 or here[1] != taken[place - 1][1]]

    def pays_from(self, plan: int) -> float | None:
        """Return the worth from which a plan is worth more than every cheaper single branch's plan.

        None where a single branch's plan is cheaper and at least as accurate.
        """
        cheaper = self.single & (self.costs < self.costs[plan])
        more = self.means[plan] - self.means[cheaper]
        if (more <= 0).any():
            return None
        return float(((self.costs[plan] - self.costs[cheaper]) / more).max(initial=0.0))

    def gambles(self, plan: int, best: int) -> bool:
        """Return whether the 90% quantile of a plan's loss against ``best`` exceeds ``GAMBLE``."""
        difference = (self.accuracy[plan] - self.accuracy[best])[None]
        error = float(errors(difference, self.ids)[0])
        return float(difference.mean()) - QUANTILE * error < -GAMBLE

    def within(self, budget: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which plans cost at most ``budget`` on average with 90% probability [P]."""
        return self.costs + QUANTILE * errors(self.cost, self.ids) <= budget

    def _paired_with(self, plan: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return Var, Cov and Var of the mean differences to a plan in accuracy and cost [P] each."""
        units = int(self.ids.max()) + 1
        scale = units / max(units - 1, 1) / len(self.ids) ** 2
        out: FloatArray = np.empty((3, len(self.means)))
        step = plans_at_once(len(self.ids))
        for start in range(0, len(self.means), step):
            rows = slice(start, start + step)
            right = cluster_sums(self.accuracy[rows] - self.accuracy[plan], self.ids)
            paid = cluster_sums(self.cost[rows] - self.cost[plan], self.ids)
            products = ((right, right), (right, paid), (paid, paid))
            out[:, rows] = [np.einsum("pn,pn->p", left, other) for left, other in products]
        return out[0] * scale, out[1] * scale, out[2] * scale
