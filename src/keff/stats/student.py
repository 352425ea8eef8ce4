"""Student's t without SciPy, which would take fifteen megabytes of each process of a gateway."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

LEAST_TAIL = 1e-10
"""Below this one minus a sum has too few digits left: a score is at most 6.4, and exact to 1e-5."""


def normal_score(t: float, df: int) -> float:
    """Return the standard normal value with the upper tail that ``t`` >= 0 has under Student's t.

    ``df`` are whole degrees of freedom, for which the law is a finite sum (Abramowitz and Stegun, 26.7.3 and
    26.7.4). Raises ValueError for fewer than one or a negative t.
    """
    if df < 1 or not t >= 0:
        raise ValueError("Student's t needs t >= 0 and at least one degree of freedom")
    return -NormalDist().inv_cdf(max((1 - _within(t, df)) / 2, LEAST_TAIL))


def _within(t: float, df: int) -> float:
    """Return the probability that the absolute value is at most t."""
    angle = math.atan(t / math.sqrt(df))
    odd = df % 2
    # The first factor of each term is that of the sum's beginning; the others lead from term to term.
    steps = np.arange(2 + odd, df - 1, 2)
    terms = np.cumprod(np.concatenate([[1.0], (steps - 1) / steps * math.cos(angle) ** 2]))
    whole = math.sin(angle) * float(terms.sum())
    if not odd:
        return whole
    return 2 / math.pi * (angle + (math.cos(angle) * whole if df > 1 else 0.0))
