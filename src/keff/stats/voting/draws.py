"""Random orders of drawing recorded paths, and the running vote along each order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.records import frozen
from keff.stats.time import Timetable, timetable
from keff.stats.votes import CONFIDENCE, RATING_SECONDS, BoolArray, Float32Array, Int16Array, IntArray, Votes
from keff.stats.voting.alike import ABSTAINS, dense_codes

ItemArray = NDArray[Any]

# What goes with the answers of paths, where known.
MEASURED = ("correct", "tokens", "confidences", "seconds")

# Longer orders have hardly a course in common.
MOST_SHARED = 32

# Ends the names of what was cross-fitted from a confidence: P(right), and the weight of the vote.
CHANCE, WEIGHT = " chance", " weight"


@frozen
class Tallies:
    """The running vote after 0..cap paths, each [n, R, cap + 1].

    ``v1`` and ``v2`` are the two largest counts, or sums of weights, ``leader`` the code that leads (the
    first to reach its count; -1 for none), ``credit`` the correctness of the plurality with 1/t for each of
    t tied answers (None without labels). A key whose paths differ in correctness is as right as its drawn
    paths are on average.
    """

    v1: NDArray[Any]
    v2: NDArray[Any]
    leader: Int16Array
    credit: Float32Array | None


@dataclass(frozen=True)
class Draws:
    """R orders of drawing ``cap`` paths for each of n items.

    ``codes`` [n, R, cap] are answers renumbered 0, 1, ... within the item (-1 abstains); ``correct``,
    ``tokens``, ``confidences``, further ``named`` ones and ``seconds`` go with them, where known. ``weights``
    are those of the votes (None: one path, one vote), above 0 and whole multiples of a power of two, so that
    their sums are exact.
    """

    codes: Int16Array
    correct: Float32Array | None = None
    tokens: Float32Array | None = None
    confidences: Float32Array | None = None
    seconds: Float32Array | None = None
    named: Mapping[str, Float32Array] = field(default_factory=dict[str, "Float32Array"])
    weights: Float32Array | None = None

    def confidences_along(self, name: str) -> Float32Array:
        """Return the named confidence along the orders [n, R, cap]; NaN where missing."""
        values = self.confidences if name == CONFIDENCE else self.named.get(name)
        return np.full(self.codes.shape, np.nan, np.float32) if values is None else values

    def with_weights(self, name: str, weights: Float32Array) -> Draws:
        """Return the same draws with weighted votes, cached by ``name`` for the next rule."""
        known: dict[str, Draws] = vars(self).setdefault("_weighed", {})
        if name not in known:
            known[name] = Draws(self.codes, self.correct, weights=weights)
        return known[name]

    @property
    def cap(self) -> int:
        """The length of each order."""
        return self.codes.shape[2]

    @property
    def width(self) -> int:
        """The largest number of distinct answers of an item (at least 1)."""
        return max(1, int(self.codes.max(initial=0)) + 1)

    @cached_property
    def tallies(self) -> Tallies:
        """The running vote after each prefix of each order."""
        return _tallies(self)

    @cached_property
    def cast(self) -> Int16Array:
        """How many paths have voted (not abstained) after each path of each order [n, R, cap]."""
        return (self.codes >= 0).cumsum(axis=2, dtype=np.int16)

    @cached_property
    def distinct_orders(self) -> tuple[IntArray | slice, IntArray | slice]:
        """Representatives [m] of orders with equal two largest counts throughout, and each order's [n * R].

        Short orders have few representatives. Of long ones, and where paths have times, each is its own.
        """
        if self.cap > MOST_SHARED or self.seconds is not None:
            return slice(None), slice(None)
        # Each path raises the first, the second or neither: a digit of a number with three values.
        digits = np.diff(self.tallies.v1) + 2 * np.diff(self.tallies.v2)
        number = digits.reshape(-1, self.cap) @ 3 ** np.arange(self.cap, dtype=np.int64)
        _, first, course = np.unique(number, return_index=True, return_inverse=True)
        return first.astype(np.int64), course.astype(np.int64)

    def cells(self, side: int) -> NDArray[np.int32]:
        """Return the flat index of each prefix in a table over (n, v1, v2) [m, side], each 0..side - 1.

        Rows are ``distinct_orders``. Kept for the last side asked for: many rules of one cap look them up.
        """
        kept = vars(self).get("_cells")
        if kept is not None and kept.shape[1] == side:
            return kept
        seen, (first, _) = self.tallies, self.distinct_orders
        v1, v2 = (each.reshape(-1, self.cap + 1)[first, :side] for each in (seen.v1, seen.v2))
        place = v1 * np.int32(side)
        place += v2
        place += np.arange(side, dtype=np.int32) * np.int32(side**2)
        vars(self)["_cells"] = place
        return place

    @cached_property
    def with_rating_time(self) -> Draws:
        """The same draws with the verifier's seconds added to each path's; the votes are the same."""
        spent = self.named.get(RATING_SECONDS)
        if self.seconds is None or spent is None:
            return self
        found = replace(self, seconds=self.seconds + spent)
        vars(found).update(tallies=self.tallies, _weighed=vars(self).setdefault("_weighed", {}))
        return found

    @property
    def work(self) -> Float32Array | None:
        """Duration of each path: its seconds, else its tokens; None where neither is known."""
        return self.tokens if self.seconds is None else self.seconds

    def schedule(self, cap: int, width: int) -> tuple[Timetable, Draws]:
        """Return the schedule of the first ``cap`` paths, ``width`` at once, and the draws as they arrive.

        By rows of n * R orders; the draws [n * R, 1, cap] hold codes and correctness only. Kept for the next
        rule, and several of them where they are small. ``work`` must be known.
        """
        known: dict[tuple[int, int], tuple[Timetable, Draws]] = vars(self).setdefault("_timed", {})
        if (cap, width) in known:
            return known[cap, width]
        assert self.work is not None
        rows = self.codes.shape[0] * self.codes.shape[1]
        table = timetable(self.work[..., :cap].reshape(rows, cap), width)

        def arriving(values: NDArray[Any]) -> NDArray[Any]:
            return np.take_along_axis(values[..., :cap].reshape(rows, cap), table.arrival, axis=1)[:, None]

        right = None if self.correct is None else arriving(self.correct)
        scores = None if self.confidences is None else arriving(self.confidences)
        named = {name: arriving(values) for name, values in self.named.items()}
        found = table, Draws(arriving(self.codes), right, confidences=scores, named=named)
        if rows * cap * (len(known) + 1) > TIMED_CELLS:
            known.clear()
        known[cap, width] = found
        return found


def permute_paths(votes: Votes, cap: int, repeats: int, rng: np.random.Generator) -> Draws:
    """Return ``repeats`` random orders of ``cap`` recorded paths of each item, without replacement.

    A prefix of a random order of exchangeable paths is a sample of the model, so what is averaged over
    the orders is unbiased for every policy whose cap is at most the recorded K (drawing with replacement
    is not). ``votes.answers`` must be there and K >= cap.
    """
    assert votes.answers is not None
    codes = dense_codes(votes.answers)
    others = {name: values for name in MEASURED if (values := getattr(votes, name)) is not None}
    others |= votes.named
    drawn_codes = np.empty((votes.n, repeats, cap), np.int16)
    drawn = {name: np.empty((votes.n, repeats, cap), np.float32) for name in others}
    step = max(1, ORDER_CELLS // (repeats * votes.k))
    for start in range(0, votes.n, step):
        rows = slice(start, start + step)
        size = len(codes[rows])
        order = random_orders(rng.random((size, repeats, votes.k), dtype=np.float32), cap)
        order += np.arange(0, size * votes.k, votes.k)[:, None, None]  # places in the flat block
        drawn_codes[rows] = codes[rows].ravel().take(order)
        for name, values in others.items():
            drawn[name][rows] = values[rows].astype(np.float32).ravel().take(order)
    named = {name: drawn.pop(name) for name in votes.named}
    return Draws(drawn_codes, **drawn, named=named)


def at_place(values: NDArray[Any], place: IntArray) -> NDArray[Any]:
    """Return the values [n, R] at one position of each order."""
    return np.take_along_axis(values, place[..., None], axis=2)[..., 0]


def random_orders(uniform: Float32Array, cap: int) -> NDArray[np.intp]:
    """Return the positions [..., cap] of the smallest uniform numbers [..., K], in order; ties by position.

    The ``argsort`` of the last axis, several times faster, by sorting integers: the 24 bits of such a number,
    and its place below them.
    """
    k = uniform.shape[-1]
    # 8 bits are left below the 24 of a random number: room for the place of one of 256 paths.
    kind = np.uint32 if k <= 256 else np.uint64
    below = kind(np.iinfo(kind).bits - 24)
    keys = (uniform * np.float32(2**24)).astype(kind)
    keys <<= below
    keys |= np.arange(k, dtype=kind)
    keys.sort(axis=-1)
    return (keys[..., :cap] & ((kind(1) << below) - kind(1))).astype(np.intp)


# Several timetables are kept up to so many places of paths in all: they take 50 MB. Rules with equally
# many in flight follow each other, so that more would be kept for nobody: 300 MB of 100,000 x 8.
TIMED_CELLS = 2**20

# So many places of paths in orders are drawn at a time, so that memory does not grow with the record.
ORDER_CELLS = 2**18


def _tallies(draws: Draws) -> Tallies:
    """Return the running vote of all orders, counted path by path."""
    n, repeats, cap = draws.codes.shape
    rows, width = n * repeats, draws.width + 1
    # The narrowest that holds the cap: these tables fill the memory.
    count_type = np.float32 if draws.weights is not None else np.uint8 if cap < 256 else np.uint16
    codes = np.ascontiguousarray(draws.codes.reshape(rows, cap).T)
    v1: ItemArray = np.zeros((cap + 1, rows), count_type)
    v2: ItemArray = np.zeros((cap + 1, rows), count_type)
    leader = np.full((cap + 1, rows), ABSTAINS, np.int16)
    # Abstentions have a column of their own, the first, which stays at 0: they change no maximum.
    counts = np.zeros(rows * width, count_type)
    base: IntArray = np.arange(rows, dtype=np.int64) * width - ABSTAINS
    credit = None if draws.correct is None else _Credit(draws)
    weights = None if draws.weights is None else draws.weights.reshape(rows, cap).T
    for t, code in enumerate(codes):
        voting = code != ABSTAINS
        cell: IntArray = base + code
        new: ItemArray = counts.take(cell)
        new += voting if weights is None else voting * weights[t]
        counts[cell] = new
        before = v1[t]
        leads = new > before
        np.maximum(before, new, out=v1[t + 1])
        # Who overtakes leaves the former leader second; a rival may come second itself.
        second = np.minimum(new, before)
        v2[t + 1] = np.where(code == leader[t], v2[t], np.maximum(v2[t], second, out=second))
        leader[t + 1] = np.where(leads, code, leader[t])
        if credit is not None:
            credit.step(t, cell, new, leads, voting & (new == before))

    def by_order(counted: ItemArray) -> ItemArray:
        return np.ascontiguousarray(counted.T).reshape(n, repeats, cap + 1)

    told = None if credit is None else by_order(credit.values)
    return Tallies(by_order(v1), by_order(v2), by_order(leader), told)


class _Credit:
    """Split credit of the tied leaders along each order: their mean correctness."""

    def __init__(self, draws: Draws) -> None:
        assert draws.correct is not None
        n, repeats, cap = draws.codes.shape
        rows = n * repeats
        voted = np.where(draws.codes == ABSTAINS, np.float32(0), draws.correct)
        voted = voted if draws.weights is None else voted * draws.weights
        self.correct = np.ascontiguousarray(voted.reshape(rows, cap).T)
        self.right = np.zeros(rows * (draws.width + 1), np.float32)
        self.total = np.zeros(rows, np.float32)
        self.tied = np.ones(rows, np.float32)
        self.values = np.zeros((cap + 1, rows), np.float32)

    def step(
        self, t: int, cell: NDArray[np.int64], count: NDArray[Any], leads: BoolArray, joins: BoolArray
    ) -> None:
        """Count path ``t``: its key takes the lead, joins the tied leaders, or neither."""
        right = self.right.take(cell)
        right += self.correct[t]
        self.right[cell] = right
        right /= np.where(count > 0, count, 1)
        self.total += np.where(joins, right, np.float32(0))
        np.copyto(self.total, right, where=leads)
        self.tied += joins
        np.copyto(self.tied, np.float32(1), where=leads)
        np.divide(self.total, self.tied, out=self.values[t + 1])
