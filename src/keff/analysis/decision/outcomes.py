"""Replayed outcomes of every candidate rule by question: paths, loss, changed answers, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from keff.analysis.decision.timing import Timing
from keff.analysis.money import Rates
from keff.analysis.recorded import RecordedPaths, Rows
from keff.analysis.walks import rated, run
from keff.policy import Policy, calibrated
from keff.records import frozen
from keff.stats.models.mixture import vote_counts
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import alike
from keff.stats.voting.draws import permuted

# Random orders over all questions: what their number leaves unknown is a tenth of what the questions do.
# Where patterns of votes are many, so many orders of each on average.
ORDERS_IN_ALL, ORDERS_OF_EACH = 40_000, 8

# Longer orders cost more and leave less unknown each, so there are fewer of them.
SHORT = 16

# Paths in the random orders over all questions on which rules are timed, 10,000 orders of 8: that leaves a
# tenth of what the questions leave unknown of a quantile, at a quarter of the work.
TIMED_PATHS = 80_000

# Of more questions nothing is left unknown by calibrating on them.
CALIBRATED_BY = 3_000

# Resamples of the clusters on which confidences are calibrated anew: the standard error that they give is
# known to a quarter.
RESAMPLES = 8

# What is averaged over questions, where it is known.
COLUMNS = ("paths", "flips", "loss", "tokens", "dollars", "right", "rise", "apart")


@frozen
class RuleOutcomes:
    """Mean outcomes of C rules over orders of drawing, each [rows, C]; the last rule is the reference.

    ``rows`` say what a row is. ``flips`` is how often the answer is not the reference's (``changed``),
    ``loss`` the reference's accuracy minus the rule's, ``right`` [rows] the accuracy of the reference: None
    without labels. ``rise`` [rows] is by how much the answer of all paths but one agrees more often with that
    one than another path does: an unbiased, label-free measure of what a vote adds, 0 on average where paths
    are fair coins. ``apart`` [rows] are the dollars that the prompts of the reference add where each of its
    paths is a request of its own. ``orders_error`` [C] is the standard error of the mean loss that comes from
    the orders. ``calibration_error`` [2, C] are the standard errors of the mean loss and of the mean paths
    that come from the questions on which confidences are calibrated; 0 for rules that read none. ``timing``
    are the times to answer of all rules, where they were looked at.
    """

    specs: tuple[str, ...]
    rows: Rows
    paths: FloatArray
    flips: FloatArray
    rise: FloatArray
    tokens: FloatArray | None = None
    dollars: FloatArray | None = None
    loss: FloatArray | None = None
    right: FloatArray | None = None
    apart: FloatArray | None = None
    orders_error: FloatArray = field(default_factory=lambda: np.zeros(1))
    calibration_error: FloatArray = field(default_factory=lambda: np.zeros((2, 1)))
    timing: Timing | None = None


def replayed(
    votes: Votes,
    rules: Sequence[Policy],
    reference: Policy,
    rates: Rates | None,
    rng: np.random.Generator,
    flights: Sequence[Policy] | None = None,
) -> RuleOutcomes:
    """Return the outcomes of the rules and the reference on common random orders of the recorded paths.

    Drawing without replacement, so means over orders are unbiased for every rule whose cap is at most the
    recorded K; accuracies are corrected by the exact subset average at the cap of their rule. ``votes`` must
    hold answers. Where ``flights`` are given, rules with paths in flight or none, they are replayed along
    orders of their own, on which all rules are timed: paths end in the order of their recorded seconds, else
    of their tokens, and ``votes`` must hold one of them for every path.
    """
    everything = (*rules, *(flights or ()), reference)
    longest, given = max(policy.cap for policy in everything), votes
    votes = rated(votes, everything)
    patterns = alike(votes).counts.size
    in_all = int(max(ORDERS_IN_ALL, ORDERS_OF_EACH * patterns) * min(1.0, (SHORT / longest) ** 0.5))
    recorded = RecordedPaths.of(votes, rules, reference, longest, rng, in_all, timed=False, rates=rates)
    played = [*((recorded, rule) for rule in rules), (recorded, reference)]
    if flights is None:
        error = _calibration_error(given, everything, recorded)
        return replace(outcomes_of(played), calibration_error=error)
    in_time = votes if votes.seconds is not None else replace(votes, seconds=votes.tokens)
    flown = RecordedPaths.of(
        in_time,
        everything,
        reference,
        longest,
        rng,
        TIMED_PATHS // longest,
        timed=True,
        fewest=1,
        rates=rates,
    )
    played[-1:-1] = [(flown, rule) for rule in flights]
    waits = tuple(flown.waits(rule) for rule in everything)
    return replace(
        outcomes_of(played),
        calibration_error=_calibration_error(given, everything, flown),
        timing=Timing(waits, votes.cluster_ids, votes.seconds is not None),
    )


def outcomes_of(played: Sequence[tuple[RecordedPaths, Policy]]) -> RuleOutcomes:
    """Return the outcomes of rules, each replayed on its own orders; the last rule is the reference.

    Losses and changed answers are those against the reference along the same orders.
    """
    recorded, _ = played[-1]
    each = [orders.outcome(rule) for orders, rule in played]
    today = each[-1]
    seen: dict[str, Any] = {
        name: np.stack([getattr(outcome, name) for outcome in each], axis=1)
        for name in ("paths", "flips", "tokens", "dollars")
        if getattr(today, name) is not None
    }
    if today.accuracy is not None:
        seen["right"] = today.accuracy
        seen["loss"] = np.stack([_loss(*rule) for rule in played], axis=1)
        seen["orders_error"] = np.array([*(_orders_error(*rule) for rule in played[:-1]), 0.0])
    if recorded.rates is not None:
        seen["apart"] = recorded.rates.prompts_apart(today.paths, today.rounds)
    rise = recorded.rows.of(_plurality_lift(recorded.orders.votes))
    return RuleOutcomes(tuple(rule.spec for _, rule in played), recorded.rows, rise=rise, **seen)


def _loss(orders: RecordedPaths, rule: Policy) -> FloatArray:
    today, own = orders.today.accuracy, orders.outcome(rule).accuracy
    assert today is not None and own is not None
    return today - own


def _orders_error(orders: RecordedPaths, rule: Policy) -> float:
    """Return the Monte Carlo standard error of a mean loss, from the random orders.

    Those of one question are part of what differs between questions.
    """
    if orders.rows.pattern is None:
        return 0.0
    each = (orders.outcome(rule), orders.today)
    own, today = (orders.rows.error(outcome.noise, orders.rows.weights) for outcome in each)
    return float(np.hypot(own, today))


def _calibration_error(votes: Votes, rules: Sequence[Policy], drawn: RecordedPaths) -> FloatArray:
    """Return the standard errors [2, C] of mean loss and paths due to calibration on this pilot.

    Rules are replayed on the same orders, each time calibrated on another resample of the clusters: so long
    and timed as those ``drawn``, and fewer. Of many questions nothing is left unknown.
    """
    reading = [place for place, rule in enumerate(rules) if calibrated(rule) is not None]
    found = np.zeros((RESAMPLES, 2, len(rules)))
    orders = drawn.orders
    for resample in range(RESAMPLES if reading and votes.n <= CALIBRATED_BY else 0):
        fitted = rated(votes, [rules[place] for place in reading], resample + 1)
        # Only now: calibrations are kept for the votes that they were made of.
        fitted = replace(fitted, seconds=drawn.votes.seconds)
        repeats = max(int(orders.repeats[0]) // RESAMPLES, 1)
        draws = permuted(fitted, orders.cap, repeats, np.random.default_rng(0))
        for place in reading:
            walk = run(rules[place], draws)
            assert walk.credit is not None
            found[resample, :, place] = walk.credit.mean(dtype=np.float64), walk.paths.mean()
    return found.std(axis=0, ddof=1)


def _plurality_lift(votes: Votes) -> FloatArray:
    """Return how much more often a path agrees with the others' plurality than with another path [n].

    Leaving out a vote for the leader keeps it ahead unless its lead is one vote; no other vote agrees. Ties
    are split.
    """
    counts = np.sort(vote_counts(votes)[0], axis=1)[:, ::-1]
    top, rest = counts[:, 0], counts[:, 1:]
    second = rest.max(axis=1, initial=0)
    tied = (rest == second[:, None]).sum(axis=1)
    lead = top - second
    wins = np.where(lead > 1, 1.0, np.where((lead == 1) & (second > 0), 1 / (1 + tied), 0.0))
    together = (counts * (counts - 1)).sum(axis=1) / (votes.k * max(votes.k - 1, 1))
    return np.asarray(wins * top / votes.k - together, np.float64)
