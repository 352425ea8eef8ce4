"""Policies that a pilot fits.

The pilot is drawn apart from the questions it is judged on, every time anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keff.analysis.replay.compare import Fixed, Means, Rows, item_columns, means_of
from keff.analysis.replay.outcomes import PolicyOutcome
from keff.analysis.results.replay import PilotCosts
from keff.policy import Fittable, Policy
from keff.stats.votes import FloatArray, IntArray, Votes

# Random pilots behind a point estimate.
SPLITS = 25

# Bootstrap replicates of a fitted policy, each with a pilot and a fit of its own.
MOST_REFITS = 200

# Numbers of questions that a pilot may serve.
SERVED = (100, 1000, 10_000)

NAMES = ("paths", "rounds", "agrees", "accuracy", "tokens", "busy", "dollars", "as_now")


@dataclass(frozen=True)
class Pilot:
    """The size of the pilot that fits a policy: items and paths of each."""

    items: int
    paths: int

    def costs(self, mean_paths: float, labels: bool) -> PilotCosts:
        """Return what the pilot adds: its paths, and mean paths when it serves N questions."""
        total = self.items * self.paths
        return PilotCosts(
            items=self.items,
            paths=total,
            labels=self.items if labels else 0,
            mean_paths_with_pilot={n: mean_paths + total / n for n in SERVED},
            mean_paths_if_every_question_were_piloted=mean_paths + self.paths,
        )


@dataclass(frozen=True)
class Refitter:
    """Fits a policy to random pilots of ``votes`` and looks up the outcome of what comes out."""

    votes: Votes
    rows: Rows
    policy: Fittable
    pilot: Pilot
    outcome: Callable[[Policy], PolicyOutcome]
    rng: np.random.Generator

    def _fit(self, clusters: IntArray) -> tuple[PolicyOutcome, IntArray]:
        """Fit to the first clusters in ``clusters`` that make up a pilot.

        Returns also the row weights of the rest, as often as each cluster is listed.
        """
        ids, apart = self.rows.clusters, self.rows.groups == self.votes.n
        # Every cluster has a question, so a pilot is found among so many different ones.
        order = _first_of_each(clusters, self.pilot.items + 1)
        sizes = np.ones(order.size, np.int64) if apart else np.bincount(ids)[order]
        used = 1 + int(np.searchsorted(np.cumsum(sizes), self.pilot.items))
        chosen = order[: max(min(used, len(order) - 1), 1)]
        items = np.sort(chosen) if apart else np.flatnonzero(np.isin(ids, chosen))
        columns = self.rng.permutation(self.votes.k)[: self.pilot.paths]
        fitted = self.policy.fit(self.votes.take(items).paths(columns))
        times = np.bincount(clusters, minlength=self.rows.groups)
        times[chosen] = 0
        return self.outcome(fitted), self.rows.of_questions(times if apart else times[ids])

    def splits(self, fixed: Fixed) -> tuple[PolicyOutcome, Means | None]:
        """Return each item's outcome averaged over the pilots that it is not in, and the means by pilot."""
        groups = self.votes.n_clusters
        fits = [self._fit(self.rng.permutation(groups)) for _ in range(SPLITS)]
        weights = np.array([weight for _, weight in fits])
        means: dict[str, FloatArray | None] = {}
        for name in NAMES:
            values = [getattr(outcome, name) for outcome, _ in fits]
            means[name] = None if values[0] is None else _average(np.array(values), weights)
        by_pilot = [
            self._row(outcome, weight, fixed) for outcome, weight in fits if outcome.accuracy is not None
        ]
        return PolicyOutcome(**means), means_of(np.array(by_pilot).T) if by_pilot else None  # type: ignore[arg-type]

    def _row(self, outcome: PolicyOutcome, weight: IntArray, fixed: Fixed) -> FloatArray:
        shares = weight / max(int(weight.sum()), 1)
        return shares @ item_columns(outcome, fixed)

    def bootstrap(self, fixed: Fixed, replicates: int) -> Means:
        """Resample clusters; in each replicate draw a pilot, fit, and judge on what is left.

        All replicates share the drawn orders, so the random error of those is added to each.
        """
        groups, luck = self.votes.n_clusters, np.random.default_rng(1)
        rows: list[FloatArray] = []
        for _ in range(min(replicates, MOST_REFITS)):
            outcome, weight = self._fit(self.rng.integers(0, groups, groups))
            if not weight.sum():
                continue
            row = self._row(outcome, weight, fixed)
            row[0] += self.rows.error(outcome.noise, weight) * luck.standard_normal()
            rows.append(row)
        return means_of(np.array(rows).T)


def _first_of_each(values: IntArray, most: int) -> IntArray:
    """Return the different values in the order of their first place, up to ``most`` of them."""
    head = values[: 4 * most]
    order = head[np.sort(np.unique(head, return_index=True)[1])]
    if order.size < most and head.size < values.size:
        order = values[np.sort(np.unique(values, return_index=True)[1])]
    return order[:most]


def _average(values: FloatArray, weights: IntArray) -> FloatArray:
    """Average over splits [S, m]; a row that was in every pilot counts as the mean of the others."""
    seen = weights.sum(axis=0)
    mean = (values * weights).sum(axis=0) / np.maximum(seen, 1)
    others = float(mean[seen > 0].mean())
    return np.where(seen > 0, mean, others)
