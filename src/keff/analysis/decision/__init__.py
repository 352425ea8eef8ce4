"""Decision: the stopping rule to deploy, against the one in use today.

In: the votes of a pilot, an aim, and today's policy (the reference). Out: a ``Decision``.
``chain`` names the candidate rules, ``outcomes`` replays them (``predicted`` simulates those beyond the
recorded paths), ``timing`` bounds their times, ``figures`` reports the choice.
Read ``posterior`` (accuracy and cost of every rule, shrunk to ``prior``), then ``choose``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from keff.analysis.decision import words
from keff.analysis.decision.aim import Aim
from keff.analysis.decision.chain import candidate_rules, full_spec, in_flight_rules
from keff.analysis.decision.choose import Choice, choose, within_aim
from keff.analysis.decision.confidences import confidence_worths, informative, rated_paths
from keff.analysis.decision.figures import Figures, timed_rules
from keff.analysis.decision.outcomes import replay_rules
from keff.analysis.decision.posterior import JointPosterior, posterior_of
from keff.analysis.decision.predicted import extend_posterior
from keff.analysis.decision.prior import GENERIC, Prior, generic_ratios
from keff.analysis.decision.timing import Timing
from keff.analysis.decision.tries import LEAST_QUESTIONS, Verdicts, decide_tries
from keff.analysis.money import Rates
from keff.analysis.results.decision import ConfidenceWorth, Decision, TimedRule
from keff.analysis.results.tries import Tries
from keff.analysis.results.words import plural
from keff.analysis.walks import exact, reference_of
from keff.errors import UsageError
from keff.policy import Policy, parse_policy
from keff.policy.spec import PolicySpec
from keff.records import Interval, frozen
from keff.stats.votes import BoolArray, Votes
from keff.stats.voting.correlation import agreement

__all__ = ["Aim", "DecisionResult", "decide", "reference_of"]

# Of more questions so many choose among the rules with paths in flight, each of which takes as long to replay
# as all rules of the chain; the figures of what is chosen come from all questions.
MOST_CHOSEN_ON = 3_000


@frozen
class DecisionResult:
    """A decision with the joint posterior and the choice behind it; None where nothing could be decided.

    ``dollars`` are the mean of a question under the deployed policy. ``tries`` is what tries reach where a
    checker judged them.
    """

    decision: Decision
    choice: Choice | None = None
    posterior: JointPosterior | None = None
    dollars: Interval | None = None
    confidences: tuple[ConfidenceWorth, ...] = ()
    tries: Tries | None = None

    @property
    def by_votes(self) -> bool:
        """Whether answers are voted on, and not tried again until a checker passes one."""
        return PolicySpec.parse(self.decision.reference).name != "retry"


def decide(
    votes: Votes,
    aim: Aim,
    *,
    now: str | None = None,
    cap: int | None = None,
    rates: Rates | None = None,
    seed: int = 0,
    beside: Sequence[Policy] = (),
    false_accept: float | None = None,
) -> DecisionResult:
    """Decide which rule to draw by, from a pilot's answers and, where posterior, its labels.

    ``now`` is today's policy (``reference_of``), ``cap`` the most paths of a candidate (default: the
    reference's). Rules that draw at most the recorded K are replayed; beyond, accuracy is predicted. Where
    seconds or tokens are recorded, rules with paths in flight are candidates too, and time is bounded.
    Rules ``beside`` the candidates stand in the posterior and are never chosen. Answers that a checker judged
    and that never agree are tried again, not voted on (``decide_tries``); ``false_accept`` is its share of
    wrong answers that pass.
    """
    reference = reference_of(now, votes.k)
    verdicts = Verdicts.of(votes)
    if false_accept and verdicts is None:
        raise UsageError("false_accept is only for records of a checker's verdicts, and this one has none")
    tries = None
    if verdicts is not None:
        decision, tries = decide_tries(verdicts, aim, now=now, cap=cap, false_accept=false_accept)
        if verdicts.ended or votes.answers is None or agreement(votes) == 0:
            return _priced_tries(decision, tries, None if rates is None else float(rates.alone(votes).mean()))
    if why := _nothing_to_decide(votes):
        return DecisionResult(
            Decision(None, full_spec(exact(reference).spec), why, full_spec(reference.spec)), tries=tries
        )
    most = cap or reference.cap
    # Where some lie beyond the record, all those within it are candidates too.
    named = {rule.spec: rule for rule in (*candidate_rules(most), *candidate_rules(min(most, votes.k)))}
    if (safe := exact(reference)).cap <= most:
        named.setdefault(safe.spec, safe)
    recorded = reference.cap <= votes.k
    beyond = [rule for rule in named.values() if rule.cap > votes.k]
    rules = [rule for rule in named.values() if rule.cap <= votes.k]
    clocked = recorded and _has_times(votes)
    flights = in_flight_rules(min(most, votes.k)) if clocked else ()
    if flights and votes.n > MOST_CHOSEN_ON:
        some = votes.take(np.sort(np.random.default_rng(seed).choice(votes.n, MOST_CHOSEN_ON, replace=False)))
        first = Candidates.of(some, rules, flights, reference, aim, most, rates, seed)
        rules, flights = first.shortlist(rules), first.shortlist(flights)
    paths = rated_paths(votes, min(most, votes.k) if recorded else 0, rates)
    rules, flights = [*rules, *paths.rules], [*flights, *(paths.flights if clocked else ())]
    if not (adds_up := agreement(votes) > 0):
        # Only a path that is good enough by itself ends what no vote can.
        rules = [rule for rule in rules if rule.cap == 1 or PolicySpec.parse(rule.spec).name == "switch"]
        flights = ()
    found = Candidates.of(
        votes, rules, flights, reference, aim, most, rates, seed, beyond=beyond, beside=beside
    )
    worth = confidence_worths(paths.worth, found.posterior) if recorded else paths.worth
    decided = replace(found.result(votes, aim), confidences=worth, tries=tries)
    return decided if adds_up else replace(decided, decision=_by_confidence(decided.decision))


def _priced_tries(decision: Decision, tries: Tries | None, each: float | None) -> DecisionResult:
    """Return a decision on tries with its dollars, where a try costs ``each`` on average (None: unknown)."""
    if each is None or decision.expected_paths is None or decision.change.paths is None:
        return DecisionResult(decision, tries=tries)
    price, how = each, "tries at the mean cost of a path"

    def paid(made: float) -> float:
        return price * made

    dollars, saved = decision.expected_paths.mapped(paid, how), decision.change.paths.mapped(paid, how)
    change = replace(decision.change, dollars=saved)
    return DecisionResult(replace(decision, change=change), dollars=dollars, tries=tries)


def _by_confidence(decision: Decision) -> Decision:
    """Return a decision on answers that never agree, of which a confidence chooses one."""
    if decision.policy == "fixed:1":
        return decision
    why = "no two answers agree, so votes do not add up; the confidence tells right answers from wrong ones"
    return replace(decision, verdict="retry", because=why, settled=None, open=None)


def _has_times(votes: Votes) -> bool:
    """Return whether every path has seconds, or tokens as a proxy of them."""
    work = votes.tokens if votes.seconds is None else votes.seconds
    return work is not None and bool(np.all(np.isfinite(work)))


@frozen
class Candidates:
    """Candidate rules with their joint posterior, the choice among them, and their times where known.

    ``k`` are the recorded paths: what draws more is predicted.
    """

    posterior: JointPosterior
    choice: Choice
    timing: Timing | None
    allowed: BoolArray
    k: int

    @classmethod
    def of(
        cls,
        votes: Votes,
        rules: Sequence[Policy],
        flights: Sequence[Policy],
        reference: Policy,
        aim: Aim,
        most: int,
        rates: Rates | None,
        seed: int,
        prior: Prior = GENERIC,
        beyond: Sequence[Policy] = (),
        beside: Sequence[Policy] = (),
    ) -> Candidates:
        """Replay the candidate rules on recorded paths, predict those beyond the record, and choose."""
        given, timed = (*rules, *flights), flights if _has_times(votes) and reference.cap <= votes.k else None
        whole = parse_policy(f"fixed:{votes.k}")
        today = reference if reference.cap <= votes.k else whole
        named = {rule.spec for rule in (*given, *beyond, reference)}
        shown = {rule.spec: rule for rule in beside if rule.spec not in named}
        beyond = [*beyond, *(rule for rule in shown.values() if rule.cap > votes.k)]
        # From the vote of all recorded paths on, rules beyond the record are predicted.
        if beyond and whole.spec not in {*named, today.spec}:
            shown[whole.spec] = whole
        rules = [*rules, *(rule for rule in shown.values() if rule.cap <= votes.k)]
        seen = replay_rules(votes, rules, today, rates, flights=timed, cap=most, seed=seed)
        everything = (*rules, *flights, today)
        posterior = posterior_of(seen, generic_ratios(everything), today.cap, prior, seed)
        timing = seen.timing
        if beyond or today is not reference:
            posterior = extend_posterior(posterior, votes, everything[:-1], beyond, reference, rates, seed)
            everything = (*everything[:-1], *beyond, reference)
            timing = None if timing is None else timing.with_unknown(len(beyond))
        allowed = np.array([rule.cap <= most and rule.spec not in shown for rule in everything])
        return cls(posterior, choose(posterior, aim, allowed, timing), timing, allowed, votes.k)

    def shortlist(self, rules: Sequence[Policy]) -> list[Policy]:
        """Return the rules that may still be chosen: the choice, the cheapest in any time, and one path."""
        places = (self.choice.rule, self.choice.cheapest, self.posterior.single)
        specs = {self.posterior.specs[place] for place in places if place is not None}
        return [rule for rule in rules if rule.spec in specs]

    def result(self, votes: Votes, aim: Aim) -> DecisionResult:
        """Return the decision with its figures and sentences."""
        posterior, choice, timing = self.posterior, self.choice, self.timing
        measured = all(parse_policy(posterior.specs[place]).cap <= self.k for place in (choice.rule, -1))
        figures, is_open = Figures(posterior, choice.rule), choice.verdict == "undecided"
        kept = figures.kept(aim)
        needed = words.questions_needed(posterior)
        within = within_aim(posterior, aim) & self.allowed
        unmet = aim.asks_share and not within.any()
        rows: tuple[TimedRule, ...] = ()
        if timing is not None:
            within[[choice.rule, -1]] = True
            rows = timed_rules(posterior, timing, within & timing.recorded)
        cheapest = None if choice.cheapest is None else full_spec(posterior.specs[choice.cheapest])
        decision = Decision(
            verdict=choice.verdict,
            policy=full_spec(posterior.specs[choice.rule]),
            because=words.reason(posterior, choice, aim, votes, kept),
            reference=full_spec(posterior.specs[figures.last]),
            kept=kept,
            change=figures.change(timing if measured else None),
            run_change=figures.one_run_change(),
            accuracy=figures.accuracy(),
            expected_paths=figures.cost("paths"),
            settled=words.early_stopping_sentence(posterior, choice) if is_open else None,
            open=words.open_question_sentence(posterior, choice, needed, self.k) if is_open else None,
            questions_needed=needed if posterior.level is not None else None,
            measured=measured,
            agreement=figures.agreement(),
            expected_tokens=figures.cost("tokens"),
            slower=None if timing is None else aim.slower,
            time=words.time_sentence(choice, aim, timing, measured=measured, k=self.k),
            unmet=f"No rule within the cap keeps the {100 * aim.share:g}% you asked for" if unmet else None,
            cheapest=next((row for row in rows if row.policy == cheapest), None),
            timed=rows,
        )
        return DecisionResult(decision, choice, posterior, figures.cost("dollars"))


def _nothing_to_decide(votes: Votes) -> str | None:
    """Return why no decision is possible, with a remedy; None where one is."""
    if votes.answers is None:
        return "the record holds verdicts only: a vote needs answers"
    if bool(np.all(votes.answers < 0)):
        return "no path gave an answer that could be read: see how answers are read (keff read)"
    if votes.k < 2:
        return "one path per question shows nothing about voting: record two or more (keff pilot)"
    if votes.n_clusters < LEAST_QUESTIONS:
        groups = "" if votes.n_clusters == votes.n else f" in {plural(votes.n_clusters, 'cluster')}"
        return f"{plural(votes.n, 'question')}{groups} cannot decide: record at least {LEAST_QUESTIONS}"
    if agreement(votes) == 0 and not informative(votes):
        return "no two paths of any question agree: choose how keff reads answers before you vote (keff read)"
    if votes.correct is not None and not votes.correct.any():
        return "no answer was right: before anything else, check how gold answers are read (keff read)"
    return None
