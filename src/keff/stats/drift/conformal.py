"""Alarms that hold at any time: conformal test martingale and Shiryaev-Roberts on a stream of scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from keff.stats.inference.rngstate import load_rng, save_rng

BETS = np.array([-1.8, -1.2, -0.6, 0.6, 1.2, 1.8])
_BETS: list[float] = BETS.tolist()
LARGEST_LOG = 700.0


@dataclass(frozen=True, slots=True)
class StreamState:
    """After ``seen`` scores: the last conformal p-value ``u``, the statistic, and the alarm (which stays on).

    ``first_alarm`` is the number of scores after which it was raised.
    """

    seen: int
    u: float
    statistic: float
    alarm: bool
    first_alarm: int | None


class _Stream:
    """A bag of scores, randomised conformal p-values of new ones, and six bets on them."""

    def __init__(self, pilot: Iterable[float], rng: np.random.Generator, threshold: float) -> None:
        self._bag: dict[float, int] = {}
        for score in pilot:
            self._add(_finite(score))
        if not self._bag:
            raise ValueError("a drift alarm needs the pilot's scores")
        self._rng, self._threshold = rng, threshold
        # Plain floats: on six numbers they are many times faster than an array.
        self._log = [0.0] * len(_BETS)
        self._seen = 0
        self._first_alarm: int | None = None

    @property
    def alarm(self) -> bool:
        """Whether the statistic has ever reached its threshold."""
        return self._first_alarm is not None

    def update(self, score: float) -> StreamState:
        """Take the score of the next request; ValueError when it is not finite."""
        u = self._conformal_p(_finite(score))
        self._add(float(score))
        self._seen += 1
        self._log = [
            self._bet(old, math.log1p(bet * (u - 0.5))) for old, bet in zip(self._log, _BETS, strict=True)
        ]
        statistic = self._statistic()
        if not self.alarm and statistic >= self._threshold:
            self._first_alarm = self._seen
        return StreamState(self._seen, u, statistic, self.alarm, self._first_alarm)

    def state(self) -> dict[str, object]:
        """Return everything, the generator too, as values that JSON can hold."""
        return {
            "bag": [[score, count] for score, count in self._bag.items()],
            "threshold": self._threshold,
            "log": list(self._log),
            "seen": self._seen,
            "first_alarm": self._first_alarm,
            "rng": save_rng(self._rng),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return a stream that goes on exactly where ``state`` was taken."""
        stream = cls.__new__(cls)
        stream._bag = {float(score): int(count) for score, count in state["bag"]}
        stream._rng, stream._threshold = load_rng(state["rng"]), float(state["threshold"])
        stream._log = [float(value) for value in state["log"]]
        stream._seen, stream._first_alarm = state["seen"], state["first_alarm"]
        return stream

    def _conformal_p(self, score: float) -> float:
        """Return (#above + U (#equal + 1)) / (size + 1): uniform and independent while nothing changes."""
        above = sum(count for other, count in self._bag.items() if other > score)
        equal = self._bag.get(score, 0) + 1
        return (above + float(self._rng.random()) * equal) / (sum(self._bag.values()) + 1)

    def _add(self, score: float) -> None:
        self._bag[score] = self._bag.get(score, 0) + 1

    def _bet(self, log: float, log_gain: float) -> float:
        raise NotImplementedError

    def _statistic(self) -> float:
        raise NotImplementedError


class ConformalMartingale(_Stream):
    """An alarm whose chance of ever being false is at most alpha, however long the stream.

    ``pilot`` are scores of the pilot's requests, such as ``patterns.agreeing_pairs(m)[codes]``; ``update``
    takes the same score of each new request, in order. The bag is the pilot and all that was seen; wealth is
    the mean over lambda in {+-0.6, +-1.2, +-1.8} of the product of 1 + lambda (u - 1/2), a martingale while
    pilot and stream are exchangeable, and 1/alpha is reached with chance at most alpha (Ville). Slow to
    see a change after a long quiet time: use ``ShiryaevRoberts`` for those. Ties are broken by ``rng``.
    """

    def __init__(self, pilot: Iterable[float], rng: np.random.Generator, alpha: float = 0.05) -> None:
        if not 0 < alpha < 1:
            raise ValueError("alpha must lie between 0 and 1")
        super().__init__(pilot, rng, 1.0 / alpha)

    def _bet(self, log: float, log_gain: float) -> float:
        return log + log_gain

    def _statistic(self) -> float:
        return math.fsum(math.exp(min(log, LARGEST_LOG)) for log in self._log) / len(_BETS)


class ShiryaevRoberts(_Stream):
    """An alarm for late changes, with at least ``run_length`` requests on average before a false one.

    R = (R + 1)(1 + lambda (u - 1/2)) for each lambda of ``ConformalMartingale``, averaged; the mean over
    lambda of the bets themselves would be 1 and see nothing. Alarms at ``run_length``. False alarms do come
    in the end: restart with a fresh object after each.
    """

    def __init__(self, pilot: Iterable[float], rng: np.random.Generator, run_length: float = 2000) -> None:
        if not run_length >= 1:
            raise ValueError("the mean run length to a false alarm must be at least 1")
        super().__init__(pilot, rng, float(run_length))

    def _bet(self, log: float, log_gain: float) -> float:
        # Kept as log(1 + R), which starts at zero and never overflows.
        new = log + log_gain
        return max(new, 0.0) + math.log1p(math.exp(-abs(new)))

    def _statistic(self) -> float:
        return math.fsum(math.expm1(min(log, LARGEST_LOG)) for log in self._log) / len(_BETS)


def _finite(score: float) -> float:
    if not math.isfinite(score):
        raise ValueError("a drift score must be a finite number")
    return float(score)
