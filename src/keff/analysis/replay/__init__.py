"""Replay of policies on recorded paths: cost and accuracy of each, at equal compute.

In: ``Votes`` and policies. Out: a ``Replay`` with one row per policy.
Read this file, then ``compare`` (intervals of rows, and cross-validation of fitted policies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.decision import Aim, DecisionResult, decide
from keff.analysis.money import Pace, Rates, Tariff, waits_of, with_prices
from keff.analysis.recorded import needs_fit
from keff.analysis.replay.compare import (
    Fixed,
    Pilot,
    Refitter,
    with_frontier,
)
from keff.analysis.results.decision import Change, Decision
from keff.analysis.results.replay import Replay, ReplayRow
from keff.analysis.walks import PolicyOutcome, is_vectorised, reference_of, with_cap
from keff.analysis.workload import Workload, measure_rule, way_of
from keff.errors import PolicyError
from keff.policies.retry import reads_verdicts
from keff.policy import Fittable, Policy, in_flight_of, parse_policy
from keff.policy.spec import PolicySpec
from keff.records import Interval, frozen
from keff.stats.models.tries import votes_of_verdicts
from keff.stats.time import NO_CONTENTION, Crowding
from keff.stats.votes import Votes


@frozen
class Replaying:
    """Settings of a replay.

    ``cap`` is what accuracy is compared with (default: what is drawn today). Policies that are fitted are
    fitted to ``pilot`` (default: min(50, n/2) items x 8 paths);
    ``random_slots`` whether template slots are drawn at random in deployment. ``now`` is what is drawn today,
    a policy or a number of paths (default: the recorded ones, at most 64). ``tariff`` gives dollars to the
    record's ``model``; ``pace`` gives seconds to tokens where none are recorded; ``crowding`` how paths that
    run at once slow each other down. With an ``aim`` the rule that ``analyze`` recommends for it is a row
    too, by the same decision with the same ``seed``.
    """

    cap: int | None = None
    pilot: Pilot | None = None
    random_slots: bool = False
    now: str | None = None
    tariff: Tariff | None = None
    model: str | None = None
    pace: Pace | None = None
    crowding: Crowding = NO_CONTENTION
    aim: Aim | None = None
    seed: int = 0


def replay(
    votes: Votes,
    policies: Sequence[str | Policy],
    rng: np.random.Generator,
    settings: Replaying | None = None,
) -> Replay:
    """Compare policies on recorded paths: one row per policy, in the order given.

    Fixed K in closed form; every other policy over the random orders of a ``Workload``, as in a decision.
    Ties are split. ``accuracy`` is a share; ``kept`` (of the accuracy of plurality at the cap) and
    ``delta_at_equal_cost`` (against fixed K randomised to the same mean tokens, or paths) are paired
    differences. What a policy that is fitted does on a question is its mean over fits to pilots without that
    question; ``rng`` draws those pilots. A rule without its cap draws as many paths as are recorded, where
    its usual cap is above that. Raises PolicyError for a cap above the recorded K, for fields that are
    missing, and for template slots, which are not exchangeable.
    """
    settings = settings or Replaying()
    rules = [_recordable(policy, votes.k) if isinstance(policy, str) else policy for policy in policies]
    now = reference_of(settings.now, votes.k)
    if votes.answers is None:
        now = parse_policy(f"retry:{now.cap}")
    _check(votes, rules, now, settings)
    votes, prices, notes = with_prices(votes, settings.model, settings.tariff, settings.pace)
    decision, expected = None, dict[str, float]()
    if settings.aim is not None:
        decision, expected = _decide(votes, rules, prices, settings, settings.aim)
        if decision.verdict is not None and decision.policy not in {rule.spec for rule in rules}:
            chosen = parse_policy(decision.policy)
            rules += [chosen] if chosen.cap <= votes.k else []
    votes = votes_of_verdicts(votes) if votes.answers is None else votes
    work = Workload.of(
        votes, rules, now, prices, cap=settings.cap, seed=settings.seed, crowding=settings.crowding
    )
    cap = settings.cap or now.cap
    found = _rows(work, rules, cap, settings, rng)
    return Replay(
        n=votes.n,
        k=votes.k,
        cap=cap,
        clusters=votes.n_clusters,
        policies=tuple(replace(row, expected_kept=expected.get(row.policy)) for row in found),
        baseline=now.spec,
        warnings=notes,
        decision=decision,
    )


def _decide(
    votes: Votes, rules: Sequence[Policy], prices: Rates | None, settings: Replaying, aim: Aim
) -> tuple[Decision, dict[str, float]]:
    """Return what ``analyze`` decides, and by policy the share of accuracy that it expects a rule to keep.

    The latter by the same posterior with the replayed rules in it, which are no candidates.
    """

    def decided(beside: Sequence[Policy]) -> DecisionResult:
        now, cap, seed = settings.now, settings.cap, settings.seed
        return decide(votes, aim, now=now, cap=cap, rates=prices, seed=seed, beside=beside)

    decision = decided(()).decision
    if decision.kept is None:
        return decision, {}
    # What has to be followed path by path would take minutes, and is no rule of the chain.
    beside = [
        rule for rule in rules if is_vectorised(rule) and not needs_fit(rule) and in_flight_of(rule) is None
    ]
    known = decided(beside).posterior
    if known is None or known.level is None:
        return decision, {}
    kept = np.minimum(1 - known.loss / known.level, 1.0).tolist()
    return decision, dict(zip(known.specs, kept, strict=True)) | {decision.policy: decision.kept.value}


def at_cap(specs: Sequence[str], cap: int) -> list[str]:
    """Return the specs of rules with this cap, without those whose window, lead or number is above it."""
    parsed = [PolicySpec.parse(spec) for spec in specs]
    return [
        str(spec.with_cap(cap)) for spec in parsed if not isinstance(spec.value, int) or spec.value <= cap
    ]


def _rows(
    work: Workload, rules: list[Policy], cap: int, settings: Replaying, rng: np.random.Generator
) -> tuple[ReplayRow, ...]:
    """Return the row of each policy."""
    votes, rows = work.votes, work.rows
    exact = work.along("votes").exact
    unit = np.ones(rows.weights.size) if votes.tokens is None else votes.tokens.mean(axis=1)
    fixed = Fixed(None if exact is None else rows.of(exact), unit, cap)
    # A pilot of the usual size, or half of a smaller record.
    pilot = settings.pilot or Pilot(max(1, min(50, votes.n // 2)), min(8, votes.k))
    judging = Judging(work, fixed, pilot, rng)
    return with_frontier([judging.row(rule) for rule in rules])


def _check(votes: Votes, rules: list[Policy], now: Policy, settings: Replaying) -> None:
    voting = [rule.spec for rule in rules if not (rule.cap == 1 or reads_verdicts(rule))]
    if votes.answers is None and voting:
        raise PolicyError(
            f"these records hold verdicts and no answers: {voting[0]} cannot be replayed, retry:m can"
        )
    if votes.slots is not None and len(np.unique(votes.slots)) > 1 and not settings.random_slots:
        raise PolicyError(
            "the paths come from different template slots and are not exchangeable: replay the paths of one "
            f"slot (PATH#{int(votes.slots[0])}), or say that deployment draws its slots at random "
            "(--random-slots)"
        )
    fitted = [rule.spec for rule in rules if needs_fit(rule)]
    if fitted and votes.n_clusters < 2:
        why = "is fitted on other questions than it is judged on"
        raise PolicyError(f"{fitted[0]} {why}: record two or more, or name policies that are not fitted")
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
            f"keff cannot replay today's {now.spec}: it may draw {now.cap} paths, and the records hold "
            f"{votes.k}"
        )


def _recordable(text: str, k: int) -> Policy:
    rule = parse_policy(text)
    return rule if rule.cap <= k else with_cap(text, k)


@frozen
class Judging:
    """Makes rows of a comparison from the outcomes of policies on recorded paths."""

    work: Workload
    fixed: Fixed
    pilot: Pilot
    rng: np.random.Generator

    def row(self, policy: Policy) -> ReplayRow:
        """Return the row of one policy; without labels what needs them is None."""
        fittable = policy if isinstance(policy, Fittable) and not policy.fitted else None
        work, fixed = self.work, self.fixed
        outcome = work.outcome(policy) if fittable is None else self._cross_fitted(fittable)
        figures = measure_rule(work, policy.spec, outcome)
        kept = delta = None
        if outcome.accuracy is not None:
            delta = fixed.at_equal_cost(work.rows, outcome)
            kept = fixed.kept(work.rows, outcome)
            if policy.spec in (f"fixed:{fixed.cap}", f"curtailed:cap={fixed.cap}"):  # the cap's own vote
                kept = kept and Interval(kept.value, kept.value, kept.value, "the vote of the cap")
            if policy.spec == f"fixed:{policy.cap}":  # compared with itself
                delta = Interval(0.0, 0.0, 0.0, "fixed paths")
        row = self._row(policy.spec, outcome, figures.accuracy, kept, delta)
        waited = at_once = None
        if work.votes.seconds is not None and fittable is None:
            times = work.along("single" if way_of(policy) == "single" else "timed").outcome(policy)
            waited = waits_of(times.wait, work.votes.cluster_ids)
            at_once = waited if times.at_once is None else waits_of(times.at_once, work.votes.cluster_ids)
        today = work.today
        spent = None
        if outcome.dollars is not None and today.dollars is not None:
            spent = work.rows.interval(outcome.dollars - today.dollars)
        paths = work.rows.interval(outcome.paths - today.paths)
        return replace(
            row,
            dollars=figures.dollars,
            seconds=waited,
            seconds_at_once=at_once,
            change=Change(work.now.spec, figures.points, paths, spent),
            same_answer=figures.same_answer,
            pilot=None if fittable is None else self.pilot.costs(row.mean_paths, "labels" in policy.needs),
            fitted=None if fittable is None else fittable.fit(work.votes).spec,
        )

    def _cross_fitted(self, fittable: Fittable) -> PolicyOutcome:
        """Return what a policy does on each question, over fits to pilots without that question."""
        work = self.work
        refitter = Refitter(work.votes, work.rows, fittable, self.pilot, work.outcome, self.rng)
        return refitter.outcome_without()

    def _row(
        self,
        spec: str,
        outcome: PolicyOutcome,
        accuracy: Interval | None,
        kept: Interval | None,
        delta: Interval | None,
    ) -> ReplayRow:
        rows = self.work.rows
        return ReplayRow(
            policy=spec,
            accuracy=accuracy,
            kept=kept,
            delta_at_equal_cost=delta,
            mean_paths=rows.mean(outcome.paths),
            mean_tokens=None if outcome.tokens is None else rows.mean(outcome.tokens),
            rounds=rows.mean(outcome.rounds),
            same_answer_as_cap=rows.mean(outcome.agrees),
            pilot=None,
        )


def markdown(compared: Replay) -> str:
    """Return the comparison as a Markdown table."""
    head, *body = compared.rows()
    rules = ["---", *["---:"] * (len(head) - 1)]
    lines = [head, rules, *((f"`{policy}`", *cells) for policy, *cells in body)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{compared.line()}\n\n{table}\n"
