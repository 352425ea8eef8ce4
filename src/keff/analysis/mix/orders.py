"""Random orders of several branches' recorded paths, and the running vote of stages along them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.analysis.mix.prices import Costs
from keff.policies.cascade import Stage
from keff.reading.join import Aligned
from keff.records import frozen
from keff.stats.time import in_rounds
from keff.stats.votes import BoolArray, Float32Array, Int16Array, IntArray, Votes
from keff.stats.voting.correlation import anova_c
from keff.stats.voting.draws import Draws

# Single precision where there is a number for each plan and question: their tables fill the memory.
Reals = NDArray[np.floating]

# Orders of all questions together, about. An order's credit has a variance of .1 or so within a question, so
# 4,000 leave half a point beside the 1.4 that 1,000 questions leave; plans are compared on the same orders.
ROWS = 4_000

# Of each question at least two orders, so that no question speaks through one lucky order; more than 240 add
# nothing on the 25 questions where they would be reached.
FEWEST, MOST = 2, 240

# From 4 recorded paths on, plans of up to 8 are judged by predicted ones: so far were predictions judged
# (docs/branches-measured.md). Fewer paths tell too little of how a question's answers go together.
RECORDED, PREDICTED = 4, 8

# Correlations at whose ends a beta law has no size: moments of few questions may leave the range.
LEAST_C, MOST_C = 0.02, 0.98


@frozen
class BranchOrders:
    """One branch along N orders: ``codes`` and ``right`` [N, T], and cumulative cost [N, T + 1].

    ``right`` is the credit of the answer that a path gives. ``asked`` [2, N] is what the prompt costs in the
    first request and in each further one (None: it has no price).
    """

    codes: Int16Array
    right: Float32Array
    spent: Float32Array
    asked: Float32Array | None = None

    @property
    def cap(self) -> int:
        """The length of each order."""
        return self.codes.shape[1]

    def request_cost(self, rows: IntArray, paths: IntArray | int, rounds: IntArray | int) -> Float32Array:
        """Return the cost of the first paths of some orders, drawn in so many requests."""
        spent = self.spent[rows, paths]
        if self.asked is None:
            return spent
        first, again = self.asked[:, rows]
        return spent + np.minimum(rounds, 1) * first + np.maximum(np.subtract(rounds, 1), 0) * again


@frozen
class Orders:
    """All branches along the same N = n * repeats orders; row r belongs to question r // repeats."""

    branches: tuple[BranchOrders, ...]
    questions: int
    repeats: int

    @property
    def rows(self) -> int:
        """The number of orders N."""
        return self.questions * self.repeats

    def means(self, values: Reals) -> Reals:
        """Return the mean of each question [n] over its orders."""
        # A sum by einsum: a mean along a short axis takes four times as long.
        return np.einsum("nr->n", values.reshape(self.questions, self.repeats)) / np.float32(self.repeats)


def draw_orders(group: Aligned, costs: Costs, cap: int, rng: np.random.Generator) -> Orders:
    """Draw each branch's paths in random orders, without replacement, up to ``cap`` of each.

    Behind 4 to 7 recorded ones stand predicted paths, up to 8 (``_extend_orders``). A prefix of a random
    order is a sample of the model, so means over orders are unbiased for every rule whose cap is at most what
    is recorded. The orders of a question are rotations of a few random ones: in K of them every path stands
    once at every place.
    """
    repeats = int(np.clip(ROWS // group.n, FEWEST, MOST))
    orders: list[BranchOrders] = []
    known = group.credit.shape[1]
    # A right answer that no path gave has a code of its own.
    right_code = np.asarray(np.where(group.credit.any(axis=1), group.credit.argmax(axis=1), known), np.int64)
    for number, branch in enumerate(group.branches):
        codes = branch.votes.answered()
        place = _rotations(group.n, repeats, codes.shape[1], cap, rng)
        right = np.where(codes < 0, 0.0, np.take_along_axis(group.credit, np.maximum(codes, 0), axis=1))
        cost, prompts = costs.path_and_prompt_costs(number)
        paid = _take_along(cost.astype(np.float32), place)
        spent = np.concatenate([np.zeros((len(paid), 1), np.float32), np.cumsum(paid, axis=1)], axis=1)
        held = _take_along(codes.astype(np.int16), place), _take_along(right.astype(np.float32), place)
        asked = None if prompts is None else prompts.astype(np.float32).repeat(repeats, axis=1)
        orders.append(BranchOrders(*held, spent, asked))
        if RECORDED <= codes.shape[1] < min(cap, PREDICTED):
            unseen, most = known + 1 + number * PREDICTED, min(cap, PREDICTED)
            coded = np.repeat(right_code, repeats)
            orders[-1] = _extend_orders(orders[-1], branch.votes, unseen, coded, most, rng)
    return Orders(tuple(orders), group.n, repeats)


def _extend_orders(
    order: BranchOrders, votes: Votes, unseen: int, right_code: IntArray, cap: int, rng: np.random.Generator
) -> BranchOrders:
    """Return orders extended by predicted paths up to ``cap``.

    The predictive law of a Dirichlet process (Blackwell and MacQueen 1973): the path after t others repeats
    one of them with chance t / (t + a), else it is right (``right_code`` [N]) with the branch's accuracy, or
    an answer that nobody gave (codes from ``unseen`` on). a = (1 - c) / c makes correctness beta-binomial
    with the branch's own correlation c. It costs what the paths of its order cost on average.
    """
    c = float(np.clip(np.nan_to_num(anova_c(votes), nan=MOST_C), LEAST_C, MOST_C))
    rows, k = order.codes.shape
    codes, right = np.empty((rows, cap), np.int16), np.empty((rows, cap), np.float32)
    codes[:, :k], right[:, :k] = order.codes, order.right
    every: IntArray = np.arange(rows, dtype=np.int64)
    for t in range(k, cap):
        repeated = np.asarray(rng.random(rows) < t / (t + (1 - c) / c), np.bool_)
        is_right = np.asarray(rng.random(rows) < votes.p, np.bool_)
        before = np.asarray(rng.integers(0, t, rows), np.int64)
        codes[:, t] = np.where(repeated, codes[every, before], np.where(is_right, right_code, unseen + t))
        right[:, t] = np.where(repeated, right[every, before], is_right)
    further = order.spent[:, -1:] * (np.arange(k + 1, cap + 1, dtype=np.float32) / k)
    return BranchOrders(codes, right, np.concatenate([order.spent, further], axis=1), order.asked)


def _rotations(n: int, repeats: int, k: int, cap: int, rng: np.random.Generator) -> Int16Array:
    """Return the indices [n, R, cap] of k paths along R orders: every k of them rotate one random order."""
    fresh = -(-repeats // k)
    order = rng.random((n, fresh, k), dtype=np.float32).argsort(axis=2).astype(np.int16)
    shift = np.arange(repeats, dtype=np.int64)
    # Steps between rotations as even as they can be, where there are fewer of them than paths.
    begin = shift * k // repeats if repeats < k else shift % k
    turned = (begin[:, None] + np.arange(min(cap, k))) % k
    return order[:, (shift // k)[:, None], turned]


def _take_along(values: NDArray[Any], place: Int16Array) -> NDArray[Any]:
    """Return recorded values [n, K] along orders [n, R, T] as [n * R, T]."""
    return np.take_along_axis(values[:, None, :], place, axis=2).reshape(-1, place.shape[2])


@frozen
class CountedPaths:
    """Paths drawn by earlier stages: ``codes`` and ``right`` [M, S], padded with -1.

    ``weights`` [S] are what their votes count beside one of the stage in hand: 1, or so little that they
    decide ties only.
    """

    codes: Int16Array
    right: Float32Array
    weights: Float32Array

    @classmethod
    def none(cls, rows: int) -> CountedPaths:
        """Return an empty set of paths for each row."""
        return cls(np.empty((rows, 0), np.int16), np.empty((rows, 0), np.float32), np.empty(0, np.float32))

    def rows(self, some: BoolArray) -> CountedPaths:
        """Return the paths of selected rows."""
        return replace(self, codes=self.codes[some], right=self.right[some])

    def followed_by(
        self, codes: Int16Array, right: Float32Array, drawn: IntArray | None = None
    ) -> CountedPaths:
        """Return these paths followed by a stage's [M, T]: the first ``drawn`` [M] of them, or all."""
        stage = codes.shape[1]
        if drawn is not None:
            in_time: BoolArray = np.arange(stage, dtype=np.int64) < drawn[:, None]
            codes = np.where(in_time, codes, np.int16(-1))
        return CountedPaths(
            np.concatenate([self.codes, codes], axis=1),
            np.concatenate([self.right, right], axis=1),
            np.concatenate([self.weights, np.ones(stage, np.float32)]),
        )


@frozen
class RunningVotes:
    """The running vote of a stage after 0..T paths: two largest counts and the credit [M, T + 1]."""

    v1: NDArray[Any]
    v2: NDArray[Any]
    credit: Float32Array

    @classmethod
    def of(cls, paths: CountedPaths, stage: int) -> RunningVotes:
        """Return the running vote of paths of which the last ``stage`` belong to this stage."""
        even = bool((paths.weights == 1).all())
        weights = None if even else np.broadcast_to(paths.weights, paths.codes.shape)[:, None]
        seen = Draws(paths.codes[:, None], paths.right[:, None], weights=weights).tallies
        assert seen.credit is not None
        own = slice(paths.codes.shape[1] - stage, None)
        v1, v2 = seen.v1[:, 0, own], seen.v2[:, 0, own]
        # Whole votes of this stage: a fraction is that of earlier ones.
        return cls(v1.astype(np.int32), v2.astype(np.int32), seen.credit[:, 0, own])

    def walk(self, stage: Stage) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the paths and the rounds at which a stage ends [M], and a mask of rows whose rule is met.

        The decisions of ``Cascade.decide``, looked up in the same table for all rows at once.
        """
        side, own = stage.ahead.shape[1], slice(0, stage.cap + 1)
        n = np.arange(stage.cap + 1, dtype=np.int32)
        cells = self.v1[:, own] * np.int32(side) + self.v2[:, own] + (n + stage.offset) * np.int32(side**2)
        ahead = stage.ahead.ravel().take(cells)
        # What can no longer be satisfied within the cap ends the stage, too.
        at, rounds, _ = in_rounds(np.where(ahead > stage.cap - n, 0, ahead))
        return at, rounds, ahead[np.arange(len(at)), at] == 0
