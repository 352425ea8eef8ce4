"""Stopping rules as tables over the number of paths and the two largest vote counts.

One table over (n, v1, v2) is the rule: ``decide`` looks it up live and replay looks it up for all orders
at once. A second table, worked out from the first, says how many paths can be drawn at once.

The race of the two leading answers: whether the leader of n votes still leads at the cap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keff.errors import PolicyError
from keff.policy import Need, Sample, Stop, Tally, View, WeightKind, tally
from keff.stats.votes import BoolArray, FloatArray, Int16Array
from keff.stats.voting.draws import Draws

# The prior (a, w) without a pilot, fitted by ``benchmarks.constants.budget_prior`` to recorded generations.
GENERIC = (0.909, 0.315)


def grid(cap: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return broadcastable n, v1 and v2 of every cell of a table [cap + 1] * 3."""
    line = np.arange(cap + 1, dtype=np.float64)
    return line[:, None, None], line[None, :, None], line[None, None, :]


def log_rising(a: ArrayLike, size: int) -> FloatArray:
    """Return the log of a (a + 1) ... (a + v - 1) for v = 0 to ``size`` [..., size + 1]."""
    steps: FloatArray = np.log(np.asarray(a, np.float64)[..., None] + np.arange(size))
    return np.concatenate([np.zeros((*steps.shape[:-1], 1)), np.cumsum(steps, axis=-1)], axis=-1)


def top_two_lead(cap: int, a: float, w: float) -> FloatArray:
    """Return P(the leader still leads after path ``cap`` | n, v1, v2) [cap + 1] * 3, by (n, v1, v2).

    The leader's share among the top two is 1 with probability w, else Beta(a, a). The (cap - n)(v1 + v2)/n
    votes of the top two that remain are beta-binomial; a fraction of a vote is interpolated, a tie counts
    one half. Cells before the first vote hold 0.
    """
    n, v1, v2 = grid(cap)
    rest = np.minimum((cap - n) * (v1 + v2) / np.maximum(n, 1), cap)
    whole = np.floor(rest).astype(int)
    ahead = _ahead_given_rest(cap, a)
    i, j = np.indices((cap + 1, cap + 1))
    low, high = ahead[i, j, whole], ahead[i, j, np.minimum(whole + 1, cap)]
    mixed = low + (rest - whole) * (high - low)
    together = 2 * np.exp(log_rising(a, cap) - log_rising(2 * a, cap))
    one_answer = w / (w + (1 - w) * np.minimum(together, 1))
    mixed[:, 1:, 0] = one_answer[None, 1:] + (1 - one_answer[None, 1:]) * mixed[:, 1:, 0]
    mixed[:, 0] = 0
    return mixed


@lru_cache(maxsize=64)
def _ahead_given_rest(cap: int, a: float) -> FloatArray:
    """P(v1 + Y > v2 + r - Y) + half P(tie), Y ~ BetaBin(r, a + v1, a + v2), by [v1, v2, r].

    By recursion over the next vote. Holds where v1 + v2 + r <= cap, the cells that occur.
    """
    v1, v2 = np.indices((cap + 1, cap + 1))
    to_leader = (a + v1) / (2 * a + v1 + v2)
    out = np.empty((cap + 1,) * 3)
    out[:, :, 0] = (1 + np.sign(v1 - v2)) / 2
    for r in range(1, cap + 1):
        later = np.pad(out[:, :, r - 1], (0, 1), mode="edge")
        out[:, :, r] = to_leader * later[1:, :-1] + (1 - to_leader) * later[:-1, 1:]
    return out


# n, v1, v2 and the largest weight of one vote -> whether a rule is satisfied; arrays that broadcast.
Bound = Callable[[Any, Any, Any, float], Any]
Certainty = Callable[[Any, Any], Any]


def check_value(name: str, value: Any, high: float, *, whole: bool = False) -> float:
    """Return the value if it is a number strictly between 0 and high (an integer if asked)."""
    if not isinstance(value, int | float) or not 0 < value < high or (whole and value != int(value)):
        kind = "an integer" if whole else "a number"
        raise PolicyError(f"{name}: its value must be {kind} above 0 and below {high:g}, not {value}")
    return value


def legal(cap: int) -> BoolArray:
    """Return a mask of the possible cells: v2 <= v1 and v1 + v2 <= n."""
    n, v1, v2 = grid(cap)
    return (v2 <= v1) & (v1 + v2 <= n)


def beats_half(cap: int) -> FloatArray:
    """Return P(share > 1/2 | v1 votes for, v2 against) [cap + 1] * 2, under a uniform prior.

    That is 1 - I_half(v1 + 1, v2 + 1), the chance of at most v1 heads in v1 + v2 + 1 fair tosses. By
    recursion over the last toss: a sum of positive terms, so small chances keep their relative accuracy.
    """
    out = np.zeros((cap + 2, cap + 2))
    out[1:, 0] = 1
    for v1 in range(1, cap + 2):
        for v2 in range(1, cap + 2):
            out[v1, v2] = (out[v1 - 1, v2] + out[v1, v2 - 1]) / 2
    return out[1:, 1:]


# By the table of stops: an analysis makes the same rule many times, with other weights or
# other numbers of paths in flight. Each is kept as long as a rule uses it.
_AHEAD: WeakValueDictionary[bytes, Int16Array] = WeakValueDictionary()


def lookahead(stops: BoolArray) -> Int16Array:
    """Return the fewest further paths after which the rule could stop, by cell; 0 stops now.

    Where it can no longer stop, because ``stops`` does not hold at n = cap, the value is above cap - n.
    A further path is a vote for the leader, for the runner-up, or for neither (an abstention or another
    answer). No order of them stops earlier, whatever the rule, so drawing that many at once wastes none.
    """
    if (known := _AHEAD.get(key := stops.tobytes())) is not None:
        return known
    cap = len(stops) - 1
    # One cell of each layer lies beyond all counts, so that the last has neighbours: nothing stops there.
    ahead = np.full((cap + 1, cap + 2, cap + 2), cap + 1, np.int16)
    ahead[cap, :-1, :-1][stops[cap]] = 0
    behind = np.tri(cap + 1, k=-1, dtype=bool)
    for n in range(cap - 1, -1, -1):
        later = ahead[n + 1]
        best = np.minimum(later[1:, :-1], later[:-1, :-1])
        np.minimum(best, later[:-1, 1:], out=best, where=behind)
        ahead[n, :-1, :-1] = np.where(stops[n], 0, best + 1)
    _AHEAD[key] = found = ahead[:, :-1, :-1].copy()
    found.flags.writeable = False
    return found


class TablePolicy:
    """A policy whose stopping rule is a table over (n, v1, v2).

    ``stops`` [cap + 1] * 3 is indexed [n, v1, v2]; it is made to stop at n = cap, and never before while
    no path has voted; ``settles`` is the same, but not where only the cap ends it. ``strength``
    [cap + 1] * 2, indexed [v1, v2], is reported as the weight of a stop (default: the leader's share of the
    votes).
    """

    needs: frozenset[Need] = frozenset({"answers"})

    def __init__(
        self, spec: str, stops: BoolArray, strength: FloatArray | None = None, kind: WeightKind = "vote_share"
    ) -> None:
        self.spec = spec
        self.cap = len(stops) - 1
        self.settles = stops.copy()
        self.settles[:, 0, :] = False
        self.stops = self.settles.copy()
        self.stops[self.cap] = True
        self._table = lookahead(self.stops)
        self._strength = strength
        self._kind: WeightKind = kind

    @property
    def table(self) -> Int16Array:
        """Paths to draw next, or 0 to stop, by flat index of ``Draws.cells``."""
        return self._table.ravel()

    def decide(self, view: View) -> Sample | Stop:
        """Return the table's decision at these counts; paths beyond the cap are ignored."""
        keys = view.keys if len(view.keys) <= self.cap else view.keys[: self.cap]
        seen = tally(keys)
        m = int(self._table.item(len(keys), seen.v1, seen.v2))
        if m:
            return Sample(m)
        return self.stop(seen, len(keys))

    def stop(self, seen: Tally, n: int) -> Stop:
        """Return the stop with the leader as its answer."""
        why = "the cap" if n == self.cap else "the lead is enough"
        reason = f"{why}: {seen.v1} against {seen.v2} votes after {n} of at most {self.cap} paths"
        if self._strength is None:
            return Stop(seen.leader, seen.share, "vote_share", reason)
        return Stop(seen.leader, float(self._strength[seen.v1, seen.v2]), self._kind, reason)

    def ahead(self, draws: Draws) -> NDArray[Any]:
        """Return the paths to draw next, or 0 to stop, after each prefix of every order [n, R, cap + 1]."""
        # One index into the flat table: three of them take several times as long.
        ahead = self.table.take(draws.cells(self.cap + 1))[draws.distinct_orders[1]]
        return ahead.reshape(*draws.codes.shape[:2], self.cap + 1)


class BoundedTable(TablePolicy):
    """A table policy whose rule also holds for weighted vote sums: its table is ``bound`` on the grid.

    ``posterior`` of a rule on one: its table, the strengths [cap + 1] * 2, and the posterior of any sums.
    """

    def __init__(
        self,
        spec: str,
        cap: int,
        bound: Bound,
        posterior: tuple[BoolArray, FloatArray, Certainty] | None = None,
    ) -> None:
        if posterior is None:
            super().__init__(spec, np.broadcast_to(bound(*grid(cap), 1.0), (cap + 1,) * 3))
        else:
            super().__init__(spec, posterior[0], posterior[1], "posterior")
        self._bound, self._sure = bound, None if posterior is None else posterior[2]

    def bound(self, n: Any, v1: Any, v2: Any, most: float) -> Any:
        """Return a mask of the states where the rule stops; ``most`` is the largest vote weight."""
        return self._bound(n, v1, v2, most)

    def certainty(self, v1: float, v2: float) -> float | None:
        """Return the rule's certainty of its leader; None for rules that only count."""
        return None if self._sure is None else float(self._sure(v1, v2))
