"""What workloads are like in general: fitted to recorded generations, and worth a few pilot questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keff.stats.votes import FloatArray


@dataclass(frozen=True)
class Belief:
    """A number that is known up to a standard deviation."""

    value: float
    sd: float


@dataclass(frozen=True)
class Line:
    """A straight line fitted to workloads, with the standard deviation of one workload around it."""

    intercept: float
    gradient: float
    sd: float

    def at(self, x: float) -> float:
        """Return the height of the line."""
        return self.intercept + self.gradient * x


@dataclass(frozen=True, slots=True)
class Prior:
    """The generic workload: ``weights`` of the components of ``stats.mixture``, and what its votes are worth.

    ``calibration`` is p over the agreement of two paths: 1 where answers are right as often as paths agree
    on them, less where wrong answers meet. ``slope`` is the accuracy that a unit of answer share brings from
    one path to many, on the line of calibration. ``price`` is the accuracy that a unit of share costs where a
    rule goes wrong, on the line of the slope: there the answers are close, and the larger share is right
    less often than the slope says.
    """

    weights: FloatArray
    calibration: Belief
    slope: Line
    price: Line


# In the order of ``stats.mixture.COMPONENTS``.
_ONE = [0.232]
_OPEN = [0.088, 0.051, 0.039, 0.061, 0.175, 0.006, 0.001, 0.001, 0.001, 0.004]
_OPEN_HEAVY_TAIL = [0.101, 0.045, 0.02, 0.011, 0.007, 0.008, 0.018, 0.013, 0.028, 0.002]
_TWO_ANSWERS = [0.024, 0.007, 0.003, 0.002, 0.002, 0.002]
_FOUR_ANSWERS = [0.017, 0.011, 0.009, 0.007, 0.003, 0.002]

GENERIC = Prior(
    weights=np.concatenate([_ONE, _OPEN, _OPEN_HEAVY_TAIL, _TWO_ANSWERS, _FOUR_ANSWERS]),
    calibration=Belief(0.93, 0.14),
    slope=Line(-1.61, 2.58, 0.27),
    price=Line(-0.28, 0.9, 0.4),
)
"""Fitted to 35 records of 16 models, each counted once: mathematics, science and multiple choice."""
