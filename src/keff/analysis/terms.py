"""What a recommendation costs and saves: in dollars and seconds, against what is deployed today."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keff.analysis.bill import bill_of, mean_of, pays_back
from keff.analysis.money import Pace, Rates, Tariff, complete, rates
from keff.analysis.recommend import Aim
from keff.analysis.results.recommendation import Recommendation
from keff.analysis.times import seconds_of
from keff.analysis.today import Today
from keff.errors import UsageError
from keff.policy import policy_now
from keff.policy_spec import MAX_CAP
from keff.records import Interval, Note
from keff.stats.votes import Votes


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
        if self.now is not None:
            object.__setattr__(self, "now", policy_now(str(self.now)))
        if self.budget_dollars is not None and not 0 < self.budget_dollars < np.inf:
            raise UsageError(f"a budget in dollars must be above 0, not {self.budget_dollars:g}")
        if self.tariff is None and (self.budget_dollars is not None or self.volume is not None):
            raise UsageError("a budget in dollars and a volume need prices (--prices FILE)")
        if self.volume is not None and self.volume < 1:
            raise UsageError(f"a volume is at least 1 question, not {self.volume}")


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
        spec = self.terms.now or f"fixed:{min(self.votes.k, MAX_CAP)}"
        today = Today.of(self.votes, spec, self.rates)
        cost = self._cost(advice)
        change = today.change(advice, self.votes, cost)
        spent = None if self.rates is None else self.rates.recorded(self.votes)
        known = advice.expected_paths is not None
        return replace(
            advice,
            baseline=spec,
            change=change,
            expected_cost=cost or advice.expected_cost,
            expected_seconds=seconds_of(self.votes, advice.policy) if known else None,
            pilot_cost=spent,
            pays_back_after=pays_back(spent, change),
            bill=None if self.rates is None else bill_of(cost, self.votes, self.rates, self.terms.volume),
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
        return mean_of(spent, self.votes, "expected paths, at most a prompt each")
