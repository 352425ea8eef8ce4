"""Rows of a comparison: estimates, paired intervals, the fixed-K curve, fitted policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.recorded import MEANS_OVER_ORDERS, Rows
from keff.analysis.results.replay import PilotCosts, ReplayRow
from keff.analysis.walks import PolicyOutcome
from keff.policy import Fittable, Policy
from keff.records import Interval, frozen
from keff.stats.intervals import PAIRED
from keff.stats.votes import FloatArray, IntArray, Votes


@frozen
class Fixed:
    """Exact accuracy of fixed K by row, K = 1..T.

    ``accuracy`` [m, T] is at 1..T paths (None without labels), ``unit`` [m] the mean cost of a path in tokens
    (1 where tokens are unknown).
    """

    accuracy: FloatArray | None
    unit: FloatArray
    cap: int

    def kept(self, rows: Rows, outcome: PolicyOutcome) -> Interval | None:
        """Return the share kept of the accuracy at the cap, at most 1.

        By the paired difference a - r f over the mean of f: f is the accuracy at the cap and r the ratio of
        means, so that a - r f is 0 on average. None where no answer is right at the cap. Without limits where
        the mean of f may be 0: then any ratio fits (Fieller 1954).
        """
        assert outcome.accuracy is not None and self.accuracy is not None
        full = self.accuracy[:, self.cap - 1]
        level = rows.mean(full)
        if level <= 0:
            return None
        ratio = rows.mean(outcome.accuracy) / level
        least = rows.difference(full).lo
        if least is None or least <= 0:
            return Interval(min(ratio, 1.0), None, None, PAIRED)
        error = rows.error(outcome.noise, rows.weights)
        found = rows.difference(outcome.accuracy - ratio * full, error)
        return found.mapped(lambda apart: min(max(ratio + apart / level, 0.0), 1.0))

    def at_equal_cost(self, rows: Rows, outcome: PolicyOutcome) -> Interval:
        """Return the accuracy minus that of fixed K randomised between the neighbours of the same mean cost.

        The slope of fixed K's curve there turns a question's cost beyond the mean into accuracy.
        """
        assert outcome.accuracy is not None and self.accuracy is not None
        cost = outcome.paths if outcome.tokens is None else outcome.tokens
        curve, unit = self.accuracy[:, : self.cap], rows.mean(self.unit)
        paths = rows.mean(cost) / unit
        place = min(max(paths - 1, 0.0), self.cap - 1.0)
        low = min(int(place), max(self.cap - 2, 0))
        high = min(low + 1, self.cap - 1)
        at_cost = curve[:, low] + (place - low) * (curve[:, high] - curve[:, low])
        slope = rows.mean(curve[:, high] - curve[:, low]) if place == paths - 1 else 0.0
        spent = slope * (cost - paths * self.unit) / unit
        error = rows.error(outcome.noise, rows.weights)
        return rows.difference(outcome.accuracy - at_cost - spent, error)


def with_frontier(rows: Sequence[ReplayRow]) -> tuple[ReplayRow, ...]:
    """Return the rows, those on the accuracy-cost frontier marked."""
    return tuple(
        replace(row, frontier=row.accuracy is not None and not any(_beats(other, row) for other in rows))
        for row in rows
    )


def _beats(other: ReplayRow, row: ReplayRow) -> bool:
    if other.accuracy is None or row.accuracy is None:
        return False
    gains = other.accuracy.value - row.accuracy.value, row.cost - other.cost
    return min(gains) >= 0 and max(gains) > 0


# Random pilots to which a policy is fitted.
SPLITS = 25

# Numbers of questions that a pilot may serve.
SERVED = (100, 1000, 10_000)


@frozen
class Pilot:
    """The size of the pilot that fits a policy: items and paths of each."""

    items: int
    paths: int

    def costs(self, mean_paths: float, labels: bool) -> PilotCosts:
        """Return the pilot's cost: its paths, and mean paths per question when N questions are served."""
        total = self.items * self.paths
        return PilotCosts(
            items=self.items,
            paths=total,
            labels=self.items if labels else 0,
            mean_paths_with_pilot={n: mean_paths + total / n for n in SERVED},
        )


@frozen
class Refitter:
    """Cross-validation of a policy that is fitted to random pilots of ``votes``."""

    votes: Votes
    rows: Rows
    policy: Fittable
    pilot: Pilot
    outcome: Callable[[Policy], PolicyOutcome]
    rng: np.random.Generator

    def _fit(self, order: IntArray) -> tuple[PolicyOutcome, IntArray]:
        """Return the policy fitted to the first clusters of an order that hold enough items.

        Returns also the row weights of the questions outside them.
        """
        ids = self.rows.clusters
        used = 1 + int(np.searchsorted(np.cumsum(np.bincount(ids)[order]), self.pilot.items))
        chosen = order[: max(min(used, len(order) - 1), 1)]
        columns = self.rng.permutation(self.votes.k)[: self.pilot.paths]
        fitted = self.policy.fit(self.votes.take(np.flatnonzero(np.isin(ids, chosen))).paths(columns))
        left_out = np.isin(ids, chosen, invert=True).astype(np.int64)
        return self.outcome(fitted), self.rows.of_questions(left_out)

    def outcome_without(self) -> PolicyOutcome:
        """Return each item's mean outcome over the fits to pilots without it."""
        groups = self.votes.n_clusters
        fits = [self._fit(self.rng.permutation(groups)) for _ in range(SPLITS)]
        weights = np.array([weight for _, weight in fits])
        means: dict[str, FloatArray | None] = {}
        for name in MEANS_OVER_ORDERS:
            values = [getattr(outcome, name) for outcome, _ in fits]
            means[name] = None if values[0] is None else _average(np.array(values), weights)
        # All fits share the drawn orders, so their mean is as noisy as one of them.
        noise = [outcome.noise for outcome, _ in fits if outcome.noise is not None]
        means["noise"] = np.mean(noise, axis=0) if noise else None
        return PolicyOutcome(**means)  # type: ignore[arg-type]


def _average(values: FloatArray, weights: IntArray) -> FloatArray:
    """Return means over splits [S, m], missing entries filled by the mean of the others."""
    seen = weights.sum(axis=0)
    mean = (values * weights).sum(axis=0) / np.maximum(seen, 1)
    others = float(mean[seen > 0].mean())
    return np.where(seen > 0, mean, others)
