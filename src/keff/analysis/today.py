"""What is deployed today, on the questions of a record, and what changes from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from keff.analysis.bill import mean_of
from keff.analysis.money import Rates
from keff.analysis.recommend.worth import measured
from keff.analysis.replay import Bench
from keff.analysis.results.money import Change
from keff.analysis.results.recommendation import Recommendation
from keff.errors import PolicyError
from keff.policy import parse_policy
from keff.records import Interval
from keff.stats.plurality import plurality_items
from keff.stats.resampling import group_sums, resampled_totals
from keff.stats.votes import FloatArray, Votes

REPLICATES = 1000

NEW_QUESTIONS = 1.5
"""Twice as many new questions as the pilot's vary half as much as the pilot did, beside it."""


@dataclass(frozen=True, slots=True)
class Today:
    """A deployed policy: what it does on each question [n].

    ``right`` and ``dollars`` are None where labels or prices are unknown, or the record is too short.
    """

    spec: str
    paths: FloatArray
    right: FloatArray | None
    dollars: FloatArray | None

    @classmethod
    def of(cls, votes: Votes, spec: str, rates: Rates | None) -> Today:
        """Replay what is deployed; a fixed number of paths in closed form, beyond the record its cost only.

        Raises PolicyError for another policy that may draw more than was recorded.
        """
        policy, k = parse_policy(spec), parse_policy(spec).cap
        if policy.spec == f"fixed:{k}":
            ones = np.ones(votes.n)
            tokens = None if votes.tokens is None else votes.tokens.mean(axis=1) * k
            busy = None if votes.seconds is None else votes.seconds.mean(axis=1) * k
            known = votes.correct is not None and votes.answers is not None and k <= votes.k
            right = plurality_items(votes, k) if known else None
            return cls(
                spec, k * ones, right, None if rates is None else rates.dollars(k * ones, ones, tokens, busy)
            )
        if votes.answers is None:
            raise PolicyError(f"today's {spec} cannot be replayed: the record holds no answers")
        if k > votes.k:
            raise PolicyError(f"today's {spec} may draw {k} paths, beyond the {votes.k} recorded")
        bench = Bench.of(votes, [policy], min(32, votes.k), np.random.default_rng(0))
        bench.rates = rates
        outcome = bench.outcome(policy)
        return cls(spec, outcome.paths, outcome.accuracy, outcome.dollars)

    def change(self, advice: Recommendation, votes: Votes, cost: Interval | None) -> Change | None:
        """Return the recommended policy minus this one; None where its paths cannot be told."""
        if advice.expected_paths is None:
            return None
        paths = float(self.paths.mean())
        drawn = advice.expected_paths_interval or Interval(advice.expected_paths, None, None, "expected")
        lo, hi = (None if end is None else end - paths for end in (drawn.lo, drawn.hi))
        return Change(
            self.spec,
            self._points(advice, votes),
            Interval(drawn.value - paths, lo, hi, f"{drawn.method}, minus today's mean"),
            self._dollars(votes, cost),
        )

    def _dollars(self, votes: Votes, cost: Interval | None) -> Interval | None:
        """Return the difference without limits: both cost the same paths, so their errors go together."""
        if cost is None or self.dollars is None:
            return None
        today = mean_of(self.dollars, votes, "today").value
        return Interval(cost.value - today, None, None, "expected minus today's dollars")

    def _points(self, advice: Recommendation, votes: Votes) -> Interval | None:
        """Return the change of accuracy, paired by question.

        The expected accuracy is a measured one, that of the plurality at the cap or of one path, with a
        correction from a model. The measured part is paired with today's by a cluster bootstrap of the
        difference; the error of the model is what the expected accuracy's exceeds that of its measured part.
        """
        expected = advice.expected_plurality
        if expected is None or self.right is None:
            return None
        value = expected.value - float(self.right.mean())
        if expected.limits is None or votes.n_clusters < 2:
            return Interval(value, None, None, "paired by question")
        base = plurality_items(votes, min(advice.k, votes.k))
        wide = float(stdtrit(votes.n_clusters - 1, 0.975)) * NEW_QUESTIONS**0.5
        own = wide * measured(base, votes.cluster_ids).sd
        whole = max(expected.limits[1] - expected.value, expected.value - expected.limits[0])
        model = max(whole**2 - own**2, 0.0) ** 0.5
        below, above = _spread(base - self.right, votes)
        scale = NEW_QUESTIONS**0.5
        return Interval(
            value,
            value - float(np.hypot(scale * below, model)),
            value + float(np.hypot(scale * above, model)),
            "paired by question, cluster_bootstrap of the difference and the error of the model",
        )


def _spread(difference: FloatArray, votes: Votes) -> tuple[float, float]:
    """Return how far the mean difference [n] may lie below and above, by resampled clusters."""
    columns = np.column_stack([np.ones(votes.n), difference])
    units = group_sums(columns, votes.cluster_ids, votes.n_clusters)
    totals = resampled_totals(units, REPLICATES, np.random.default_rng(0))
    means, value = totals[1] / totals[0], float(difference.mean())
    lo, hi = np.quantile(means, [0.025, 0.975])
    return max(value - float(lo), 0.0), max(float(hi) - value, 0.0)
