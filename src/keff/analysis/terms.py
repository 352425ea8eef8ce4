"""Costs and savings of a decision in dollars and seconds, against today's policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.decision import Aim, DecisionResult
from keff.analysis.money import Pace, Rates, Tariff, bill_of, doublings, mean_of, waits_of, with_prices
from keff.analysis.results.decision import Bill, CurvePoint, Seconds
from keff.analysis.walks import reference_of
from keff.analysis.workload import Workload
from keff.errors import UsageError
from keff.policy import Policy, parse_policy
from keff.records import Note, frozen
from keff.stats.intervals import mean_share
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.plurality import plurality_items


def resample_paths(votes: Votes, k: int) -> Votes:
    """Return votes with k paths of each question, resampled with replacement from the recorded ones."""
    columns = np.random.default_rng(0).integers(0, votes.k, (votes.n, k))
    return votes.pick_paths(lambda values: np.take_along_axis(values, columns, axis=1), slots=None)


@frozen
class Terms:
    """The user's prices and the policy in use today.

    ``now`` is the policy that runs today, as a spec or a number of paths (default: the recorded paths, at
    most 64). A rule without a cap may draw as many paths as were recorded. ``tariff`` holds the prices
    and ``volume`` the number of questions to come. ``budget_dollars`` is the most that a question may
    cost on average, and ``pace`` turns tokens into seconds. Raises UsageError outside the ranges.
    """

    now: str | None = None
    tariff: Tariff | None = None
    volume: int | None = None
    budget_dollars: float | None = None
    pace: Pace | None = None

    def __post_init__(self) -> None:
        if self.budget_dollars is not None and not 0 < self.budget_dollars < np.inf:
            raise UsageError(f"budget_dollars must be above 0, not {self.budget_dollars:g}")
        if self.tariff is None and (self.budget_dollars is not None or self.volume is not None):
            raise UsageError("budget_dollars and volume need prices")
        if self.volume is not None and self.volume < 1:
            raise UsageError(f"volume is at least 1 question, not {self.volume}")


@frozen
class Accounts:
    """One record with its prices, the basis of all figures in dollars and seconds."""

    votes: Votes
    rates: Rates | None
    terms: Terms
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, votes: Votes, model: str | None, terms: Terms) -> Accounts:
        """Return the accounts of a record; raises UsageError for prices or counts that are missing."""
        full, known, notes = with_prices(votes, model, terms.tariff, terms.pace)
        return cls(full, known, terms, (*notes, *_gaps(votes)))

    def aim(self, aim: Aim) -> Aim:
        """Return the aim in paths; dollars are converted by the mean cost of one path."""
        dollars = self.terms.budget_dollars
        if dollars is None or self.rates is None:
            return aim
        if aim.is_stated:
            raise UsageError("state one aim: a budget in dollars is one")
        each = float(self.rates.alone(self.votes).mean())
        if each <= 0:
            raise UsageError("paths cost nothing at these prices: state --budget in paths")
        if dollars < each:
            raise UsageError(f"one path costs ${each:.3g} on average: a budget of ${dollars:g} buys none")
        return replace(aim, budget=dollars / each)

    def workload(self, rules: Sequence[Policy], now: str | None, cap: int | None, seed: int) -> Workload:
        """Return the workload of some rules within the record, on the orders of its decision."""
        reference = reference_of(now, self.votes.k)
        today = reference if reference.cap <= self.votes.k else parse_policy(f"fixed:{self.votes.k}")
        return Workload.of(self.votes, rules, today, self.rates, cap=cap or reference.cap, seed=seed)

    def seconds(self, spec: str, now: str | None, cap: int | None, seed: int) -> Seconds | None:
        """Return a policy's time to answer, rounds one after the other; None without seconds or answers.

        Where it may draw more paths than are recorded, those of each question are drawn again.
        """
        votes, rule = self.votes, parse_policy(spec)
        if votes.seconds is None or votes.answers is None:
            return None
        if rule.cap <= votes.k:
            return waits_of(self.workload([rule], now, cap, seed).waits(rule), votes.cluster_ids)
        drawn = resample_paths(votes, 2 * rule.cap)
        found = waits_of(Workload.of(drawn, [rule], rule, seed=seed).waits(rule), votes.cluster_ids)
        how = "recorded paths drawn again with replacement, cluster_bootstrap"
        return found and Seconds(*(each and replace(each, method=how) for each in (found.p50, found.p95)))

    def fixed_curve(self, now: str | None, cap: int | None, seed: int) -> tuple[CurvePoint, ...]:
        """Return cost and time points at powers of two and all paths; none without prices and times."""
        votes, rates = self.votes, self.rates
        if rates is None and votes.seconds is None:
            return ()
        rules = {k: parse_policy(f"fixed:{k}") for k in doublings(votes.k)}
        known = votes.correct is not None and votes.answers is not None
        # Times do not hang on answers.
        some = (
            self
            if votes.answers is not None
            else replace(self, votes=replace(votes, answers=np.zeros((votes.n, votes.k), np.int64)))
        )
        work = None if votes.seconds is None else some.workload([*rules.values()], now, cap, seed)
        return tuple(
            CurvePoint(
                paths=k,
                accuracy=mean_share(plurality_items(votes, k), votes.cluster_ids) if known else None,
                dollars=None
                if rates is None
                else mean_of(rates.fixed(votes, k), votes, "recorded cost of a path"),
                seconds=None if work is None else waits_of(work.waits(rule), votes.cluster_ids),
            )
            for k, rule in rules.items()
        )

    def bill(self, decided: DecisionResult) -> Bill | None:
        """Return the bill of a decision; None without prices."""
        if self.rates is None:
            return None
        saved = decided.decision.change.dollars
        return bill_of(decided.dollars, saved, self.votes, self.rates, self.terms.volume)


def _gaps(votes: Votes) -> Iterator[Note]:
    """Yield a note where missing tokens or seconds were filled by the question's mean."""
    for name in ("tokens", "seconds"):
        values: FloatArray | None = getattr(votes, name)
        if values is not None and 0 < (share := float(np.isnan(values).mean())) < 1:
            told = f"{share:.1%} of the paths have no {name}, so keff takes the mean of their question"
            yield Note(f"{name}_missing", told)
