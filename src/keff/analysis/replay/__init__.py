"""The same policies over recorded paths: what each costs and keeps, at matched compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from keff.analysis.money import Pace, Rates, Tariff, priced, waits_of
from keff.analysis.replay.compare import (
    NAMES,
    Fixed,
    Means,
    Pilot,
    Refitter,
    Rows,
    interval,
    item_columns,
    means_of,
    resampled,
    with_frontier,
)
from keff.analysis.replay.drawn import DrawnOrders, PathTokens, drawn_orders
from keff.analysis.results.decision import Change
from keff.analysis.results.replay import PilotCosts, Replay, ReplayRow
from keff.analysis.walks import (
    PolicyOutcome,
    Walks,
    answers_of,
    at_once,
    expectations,
    joined,
    rated,
    reference_of,
    run,
    with_cap,
)
from keff.errors import PolicyError
from keff.policy import Fittable, Policy, in_flight_of, parse_policy
from keff.policy.spec import PolicySpec
from keff.records import Interval, frozen
from keff.stats.time import ALONE, Crowding
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import alike
from keff.stats.voting.draws import Draws
from keff.stats.voting.plurality import plurality_at_k_patterns, plurality_items


@frozen
class Replaying:
    """How to replay.

    ``cap`` is what accuracy is compared with (default: 32, or all recorded paths if fewer), ``replicates``
    the number of bootstrap resamples, ``pilot`` that of policies that are fitted (default: min(50, n/2)
    items x 8 paths), ``random_slots`` whether template slots are drawn at random in deployment. ``now`` is
    what is drawn today, a policy or a number of paths (default: the recorded ones, at most 64).
    ``tariff`` gives dollars to the record's ``model``; ``pace`` gives seconds to tokens where none are
    recorded; ``crowding`` how paths that run at once slow each other down.
    """

    cap: int | None = None
    replicates: int = 1000
    pilot: Pilot | None = None
    random_slots: bool = False
    now: str | None = None
    tariff: Tariff | None = None
    model: str | None = None
    pace: Pace | None = None
    crowding: Crowding = ALONE


def replay(
    votes: Votes,
    policies: Sequence[str | Policy],
    rng: np.random.Generator,
    settings: Replaying | None = None,
) -> Replay:
    """Compare policies on recorded paths: one row per policy, in the order given.

    Fixed K in closed form; every other policy over the same random orders of drawing without replacement.
    Ties are split. ``accuracy``, ``kept`` (share of the accuracy of plurality at the cap) and
    ``delta_at_equal_cost`` (against fixed K randomised to the same mean tokens, or paths) carry 95% paired
    cluster-bootstrap intervals. Fitted policies are fitted to pilots disjoint from the questions they are
    judged on, anew in every replicate. A rule without its cap draws as many paths as are recorded, where its
    usual cap is above that. Raises PolicyError for a cap above the recorded K, for fields that are missing,
    and for template slots, which are not exchangeable.
    """
    settings = settings or Replaying()
    rules = [_recordable(policy, votes.k) if isinstance(policy, str) else policy for policy in policies]
    now = reference_of(settings.now, votes.k)
    _check(votes, rules, now, settings)
    votes, prices, notes = priced(votes, settings.model, settings.tariff, settings.pace)
    # Without labels the answer of today's rule is all that others are judged by.
    drawn = [now] if votes.correct is None else _followed(now)
    votes = rated(votes, [*rules, *drawn])
    recorded = RecordedPaths.of(votes, [*rules, *drawn], settings.cap or min(32, votes.k), rng, prices)
    recorded.now, recorded.crowding = now, settings.crowding
    # A pilot of the usual size, or half of a smaller record.
    pilot = settings.pilot or Pilot(max(1, min(50, votes.n // 2)), min(8, votes.k))
    as_they_are = {rule.spec: recorded.outcome(rule) for rule in rules if not _unfitted(rule)}
    spreads = resampled(as_they_are, recorded.fixed, recorded.rows, settings.replicates)
    rows = [recorded.judge(rule, spreads.get(rule.spec), settings.replicates, pilot) for rule in rules]
    return Replay(
        n=votes.n,
        k=votes.k,
        cap=recorded.fixed.cap,
        clusters=votes.n_clusters,
        policies=with_frontier(rows),
        baseline=now.spec,
        warnings=notes,
    )


def _followed(now: Policy) -> list[Policy]:
    """Return the baseline where it needs the orders of drawing: fixed K has a closed form."""
    return [] if now.spec == f"fixed:{now.cap}" else [now]


def _check(votes: Votes, rules: list[Policy], now: Policy, settings: Replaying) -> None:
    if votes.answers is None:
        raise PolicyError("these records hold no answers, only correctness: a vote cannot be replayed")
    if votes.slots is not None and len(np.unique(votes.slots)) > 1 and not settings.random_slots:
        raise PolicyError(
            "the paths come from different template slots and are not exchangeable: replay the paths of one "
            f"slot (PATH#{int(votes.slots[0])}), or say that deployment draws its slots at random "
            "(--random-slots)"
        )
    fitted = [rule.spec for rule in rules if _unfitted(rule)]
    if fitted and votes.n_clusters < 2:
        raise PolicyError(f"{fitted[0]} is fitted on other questions than it is judged on: one is not enough")
    if settings.cap is not None and settings.cap > votes.k:
        raise PolicyError(
            f"the cap is {settings.cap} paths and the records hold {votes.k}: use at most {votes.k}"
        )
    for rule in rules:
        if rule.cap > votes.k:
            shorter = PolicySpec.parse(rule.spec).with_cap(votes.k)
            raise PolicyError(
                f"{rule.spec} may draw {rule.cap} paths and the records hold {votes.k}: write {shorter}"
            )
    if now.cap > votes.k:
        raise PolicyError(
            f"today's {now.spec} may draw {now.cap} paths, beyond the {votes.k} recorded: not to be replayed"
        )


def _recordable(text: str, k: int) -> Policy:
    rule = parse_policy(text)
    return rule if rule.cap <= k else with_cap(text, k)


def _unfitted(rule: Policy) -> bool:
    return isinstance(rule, Fittable) and not rule.fitted


@dataclass
class RecordedPaths:
    """Recorded paths in many orders, with the closed-form curve of fixed K and what was found before.

    ``exact`` [u, T] is that curve for each pattern that orders were drawn for (None without labels).
    """

    votes: Votes
    orders: DrawnOrders
    rows: Rows
    fixed: Fixed
    rng: np.random.Generator
    exact: FloatArray | None = None
    known: dict[str, PolicyOutcome] = field(default_factory=dict[str, PolicyOutcome])
    tokens: PathTokens | None = None
    rates: Rates | None = None
    now: Policy | None = None
    crowding: Crowding = ALONE
    answers_now: dict[int, NDArray[np.int16] | None] = field(
        default_factory=dict[int, "NDArray[np.int16] | None"]
    )

    @classmethod
    def of(
        cls,
        votes: Votes,
        rules: list[Policy],
        cap: int,
        rng: np.random.Generator,
        prices: Rates | None = None,
    ) -> RecordedPaths:
        """Draw the orders: so many in all, and at least 2 of each vote pattern."""
        longest = max([cap, *(rule.cap for rule in rules)])
        in_flight = any(in_flight_of(rule) is not None for rule in rules)
        timed = votes.seconds is not None or in_flight
        weighted = any("confidence" in rule.needs for rule in rules)
        orders, rows = drawn_orders(
            votes,
            longest,
            # A stream of its own: how many orders are drawn must not move the resamples that follow.
            np.random.default_rng(rng.integers(2**63)),
            one_by_one=not all(at_once(rule) or _unfitted(rule) for rule in rules),
            by_path=timed or weighted,
            by_question=votes.tokens is not None or prices is not None,
            in_flight=in_flight,
        )
        unit = np.ones(rows.weights.size) if votes.tokens is None else votes.tokens.mean(axis=1)
        apart = votes.tokens is not None and orders.votes.tokens is None
        tokens = PathTokens.of(votes, orders.votes) if apart else None
        exact = None
        if votes.correct is not None:
            # Of the votes as given: an analysis beside the replay has made their curve already.
            exact = plurality_at_k_patterns(votes)[alike(votes).back[orders.first], :longest]
        fixed = Fixed(None if exact is None else rows.of(exact), unit, cap)
        return cls(votes, orders, rows, fixed, rng, exact, tokens=tokens, rates=prices)

    def outcome(self, policy: Policy) -> PolicyOutcome:
        """Return what a policy does on each item; a policy with the same spec is looked up."""
        if policy.spec not in self.known:
            self.known[policy.spec] = self._outcome(policy)
        return self.known[policy.spec]

    def _outcome(self, policy: Policy) -> PolicyOutcome:
        outcome = self._played(policy)
        if self.rates is None:
            return outcome
        spent = self.rates.dollars(outcome.paths, outcome.rounds, outcome.tokens, outcome.busy, outcome.rated)
        return replace(outcome, dollars=spent)

    def today(self) -> PolicyOutcome | None:
        """Return what the baseline does on each item; fixed K in closed form, whatever was drawn."""
        if self.now is None:
            return None
        k = self.now.cap
        if _followed(self.now):
            return self.outcome(self.now)
        ones, votes = np.ones(self.rows.weights.size), self.votes
        tokens = None if votes.tokens is None else k * votes.tokens.mean(axis=1)
        busy = None if votes.seconds is None else k * votes.seconds.mean(axis=1)
        right = None if votes.correct is None else self.rows.of(plurality_items(votes, k)[self.orders.first])
        spent = None if self.rates is None else self.rates.fixed(votes, k)
        return PolicyOutcome(k * ones, ones, ones, right, tokens, busy=busy, dollars=spent)

    @property
    def bills_whole(self) -> bool:
        """Whether a path that is cancelled is billed as if it had ended."""
        return self.rates is not None and self.rates.price.cancelled == "whole"

    def _played(self, policy: Policy) -> PolicyOutcome:
        """Return what a policy does on each row; ``noise`` is of the patterns that orders were drawn for."""
        parts = [self._played_on(policy, rows, draws) for rows, draws in self.orders.blocks()]
        whole = joined([outcome for outcome, _ in parts])
        if self.rows.pattern is not None and self.rows.counts is None:
            columns = {
                name: self.rows.of(values) for name in NAMES if (values := getattr(whole, name)) is not None
            }
            whole = replace(whole, **columns)
        if self.tokens is None or self.rows.pattern is None:
            return whole
        if policy.spec == f"fixed:{policy.cap}":
            return replace(whole, tokens=self.fixed.unit * policy.cap)
        drawn = np.concatenate([drawn for _, drawn in parts if drawn is not None])
        return replace(whole, tokens=self.tokens.spent(drawn, self.rows.pattern))

    def _played_on(
        self, policy: Policy, rows: slice, draws: Draws
    ) -> tuple[PolicyOutcome, FloatArray | None]:
        """Return what a policy does on some patterns, and how many paths of each kind it draws."""
        walks = run(policy, draws, self.crowding, whole=self.bills_whole)
        outcome = expectations(walks, draws, self.fixed.cap, self._answers_now(rows.start, draws))
        drawn = None if self.tokens is None else self.tokens.drawn(draws, rows, walks.stop)
        return self._corrected(policy, rows, draws, walks, outcome), drawn

    def _corrected(
        self, policy: Policy, rows: slice, draws: Draws, walks: Walks, outcome: PolicyOutcome
    ) -> PolicyOutcome:
        """Return an outcome with the exact accuracy of fixed K as a control variate, at the policy's cap."""
        credit = draws.tallies.credit
        if outcome.accuracy is None or walks.credit is None or credit is None or self.exact is None:
            return outcome
        exact = self.exact[rows, policy.cap - 1]
        if np.all(outcome.paths == policy.cap) and policy.spec == f"fixed:{policy.cap}":
            tokens = None if outcome.tokens is None else self.fixed.unit[rows] * policy.cap
            return replace(outcome, accuracy=exact, tokens=tokens)
        # What the drawn orders are off at its cap, they are off alike for a policy that ends near it.
        drawn = credit[:, :, policy.cap].mean(axis=1, dtype=np.float64)
        noise = (walks.credit - credit[:, :, policy.cap]).var(axis=1, dtype=np.float64) / credit.shape[1]
        return replace(outcome, accuracy=outcome.accuracy + exact - drawn, noise=noise)

    def _answers_now(self, start: int, draws: Draws) -> NDArray[np.int16] | None:
        """Return the answers of today's rule in a block of orders; kept for the next policy."""
        if self.now is None:
            return None
        if start not in self.answers_now:
            self.answers_now[start] = answers_of(self.now, draws)
        return self.answers_now[start]

    def judge(self, policy: Policy, spread: Means | None, replicates: int, pilot: Pilot) -> ReplayRow:
        """Return the row of one policy; ``spread`` are its resampled means (None: fitted, or no limits).

        Without labels what needs them is None.
        """
        if isinstance(policy, Fittable) and not policy.fitted:
            refitter = Refitter(self.votes, self.rows, policy, pilot, self.outcome, self.rng)
            outcome, point = refitter.splits(self.fixed)
            if self.rows.groups > 1 and outcome.accuracy is not None:
                spread = refitter.bootstrap(self.fixed, replicates)
            costs = pilot.costs(self.rows.mean(outcome.paths), "labels" in policy.needs)
            return self._row(policy.spec, outcome, point, spread, costs)
        outcome, point = self.outcome(policy), None
        if outcome.accuracy is not None:
            columns = item_columns([outcome], self.fixed)
            (point,) = means_of((self.rows.weights @ columns / self.votes.n)[:, None])
            error = self.rows.error(outcome.noise, self.rows.weights)
            spread = spread and spread.with_noise(error, np.random.default_rng(1))
        return self._row(policy.spec, outcome, point, spread, None)

    def _change(self, outcome: PolicyOutcome, *, fitted: bool) -> Change | None:
        """Return a policy minus the baseline on the same questions, paired by question."""
        today = self.today()
        if self.now is None or today is None:
            return None

        def minus(mine: FloatArray | None, other: FloatArray | None) -> Interval | None:
            if mine is None or other is None:
                return None
            return self.rows.told(mine - other, fitted=fitted)

        paths = self.rows.told(outcome.paths - today.paths, fitted=fitted)
        accuracy = minus(outcome.accuracy, today.accuracy)
        return Change(self.now.spec, accuracy, paths, minus(outcome.dollars, today.dollars))

    def _row(
        self,
        spec: str,
        outcome: PolicyOutcome,
        point: Means | None,
        spread: Means | None,
        pilot: PilotCosts | None,
    ) -> ReplayRow:
        rows, cap, fitted = self.rows, self.fixed.cap, pilot is not None
        accuracy = kept = delta = None
        if point is not None:
            accuracy = interval(point.accuracy, spread and spread.accuracy)
            kept = interval(point.kept(cap), spread and spread.kept(cap))
            delta = interval(point.delta(), spread and spread.delta())
        waited = waits_of(outcome.wait, rows.clusters)
        return ReplayRow(
            policy=spec,
            accuracy=accuracy,
            kept=kept,
            delta_at_equal_cost=delta,
            mean_paths=rows.mean(outcome.paths),
            mean_tokens=None if outcome.tokens is None else rows.mean(outcome.tokens),
            rounds=rows.mean(outcome.rounds),
            same_answer_as_cap=rows.mean(outcome.agrees),
            pilot=pilot,
            dollars=None if outcome.dollars is None else rows.interval(outcome.dollars),
            seconds=waited,
            seconds_at_once=waited if outcome.at_once is None else waits_of(outcome.at_once, rows.clusters),
            change=self._change(outcome, fitted=fitted),
            same_answer=None if outcome.as_now is None else rows.told(outcome.as_now, fitted=fitted),
        )


def markdown(compared: Replay) -> str:
    """Return the comparison as a Markdown table."""
    head, *body = compared.rows()
    rules = ["---", *["---:"] * (len(head) - 1)]
    lines = [head, rules, *((f"`{policy}`", *cells) for policy, *cells in body)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{compared.line()}\n\n{table}\n"
