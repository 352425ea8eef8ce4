"""Random orders of recorded paths: of every question or, where only votes are recorded, of every pattern."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from keff.analysis.replay.compare import Rows
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

    ``votes`` [u] are those of one question of each pattern. The same orders come at every turn.
    """

    votes: Votes
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
            step = max(1, BLOCK_CELLS // (int(self.repeats[start]) * self.cap))
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
        return DrawnOrders(votes, repeats, cap, rng), Rows(ids, groups)
    same = alike(votes)
    wanted = np.clip(in_all * same.counts / n, FEWEST_ORDERS, most)
    # Rounded to powers of two: patterns of equally many orders go together.
    repeats = (2 ** np.round(np.log2(wanted))).astype(np.int64)
    order = np.argsort(-repeats, kind="stable")
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    counts = None if by_question or groups < n else same.counts[order]
    bare = replace(votes.take(same.first[order]), tokens=None, prompt_tokens=None, cached_tokens=None)
    return DrawnOrders(bare, repeats[order], cap, rng), Rows(ids, groups, rank[same.back], counts)


@dataclass(frozen=True)
class PathTokens:
    """Mean tokens of each question's paths, apart for each kind of answer.

    Paths whose answers are held by equally many paths of a question, of which equally many are right, are of
    one kind: exchangeable to a rule that sees votes alone. So what such a rule spends on a question is the
    number of paths of each kind that it draws on average, times the mean of their tokens. ``code`` and
    ``kind`` [u, K] are the answer and the kind of the paths of each pattern, ``mean`` [n, kinds] the tokens.
    """

    code: NDArray[np.int16]
    kind: IntArray
    mean: FloatArray

    @classmethod
    def of(cls, votes: Votes, patterns: Votes) -> PathTokens:
        """Return the tokens of ``votes`` [n], whose patterns are those of ``patterns`` [u]."""
        assert votes.tokens is not None
        code, kind = _kinds(patterns, slice(None))
        kinds = int(kind.max(initial=0)) + 1
        mean = np.zeros((votes.n, kinds))
        step = max(1, BLOCK_CELLS // votes.k)
        for start in range(0, votes.n, step):
            rows = slice(start, start + step)
            own = _kinds(votes, rows)[1]
            cell = (own + _starts(len(own), kinds)).ravel()
            sums = np.bincount(cell, votes.tokens[rows].ravel(), len(own) * kinds)
            paths = np.bincount(cell, minlength=len(own) * kinds)
            mean[rows] = (sums / np.maximum(paths, 1)).reshape(-1, kinds)
        return cls(code, kind, mean)

    def drawn(self, draws: Draws, rows: slice, stop: IntArray) -> FloatArray:
        """Return how many paths of each kind are drawn on average [rows, kinds]; stops are [rows, R]."""
        size, repeats, cap = draws.codes.shape
        kinds = self.mean.shape[1]
        of_code = np.zeros((size, int(self.code[rows].max(initial=0)) + 2), np.int64)
        np.put_along_axis(of_code, self.code[rows].astype(np.int64) + 1, self.kind[rows], axis=1)
        places = draws.codes.reshape(size, -1).astype(np.int64) + 1
        kind = np.take_along_axis(of_code, places, axis=1) + _starts(size, kinds)
        ran: NDArray[np.bool_] = np.arange(cap, dtype=np.int64) < stop[..., None]
        counts = np.bincount(kind[ran.reshape(size, -1)], minlength=size * kinds)
        return counts.reshape(size, kinds) / repeats

    def spent(self, drawn: FloatArray, pattern: IntArray) -> FloatArray:
        """Return the mean tokens of each question [n], of which so many paths of each kind are drawn."""
        out = np.empty(len(self.mean))
        step = max(1, BLOCK_CELLS // self.mean.shape[1])
        for start in range(0, out.size, step):
            rows = slice(start, start + step)
            out[rows] = np.einsum("ij,ij->i", drawn[pattern[rows]], self.mean[rows])
        return out


def _kinds(votes: Votes, rows: slice) -> tuple[NDArray[np.int16], IntArray]:
    """Return the answer and the kind of every path of some questions [n, K], each numbered from 0."""
    code = dense_codes(votes.answered()[rows])
    n, k = code.shape
    width = int(code.max(initial=0)) + 2
    cell = code + 1 + _starts(n, width)
    paths: IntArray = np.bincount(cell.ravel(), minlength=n * width).astype(np.int64)
    sign = paths * (k + 1)
    if votes.correct is not None:
        sign += np.bincount(cell.ravel(), votes.correct[rows].ravel(), n * width).astype(np.int64)
    sign[::width] = 0  # abstentions are a kind of their own, however many
    own = sign[cell]
    order = own.argsort(axis=1)
    ordered = np.take_along_axis(own, order, axis=1)
    number = np.zeros((n, k), np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=number[:, 1:])
    kind = np.empty((n, k), np.int64)
    np.put_along_axis(kind, order, number, axis=1)
    return code, kind


def _starts(rows: int, width: int) -> IntArray:
    """Return where each row begins in a flat table [rows, 1]."""
    return np.arange(0, rows * width, width, dtype=np.int64)[:, None]
