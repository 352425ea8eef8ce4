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
_ONE = [0.19]
_OPEN = [0.116, 0.07, 0.041, 0.04, 0.193, 0.007, 0.001, 0.001, 0.001, 0.004]
_OPEN_HEAVY_TAIL = [0.1, 0.042, 0.018, 0.009, 0.006, 0.006, 0.014, 0.02, 0.026, 0.002]
_TWO_ANSWERS = [0.034, 0.009, 0.004, 0.003, 0.002, 0.002]
_FOUR_ANSWERS = [0.017, 0.008, 0.007, 0.005, 0.002, 0.002]

GENERIC = Prior(
    weights=np.concatenate([_ONE, _OPEN, _OPEN_HEAVY_TAIL, _TWO_ANSWERS, _FOUR_ANSWERS]),
    slope=0.83,
    slope_sd=0.45,
)
"""Fitted to 35 records of 16 models, each counted once: mathematics, science and multiple choice."""
