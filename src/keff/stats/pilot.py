"""Pilot planning: how many items and paths buy what precision of c."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from keff.stats.influence import model_variance


@dataclass(frozen=True, slots=True)
class PilotOption:
    """``n`` items of ``k`` paths give c to within ``half_width`` at the cost of ``paths``."""

    k: int
    n: int
    paths: int
    half_width: float


def half_width(n: int, k: int, p: float, c: float, level: float = 0.95) -> float:
    """Return the half-width of the interval of c to expect from n items of k paths under the beta-binomial.

    A normal approximation with the model's variance of the influence; the hybrid interval is a little wider
    at small n. Raises ValueError for n < 2, k < 2, p outside (0, 1) or c outside [0, 1).
    """
    if n < 2:
        raise ValueError("a pilot needs at least two items")
    return float(ndtri((1 + level) / 2)) * math.sqrt(_variance(k, p, c) / (n - 1))


def pilot_size(target: float, k: int, p: float, c: float, level: float = 0.95) -> int:
    """Return the least number of items whose interval of c has about the half-width ``target``.

    ``p`` and ``c`` are guesses, for instance of an earlier task. Raises ValueError as ``half_width``, or for
    a target that is not positive.
    """
    if not target > 0:
        raise ValueError("the half-width aimed at must be positive")
    exact = 1 + _variance(k, p, c) * (float(ndtri((1 + level) / 2)) / target) ** 2
    return max(2, math.ceil(exact - 1e-9))


def pilot_options(
    target: float, p: float, c: float, ks: Sequence[int] = (2, 3, 4, 6, 8, 16), level: float = 0.95
) -> list[PilotOption]:
    """Return what each K0 costs to reach the half-width ``target`` of c, cheapest first.

    Cheapest for c is K0 = 3 or 4; a majority or plurality curve beyond the pilot needs about 8.
    """
    options: list[PilotOption] = []
    for k in ks:
        n = pilot_size(target, k, p, c, level)
        options.append(PilotOption(k, n, n * k, half_width(n, k, p, c, level)))
    return sorted(options, key=lambda option: option.paths)


def _variance(k: int, p: float, c: float) -> float:
    if k < 2 or not 0 < p < 1 or not 0 <= c < 1:
        raise ValueError("planning needs at least two paths, 0 < p < 1 and 0 <= c < 1")
    return float(model_variance(k, p, np.array([c]))[0])
