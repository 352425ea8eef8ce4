"""What workloads are like in general: fitted to recorded generations by ``benchmarks/prior.py``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keff.stats.partitions import GENERIC_WEIGHTS
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


@dataclass(frozen=True)
class Price:
    """What losing a unit of answer share costs in accuracy, as a multiple of the workload's slope.

    The multiple is ``mean`` over all families of workloads, known up to ``error``; ``families`` is its
    standard deviation from one source of records to another, and ``workloads`` that of the price itself from
    one workload to the next. All three are means over the posterior, so the doubt about each is in them.
    """

    mean: float
    error: float
    families: float
    workloads: float

    @property
    def trusted(self) -> float:
        """The multiple that rules are chosen by: with probability 0.9 the mean is no larger.

        What differs between workloads averages out over them; an error of the mean does not.
        """
        return self.mean + 1.2816 * self.error

    def sd(self, slope: Belief) -> float:
        """Return the standard deviation of the price of a new workload."""
        of_slope = np.hypot(self.error, self.families) * slope.value
        return float(np.sqrt(of_slope**2 + self.workloads**2 + (self.trusted * slope.sd) ** 2))


@dataclass(frozen=True, slots=True)
class Prior:
    """The generic workload: ``weights`` of the laws of ``stats.partitions``, and what its votes are worth.

    ``calibration`` is p over the agreement of two paths: 1 where answers are right as often as paths agree
    on them, less where wrong answers meet. ``slope`` is the accuracy that a unit of answer share brings from
    one path to many, on the line of calibration; ``price`` what a unit costs where a rule stops early.
    """

    weights: FloatArray
    calibration: Belief
    slope: Line
    price: Price


# Made by ``python -m benchmarks.prior`` from 35 recorded sets of generations with at least 48 paths per
# question (mathematics, science, multiple choice, puzzles) and, for the price, 24 shorter ones (code, dates,
# word problems). Each record counts once.
GENERIC = Prior(
    weights=GENERIC_WEIGHTS,
    calibration=Belief(0.932, 0.136),
    slope=Line(-1.609, 2.581, 0.269),
    price=Price(mean=0.753, error=0.124, families=0.251, workloads=0.454),
)
