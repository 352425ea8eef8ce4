"""What workloads are like in general: fitted to recorded generations, and worth a few pilot questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keff.stats.votes import FloatArray


@dataclass(frozen=True)
class Prior:
    """The generic workload: ``weights`` of the components of ``stats.mixture``, and the law of the slope.

    The slope is how much accuracy a unit of answer share is worth; over workloads it has this mean and
    standard deviation.
    """

    weights: FloatArray
    slope: float
    slope_sd: float


# In the order of ``stats.mixture.COMPONENTS``.
_ONE = [0.232]
_OPEN = [0.088, 0.051, 0.039, 0.061, 0.175, 0.006, 0.001, 0.001, 0.001, 0.004]
_OPEN_HEAVY_TAIL = [0.101, 0.045, 0.02, 0.011, 0.007, 0.008, 0.018, 0.013, 0.028, 0.002]
_TWO_ANSWERS = [0.024, 0.007, 0.003, 0.002, 0.002, 0.002]
_FOUR_ANSWERS = [0.017, 0.011, 0.009, 0.007, 0.003, 0.002]

GENERIC = Prior(
    weights=np.concatenate([_ONE, _OPEN, _OPEN_HEAVY_TAIL, _TWO_ANSWERS, _FOUR_ANSWERS]),
    slope=0.80,
    slope_sd=0.43,
)
"""Fitted to 35 records of 16 models, each counted once: mathematics, science and multiple choice."""
