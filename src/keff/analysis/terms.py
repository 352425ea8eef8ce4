"""What a recommendation costs and saves: in dollars and seconds, against what is deployed today."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from keff.analysis.money import Pace, Rates, Tariff, complete, rates
from keff.analysis.recommend import Aim
from keff.analysis.replay import Replaying, replay
from keff.analysis.results.money import Bill, Change, Seconds, Step
from keff.analysis.results.recommendation import Recommendation
from keff.errors import PolicyError, UsageError
from keff.policy import parse_policy
from keff.records import Interval, Note
from keff.stats.intervals import interval_mean
from keff.stats.plurality import plurality_at_k_items
from keff.stats.votes import FloatArray, Votes

THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user pays and does today.

    ``now`` is the policy deployed today, as a spec or a number of paths (default: what was drawn);
    ``tariff`` and ``volume`` the prices and the questions to come; ``budget_dollars`` the most that a
    question may cost on average; ``pace`` gives seconds to tokens. Raises UsageError outside the ranges.
    """

    now: str | None = None
    tariff: Tariff | None = None
    volume: int | None = None
    budget_dollars: float | None = None
    pace: Pace | None = None

    def __post_init__(self) -> None:
        if self.budget_dollars is not None and not 0 < self.budget_dollars < np.inf:
            raise UsageError(f"a budget in dollars must be above 0, not {self.budget_dollars:g}")
        if self.tariff is None and (self.budget_dollars is not None or self.volume is not None):
            raise UsageError("a budget in dollars and a volume need prices (--prices FILE)")
        if self.volume is not None and self.volume < 1:
            raise UsageError(f"a volume is at least 1 question, not {self.volume}")


def policy_now(text: str) -> str:
    """Return the spec of what is deployed today: a number K is ``fixed:K``.

    Raises PolicyError for a spec that is none.
    """
    spec = f"fixed:{text}" if text.strip().isdigit() else text
    return parse_policy(spec).spec


@dataclass(frozen=True, slots=True)
class Accounts:
    """One record with its prices: what it rests on for every figure in dollars and seconds."""

    votes: Votes
    rates: Rates | None
    terms: Terms
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, votes: Votes, model: str | None, terms: Terms) -> Accounts:
        """Return the accounts of a record; raises UsageError for prices or counts that are missing."""
        full = complete(votes, terms.pace)
        known = None if terms.tariff is None else rates(full, model, terms.tariff)
        notes = () if known is None else known.notes
        if terms.pace is not None and votes.seconds is None:
            how = f"{terms.pace.first:g} + tokens / {terms.pace.rate:g}"
            notes = (*notes, Note("seconds_from_tokens", f"seconds are not recorded: {how} stands for them"))
        return cls(full, known, terms, notes)

    def aim(self, aim: Aim) -> Aim:
        """Return the aim in paths: dollars by the recorded mean cost of a path drawn alone."""
        dollars = self.terms.budget_dollars
        if dollars is None or self.rates is None:
            return aim
        if aim.stated:
            raise UsageError("state one aim: a budget in dollars is one")
        each = float(self.rates.alone(self.votes).mean())
        if each <= 0:
            raise UsageError("paths cost nothing at these prices: state --budget in paths")
        if dollars < each:
            raise UsageError(f"one path costs ${each:.3g} on average: a budget of ${dollars:g} buys none")
        return replace(aim, budget=dollars / each)

    def settle(self, advice: Recommendation) -> Recommendation:
        """Return a recommendation with its dollars, its seconds, and the change from today."""
        spec = self.terms.now or f"fixed:{self.votes.k}"
        cost = self._cost(advice)
        today = None if self.rates is None else self._dollars_now(spec)
        change = self._change(advice, spec, cost, today)
        spent = None if self.rates is None else self.rates.recorded(self.votes)
        return replace(
            advice,
            baseline=spec,
            change=change,
            expected_cost=cost or advice.expected_cost,
            expected_seconds=self._seconds(advice),
            pilot_cost=spent,
            pays_back_after=_pays_back(spent, change),
            bill=self._bill(cost),
        )

    def _cost(self, advice: Recommendation) -> Interval | None:
        """Return the mean dollars of a question.

        A rule that stops is billed a prompt for every path, the most that its rounds can take; fixed K is one
        request. The limits are those of the mean cost over questions, at the expected paths.
        """
        if self.rates is None or advice.expected_paths is None:
            return None
        paths, votes = advice.expected_paths, self.votes
        each = None if votes.tokens is None else votes.tokens.mean(axis=1)
        if each is not None and advice.expected_tokens is not None:
            each = each * advice.expected_tokens / (paths * float(each.mean()) or 1.0)
        rounds = 1.0 if advice.policy.startswith("fixed:") else paths
        busy = None if votes.seconds is None else votes.seconds.mean(axis=1) * paths
        ones = np.ones(votes.n)
        tokens = None if each is None else each * paths
        spent = self.rates.dollars(paths * ones, rounds * ones, tokens, busy)
        return self._mean(spent, "expected paths, at most a prompt each")

    def _dollars_now(self, spec: str) -> Interval | None:
        policy = parse_policy(spec)
        assert self.rates is not None
        votes, k = self.votes, policy.cap
        if policy.spec != f"fixed:{k}":
            how = Replaying(now=spec, tariff=self.terms.tariff, model=self.rates.model, random_slots=True)
            return replay(votes, [spec], np.random.default_rng(0), how).policies[0].dollars
        tokens = None if votes.tokens is None else votes.tokens.mean(axis=1) * k
        busy = None if votes.seconds is None else votes.seconds.mean(axis=1) * k
        ones = np.ones(votes.n)
        return self._mean(self.rates.dollars(k * ones, ones, tokens, busy), "recorded cost of a path")

    def _change(
        self, advice: Recommendation, spec: str, cost: Interval | None, today: Interval | None
    ) -> Change | None:
        """Return the recommended policy minus today's: None where its paths cannot be told."""
        if advice.expected_paths is None:
            return None
        level, paths = self._now(spec)
        drawn = advice.expected_paths_interval or Interval(advice.expected_paths, None, None, "expected")
        lo, hi = (None if end is None else end - paths for end in (drawn.lo, drawn.hi))
        difference = Interval(drawn.value - paths, lo, hi, f"{drawn.method}, minus today's mean")
        return Change(spec, _minus(advice.expected_plurality, level), difference, _minus_values(cost, today))

    def _now(self, spec: str) -> tuple[Interval | None, float]:
        """Return the accuracy (None where the record does not reach so far) and the mean paths of today."""
        policy, votes = parse_policy(spec), self.votes
        fixed = policy.spec == f"fixed:{policy.cap}"
        if fixed and policy.cap > votes.k:
            return None, float(policy.cap)
        if not fixed and policy.cap > votes.k:
            raise PolicyError(f"today's {spec} may draw {policy.cap} paths, beyond the {votes.k} recorded")
        if fixed:
            if votes.correct is None or votes.answers is None:
                return None, float(policy.cap)
            right = plurality_at_k_items(votes)[:, policy.cap - 1]
            return self._mean(right, "plurality of the record"), float(policy.cap)
        row = replay(votes, [spec], np.random.default_rng(0), Replaying(random_slots=True)).policies[0]
        return row.accuracy, row.mean_paths

    def _seconds(self, advice: Recommendation) -> Seconds | None:
        """Return the time to answer of the policy, its rounds one after the other.

        Where it may draw more paths than are recorded, those of each question are drawn again.
        """
        if self.votes.seconds is None or self.votes.answers is None or advice.expected_paths is None:
            return None
        longer = advice.k > self.votes.k
        votes = redrawn(self.votes, 2 * advice.k) if longer else self.votes
        how = Replaying(replicates=1, random_slots=True)
        seconds = replay(votes, [advice.policy], np.random.default_rng(0), how).policies[0].seconds
        if seconds is None or not longer:
            return seconds
        return Seconds(_redrawn(seconds.p50), _redrawn(seconds.p95))

    def _bill(self, cost: Interval | None) -> Bill | None:
        if self.rates is None:
            return None
        volume = self.terms.volume
        return Bill(
            model=self.rates.model,
            per_path=self._mean(self.rates.alone(self.votes), "recorded cost of a path"),
            per_1000=_times(cost, THOUSAND),
            volume=volume,
            for_volume=None if volume is None else _times(cost, volume),
            steps=self._steps(),
        )

    def _steps(self) -> tuple[Step, ...]:
        """Return the steps of the recorded curve of plurality at powers of two, and at all paths."""
        votes = self.votes
        if self.rates is None or votes.correct is None or votes.answers is None:
            return ()
        curve = plurality_at_k_items(votes).mean(axis=0)
        tokens = None if votes.tokens is None else votes.tokens.mean(axis=1)
        busy = None if votes.seconds is None else votes.seconds.mean(axis=1)
        # Fixed K is one request, so a further path adds no prompt.
        extra = float(self.rates.dollars(np.ones(votes.n), np.zeros(votes.n), tokens, busy).mean())
        places = [*(2**power for power in range(votes.k.bit_length()) if 2**power < votes.k), votes.k]
        return tuple(
            step(low, high, float(curve[high - 1] - curve[low - 1]), (high - low) * extra)
            for low, high in pairwise(places)
        )

    def _mean(self, values: FloatArray, method: str) -> Interval:
        found = interval_mean(values, self.votes.cluster_ids)
        return Interval(found.value, found.lo, found.hi, f"{method}, {found.method}")


def step(low: int, high: int, points: float, dollars: float) -> Step:
    """Return a step of the curve; a right answer has no price where the curve does not rise."""
    return Step(low, high, points, dollars, dollars / points if points > 1e-9 else None)


def redrawn(votes: Votes, k: int) -> Votes:
    """Return votes with k paths of each question, drawn again with replacement from the recorded ones."""
    columns = np.random.default_rng(0).integers(0, votes.k, (votes.n, k))

    def pick(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else np.take_along_axis(values, columns, axis=1)

    return Votes(
        answers=np.take_along_axis(votes.answered(), columns, axis=1),
        correct=None,
        clusters=votes.clusters,
        tokens=pick(votes.tokens),
        confidences=pick(votes.confidences),
        closed=votes.closed,
        seconds=pick(votes.seconds),
    )


def _redrawn(value: Interval | None) -> Interval | None:
    if value is None:
        return None
    return replace(value, method="recorded paths drawn again with replacement, cluster_bootstrap")


def _minus(mine: Interval | None, other: Interval | None) -> Interval | None:
    """Return the difference of two estimates, taken as independent: wide, for they share questions."""
    if mine is None or other is None:
        return None
    value = mine.value - other.value
    if mine.limits is None or other.limits is None:
        return Interval(value, None, None, "difference of two estimates")
    below = np.hypot(mine.value - mine.limits[0], other.limits[1] - other.value)
    above = np.hypot(mine.limits[1] - mine.value, other.value - other.limits[0])
    method = "difference of two estimates, taken as independent"
    return Interval(value, float(value - below), float(value + above), method)


def _minus_values(mine: Interval | None, other: Interval | None) -> Interval | None:
    """Return the difference without limits: both cost the same paths, so their errors go together."""
    if mine is None or other is None:
        return None
    return Interval(mine.value - other.value, None, None, "expected minus today's dollars")


def _times(value: Interval | None, times: int) -> Interval | None:
    if value is None:
        return None
    lo, hi = (None if end is None else end * times for end in (value.lo, value.hi))
    return Interval(value.value * times, lo, hi, value.method)


def _pays_back(spent: float | None, change: Change | None) -> float | None:
    """Return after how many questions the savings have paid for the pilot; None where nothing is saved."""
    if spent is None or change is None or change.dollars is None or change.dollars.value >= 0:
        return None
    return spent / -change.dollars.value
