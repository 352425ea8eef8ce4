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
        side = v1.shape[1]
        if side**3 > MOST_STATES:
            n: IntArray = np.broadcast_to(np.arange(side, dtype=np.int64), v1.shape).ravel()
            passed = self._passed(v1.ravel().astype(np.int64), v2.ravel().astype(np.int64), n)
            place = np.arange(v1.size, dtype=np.int32).reshape(v1.shape)
        else:
            passed = self._passed_by_state
            place = np.arange(0, side**3, side**2, dtype=np.int32) + np.multiply(v1, side, dtype=np.int32)
            place += v2
        return [np.full((len(v1), 1), 1), *(_first(place, *each) for each in passed)]

    @cached_property
    def _passed_by_state(self) -> list[tuple[Passed, int]]:
        """What ``_passed`` says of every state that votes can be in, in the order of n, v1 and v2."""
        n, v1, v2 = (each.ravel() for each in np.indices(3 * (self.cap + 1,)))
        return self._passed(v1, v2, n)

    def _passed(self, v1: IntArray, v2: IntArray, n: IntArray) -> list[tuple[Passed, int]]:
        """Return, for each group of rules, how many of its bars each state passes [m], and how many it has.

        A state is the number of paths ``n`` and the two largest counts, ``v1`` and ``v2``, after them.
        """
        left = self.cap - n
        posterior = np.where(v1 > 0, _beats_half(self.cap)[v1, v2], -1.0)
        groups: list[tuple[FloatArray, list[float]]] = [
            (posterior, [0.95]),
            (np.where(v1 - v2 > left, 1.0, -1.0), [1.0]),
        ]
        # A hair above each strength: rounding must not move a rule off a cell that it just reaches.
        groups += [(strength(v1, v2, left, b) * (1 + 1e-9), self.ks) for b in SHAPES]
        return [
            (np.searchsorted(np.asarray(bars), score, side="right").astype(np.int16), len(bars))
            for score, bars in groups
        ]


Passed = NDArray[np.int16]
"""How many of some rising bars a score reaches."""

MOST_STATES = 2**18
"""Above a cap of 63 paths there may be more states than orders pass through."""


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


def _first(place: NDArray[np.int32], passed: Passed, bars: int) -> NDArray[np.int64]:
    """Return the first n at which each of ``bars`` is passed, or the cap [rows, bars].

    ``passed`` [m] is by state, ``place`` [rows, cap + 1] the state of each order after 0..cap paths.
    """
    rows, side = place.shape
    width = bars + 1
    # The bars that the best score so far has passed; a rule has waited as long as its bar was not passed.
    best = np.maximum.accumulate(passed[place[:, :-1]], axis=1)
    offset: NDArray[np.int64] = np.arange(0, rows * width, width, dtype=np.int64)
    waits = np.bincount((best + offset[:, None]).ravel(), minlength=rows * width)
    return np.minimum(waits.reshape(rows, width).cumsum(axis=1)[:, :-1], side - 1)


@lru_cache(maxsize=2)
def _beats_half(cap: int) -> FloatArray:
    return beats_half(cap)
