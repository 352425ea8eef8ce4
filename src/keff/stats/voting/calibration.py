"""Calibration of one confidence: P(right) of a path, and the weight of its vote."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keff.records import frozen
from keff.stats.votes import BoolArray, FloatArray

# Weights are whole multiples of 1/1024, so that sums are exact in single precision: equal sums tie, in
# whatever order votes came.
GRAIN = 1024

# A path that is hardly ever right still answers where no other path does.
LIGHTEST = 1 / 16


@frozen
class Calibration:
    """P(right) and the weight of a vote by confidence, linear between knots and constant beyond them.

    ``confidences`` [m] rise; ``chances`` [m] are P(right) over all questions, ``weights`` [m] log odds from
    differences within questions, in units of an ordinary vote: that of a path whose confidence is not known
    (NaN or infinite), whose chance is ``base``. Without information both are constant, and every weight is
    1. ``sign`` is -1 where lower numbers are better.
    """

    confidences: tuple[float, ...]
    chances: tuple[float, ...]
    weights: tuple[float, ...]
    base: float
    sign: int = 1

    def __post_init__(self) -> None:
        sizes = {len(self.confidences), len(self.chances), len(self.weights)}
        rising = bool(np.all(np.diff(self.confidences) > 0))
        if len(sizes) > 1 or 0 in sizes or not rising or min(self.weights) <= 0:
            raise ValueError("a calibration needs rising confidences, as many chances, and weights above 0")

    @property
    def informs(self) -> bool:
        """Whether confidences tell right paths from wrong ones."""
        return len(self.confidences) > 1

    @property
    def heaviest(self) -> float:
        """The largest weight of a vote."""
        return max(1.0, *self.weights)

    def chance(self, confidences: ArrayLike) -> FloatArray:
        """Return P(right) of paths; the base rate where the confidence is missing."""
        return self._read(confidences, self.chances, self.base)

    def weight(self, confidences: ArrayLike) -> FloatArray:
        """Return the weights of votes; 1 where the confidence is missing."""
        return self._read(confidences, self.weights, 1.0)

    def _read(self, confidences: ArrayLike, values: tuple[float, ...], unknown: float) -> FloatArray:
        given = np.asarray(confidences, np.float64)
        known: BoolArray = np.isfinite(given)
        found = np.interp(np.where(known, given, 0.0), self.confidences, values)
        # In steps of the grain the sums of a live vote and of a replay are the same numbers.
        return np.round(np.where(known, found, unknown) * GRAIN) / GRAIN


def uninformative(base: float) -> Calibration:
    """Return the calibration of an uninformative confidence: every path is an ordinary vote."""
    return Calibration((0.0,), (base,), (1.0,), base)
