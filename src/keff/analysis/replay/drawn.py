"""Random orders of recorded paths: of every question or, where only votes are recorded, of every pattern."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from keff.analysis.replay.compare import Rows
from keff.records import frozen
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import alike, dense_codes
from keff.stats.voting.draws import Draws, permuted

# So many orders over all questions leave the mean of a rule a random error of about a tenth of a point,
# whatever the number of questions: well below what their sampling leaves.
ORDERS_IN_ALL, FEWEST_ORDERS = 100_000, 2

# From so many questions on half as many orders: their time shows there, and intervals hold their noise.
MANY = 3000

# Paths in flight are followed path by path, on a part of the orders: the exact vote at the cap is a control
# variate, so that under a tenth of a point is left unknown of a rule that changes one answer in a hundred.
IN_FLIGHT = 4

# Bounds the memory and the time of a replay.
MOST_ORDERS = 4000
# Orders of a question at most where a policy cannot follow all of them at once.
ONE_BY_ONE = 200

# Places of paths in orders: so many a policy follows at once, and up to so many in all the running votes are
# kept for the next policy; beyond that they are drawn and counted again for each.
BLOCK_CELLS, KEPT_CELLS = 2**20, 2**24


@dataclass
class DrawnOrders:
    """Orders of the paths of u vote patterns: ``repeats`` [u] of each, in falling number.

    ``votes`` [u] are those of the question ``first`` [u] of each pattern. The same orders come at every turn.
    """

    votes: Votes
    first: IntArray
    repeats: IntArray
    cap: int
    rng: np.random.Generator
    kept: list[tuple[slice, Draws]] = field(default_factory=list[tuple[slice, Draws]])

    def blocks(self) -> Iterator[tuple[slice, Draws]]:
        """Yield the orders by blocks of patterns, so that no policy works on all of them at once."""
        if self.kept:
            yield from self.kept
            return
        cells = int(self.repeats.sum()) * self.cap
        rng = copy.deepcopy(self.rng)
        for rows in self._slices():
            votes = self.votes.take(np.arange(rows.start, rows.stop, dtype=np.int64))
            block = rows, permuted(votes, self.cap, int(self.repeats[rows.start]), rng)
            if cells <= KEPT_CELLS:
                self.kept.append(block)
            yield block

    def _slices(self) -> Iterator[slice]:
        edges = np.flatnonzero(np.diff(self.repeats, prepend=0, append=0))
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            yield from _blocks(start, stop, int(self.repeats[start]) * self.cap)


def _blocks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Yield so many rows of ``width`` cells at a time that memory does not grow with the record."""
    step = max(1, BLOCK_CELLS // width)
    for first in range(start, stop, step):
        yield slice(first, min(first + step, stop))


def drawn_orders(
    votes: Votes,
    cap: int,
    rng: np.random.Generator,
    *,
    one_by_one: bool,
    by_path: bool,
    by_question: bool,
    in_flight: bool = False,
) -> tuple[DrawnOrders, Rows]:
    """Return the orders in which a record is replayed, and what the rows of an outcome stand for.

    What a rule that sees votes alone does on a question depends on its vote pattern (``stats.alike``), so
    orders are drawn for patterns, in proportion to their questions; rows are then patterns too unless
    ``by_question`` or shared clusters ask for questions. ``by_path``: what is recorded of single paths
    (seconds, confidences) matters, and every question has orders of its own; fewer ``in_flight``.
    """
    ids, groups, n = votes.cluster_ids, votes.n_clusters, votes.n
    in_all = ORDERS_IN_ALL // (1 + (n >= MANY))
    most = ONE_BY_ONE if one_by_one else MOST_ORDERS
    if by_path:
        in_all //= IN_FLIGHT if in_flight else 1
        repeats = np.full(n, max(min(in_all // n, most), FEWEST_ORDERS), np.int64)
        return DrawnOrders(votes, np.arange(n), repeats, cap, rng), Rows(ids, groups)
    same = alike(votes)
    wanted = np.clip(in_all * same.counts / n, FEWEST_ORDERS, most)
    # Rounded to powers of two: patterns of equally many orders go together.
    repeats = (2 ** np.round(np.log2(wanted))).astype(np.int64)
    order = np.argsort(-repeats, kind="stable")
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    counts = None if by_question or groups < n else same.counts[order]
    first = same.first[order]
    bare = replace(votes.take(first), tokens=None, prompt_tokens=None, cached_tokens=None)
    return DrawnOrders(bare, first, repeats[order], cap, rng), Rows(ids, groups, rank[same.back], counts)


@frozen
class PathTokens:
    """Tokens of each question's paths, and which paths of its pattern they stand for.

    Paths whose answers are held by equally many paths of a question, of which equally many are right, are of
    one kind: exchangeable to a rule that sees votes alone. So what such a rule spends on a question is how
    often it draws each path, the same for all of a kind, times the path's tokens. Paths are sorted by kind:
    ``code`` and ``kind`` [u, K] are their answers and the place at which their kind begins, of each pattern;
    ``tokens`` [n, K] those of each question.
    """

    code: NDArray[np.int16]
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

    def drawn(self, draws: Draws, rows: slice, stop: IntArray) -> FloatArray:
        """Return how often each path is drawn on average [rows, K]; stops are [rows, R]."""
        code, kind = self.code[rows].astype(np.int64) + 1, self.kind[rows]
        (size, repeats, cap), k = draws.codes.shape, kind.shape[1]
        of_code = np.zeros((size, int(code.max(initial=0)) + 1), np.int64)
        np.put_along_axis(of_code, code, kind, axis=1)
        places = draws.codes.reshape(size, -1).astype(np.int64) + 1
        begins = np.take_along_axis(of_code, places, axis=1) + _starts(size, k)
        ran: NDArray[np.bool_] = np.arange(cap, dtype=np.int64) < stop[..., None]
        counts = np.bincount(begins[ran.reshape(size, -1)], minlength=size * k)
        own = kind + _starts(size, k)
        paths = np.bincount(own.ravel(), minlength=size * k)
        return (counts / np.maximum(paths, 1) / repeats)[own]

    def spent(self, drawn: FloatArray, pattern: IntArray) -> FloatArray:
        """Return the mean tokens of each question [n], of whose paths so many are drawn."""
        parts = [
            np.einsum("ij,ij->i", drawn[pattern[rows]], self.tokens[rows])
            for rows in _blocks(0, *self.tokens.shape)
        ]
        return np.concatenate(parts)


def _by_kind(votes: Votes, rows: slice) -> tuple[NDArray[np.int16], IntArray, IntArray]:
    """Return of the paths of some questions, sorted by kind [n, K]: answer, where its kind begins, column."""
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
    """Return where each row begins in a flat table [rows, 1]."""
    return np.arange(0, rows * width, width, dtype=np.int64)[:, None]
