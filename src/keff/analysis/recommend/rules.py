"""The rules to choose from, and where each of them stops: by its boundary, never by a table of all cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.policies._table import beats_half
from keff.policy import format_spec
from keff.stats.votes import FloatArray

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
        lead, n = v1.astype(np.int64) - v2, np.arange(self.cap + 1)
        never = lead * 0 - 1
        posterior = np.where(v1 > 0, _beats_half(self.cap)[v1, v2], -1.0)
        groups = [
            np.full((len(v1), 1), 1),
            _first(posterior, [0.95]),
            _first(np.where(lead > self.cap - n, 1, never), [1]),
        ]
        # A hair above each strength: rounding must not move a rule off a cell that it just reaches.
        groups += [_first(strength(v1, v2, b) * (1 + 1e-9), self.ks) for b in SHAPES]
        return groups


def strength(v1: Counts, v2: Counts, b: float) -> FloatArray:
    """Return the largest k for which ``budget:k,b=b`` stops here [rows, cap + 1]; 0 while nothing leads.

    The positive root of k^2 ((s + b)(cap - n) + d^2) - k d^2 (cap - b) - d^2 b cap, d = v1 - v2, s = v1 + v2.
    """
    cap = v1.shape[-1] - 1
    first, second = np.asarray(v1, np.float64), np.asarray(v2, np.float64)
    d: FloatArray = np.square(first - second)
    a: FloatArray = np.multiply(first + second + b, cap - np.arange(cap + 1, dtype=np.float64)) + d
    half = d * (cap - b)
    root = half + np.sqrt(half * half + 4 * a * d * (b * cap))
    return np.divide(root, 2 * a, out=np.zeros_like(a), where=a > 0)


def _first(score: NDArray[Any], bars: list[float] | list[int]) -> NDArray[np.int64]:
    """Return the first n at which the score reaches each bar (rising), or the cap [rows, bars]."""
    rows, side = score.shape
    width = len(bars) + 1
    # The bars that the best score so far has passed; a rule has waited as long as its bar was not passed.
    best = np.maximum.accumulate(score[:, :-1], axis=1)
    passed: NDArray[np.int64] = np.asarray(np.searchsorted(np.asarray(bars), best, side="right"), np.int64)
    offset: NDArray[np.int64] = np.arange(0, rows * width, width, dtype=np.int64)
    place: NDArray[np.int64] = np.asarray(passed + offset[:, None], np.int64)
    waits = np.bincount(place.ravel(), minlength=rows * width).reshape(rows, width).cumsum(axis=1)
    return np.minimum(waits[:, :-1], side - 1)


@lru_cache(maxsize=2)
def _beats_half(cap: int) -> FloatArray:
    return beats_half(cap)
