"""The rules to choose from, and where each of them stops: by its boundary, never by a table of all cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.policies._table import beats_half
from keff.policy import format_spec
from keff.stats.votes import FloatArray, IntArray

Counts = NDArray[Any]
"""The two largest counts after 0..cap paths, [rows, cap + 1]."""

SHAPES = (0.0, 2.0, 8.0, 64.0)
STEPS = 48

SINGLE, SAFE, CURTAILED = 0, 1, 2
"""Where the single path, the safe default and curtailment stand among the rules."""


def safe_default(cap: int) -> str:
    """Return the spec of what to deploy when a pilot cannot say."""
    return format_spec("adaptive_consistency", 0.95, cap=cap)


@dataclass(frozen=True)
class Rules:
    """A single path, the safe default, curtailment, and ``budget:k,b`` for every shape b and many k."""

    cap: int

    @cached_property
    def ks(self) -> list[float]:
        """The values k, in rising order; none for a cap of one path."""
        steps = np.geomspace(1.05, max(self.cap / 2, 1.1), STEPS)
        return sorted({short for k in steps if (short := float(f"{k:.3g}")) < self.cap})

    @cached_property
    def specs(self) -> list[str]:
        """The spec of every rule."""
        cap = self.cap
        first = ["fixed:1", safe_default(cap), format_spec("curtailed", cap=cap)]
        return first + [format_spec("budget", k, cap=cap, b=b or None) for b in SHAPES for k in self.ks]

    @property
    def families(self) -> list[slice]:
        """Where the rules of each shape stand among the specs: along each, ever more paths."""
        size = len(self.ks)
        return [slice(3 + size * place, 3 + size * (place + 1)) for place in range(len(SHAPES))]

    def stops(self, v1: Counts, v2: Counts) -> list[NDArray[np.int64]]:
        """Return after how many paths rules stop: groups [rows, rules], together in the order of specs."""
        cells = Cells.of(v1, v2)
        first, second, left = cells.v1, cells.v2, self.cap - cells.n
        posterior = np.where(first > 0, _beats_half(self.cap)[first, second], -1.0)
        groups = [
            np.full((len(v1), 1), 1),
            _first(cells, posterior, [0.95]),
            _first(cells, np.where(first - second > left, 1.0, -1.0), [1]),
        ]
        # A hair above each strength: rounding must not move a rule off a cell that it just reaches.
        groups += [_first(cells, strength(first, second, left, b) * (1 + 1e-9), self.ks) for b in SHAPES]
        return groups


@dataclass(frozen=True)
class Cells:
    """The distinct states of votes: the two largest counts ``v1`` and ``v2`` after ``n`` paths, each [m].

    ``place`` [rows, cap + 1] says which of them each order is in after 0..cap paths. Whatever a rule reads
    off the counts is found once for each of them.
    """

    v1: IntArray
    v2: IntArray
    n: IntArray
    place: NDArray[np.int32]

    @classmethod
    def of(cls, v1: Counts, v2: Counts) -> Cells:
        """Gather the cells of counts [rows, cap + 1]."""
        side = v1.shape[1]
        if side**3 > MOST_CELLS:
            n: IntArray = np.broadcast_to(np.arange(side, dtype=np.int64), v1.shape).ravel()
            place = np.arange(v1.size, dtype=np.int32).reshape(v1.shape)
            return cls(v1.ravel().astype(np.int64), v2.ravel().astype(np.int64), n, place)
        n, first, second = (each.ravel() for each in np.indices((side, side, side)))
        place = np.arange(0, side**3, side**2, dtype=np.int32) + np.multiply(v1, side, dtype=np.int32)
        place += v2
        return cls(first, second, n, place)


MOST_CELLS = 2**18
"""Above a cap of 63 paths there may be more cells than orders pass through."""


def strength(v1: IntArray, v2: IntArray, left: IntArray, b: float) -> FloatArray:
    """Return the largest k for which ``budget:k,b=b`` stops with ``left`` paths to draw; 0 without a lead.

    The positive root of k^2 ((s + b) left + d^2) - k d^2 (cap - b) - d^2 b cap, d = v1 - v2, s = v1 + v2.
    """
    cap = int(left.max())
    first, second = np.asarray(v1, np.float64), np.asarray(v2, np.float64)
    d: FloatArray = np.square(first - second)
    a: FloatArray = np.multiply(first + second + b, left) + d
    half = d * (cap - b)
    root = half + np.sqrt(half * half + 4 * a * d * (b * cap))
    return np.divide(root, 2 * a, out=np.zeros_like(a), where=a > 0)


def _first(cells: Cells, score: FloatArray, bars: list[float] | list[int]) -> NDArray[np.int64]:
    """Return the first n at which the score [m] reaches each bar (rising), or the cap [rows, bars]."""
    rows, side = cells.place.shape
    width = len(bars) + 1
    # The bars that the best score so far has passed; a rule has waited as long as its bar was not passed.
    passed = np.searchsorted(np.asarray(bars), score, side="right").astype(np.int16)
    best = np.maximum.accumulate(passed[cells.place[:, :-1]], axis=1)
    offset: NDArray[np.int64] = np.arange(0, rows * width, width, dtype=np.int64)
    waits = np.bincount((best + offset[:, None]).ravel(), minlength=rows * width)
    return np.minimum(waits.reshape(rows, width).cumsum(axis=1)[:, :-1], side - 1)


@lru_cache(maxsize=2)
def _beats_half(cap: int) -> FloatArray:
    return beats_half(cap)
