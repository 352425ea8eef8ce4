"""Drift: label-free scores of a request, and alarms on a stream of them.

Alarms are of the mean at growing numbers, and conformal ones for late changes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from keff.narrow import Fields, Object, items, number
from keff.stats.votes import FloatArray, IntArray

# The numbers of requests at which it looks: 20, 28, 40, 57, 80, ... to ten million.
LOOKS: IntArray = np.unique(np.round(20 * 2.0 ** (np.arange(39) / 2)).astype(np.int64))

# As a set: whether to look is asked at every request.
_LOOKS = frozenset(LOOKS.tolist())

# The threshold's own level is then known to .002 at 5%.
SIMULATIONS = 10_000
# The variance between items, as a part of all: a pilot never knows its mean exactly.
LEAST_SHARE = 0.02

# Items of the mean agreement beside those that show a score: one that few items show tells little.
IMAGINED = 3

# A variance below this share of the whole is rounding, not spread.
ROUNDING = 1e-9


class MeanLooks:
    """Fixed-threshold alarm on the mean of a stream, at growing sample sizes: P(ever false) is about alpha.

    ``pilot`` [items, orders] are the scores of each item of the pilot under several orders of its paths, and
    ``agreement`` [items] the share of pairs of all paths of the item that agree. A score counts as the mean
    agreement of the items that show it (three imagined items of the mean agreement beside them; linear
    between scores; 0 below the least of them and 1 above the largest). The orders are averaged, so that of
    the pilot's error only that between items is left; a test that takes one order of an item as one request
    has that within them too.

    At each of ``LOOKS`` the mean of all requests so far is compared with the pilot's, in standard errors of
    both (Student's t by the pilot's items). The threshold is the 1 - alpha quantile of the largest of all
    looks under the normal law, which share the pilot's error; it is simulated, always alike. Takes items and
    requests to be exchangeable. The normal law is an approximation: ``benchmarks.gateway.drift`` counts its
    false alarms. Raises ValueError for fewer than two items.
    """

    def __init__(self, pilot: ArrayLike, agreement: ArrayLike, alpha: float = 0.05) -> None:
        shown, whole = np.asarray(pilot, np.float64), np.asarray(agreement, np.float64)
        if len(shown) < 2:
            raise ValueError("looks at the mean need the scores of at least two items")
        self._scores, self._values = _agreement_by_score(shown, whole)
        values = np.interp(shown, self._scores, self._values)
        self._items = len(values)
        self._mean, self._variance = float(values.mean()), float(values.var())
        between = float(values.mean(axis=1).var()) / self._variance if self._variance > 0 else 1.0
        self._pilot_error = max(between, LEAST_SHARE) / (self._items - 1)
        self.threshold = _threshold(self._pilot_error, alpha)
        self.seen, self.statistic, self.alarm = 0, 0.0, False
        self._sum = self._squares = 0.0

    def update(self, score: float) -> Self:
        """Add the score of the next request; returns the alarm itself."""
        self.seen += 1
        # Around the pilot's mean, so that sums of many values stay exact.
        away = _interpolate(score, self._scores, self._values) - self._mean
        self._sum += away
        self._squares += away**2
        if self.seen in _LOOKS:
            self.statistic = self._standard_errors()
            self.alarm = self.alarm or self.statistic >= self.threshold
        return self

    def _standard_errors(self) -> float:
        """Return the distance between the stream's mean and the pilot's, in standard errors.

        The variance is that within both samples, or of both as one where neither varies.
        """
        n, size = self.seen, self._items
        apart = self._sum / n
        within = (size * self._variance + self._squares - n * apart**2) / (size + n)
        both = size * n * (apart / (size + n)) ** 2
        variance = within if within > ROUNDING * both else both
        if variance <= 0:
            return 0.0
        error = math.sqrt(variance * (self._pilot_error + 1 / n))
        return normal_of_t(abs(apart) / error, size - 1)

    def state(self) -> Object:
        """Return the alarm's state as JSON values, for ``from_state``."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: Fields) -> Self:
        """Return the alarm restored from ``state``; ValueError where that is no state of this alarm."""
        looks = cls([[0.0], [1.0]], [0.0, 1.0])
        for name, before in list(looks.__dict__.items()):
            value = state.get(name)
            if not _same_type(value, before):
                raise ValueError(f"the state of looks at the mean lacks {name}")
            setattr(looks, name, value)
        return looks


def normal_of_t(t: float, df: int) -> float:
    """Return the standard normal deviate that is as rare as Student's t, for t of 0 or more.

    Hill (1970), Communications of the ACM 13, 617: off by 1.3e-4 at most from 5 degrees of freedom, by 1e-5
    from 9, in the tails too. By hand because a gateway's process would hold SciPy, 17 MB, for this alone.
    """
    a = df - 0.5
    b, square = 48 * a * a, a * math.log1p(t * t / df)
    z = math.sqrt(square)
    last = ((((4 * square + 33) * square + 240) * square + 855) * z) / (
        10 * b * (b + 0.8 * square * square + 100)
    )
    return z + (square + 3) * z / b - last


def _same_type(value: object, before: object) -> bool:
    """Return whether a restored value has the type of the one it replaces: numbers, bool or number."""
    if isinstance(before, list):
        return bool(items(value)) and all(number(part) is not None for part in items(value))
    return isinstance(value, bool) if isinstance(before, bool) else number(value) is not None


def _agreement_by_score(shown: FloatArray, agreement: FloatArray) -> tuple[list[float], list[float]]:
    """Return the distinct pilot scores, rising, and the shrunk mean agreement of the items at each score."""
    scores, place = np.unique(shown, return_inverse=True)
    place = place.reshape(shown.shape).ravel()
    total = np.bincount(place, np.repeat(agreement, shown.shape[1]))
    imagined = IMAGINED * shown.shape[1]
    worth = (total + imagined * agreement.mean()) / (np.bincount(place) + imagined)
    return scores.tolist(), worth.tolist()


def _interpolate(score: float, scores: list[float], values: list[float]) -> float:
    """Return linear interpolation, 0 below and 1 above; for one score ten times as fast as numpy's."""
    place = bisect_left(scores, score)
    if place == len(scores):
        return 1.0
    if scores[place] == score:
        return values[place]
    if not place:
        return 0.0
    share = (score - scores[place - 1]) / (scores[place] - scores[place - 1])
    return values[place - 1] + share * (values[place] - values[place - 1])


@cache
def _threshold(pilot_error: float, alpha: float) -> float:
    """Return the 1 - alpha quantile of the largest standardised mean over looks, by the pilot's variance."""
    means, pilots = _simulate()
    far = np.abs((means - pilots * math.sqrt(pilot_error)) / np.sqrt(pilot_error + 1 / LOOKS)).max(axis=1)
    return float(np.quantile(far, 1 - alpha))


def _simulate() -> tuple[FloatArray, FloatArray]:
    """Return means of standard normal scores at every look [simulations, looks], and of pilots [.., 1]."""
    rng = np.random.default_rng(0)
    steps = np.sqrt(np.diff(LOOKS, prepend=0))
    walk = np.cumsum(rng.standard_normal((SIMULATIONS, len(LOOKS))) * steps, axis=1)
    return walk / LOOKS, rng.standard_normal((SIMULATIONS, 1))


# Slopes of the betting function, below 2 so that no factor is negative; averaged, as none is best.
BETS = (-1.8, -1.2, -0.6, 0.6, 1.2, 1.8)
# exp of more overflows a double; the alarm has long been raised.
LARGEST_LOG = 700.0


class ShiryaevRoberts:
    """Shiryaev-Roberts alarm for late changes: on average ``run_length`` requests or more to a false alarm.

    ``pilot`` are scores of the pilot's requests, such as ``drift.stop_score``; ``update`` takes the same
    score of each new request, in order. Its p-value u among the pilot and all that was seen is uniform and
    independent while these are exchangeable (ties are broken by ``rng``). Six bets lambda in {+-0.6, +-1.2,
    +-1.8} follow R = (R + 1)(1 + lambda (u - 1/2)), and their mean R alarms at ``run_length``, for R minus
    the number of requests is a martingale. After ``seen`` requests: the last p-value ``u``, the statistic,
    and after how many the alarm was raised (None: not yet). It stays on; false alarms do come in the end.
    """

    def __init__(self, pilot: Iterable[float], rng: np.random.Generator, run_length: float = 2000) -> None:
        self._bag = Counter(map(float, pilot))
        self._rng, self.threshold = rng, float(run_length)
        # Plain floats: on six numbers they are many times faster than an array.
        self._log = [0.0] * len(BETS)
        self.seen, self.u, self.statistic = 0, 1.0, 0.0
        self.first_alarm: int | None = None

    @property
    def alarm(self) -> bool:
        """Whether the statistic has ever reached its threshold."""
        return self.first_alarm is not None

    def update(self, score: float) -> Self:
        """Add the score of the next request; returns the stream itself."""
        self.u = self._conformal_p(score)
        self._bag[score] += 1
        self.seen += 1
        away = self.u - 0.5
        # Kept as log(1 + R), which starts at zero and never overflows.
        logs = [log + math.log1p(bet * away) for log, bet in zip(self._log, BETS, strict=True)]
        self._log = [max(log, 0.0) + math.log1p(math.exp(-abs(log))) for log in logs]
        self.statistic = math.fsum([math.expm1(min(log, LARGEST_LOG)) for log in self._log]) / len(BETS)
        if not self.alarm and self.statistic >= self.threshold:
            self.first_alarm = self.seen
        return self

    def state(self) -> Object:
        """Return the stream's state, the random generator's with it, as JSON values."""
        return {
            "bag": [[score, count] for score, count in self._bag.items()],
            "threshold": self.threshold,
            "statistic": self.statistic,
            "log": list(self._log),
            "seen": self.seen,
            "first_alarm": self.first_alarm,
            "rng": dict(self._rng.bit_generator.state),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the stream restored from ``state``."""
        rng = np.random.default_rng()
        rng.bit_generator.state = state["rng"]
        stream = cls((), rng, 1.0)
        stream.threshold, stream.statistic = float(state["threshold"]), float(state["statistic"])
        stream._bag = Counter({float(score): int(count) for score, count in state["bag"]})
        stream._log = [float(value) for value in state["log"]]
        stream.seen, stream.first_alarm = state["seen"], state["first_alarm"]
        return stream

    def _conformal_p(self, score: float) -> float:
        """Return (#above + U (#equal + 1)) / (size + 1): uniform and independent while nothing changes."""
        above = sum([count for other, count in self._bag.items() if other > score])
        equal = self._bag[score] + 1
        return (above + float(self._rng.random()) * equal) / (self._bag.total() + 1)


def agreeing_pairs(votes: Iterable[int]) -> int:
    """Return the number of agreeing pairs of paths, from the votes of each answer, without abstentions."""
    return sum(count * (count - 1) // 2 for count in votes)


def stop_score(keys: Sequence[Hashable | None], stop: int | None, most: int) -> float:
    """Return a request's drift score from its stopping time, higher where earlier stops mean more agreement.

    ``keys`` are the answer keys in launch order (None abstains), ``stop`` the paths at which the rule
    stops, None for not within ``most``, the paths that the pilot has of each question. The score is minus
    the stop, later than all of them for None, with the leader's share of those paths between 0 and 0.9 to
    tell equal stops apart. Exchangeable where requests are: the rule sees nothing but the votes.
    """
    n = most if stop is None else stop
    votes = Counter(key for key in keys[:n] if key is not None)
    share = max(votes.values(), default=0) / max(n, 1)
    # Below 1, so that no share makes up for a path.
    return 0.9 * share - (most + 1 if stop is None else stop)
