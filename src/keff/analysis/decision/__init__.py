"""Votes -> Decision: what to draw from now on, against what is drawn today.

In come the votes of a pilot, an aim, and today's policy (the reference). ``chain`` names about a dozen rules,
``outcomes`` replays each of them on every question (``predicted`` simulates those that draw more paths than
were recorded), ``posterior`` makes one joint posterior of their accuracies and costs, shrunk to what other
workloads show (``prior``), and ``choose`` reads rule and verdict from it. Read ``posterior`` first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keff.analysis.decision import words
from keff.analysis.decision.aim import RETAIN, Aim
from keff.analysis.decision.chain import chain, exact, written
from keff.analysis.decision.choose import Choice, choose
from keff.analysis.decision.outcomes import replayed
from keff.analysis.decision.posterior import JointPosterior, posterior_of
from keff.analysis.decision.predicted import predicted
from keff.analysis.decision.prior import generic_ratios
from keff.analysis.money import Rates
from keff.analysis.replay.reference import reference_of
from keff.analysis.results.decision import Decision, Differences, Kept
from keff.analysis.times import seconds_change
from keff.policy import Policy
from keff.records import Interval
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.correlation import agreement

__all__ = ["RETAIN", "Aim", "Decided", "decide", "reference_of"]

LEAST_QUESTIONS = 10
"""Fewer independent questions decide nothing."""

POINTS = "posterior mean shrunk to other workloads, paired cluster_bootstrap, as many new questions"
COSTS = "cluster_bootstrap, as many new questions"


@dataclass(frozen=True)
class Decided:
    """A decision with the posterior and the choice that it was read from: None where there was none to make.

    ``tokens`` and ``dollars`` are the means of a question under the deployed policy.
    """

    decision: Decision
    choice: Choice | None = None
    known: JointPosterior | None = None
    tokens: Interval | None = None
    dollars: Interval | None = None


def decide(
    votes: Votes,
    aim: Aim,
    *,
    now: str | None = None,
    cap: int | None = None,
    rates: Rates | None = None,
    seed: int = 0,
) -> Decided:
    """Decide what to draw from the answers of a pilot, and its labels where there are any.

    ``now`` is today's policy (``reference_of``), ``cap`` the most paths of a candidate (default: the
    reference's). Rules that draw at most the recorded K are replayed; beyond, accuracy is predicted.
    """
    reference = reference_of(now, votes.k)
    if why := _nothing_to_decide(votes):
        return Decided(Decision(None, written(exact(reference).spec), why, written(reference.spec)))
    most = cap or reference.cap
    rules = list(chain(most))
    safe = exact(reference)
    if safe.cap <= most and safe.spec not in {rule.spec for rule in rules}:
        rules.append(safe)
    longest = max(reference.cap, *(rule.cap for rule in rules))
    measured = longest <= votes.k
    if measured:
        seen = replayed(votes, rules, reference, rates, np.random.default_rng(seed))
        known = posterior_of(seen, generic_ratios((*rules, reference)), reference.cap, seed=seed)
    else:
        known = predicted(votes, rules, reference, rates, seed)
    allowed = np.array([rule.cap <= most for rule in (*rules, reference)])
    choice = choose(known, aim, allowed)
    return _decided(votes, aim, known, choice, reference, measured=measured)


def _nothing_to_decide(votes: Votes) -> str | None:
    """Return why there is nothing to decide, and what to do; None where there is."""
    if votes.answers is None:
        return "the record holds correctness only: record answers, so that there is something to vote on"
    if bool(np.all(votes.answers < 0)):
        return "no path gave an answer that could be read: see how answers are read (keff read)"
    if votes.k < 2:
        return "one path per question shows nothing about voting: record two or more (keff pilot)"
    if votes.n_clusters < LEAST_QUESTIONS:
        groups = "" if votes.n_clusters == votes.n else f" in {words.count(votes.n_clusters, 'cluster')}"
        return f"{words.count(votes.n, 'question')}{groups} cannot decide: record at least {LEAST_QUESTIONS}"
    if agreement(votes) == 0:
        return "no two paths of any question agree: settle how answers are read before you vote (keff read)"
    return None


def _decided(
    votes: Votes, aim: Aim, known: JointPosterior, choice: Choice, reference: Policy, *, measured: bool
) -> Decided:
    rule, last = choice.rule, len(known.specs) - 1
    policy, today = known.specs[rule], known.specs[last]
    new, mean = known.new, known.population

    def difference(name: str, method: str) -> Interval | None:
        values, means = getattr(new, name), getattr(mean, name)
        if values is None or means is None:
            return None
        apart = values[:, rule] - values[:, last]
        return _interval(float((means[:, rule] - means[:, last]).mean()), apart, method)

    def level(name: str) -> Interval | None:
        values, means = getattr(new, name), getattr(mean, name)
        if values is None or means is None:
            return None
        return _interval(float(means[:, rule].mean()), values[:, rule], COSTS)

    points = accuracy = kept = None
    if new.level is not None and known.level is not None:
        points = _interval(0.0 - float(known.loss[rule]), -new.loss[:, rule], POINTS)
        right = np.clip(new.level - new.loss[:, rule], 0.0, 1.0)
        value = float(np.clip(known.level - known.loss[rule], 0.0, 1.0))
        accuracy = _interval(value, right, POINTS)
        kept = _kept(known, rule, aim, written(today))
    p50, p95 = seconds_change(votes, policy, today) if votes.k >= reference.cap else (None, None)
    change = Differences(
        difference("paths", COSTS),
        difference("tokens", COSTS),
        difference("dollars", COSTS),
        p50,
        p95,
        points,
    )
    same = _interval(1 - float(mean.flips[:, rule].mean()), 1 - mean.flips[:, rule], "replayed and shrunk")
    needed = words.questions_needed(known)
    decision = Decision(
        verdict=choice.verdict,
        policy=written(policy),
        because=words.because(known, choice, aim, votes),
        reference=written(today),
        kept=kept,
        change=change,
        run_change=_one_run(points, known, rule),
        accuracy=accuracy,
        expected_paths=level("paths"),
        settled=words.settled(known, choice) if choice.verdict == "open" else None,
        open=words.unsettled(known, choice, needed) if choice.verdict == "open" else None,
        questions_needed=needed if known.level is not None else None,
        measured=measured,
        agreement=same,
        expected_tokens=level("tokens"),
    )
    return Decided(decision, choice, known, level("tokens"), level("dollars"))


def _kept(known: JointPosterior, rule: int, aim: Aim, of: str) -> Kept | None:
    """Return the share of the reference's accuracy that a rule keeps: a ratio of posterior means.

    None where the reference is never right.
    """
    assert known.level is not None and known.new.level is not None and known.population.level is not None
    if known.level * known.questions < 0.5:
        return None
    share = 1 - known.new.loss[:, rule] / np.maximum(known.new.level, 1e-9)
    drawn = 1 - known.population.loss[:, rule] / np.maximum(known.population.level, 1e-9)
    kept = _interval(1 - float(known.loss[rule]) / known.level, share, POINTS)
    asked = aim.share if aim.asks_share else RETAIN
    sure = float(np.mean(drawn >= asked - 1e-12))
    return Kept(kept.value, kept.lo, kept.hi, kept.method, sure, aim.confidence, of)


def _one_run(points: Interval | None, known: JointPosterior, rule: int) -> Interval | None:
    """Return the change that one run of the rule and one of the reference may show, each with other paths."""
    if points is None or points.limits is None:
        return None
    lo, hi = points.limits
    run = 1.96 * float(known.run_variance[rule]) ** 0.5
    below, above = np.hypot(points.value - lo, run), np.hypot(hi - points.value, run)
    return replace(
        points,
        # Where a run adds nothing, rounding may not make this interval the narrower one.
        lo=min(points.value - float(below), lo),
        hi=max(points.value + float(above), hi),
        method=f"{POINTS}, one run with other paths",
    )


def _interval(value: float, draws: FloatArray, method: str) -> Interval:
    """Return a posterior mean with the central 95% of draws."""
    lo, hi = np.quantile(draws, [0.025, 0.975])
    return Interval(value, min(float(lo), value), max(float(hi), value), method)
