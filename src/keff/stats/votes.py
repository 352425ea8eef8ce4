"""Votes: what every statistic sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The votes of n items with K paths each.

    ``answers`` [n, K] integer codes, equal within an item when the canonical keys are equal, -1 abstains
    (None when only correctness is known). ``correct`` [n, K] 0 or 1 (None without gold labels); an
    abstention is never correct. ``slots`` [K] template of each column (None: all exchangeable).
    ``clusters`` [n] integer cluster of each item (default: every item its own). ``tokens`` [n, K] generated
    tokens and ``confidences`` [n, K], where known. ``closed`` says that the answer set is closed and codes
    mean the same answer in every item (choice, binary).
    """

    answers: IntArray | None
    correct: IntArray | None
    slots: IntArray | None = None
    clusters: IntArray | None = None
    tokens: FloatArray | None = None
    confidences: FloatArray | None = None
    closed: bool = False
