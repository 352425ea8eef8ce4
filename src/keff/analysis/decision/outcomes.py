"""Replayed outcomes of every candidate rule by question: paths, loss, changed answers, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from keff.analysis.decision.timing import Timing
from keff.analysis.money import Rates
from keff.analysis.recorded import RecordedPaths, Rows
from keff.analysis.walks import run, with_fitted_confidences
from keff.analysis.workload import Workload
from keff.policy import Policy, calibrated
from keff.records import frozen
from keff.stats.models.mixture import vote_counts
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.draws import permute_paths

# Of more questions nothing is left unknown by calibrating on them.
CALIBRATED_BY = 3_000

# Resamples of the clusters on which confidences are calibrated anew: the standard error that they give is
# known to a quarter.
RESAMPLES = 8

# What is averaged over questions, where it is known.
COLUMNS = ("paths", "flips", "loss", "tokens", "dollars", "right", "plurality_lift", "extra_prompt_dollars")


@frozen
class RuleOutcomes:
    """Mean outcomes of C rules over orders of drawing, each [rows, C]; the last rule is the reference.

    ``rows`` say what a row is. ``flips`` is how often the answer is not the reference's (``share_changed``),
    ``loss`` the reference's accuracy minus the rule's, ``right`` [rows] the accuracy of the reference: None
    without labels. ``plurality_lift`` [rows] is by how much the answer of all paths but one agrees more often
    with that one than another path does: an unbiased, label-free measure of what a vote adds, 0 on average
    where paths are fair coins. ``extra_prompt_dollars`` [rows] are what the prompts of the reference add
    where each of its paths is a request of its own. ``orders_error`` [C] is the standard error of the mean
    loss that comes from the orders. ``calibration_error`` [2, C] are the standard errors of the mean loss and
    of the mean paths that come from the questions on which confidences are calibrated; 0 for rules that read
    none. ``timing`` are the times to answer of all rules, where they were looked at.
    """

    specs: tuple[str, ...]
    rows: Rows
    paths: FloatArray
    flips: FloatArray
    plurality_lift: FloatArray
    tokens: FloatArray | None = None
    dollars: FloatArray | None = None
    loss: FloatArray | None = None
    right: FloatArray | None = None
    extra_prompt_dollars: FloatArray | None = None
    orders_error: FloatArray = field(default_factory=lambda: np.zeros(1))
    calibration_error: FloatArray = field(default_factory=lambda: np.zeros((2, 1)))
    timing: Timing | None = None


def replay_rules(
    votes: Votes,
    rules: Sequence[Policy],
    reference: Policy,
    rates: Rates | None = None,
    *,
    flights: Sequence[Policy] | None = None,
    cap: int | None = None,
    seed: int = 0,
) -> RuleOutcomes:
    """Return the outcomes of the rules and the reference on common random orders of the recorded paths.

    ``cap`` are the most paths of a choice, by default the reference's. ``votes`` must hold answers. Where
    ``flights`` are given, rules with paths in flight or none, all rules are timed: paths end in the order of
    their recorded seconds, else of their tokens, and ``votes`` must hold one of them for every path.
    """
    everything = (*rules, *(flights or ()), reference)
    work = Workload.of(votes, everything[:-1], reference, rates, cap=cap, seed=seed)
    found = outcomes_of(work, everything)
    reading = [place for place, rule in enumerate(everything) if calibrated(rule) is not None]
    if reading:
        drawn = work.along("rated" if flights is None else "timed")
        error = _calibration_error(votes, everything, reading, drawn)
        found = replace(found, calibration_error=error)
    if flights is None:
        return found
    waits = tuple(work.waits(rule) for rule in everything)
    return replace(found, timing=Timing(waits, votes.cluster_ids, votes.seconds is not None))


def outcomes_of(replayed: Workload | RecordedPaths, rules: Sequence[Policy]) -> RuleOutcomes:
    """Return the outcomes of rules; the last one is the reference."""
    each = [replayed.outcome(rule) for rule in rules]
    today = each[-1]
    seen: dict[str, Any] = {
        name: np.stack([getattr(outcome, name) for outcome in each], axis=1)
        for name in ("paths", "flips", "tokens", "dollars")
        if getattr(today, name) is not None
    }
    if today.accuracy is not None:
        right = np.stack([outcome.accuracy for outcome in each if outcome.accuracy is not None], axis=1)
        seen["right"], seen["loss"] = today.accuracy, today.accuracy[:, None] - right
        seen["orders_error"] = np.array([*(replayed.orders_error(rule) for rule in rules[:-1]), 0.0])
    if replayed.rates is not None:
        seen["extra_prompt_dollars"] = replayed.rates.prompts_apart(today.paths, today.rounds)
    drawn = replayed.along("votes") if isinstance(replayed, Workload) else replayed
    lift = drawn.rows.of(_plurality_lift(drawn.orders.votes))
    return RuleOutcomes(tuple(rule.spec for rule in rules), drawn.rows, plurality_lift=lift, **seen)


def _calibration_error(
    votes: Votes, rules: Sequence[Policy], reading: Sequence[int], drawn: RecordedPaths
) -> FloatArray:
    """Return the standard errors [2, C] of mean loss and paths due to calibration on this pilot.

    Rules are replayed on the same orders, each time calibrated on another resample of the clusters: so long
    and timed as those ``drawn``, and fewer. Of many questions nothing is left unknown.
    """
    found = np.zeros((RESAMPLES, 2, len(rules)))
    orders = drawn.orders
    for resample in range(RESAMPLES if votes.n <= CALIBRATED_BY else 0):
        fitted = with_fitted_confidences(votes, [rules[place] for place in reading], resample + 1)
        # Only now: calibrations are kept for the votes that they were made of.
        fitted = replace(fitted, seconds=drawn.votes.seconds)
        repeats = max(int(orders.repeats[0]) // RESAMPLES, 1)
        draws = permute_paths(fitted, orders.cap, repeats, np.random.default_rng(0))
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
