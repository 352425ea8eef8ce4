"""What workloads are like in general: fitted to recorded generations, and worth a few pilot questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keff.stats.votes import FloatArray


@dataclass(frozen=True)
class Slope:
    """How much accuracy a unit of answer share is worth on a workload, with its standard deviation.

    If an answer with twice the share is right twice as often the slope is 1. It is 0 where the most
    frequent answer is no better than another.
    """

    value: float
    sd: float


@dataclass(frozen=True, slots=True)
class Prior:
    """The generic workload: ``weights`` of the components of ``stats.mixture``, and the law of the slope.

    ``open`` and ``closed`` are the slope's mean and standard deviation over workloads. Where any answer may
    be given wrong ones scatter, and shares are worth more than where they meet on one of a few options.
    """

    weights: FloatArray
    open: Slope
    closed: Slope

    def slope(self, closed: bool) -> Slope:
        """Return the law of the slope for an open or a closed answer set."""
        return self.closed if closed else self.open


# In the order of ``stats.mixture.COMPONENTS``.
_ONE = [0.232]
_OPEN = [0.088, 0.051, 0.039, 0.061, 0.175, 0.006, 0.001, 0.001, 0.001, 0.004]
_OPEN_HEAVY_TAIL = [0.101, 0.045, 0.02, 0.011, 0.007, 0.008, 0.018, 0.013, 0.028, 0.002]
_TWO_ANSWERS = [0.024, 0.007, 0.003, 0.002, 0.002, 0.002]
_FOUR_ANSWERS = [0.017, 0.011, 0.009, 0.007, 0.003, 0.002]

GENERIC = Prior(
    weights=np.concatenate([_ONE, _OPEN, _OPEN_HEAVY_TAIL, _TWO_ANSWERS, _FOUR_ANSWERS]),
    open=Slope(1.04, 0.39),
    closed=Slope(0.56, 0.33),
)
"""Fitted to 35 records of 16 models, each counted once: mathematics, science and multiple choice."""
