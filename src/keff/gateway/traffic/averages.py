"""Averages that grow with every request, each with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from keff.records import Interval

Z = 1.96


@dataclass(slots=True)
class Mean:
    """A running mean of independent values, with the normal interval of its standard error."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """Take one value."""
        self.n += 1
        self.total += value
        self.squares += value * value

    def interval(self) -> Interval | None:
        """Return the mean with its 95% interval; None before the first value."""
        if not self.n:
            return None
        mean = self.total / self.n
        if self.n == 1:
            return Interval(mean, None, None, "mean of one request")
        spread = max(0.0, self.squares / self.n - mean**2) * self.n / (self.n - 1)
        half = Z * math.sqrt(spread / self.n)
        return Interval(mean, mean - half, mean + half, "mean over requests, normal 95%")


def shown(interval: Interval | None) -> object:
    """Return an interval as the page and the JSON have it; null where it is not known."""
    return None if interval is None else interval.to_dict()


def share(hits: int, n: int) -> Interval:
    """Return a share with Wilson's 95% interval (1927), which stays in [0, 1] and is never empty."""
    middle, spread = (hits + Z * Z / 2) / (n + Z * Z), math.sqrt(hits * (n - hits) / n + Z * Z / 4)
    half = Z * spread / (n + Z * Z)
    return Interval(
        hits / n, max(0.0, middle - half), min(1.0, middle + half), "share of requests, Wilson 95%"
    )
