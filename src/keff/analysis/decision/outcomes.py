"""What every candidate rule does on every question: paths, accuracy lost, changed answers, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.analysis.decision.timing import Timing
from keff.analysis.money import Rates
from keff.analysis.walks import PolicyOutcome, Walks, changed, expectations, rated, run
from keff.policy import Policy, calibrated
from keff.records import frozen
from keff.stats.models.mixture import vote_counts
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import alike, one_of_each
from keff.stats.voting.draws import Draws, permuted
from keff.stats.voting.plurality import plurality_at_k_patterns

# Random orders over all questions: what their number leaves unknown is a tenth of what the questions do.
ORDERS_IN_ALL, FEWEST_ORDERS, MOST_ORDERS = 40_000, 8, 1_000

# Longer orders cost more and leave less unknown each, so there are fewer of them.
SHORT = 16

# Of more questions each pattern of votes is played, and tokens follow the mean of their question. Orders are
# shared out by the questions of a pattern: of two answers there are nine patterns, and a thousand orders of
# each left half a point unknown.
BY_PATTERN = 3_000

# Paths in the random orders over all questions on which rules are timed, 10,000 orders of 8: that leaves a
# tenth of what the questions leave unknown of a quantile, at a quarter of the work.
TIMED_PATHS = 80_000

# Resamples of the clusters on which confidences are calibrated anew: the standard error that they give is
# known to a quarter.
RESAMPLES = 8

# What is averaged over questions, where it is known.
COLUMNS = ("paths", "flips", "loss", "tokens", "dollars", "right", "rise", "apart")


@frozen
class RuleOutcomes:
    """Expectations of C rules over orders of drawing, each [rows, C]; the last rule is the reference.

    A row is a question of cluster ``clusters`` [rows], or a pattern of ``counts`` [rows] questions (None:
    one of each). ``flips`` is how often the answer is not the reference's (``changed``), ``loss`` the
    reference's accuracy minus the rule's, ``right`` [rows] the accuracy of the reference: None without
    labels. ``rise`` [rows] is by how much the answer of all paths but one agrees more often with that one
    than another path does: an unbiased, label-free measure of what a vote adds, 0 on average where paths are
    fair coins. ``apart`` [rows] are the dollars that the prompts of the reference add where each of its
    paths is a request of its own. ``orders_error`` [C] is the standard error of the mean loss that comes from
    the orders, where rows are patterns: those of one question are part of what differs between questions.
    ``calibration_error`` [2, C] are the standard errors of the mean loss and of the mean paths that come from
    the questions on which confidences are calibrated; 0 for rules that read none.
    """

    specs: tuple[str, ...]
    paths: FloatArray
    flips: FloatArray
    tokens: FloatArray | None
    dollars: FloatArray | None
    rise: FloatArray
    clusters: IntArray
    loss: FloatArray | None = None
    right: FloatArray | None = None
    counts: IntArray | None = None
    apart: FloatArray | None = None
    orders_error: FloatArray | None = None
    calibration_error: FloatArray | None = None

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(self.paths) if self.counts is None else int(self.counts.sum())

    def beside(self, others: RuleOutcomes) -> RuleOutcomes:
        """Return these rules and those of ``others`` on the same questions, this reference the last."""

        def join(name: str) -> FloatArray | None:
            mine, added = getattr(self, name), getattr(others, name)
            if mine is None or added is None:
                return None
            return np.hstack([mine[:, :-1], added[:, :-1], mine[:, -1:]])

        joined = {name: join(name) for name in ("paths", "flips", "loss", "tokens", "dollars")}
        error, added = self.orders_error, len(others.specs) - 1
        if error is not None:  # the others follow questions, each in orders of its own
            error = np.concatenate([error[:-1], np.zeros(added), error[-1:]])
        specs = (*self.specs[:-1], *others.specs)
        calibration = join("calibration_error")
        return replace(self, specs=specs, orders_error=error, calibration_error=calibration, **joined)  # type: ignore[arg-type]

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the mean over questions of values by row [rows, ...]."""
        counts = np.ones(len(values)) if self.counts is None else self.counts
        return np.asarray(np.tensordot(counts, values, axes=1) / counts.sum(), np.float64)


def replayed(
    votes: Votes,
    rules: Sequence[Policy],
    reference: Policy,
    rates: Rates | None,
    rng: np.random.Generator,
) -> RuleOutcomes:
    """Replay the rules and the reference on the same random orders of the recorded paths.

    Drawing without replacement, so means over orders are unbiased for every rule whose cap is at most the
    recorded K. Losses are differences along one order; the reference's own accuracy is corrected by the exact
    subset average at its cap, and that of one path is exact. ``votes`` must hold answers.
    """
    rules, given = (*rules, reference), votes
    votes = rated(votes, rules)
    many = votes.n > BY_PATTERN and not any("confidence" in rule.needs for rule in rules)
    cap = max(policy.cap for policy in rules)
    in_all = ORDERS_IN_ALL * min(1.0, (SHORT / cap) ** 0.5)
    same = alike(votes)
    # The pattern of each row of orders: a question's, or a pattern as often as it has questions.
    rows = same.back
    if many:
        times = np.ceil(same.counts * in_all / (FEWEST_ORDERS * votes.n)).astype(np.int64)
        rows = np.repeat(np.arange(times.size), times)
    some = one_of_each(votes).take(rows) if many else votes
    draws = permuted(some, cap, int(np.clip(in_all / some.n, FEWEST_ORDERS, MOST_ORDERS)), rng)
    exact = None if votes.correct is None else plurality_at_k_patterns(votes)[rows]
    found = played(votes, draws, rules, rates, exact, rows if many else None)
    return replace(found, calibration_error=_calibration_error(given, rules, cap, draws.codes.shape[1]))


def timed(
    votes: Votes,
    chain: Sequence[Policy],
    flights: Sequence[Policy],
    reference: Policy,
    rates: Rates | None,
    rng: np.random.Generator,
) -> tuple[RuleOutcomes, Timing]:
    """Replay rules with paths in flight, and time these, the chain and the reference on the same orders.

    Paths end in the order of their recorded seconds, else of their tokens; ``votes`` must hold one of them
    for every path. Rules of ``chain`` are timed only; the outcomes are those of ``flights`` and the
    reference.
    """
    everything = (*chain, *flights, reference)
    given, votes = votes, rated(votes, everything)
    longest = max(policy.cap for policy in everything)
    draws = permuted(_clocked(votes), longest, max(TIMED_PATHS // (longest * votes.n), 1), rng)
    whole = rates is not None and rates.price.cancelled == "whole"
    walks = [run(rule, draws, whole=whole) for rule in everything]
    exact = None if votes.correct is None else plurality_at_k_patterns(votes)[alike(votes).back]
    seen = played(votes, draws, everything[len(chain) :], rates, exact, walks=walks[len(chain) :])
    error = _calibration_error(given, everything[len(chain) :], longest, draws.codes.shape[1], clocked=True)
    seen = replace(seen, calibration_error=error)
    waits = tuple(np.asarray(walk.wait, np.float64) for walk in walks if walk.wait is not None)
    return seen, Timing(waits, votes.cluster_ids, votes.seconds is not None)


def _clocked(votes: Votes) -> Votes:
    """Return votes whose paths end in the order of their tokens where no seconds are recorded."""
    return votes if votes.seconds is not None else replace(votes, seconds=votes.tokens)


def played(
    votes: Votes,
    draws: Draws,
    rules: Sequence[Policy],
    rates: Rates | None,
    exact: FloatArray | None = None,
    patterns: IntArray | None = None,
    walks: Sequence[Walks] | None = None,
) -> RuleOutcomes:
    """Play rules along orders of drawing, the last of them the reference; ``walks`` where they were already.

    ``exact`` [rows, K] is the plurality accuracy at 1..K paths, None where accuracy is not known;
    ``patterns`` [rows] the vote pattern of each row of orders, ascending, where rows are no questions. Tokens
    follow the mean of a question where the orders hold none.
    """
    walks = walks or [run(rule, draws) for rule in rules]
    each = [expectations(walk, draws, draws.cap) for walk in walks]
    seen = _along_orders(rules, walks, each, draws, exact)
    clusters, counts, orders_error = votes.cluster_ids, None, None
    if patterns is None:
        seen["rise"] = _rise(votes)
    else:
        same = alike(votes)
        if exact is not None:
            orders_error = _orders_error(seen["loss"], patterns, same.counts)
        seen = {name: _by_pattern(values, patterns) for name, values in seen.items()}
        seen["rise"] = _rise(one_of_each(votes))
        if votes.n_clusters == votes.n and rates is None and votes.tokens is None and votes.seconds is None:
            counts, clusters = same.counts, np.arange(same.counts.size, dtype=np.int64)
        else:
            seen = {name: values[same.back] for name, values in seen.items()}
    paths, requests = seen["paths"], seen.pop("requests")
    tokens = _tokens(votes, paths, [] if patterns is not None else each)
    return RuleOutcomes(
        tuple(rule.spec for rule in rules),
        **seen,
        tokens=tokens,
        dollars=None if rates is None else _dollars(votes, rates, paths, requests, tokens, each),
        clusters=clusters,
        counts=counts,
        apart=None if rates is None else rates.prompts_apart(paths[:, -1], requests[:, -1]),
        orders_error=orders_error,
    )


def _along_orders(
    rules: Sequence[Policy],
    walks: Sequence[Walks],
    each: Sequence[PolicyOutcome],
    draws: Draws,
    exact: FloatArray | None,
) -> dict[str, FloatArray]:
    """Return what the rules do in each row of orders, by column [rows, C]; ``right`` [rows]."""
    seen = {
        "paths": np.stack([outcome.paths for outcome in each], axis=1),
        "requests": np.stack([outcome.rounds for outcome in each], axis=1),
        "flips": np.stack([_mean(changed(walk, walks[-1], draws)) for walk in walks], axis=1),
    }
    if exact is not None:
        seen["loss"], seen["right"] = _losses(rules, walks, draws, exact)
    return seen


def _tokens(votes: Votes, paths: FloatArray, each: Sequence[PolicyOutcome]) -> FloatArray | None:
    """Return the tokens of each question [n, C]: of the outcomes that hold any, else its mean for a path."""
    if votes.tokens is None:
        return None
    known = [outcome.tokens for outcome in each if outcome.tokens is not None]
    return np.stack(known, axis=1) if known else paths * votes.tokens.mean(axis=1)[:, None]


def _calibration_error(
    votes: Votes, rules: Sequence[Policy], cap: int, orders: int, *, clocked: bool = False
) -> FloatArray:
    """Return the standard errors [2, C] of mean loss and paths from calibrating on these questions.

    Rules are replayed on the same orders, each time calibrated on another resample of the clusters. Of many
    questions nothing is left unknown.
    """
    reading = [place for place, rule in enumerate(rules) if calibrated(rule) is not None]
    found = np.zeros((RESAMPLES, 2, len(rules)))
    for resample in range(RESAMPLES if reading and votes.n <= BY_PATTERN else 0):
        fitted = rated(votes, [rules[place] for place in reading], resample + 1)
        # Only now: calibrations are kept for the votes that they were made of.
        fitted = _clocked(fitted) if clocked else fitted
        draws = permuted(fitted, cap, max(orders // RESAMPLES, 1), np.random.default_rng(0))
        for place in reading:
            walk = run(rules[place], draws)
            assert walk.credit is not None
            found[resample, :, place] = walk.credit.mean(dtype=np.float64), walk.paths.mean()
    return found.std(axis=0, ddof=1)


def _by_pattern(values: FloatArray, patterns: IntArray) -> FloatArray:
    """Return the mean [u, ...] of the rows [rows, ...] of each pattern."""
    sums: FloatArray = np.add.reduceat(values, np.flatnonzero(np.diff(patterns, prepend=-1)))
    times = np.bincount(patterns)
    return sums / times.reshape(-1, *[1] * (values.ndim - 1))


def _orders_error(loss: FloatArray, patterns: IntArray, counts: IntArray) -> FloatArray:
    """Return the standard error [C] of the mean of ``loss`` [rows, C] from its rows within patterns.

    A pattern that has one row is taken to vary as the others do: of large records those are rare ones.
    """
    times = np.bincount(patterns)[:, None]
    within = np.square(loss - _by_pattern(loss, patterns)[patterns])
    spread = _by_pattern(within, patterns) * times / np.maximum(times - 1, 1)
    spread[times[:, 0] == 1] = within.sum(axis=0) / max(len(loss) - times.size, 1)
    share = counts[:, None] / counts.sum()
    return np.sqrt((np.square(share) * spread / times).sum(axis=0))


def _losses(
    rules: Sequence[Policy], walks: Sequence[Walks], draws: Draws, exact: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the loss of each rule [rows, C] and the accuracy of the reference [rows]."""
    credits = [walk.credit for walk in walks if walk.credit is not None]
    at_cap, today = draws.tallies.credit, rules[-1]
    assert at_cap is not None
    # What the drawn orders are off at the cap, they are off alike for the reference.
    right = exact[:, today.cap - 1] + _mean(credits[-1] - at_cap[:, :, today.cap])
    loss = np.stack([_mean(credits[-1] - credit) for credit in credits], axis=1)
    for place, rule in enumerate(rules[:-1]):
        if rule.spec == "fixed:1":
            loss[:, place] = right - exact[:, 0]
    return loss, right


def _dollars(
    votes: Votes,
    rates: Rates,
    paths: FloatArray,
    requests: FloatArray,
    tokens: FloatArray | None,
    each: Sequence[PolicyOutcome],
) -> FloatArray:
    """Return the dollars of each question under each rule [n, C], seconds at the mean of its paths."""
    busy = None if votes.seconds is None else paths * votes.seconds.mean(axis=1)[:, None]
    columns = [
        rates.dollars(
            paths[:, place],
            requests[:, place],
            None if tokens is None else tokens[:, place],
            None if busy is None else busy[:, place],
            outcome.rated,
        )
        for place, outcome in enumerate(each)
    ]
    return np.stack(columns, axis=1)


def _rise(votes: Votes) -> FloatArray:
    """Return how much more often the others' vote has the answer of a path than another path has [n].

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


def _mean(values: NDArray[Any]) -> FloatArray:
    return np.asarray(values.mean(axis=1, dtype=np.float64), np.float64)
