"""Random orders of the recorded paths of several branches, and the vote as it runs along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keff.policies.cascade import FRESH, Stage
from keff.reading.join import Aligned
from keff.stats.votes import FloatArray, IntArray, Kind

Reals = NDArray[np.floating]
"""Single precision where there is a number for each plan and question: their tables fill the memory."""

# Orders of all questions together, about. An order's credit has a variance of .1 or so within a question, so
# 4,000 leave half a point beside the 1.4 that 1,000 questions leave; plans are compared on the same orders.
ROWS = 4_000

# Of each question at least two orders, so that no question speaks through one lucky order; more than 240 add
# nothing on the 25 questions where they would be reached.
FEWEST, MOST = 2, 240


@dataclass(frozen=True)
class BranchOrders:
    """One branch along N orders: ``codes`` and ``right`` [T, N], and what the first t paths cost [T + 1, N].

    ``right`` is the credit of the answer that a path gives.
    """

    codes: NDArray[np.int16]
    right: NDArray[np.float32]
    spent: NDArray[np.float32]

    @property
    def cap(self) -> int:
        """The paths along an order."""
        return self.codes.shape[0]


@dataclass(frozen=True)
class Orders:
    """Every branch along the same N = n * repeats rows; row r belongs to question r // repeats."""

    branches: tuple[BranchOrders, ...]
    questions: int
    repeats: int
    width: int

    def means(self, values: Reals) -> Reals:
        """Return the mean of each question [n] over its orders."""
        # A sum by einsum: a mean along a short axis takes four times as long.
        return np.einsum("nr->n", values.reshape(self.questions, self.repeats)) / np.float32(self.repeats)


@dataclass(frozen=True)
class Running:
    """The vote of some rows: ``counts`` and ``right`` [M, width] by answer, and what follows, each [M].

    ``credit`` is summed over the ``tied`` leaders. A vote of this stage counts ``unit``: above 1, what is
    smaller was counted by earlier stages, and decides ties only.
    """

    counts: IntArray
    right: NDArray[np.float32]
    v1: IntArray
    v2: IntArray
    leader: NDArray[np.int16]
    credit: NDArray[np.float32]
    tied: NDArray[np.float32]
    unit: int = 1

    def demoted(self) -> Running:
        """Return the vote as a fresh stage begins on it."""
        return replace(self, unit=self.unit * FRESH)

    def rows(self, chosen: NDArray[np.bool_]) -> Running:
        """Return the vote of some rows."""
        names = ("counts", "right", "v1", "v2", "leader", "credit", "tied")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


@dataclass(frozen=True)
class Course:
    """The vote after each of 0..T further paths: the two largest counts and the credit, each [T + 1, M]."""

    v1: NDArray[np.int32]
    v2: NDArray[np.int32]
    credit: NDArray[np.float32]


def draw_orders(group: Aligned, costs: Sequence[FloatArray], cap: int, rng: np.random.Generator) -> Orders:
    """Draw each branch's paths in random orders, without replacement, up to ``cap`` of each.

    ``costs`` are those of every recorded path [n, K_a]. A prefix of a random order is a sample of the
    model, so means over orders are unbiased for every rule whose cap is at most what is recorded. The orders
    of a question are rotations of a few random ones: in K of them every path stands once at every place.
    """
    repeats = int(np.clip(ROWS // group.n, FEWEST, MOST))
    width = 1 + max(int(branch.votes.answered().max(initial=0)) for branch in group.branches)
    orders: list[BranchOrders] = []
    for branch, cost in zip(group.branches, costs, strict=True):
        codes = branch.votes.answered()
        place = _rotations(group.n, repeats, codes.shape[1], cap, rng)
        right = np.where(codes < 0, 0.0, np.take_along_axis(group.credit, np.maximum(codes, 0), axis=1))
        paid = _along(cost.astype(np.float32), place)
        spent = np.concatenate([np.zeros((1, paid.shape[1]), np.float32), np.cumsum(paid, axis=0)])
        orders.append(
            BranchOrders(
                _along(codes.astype(np.int16), place), _along(right.astype(np.float32), place), spent
            )
        )
    return Orders(tuple(orders), group.n, repeats, width)


def _rotations(n: int, repeats: int, k: int, cap: int, rng: np.random.Generator) -> NDArray[np.int16]:
    """Return the places [n, R, cap] of k paths along R orders: every k of them rotate one random order."""
    fresh = -(-repeats // k)
    order = rng.random((n, fresh, k), dtype=np.float32).argsort(axis=2).astype(np.int16)
    shift = np.arange(repeats, dtype=np.int64)
    # Steps between rotations as even as they can be, where there are fewer of them than paths.
    begin = shift * k // repeats if repeats < k else shift % k
    turned = (begin[:, None] + np.arange(min(cap, k))) % k
    return order[:, (shift // k)[:, None], turned]


def _along(values: NDArray[Kind], place: NDArray[np.int16]) -> NDArray[Kind]:
    """Return recorded values [n, K] along orders [n, R, T] as [T, n * R]."""
    picked = np.take_along_axis(values[:, None, :], place, axis=2)
    return np.ascontiguousarray(picked.reshape(-1, place.shape[2]).T)


def nothing_yet(rows: int, width: int) -> Running:
    """Return the vote of rows that have no path."""
    zero, nil = np.zeros(rows, np.int64), np.zeros(rows, np.float32)
    counts, right = np.zeros((rows, width), np.int64), np.zeros((rows, width), np.float32)
    return Running(counts, right, zero, zero, np.full(rows, -1, np.int16), nil, np.ones(rows, np.float32))


def follow(start: Running, codes: NDArray[np.int16], right: NDArray[np.float32]) -> Course:
    """Count further paths [T, M] on top of a vote; ``start`` is left as it is."""
    steps, rows = codes.shape
    flat = start.counts.ravel().copy()
    base = np.arange(rows, dtype=np.int64) * start.counts.shape[1]
    v1, v2 = np.empty((steps + 1, rows), np.int32), np.empty((steps + 1, rows), np.int32)
    credit = np.empty((steps + 1, rows), np.float32)
    first, second, leader, total, tied = start.v1, start.v2, start.leader, start.credit, start.tied
    v1[0], v2[0], credit[0] = first // start.unit, second // start.unit, total / tied
    for t in range(steps):
        code = codes[t]
        voting: NDArray[np.bool_] = code >= 0
        cell = base + np.maximum(code, 0)
        count: IntArray = flat[cell] + np.where(voting, start.unit, 0)
        flat[cell] = count
        leads = voting & (count > first)
        joins = voting & (count == first)
        overtaken = leads & (code != leader)
        second = np.where(overtaken, first, np.where(voting & ~leads, np.maximum(second, count), second))
        first = np.where(leads, count, first)
        leader = np.where(leads, code, leader)
        total = np.where(leads, right[t], np.where(joins, total + right[t], total))
        tied = np.where(leads, 1, np.where(joins, tied + 1, tied)).astype(np.float32)
        v1[t + 1], v2[t + 1], credit[t + 1] = first // start.unit, second // start.unit, total / tied
    return Course(v1, v2, credit)


def add_paths(
    start: Running, codes: NDArray[np.int16], right: NDArray[np.float32], drawn: IntArray
) -> Running:
    """Return the vote of rows after their first ``drawn`` [M] of the paths [T, M]."""
    counts, credit = start.counts.copy(), start.right.copy()
    for t in range(int(drawn.max(initial=0))):
        at = np.flatnonzero((t < drawn) & (codes[t] >= 0))
        counts[at, codes[t, at]] += start.unit
        credit[at, codes[t, at]] = right[t, at]
    leader = counts.argmax(axis=1) if len(counts) else np.zeros(0, np.int64)
    v1 = np.take_along_axis(counts, leader[:, None], axis=1)[:, 0]
    others = counts.copy()
    np.put_along_axis(others, leader[:, None], -1, axis=1)
    v2 = np.maximum(others.max(axis=1, initial=0), 0)
    top = (counts == v1[:, None]) & (v1 > 0)[:, None]
    tied = np.maximum(top.sum(axis=1), 1).astype(np.float32)
    total = np.where(top, credit, 0).sum(axis=1, dtype=np.float32)
    leads = np.where(v1 > 0, leader, -1).astype(np.int16)
    return Running(counts, credit, v1, v2, leads, total, tied, start.unit)


def walk(stage: Stage, course: Course) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return after how many further paths a stage ends [M], and where its rule is satisfied.

    The decisions of ``Cascade.decide``, looked up in the same table for all rows at once.
    """
    at = np.zeros(course.v1.shape[1], np.int64)
    settled = np.zeros(len(at), np.bool_)
    due: list[list[IntArray]] = [[] for _ in range(stage.cap + 1)]
    due[0].append(np.arange(len(at), dtype=np.int64))
    width = stage.ahead.shape[1]
    for t in range(stage.cap + 1):
        rows = np.concatenate(due[t]) if due[t] else np.zeros(0, np.int64)
        # ``take`` along one axis: indexing the table by three arrays takes five times as long.
        cell = course.v1[t].take(rows) * width + course.v2[t].take(rows)
        step = stage.ahead[stage.offset + t].ravel().take(cell)
        at[rows] = t
        settled[rows[step == 0]] = True
        for further in range(1, stage.cap - t + 1):
            onward = rows[step == further]
            if len(onward):
                due[t + further].append(onward)
    return at, settled
