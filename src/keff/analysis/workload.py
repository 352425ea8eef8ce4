"""What every rule does on one record, found once: all commands read it here.

In: votes, today's rule, rates. Out: each rule's outcome by question, along the same random orders whatever
other rules are looked at, so that a rule has one accuracy and one cost wherever it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from keff.analysis.money import Rates
from keff.analysis.recorded import RecordedPaths, Rows, needs_fit
from keff.analysis.walks import PolicyOutcome, exact, is_vectorised, with_fitted_confidences
from keff.policy import Policy, in_flight_of
from keff.records import Interval, frozen
from keff.stats.time import NO_CONTENTION, Crowding
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import vote_patterns

# Random orders over all questions: what their number leaves unknown is a tenth of what the questions do.
# Where patterns of votes are many, so many orders of each on average.
ORDERS_IN_ALL, ORDERS_OF_EACH = 40_000, 8

# Longer orders cost more and leave less unknown each, so there are fewer of them.
SHORT = 16

# Paths in the random orders over all questions on which rules are timed, 10,000 orders of 8: that leaves a
# tenth of what the questions leave unknown of a quantile, at a quarter of the work.
TIMED_PATHS = 80_000

# How a rule is followed: by votes alone, with confidences, path by path in time, or one decision after the
# other. Each way has orders of its own, so that a rule's outcome does not hang on the others.
Way: TypeAlias = Literal["votes", "rated", "timed", "single"]
WAYS: tuple[Way, ...] = ("votes", "rated", "timed", "single")


def way_of(rule: Policy) -> Way:
    """Return how a rule is followed."""
    if not (is_vectorised(rule) or needs_fit(rule)):
        return "single"
    if in_flight_of(rule) is not None:
        return "timed"
    return "rated" if "confidence" in rule.needs else "votes"


@dataclass(frozen=True, eq=False)
class Workload:
    """One record with the rules that are looked at, and ``today``'s rule.

    ``longest`` are the most paths of a choice: by that number orders are drawn. ``votes`` hold the
    confidences that the rules read, calibrated on other questions. Drawing is without replacement, so means
    over orders are unbiased for every rule whose cap is at most the recorded K; accuracies are corrected by
    the exact subset average at the cap of their rule.
    """

    votes: Votes
    rules: tuple[Policy, ...]
    now: Policy
    longest: int
    rates: Rates | None = None
    seed: int = 0
    crowding: Crowding = NO_CONTENTION
    replayed: dict[Way, RecordedPaths] = field(default_factory=dict[Way, RecordedPaths])

    @classmethod
    def of(
        cls,
        votes: Votes,
        rules: Sequence[Policy],
        now: Policy,
        rates: Rates | None = None,
        *,
        cap: int | None = None,
        seed: int = 0,
        crowding: Crowding = NO_CONTENTION,
    ) -> Workload:
        """Return the workload of votes with answers; ``cap`` are the most paths of a choice (today's)."""
        longest = min(max(now.cap, cap or 1), votes.k)
        return cls(
            with_fitted_confidences(votes, [*rules, now]), (*rules, now), now, longest, rates, seed, crowding
        )

    @property
    def rows(self) -> Rows:
        """What a row of an outcome stands for."""
        return self.along("votes").rows

    @property
    def today(self) -> PolicyOutcome:
        """The outcome of today's rule."""
        return self.outcome(self.now)

    def along(self, way: Way) -> RecordedPaths:
        """Return the recorded paths in the orders of one way to follow rules; drawn once."""
        if way not in self.replayed:
            self.replayed[way] = self._drawn(way)
        return self.replayed[way]

    def _drawn(self, way: Way) -> RecordedPaths:
        votes, timed = self.votes, way == "timed"
        rules = [rule for rule in self.rules if timed or way_of(rule) == way]
        if timed:
            in_all, fewest = TIMED_PATHS // self.longest, 1
            if votes.seconds is None:
                votes = replace(votes, seconds=votes.tokens)
        else:
            wanted = max(ORDERS_IN_ALL, ORDERS_OF_EACH * vote_patterns(votes).counts.size)
            in_all, fewest = int(wanted * min(1.0, (SHORT / self.longest) ** 0.5)), 2
        return RecordedPaths.of(
            votes,
            [rule for rule in rules if not timed or way_of(rule) != "single"],
            self.now,
            self.longest,
            np.random.default_rng([self.seed, WAYS.index(way)]),
            in_all,
            timed=timed or way == "single",
            fewest=fewest,
            rates=self.rates,
            crowding=self.crowding,
            # Rows of all ways are questions where those of one are.
            by_question=any(way_of(rule) != "votes" for rule in self.rules),
        )

    def outcome(self, rule: Policy) -> PolicyOutcome:
        """Return a rule's outcome by row.

        Along orders of another way than today's rule, what today's rule is off there the rule is off alike.
        """
        own, home = way_of(rule), way_of(self.now)
        found = self.along(own).outcome(rule)
        if own == home or found.accuracy is None:
            return found
        level, here = self.along(home).today.accuracy, self.along(own).today.accuracy
        assert level is not None and here is not None
        return replace(found, accuracy=found.accuracy + (level - here))

    def waits(self, rule: Policy) -> FloatArray:
        """Return the seconds (without them tokens) to the answer along every timed order [n, R]."""
        return self.along("timed").waits(rule)

    def orders_error(self, rule: Policy) -> float:
        """Return the standard error of a rule's mean loss against today's that comes from the orders."""
        return self.along(way_of(rule)).orders_error(rule)


@frozen
class Measured:
    """What one rule did on the questions of a record, each figure with its interval.

    ``accuracy`` and ``same_answer`` (as today's rule on the same paths) are shares, ``points`` the accuracy
    minus today's; the others are means per question. None where unknown.
    """

    accuracy: Interval | None
    points: Interval | None
    same_answer: Interval | None
    paths: Interval
    tokens: Interval | None
    dollars: Interval | None


def measure_rule(work: Workload, spec: str, found: PolicyOutcome) -> Measured:
    """Return what a rule did on the recorded questions, from its outcome on each."""
    rows, today = work.rows, work.today

    def mean(values: FloatArray | None) -> Interval | None:
        return None if values is None else rows.interval(values)

    error, points = rows.error(found.noise, rows.weights), None
    if found.accuracy is not None and today.accuracy is not None:
        points = rows.difference(found.accuracy - today.accuracy, error)
        if spec in (work.now.spec, exact(work.now).spec):  # today's answers, whatever the questions
            points = Interval(0.0, 0.0, 0.0, "today's answers")
    return Measured(
        accuracy=None if found.accuracy is None else rows.share(found.accuracy, error),
        points=points,
        same_answer=None if found.as_now is None else rows.share(found.as_now),
        paths=rows.interval(found.paths),
        tokens=mean(found.tokens),
        dollars=mean(found.dollars),
    )
