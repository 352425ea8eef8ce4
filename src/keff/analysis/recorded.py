"""Outcomes of stopping rules on recorded paths, along random orders shared by replay and decision.

Orders are those of every question or, where only votes are recorded, of every pattern of votes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from keff.analysis.money import Rates
from keff.analysis.walks import PolicyOutcome, Walks, expectations, is_vectorised, join_outcomes, run
from keff.policy import Fittable, Policy, in_flight_of
from keff.records import Interval, frozen
from keff.stats.intervals import bootstrap_means, interval_mean, mean_share, paired_difference
from keff.stats.time import NO_CONTENTION, Crowding
from keff.stats.votes import BoolArray, FloatArray, Int16Array, IntArray, Kind, Votes
from keff.stats.voting.alike import dense_codes, vote_patterns
from keff.stats.voting.draws import Draws, permute_paths
from keff.stats.voting.plurality import plurality_at_k_patterns

# Each question has at least so many orders, so that they tell how much they vary.
FEWEST_ORDERS = 2

# Bounds the memory and the time of a replay.
MOST_ORDERS = 4000
# Orders of a question at most where a policy cannot follow all of them at once.
ONE_BY_ONE = 200

# Places of paths in orders: so many a policy follows at once, and up to so many in all the running votes are
# kept for the next policy; beyond that they are drawn and counted again for each.
BLOCK_CELLS, KEPT_CELLS = 2**20, 2**24


@frozen
class Rows:
    """Meaning of the m rows of an outcome: single questions, or patterns of ``counts`` [m] questions each.

    Questions go by vote patterns where nothing else was recorded that tells them apart and each is a cluster
    of its own. ``clusters`` [n] are those of the questions, 0..G-1; ``pattern`` [n] the pattern whose orders
    of drawing each question was replayed on (None: its own).
    """

    clusters: IntArray
    groups: int
    pattern: IntArray | None = None
    counts: IntArray | None = None

    @property
    def weights(self) -> IntArray:
        """How many questions each row stands for [m]."""
        return np.ones(self.clusters.size, np.int64) if self.counts is None else self.counts

    def of(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Return the values of patterns [u] repeated by row [m]."""
        return values if self.pattern is None or self.counts is not None else values[self.pattern]

    def of_questions(self, weights: IntArray) -> IntArray:
        """Return question weights [n] summed by row [m]."""
        if self.pattern is None or self.counts is None:
            return weights
        return np.bincount(self.pattern, weights, self.counts.size).astype(np.int64)

    def by_question(self, values: FloatArray) -> FloatArray:
        """Return values by row [m] of every question [n]."""
        return values if self.pattern is None or self.counts is None else values[self.pattern]

    def means(self, values: FloatArray) -> FloatArray:
        """Return the means over questions of values by row [m, ...]."""
        return np.asarray(
            values.mean(axis=0) if self.counts is None else self.counts @ values / self.clusters.size
        )

    def mean(self, values: FloatArray) -> float:
        """Return the mean over questions of values [m]."""
        return float(self.means(values))

    def interval(self, values: FloatArray) -> Interval:
        """Return the mean over questions of values [m] with its 95% cluster-robust interval."""
        return interval_mean(values, self._clusters, counts=self.counts).interval

    def share(self, values: FloatArray, error: float = 0.0) -> Interval:
        """Return the mean over questions of shares [m]; ``error`` is that of the orders (``error``)."""
        return mean_share(values, self._clusters, counts=self.counts, noise=error**2)

    def difference(self, values: FloatArray, error: float = 0.0) -> Interval:
        """Return the mean over questions of paired differences of shares [m]; ``error`` as in ``share``."""
        return paired_difference(values, self._clusters, counts=self.counts, noise=error**2)

    @property
    def _clusters(self) -> IntArray | None:
        return None if self.counts is not None else self.clusters

    def error(self, noise: FloatArray | None, weights: IntArray) -> float:
        """Return the Monte Carlo standard error of a weighted mean, due to the drawn orders.

        ``noise`` [u] is the variance of each pattern's mean over its orders: questions of a pattern share it.
        """
        if noise is None:
            return 0.0
        shared = weights
        if self.pattern is not None and self.counts is None:
            shared = np.bincount(self.pattern, weights, noise.size)
        return float(np.sqrt(np.square(shared) @ noise)) / float(weights.sum())

    def bootstrap(self, columns: FloatArray, replicates: int, rng: np.random.Generator) -> FloatArray:
        """Return cluster-bootstrap means over questions [c, B] of columns [m, c]."""
        return bootstrap_means(columns, self.clusters, rng, replicates, self.counts).T


@dataclass
class RandomOrders:
    """Random orders of the paths of u vote patterns: ``repeats`` [u] of each, falling.

    ``votes`` [u] are those of the question ``first`` [u] of each pattern. The same orders come at every turn.
    """

    votes: Votes
    first: IntArray
    repeats: IntArray
    cap: int
    rng: np.random.Generator
    kept: list[tuple[slice, Draws]] = field(default_factory=list[tuple[slice, Draws]])

    def blocks(self) -> Iterator[tuple[slice, Draws]]:
        """Yield the orders in blocks of patterns, for bounded memory."""
        if self.kept:
            yield from self.kept
            return
        cells = int(self.repeats.sum()) * self.cap
        rng = copy.deepcopy(self.rng)
        for rows in self._slices():
            votes = self.votes.take(np.arange(rows.start, rows.stop, dtype=np.int64))
            block = rows, permute_paths(votes, self.cap, int(self.repeats[rows.start]), rng)
            if cells <= KEPT_CELLS:
                self.kept.append(block)
            yield block

    def _slices(self) -> Iterator[slice]:
        edges = np.flatnonzero(np.diff(self.repeats, prepend=0, append=0))
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            yield from _blocks(start, stop, int(self.repeats[start]) * self.cap)


def _blocks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Yield slices of rows of ``width`` cells, of bounded memory."""
    step = max(1, BLOCK_CELLS // width)
    for first in range(start, stop, step):
        yield slice(first, min(first + step, stop))


def draw_orders_of_patterns(
    votes: Votes,
    cap: int,
    rng: np.random.Generator,
    in_all: int,
    *,
    fewest: int,
    most: int,
    by_path: bool,
    by_question: bool,
) -> tuple[RandomOrders, Rows]:
    """Return about ``in_all`` random orders, and the questions that each row stands for.

    What a rule that sees votes alone does on a question depends on its vote pattern (``stats.alike``), so
    orders are drawn for patterns, in proportion to their questions; rows are then patterns too unless
    ``by_question`` or shared clusters ask for questions. ``by_path``: what is recorded of single paths
    (seconds, confidences) matters, and every question has orders of its own.
    """
    ids, groups, n = votes.cluster_ids, votes.n_clusters, votes.n
    if by_path:
        repeats = np.full(n, max(min(in_all // n, most), fewest), np.int64)
        return RandomOrders(votes, np.arange(n), repeats, cap, rng), Rows(ids, groups)
    same = vote_patterns(votes)
    wanted = np.clip(in_all * same.counts / n, fewest, most)
    # Rounded to powers of two: patterns of equally many orders go together.
    repeats = (2 ** np.round(np.log2(wanted))).astype(np.int64)
    order = np.argsort(-repeats, kind="stable")
    rank = np.argsort(order)
    counts = None if by_question or groups < n else same.counts[order]
    first = same.first[order]
    bare = votes.take(first)
    bare = replace(bare, tokens=None, prompt_tokens=None, cached_tokens=None, seconds=None)
    return RandomOrders(bare, first, repeats[order], cap, rng), Rows(ids, groups, rank[same.back], counts)


@frozen
class PathTokens:
    """Tokens of each question's paths, matched to the kinds of paths of its vote pattern.

    Paths whose answers are held by equally many paths of a question, of which equally many are right, are of
    one kind: exchangeable to a rule that sees votes alone. So what such a rule spends on a question is how
    often it draws each path, the same for all of a kind, times the path's tokens. Paths are sorted by kind:
    ``code`` and ``kind`` [u, K] are their answers and the place at which their kind begins, of each pattern;
    ``tokens`` [n, K] those of each question.
    """

    code: Int16Array
    kind: IntArray
    tokens: FloatArray

    @classmethod
    def of(cls, votes: Votes, patterns: Votes) -> PathTokens:
        """Return the tokens of ``votes`` [n], whose patterns are those of ``patterns`` [u]."""
        assert votes.tokens is not None
        tokens = [
            np.take_along_axis(votes.tokens[rows], _by_kind(votes, rows)[2], axis=1)
            for rows in _blocks(0, votes.n, votes.k)
        ]
        return cls(*_by_kind(patterns, slice(None))[:2], np.concatenate(tokens))

    def mean_draws(self, draws: Draws, rows: slice, stop: IntArray) -> FloatArray:
        """Return the mean number of draws of each path [rows, K], for stopping times [rows, R]."""
        code, kind = self.code[rows].astype(np.int64) + 1, self.kind[rows]
        (size, repeats, cap), k = draws.codes.shape, kind.shape[1]
        of_code = np.zeros((size, int(code.max(initial=0)) + 1), np.int64)
        np.put_along_axis(of_code, code, kind, axis=1)
        places = draws.codes.reshape(size, -1).astype(np.int64) + 1
        begins = np.take_along_axis(of_code, places, axis=1) + _starts(size, k)
        ran: BoolArray = np.arange(cap, dtype=np.int64) < stop[..., None]
        counts = np.bincount(begins[ran.reshape(size, -1)], minlength=size * k)
        own = kind + _starts(size, k)
        paths = np.bincount(own.ravel(), minlength=size * k)
        return (counts / np.maximum(paths, 1) / repeats)[own]

    def tokens_per_question(self, drawn: FloatArray, pattern: IntArray) -> FloatArray:
        """Return the mean tokens of each question [n], from the draws of its paths."""
        parts = [
            np.einsum("ij,ij->i", drawn[pattern[rows]], self.tokens[rows])
            for rows in _blocks(0, *self.tokens.shape)
        ]
        return np.concatenate(parts)


def _by_kind(votes: Votes, rows: slice) -> tuple[Int16Array, IntArray, IntArray]:
    """Return answers, first positions of kinds, and columns of questions' paths, sorted by kind [n, K]."""
    code = dense_codes(votes.answered()[rows])
    n, k = code.shape
    width = int(code.max(initial=0)) + 2
    cell = code + 1 + _starts(n, width)
    sign: IntArray = np.bincount(cell.ravel(), minlength=n * width).astype(np.int64) * (k + 1)
    if votes.correct is not None:
        sign += np.bincount(cell.ravel(), votes.correct[rows].ravel(), n * width).astype(np.int64)
    sign[::width] = 0  # abstentions are a kind of their own, however many
    own = sign[cell]
    order = own.argsort(axis=1)
    ordered = np.take_along_axis(own, order, axis=1)
    differs = np.diff(ordered, axis=1, prepend=ordered[:, :1]) != 0
    kind = np.maximum.accumulate(np.where(differs, np.arange(k, dtype=np.int64), 0), axis=1)
    return np.take_along_axis(code, order, axis=1), kind, order


def _starts(rows: int, width: int) -> IntArray:
    """Return the flat index of the first cell of each row [rows, 1]."""
    return np.arange(0, rows * width, width, dtype=np.int64)[:, None]


# What of an outcome is a mean over orders, of each row.
MEANS_OVER_ORDERS = ("paths", "rounds", "agrees", "accuracy", "tokens", "busy", "dollars", "as_now", "flips")


def needs_fit(rule: Policy) -> bool:
    """Return whether a rule still has to be fitted to a pilot."""
    return isinstance(rule, Fittable) and not rule.fitted


@dataclass
class RecordedPaths:
    """Recorded paths in random orders, with a cache of each rule's outcome on them.

    ``now`` is the rule whose answers on the same paths all others are compared with, beside those of
    plurality at ``cap``; ``exact`` [u, T] the closed-form accuracy of fixed K for each pattern that orders
    were drawn for (None without labels).
    """

    votes: Votes
    orders: RandomOrders
    rows: Rows
    now: Policy
    cap: int
    exact: FloatArray | None = None
    tokens: PathTokens | None = None
    rates: Rates | None = None
    crowding: Crowding = NO_CONTENTION
    outcomes: dict[str, PolicyOutcome] = field(default_factory=dict[str, PolicyOutcome])
    walks_now: dict[int, Walks] = field(default_factory=dict[int, Walks])

    @classmethod
    def of(
        cls,
        votes: Votes,
        rules: Sequence[Policy],
        now: Policy,
        cap: int,
        rng: np.random.Generator,
        in_all: int,
        *,
        timed: bool,
        fewest: int = FEWEST_ORDERS,
        rates: Rates | None = None,
        crowding: Crowding = NO_CONTENTION,
        by_question: bool = False,
    ) -> RecordedPaths:
        """Return about ``in_all`` random orders for some rules, and at least ``fewest`` of each question.

        ``timed`` says that the seconds of single paths matter, as they do to paths in flight.
        """
        rules = (*rules, now)
        one_by_one = not all(is_vectorised(rule) or needs_fit(rule) for rule in rules)
        orders, rows = draw_orders_of_patterns(
            votes,
            max([cap, *(rule.cap for rule in rules)]),
            # A stream of its own: how many orders are drawn must not move the resamples that follow.
            np.random.default_rng(rng.integers(2**63)),
            in_all,
            fewest=fewest,
            most=ONE_BY_ONE if one_by_one else MOST_ORDERS,
            by_path=timed or any("confidence" in rule.needs or in_flight_of(rule) for rule in rules),
            by_question=by_question or any(each is not None for each in (votes.tokens, votes.seconds, rates)),
        )
        apart = votes.tokens is not None and orders.votes.tokens is None
        exact = None
        if votes.correct is not None:
            # Of the votes as given: an analysis beside the replay has made their curve already.
            exact = plurality_at_k_patterns(votes)[vote_patterns(votes).back[orders.first], : orders.cap]
        tokens = PathTokens.of(votes, orders.votes) if apart else None
        return cls(votes, orders, rows, now, cap, exact, tokens, rates, crowding)

    @property
    def today(self) -> PolicyOutcome:
        """The outcome of the reference rule."""
        return self.outcome(self.now)

    def orders_error(self, rule: Policy) -> float:
        """Return the Monte Carlo standard error of a rule's mean loss, from the random orders.

        Those of one question are part of what differs between questions.
        """
        if self.rows.pattern is None:
            return 0.0
        each = (self.outcome(rule), self.today)
        own, today = (self.rows.error(outcome.noise, self.rows.weights) for outcome in each)
        return float(np.hypot(own, today))

    def outcome(self, policy: Policy) -> PolicyOutcome:
        """Return a policy's outcome on each row, cached by its spec.

        Where orders know no tokens or seconds, and for fixed K, they follow the mean of a question's paths.
        """
        if policy.spec in self.outcomes:
            return self.outcomes[policy.spec]
        outcome, fixed = self._outcome(policy), policy.spec == f"fixed:{policy.cap}"
        tokens, busy = (
            outcome.paths * each.mean(axis=1) if each is not None and (fixed or found is None) else found
            for found, each in ((outcome.tokens, self.votes.tokens), (outcome.busy, self.votes.seconds))
        )
        spent = None
        if self.rates is not None:
            spent = self.rates.dollars(outcome.paths, outcome.rounds, tokens, busy, outcome.rated)
        outcome = replace(outcome, tokens=tokens, busy=busy, dollars=spent)
        return self.outcomes.setdefault(policy.spec, outcome)

    def waits(self, policy: Policy) -> FloatArray:
        """Return the seconds to the answer along every order [n, R]."""
        if policy.spec in self.outcomes:
            known = [self.outcomes[policy.spec].wait]
        else:
            known = [self._walked(policy, draws).wait for _, draws in self.orders.blocks()]
        return np.concatenate([np.asarray(wait, np.float64) for wait in known])

    def _outcome(self, policy: Policy) -> PolicyOutcome:
        """Return a policy's outcome on each row, computed in blocks of patterns."""
        parts = [self._outcome_of_patterns(policy, rows, draws) for rows, draws in self.orders.blocks()]
        whole = join_outcomes([outcome for outcome, _ in parts])
        columns = {
            name: self.rows.of(values)
            for name in MEANS_OVER_ORDERS
            if (values := getattr(whole, name)) is not None
        }
        whole = replace(whole, **columns)
        if self.tokens is None or self.rows.pattern is None:
            return whole
        drawn = np.concatenate([drawn for _, drawn in parts if drawn is not None])
        return replace(whole, tokens=self.tokens.tokens_per_question(drawn, self.rows.pattern))

    def _outcome_of_patterns(
        self, policy: Policy, rows: slice, draws: Draws
    ) -> tuple[PolicyOutcome, FloatArray | None]:
        """Return a policy's outcome on some patterns, and its draws of each kind of path."""
        if rows.start not in self.walks_now:
            self.walks_now[rows.start] = self._walked(self.now, draws)
        today = self.walks_now[rows.start]
        walks = today if policy.spec == self.now.spec else self._walked(policy, draws)
        outcome = expectations(walks, draws, self.cap, today)
        drawn = None if self.tokens is None else self.tokens.mean_draws(draws, rows, walks.stop)
        return self._corrected(policy, rows, draws, walks, outcome), drawn

    def _walked(self, policy: Policy, draws: Draws) -> Walks:
        # A path that is cancelled may be billed as if it had ended.
        whole = self.rates is not None and self.rates.price.cancelled == "whole"
        return run(policy, draws, self.crowding, whole=whole)

    def _corrected(
        self, policy: Policy, rows: slice, draws: Draws, walks: Walks, outcome: PolicyOutcome
    ) -> PolicyOutcome:
        """Return an outcome with the exact accuracy of fixed K as a control variate, at the policy's cap."""
        credit = draws.tallies.credit
        if outcome.accuracy is None or walks.credit is None or credit is None or self.exact is None:
            return outcome
        exact = self.exact[rows, policy.cap - 1]
        # What the drawn orders are off at its cap, they are off alike for a policy that ends near it.
        at_cap = credit[:, :, policy.cap]
        drawn = at_cap.mean(axis=1, dtype=np.float64)
        noise = (walks.credit - at_cap).var(axis=1, dtype=np.float64) / credit.shape[1]
        return replace(outcome, accuracy=outcome.accuracy + exact - drawn, noise=noise)
