"""Backward induction over rounds: when to stop and how many paths to draw next, at a price of the loss.

The state is the number of rounds left, the paths drawn and the two largest counts. That is an approximation:
third answers are not looked at, and how the counts go on is estimated from simulated courses of votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keff.stats.top_two import GENERIC, top_two_lead
from keff.stats.votes import FloatArray, IntArray

LEAVES_TO_RULE = -1
"""What the schedule says of a state that it does not know."""

EXACT, STATIONS = 16, 33
"""Rounds end after any number of paths up to the first; of greater caps, on a geometric grid of 33 in all."""

DEPTH = 12
"""With more rounds left than this, the schedule is that of this many."""

FEWEST = 8
"""A state that fewer courses pass is not planned for."""

TIE = 1e-3
"""What a round costs, in paths: of two ways as cheap, the one with fewer rounds."""

Table = NDArray[np.int16]


class Courses(Protocol):
    """Courses of votes: the two largest counts and what the rule asks for, each [m, cap + 1]."""

    @property
    def v1(self) -> IntArray:
        """The votes of the leader."""
        ...

    @property
    def v2(self) -> IntArray:
        """The votes of the runner-up."""
        ...

    @property
    def ahead(self) -> IntArray:
        """The paths that the rule asks for, 0 to stop."""
        ...


@dataclass(frozen=True)
class Schedule:
    """How many paths to draw next: 0 stops, -1 leaves it to the rule.

    ``table`` [rounds, stations, cap + 1, cap + 1] is indexed by the rounds left (from 1), the place of the
    number of paths among ``stations``, and the two largest counts; None leaves all to the rule. ``stops``
    says whether the schedule stops by itself; otherwise only the rule does, and the table holds sizes. The
    rule draws ``cap`` paths at most.
    """

    cap: int
    table: Table | None = None
    place: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    stops: bool = False

    def size(self, left: int, n: int, v1: int, v2: int) -> int:
        """Return the next round of one state."""
        if self.table is None or left < 1:
            return 0 if self.stops and left < 1 else LEAVES_TO_RULE
        station = int(self.place[n])
        return LEAVES_TO_RULE if station < 0 else int(self.table[min(left, DEPTH) - 1, station, v1, v2])

    def sizes(self, left: int, at: IntArray, ahead: IntArray, counts: tuple[IntArray, IntArray]) -> IntArray:
        """Return the next round of many courses, 0 to stop.

        ``at`` paths are drawn, the rule asks for ``ahead``, and ``counts`` are the two largest. Where the
        schedule says nothing the rule is followed, and the last round draws all that is left.
        """
        rest = self.cap - at if left == 1 else ahead
        by_rule = np.where(ahead > 0, rest, 0)
        if self.table is None or left < 1:
            return np.zeros_like(at) if self.stops and left < 1 else by_rule
        station = self.place[at]
        planned = self.table[min(left, DEPTH) - 1, np.maximum(station, 0), *counts]
        if not self.stops:
            planned = np.where(ahead > 0, planned, 0)
        return np.where((station < 0) | (planned == LEAVES_TO_RULE), by_rule, planned).astype(np.int64)


def stations_of(cap: int) -> IntArray:
    """Return after how many paths a round may end."""
    if cap < STATIONS:
        return np.arange(cap + 1, dtype=np.int64)
    later = np.geomspace(EXACT, cap, STATIONS - EXACT)
    return np.unique(np.concatenate([np.arange(EXACT), np.round(later)])).astype(np.int64)


@dataclass(frozen=True)
class _Moves:
    """How the courses of one station go on, to all later stations at once.

    ``cell`` is the row of (place of the later station, state here), ``to`` the state there among all states,
    ``share`` the share of the courses of this state that go there and ``going`` of those that the rule has
    not stopped there.
    """

    sizes: IntArray
    cell: IntArray
    to: IntArray
    share: FloatArray
    going: FloatArray

    def costs(self, value: FloatArray, states: int, *, may_stop: bool) -> FloatArray:
        """Return what it costs to draw up to each later station [stations, states]."""
        weight = self.share if may_stop else self.going
        known = weight > 0
        after = np.bincount(
            self.cell[known], weight[known] * value[self.to[known]], minlength=len(self.sizes) * states
        )
        costs = after.reshape(len(self.sizes), states) + self.sizes[:, None] + TIE
        return np.asarray(costs, np.float64)


@dataclass(frozen=True)
class States:
    """The states that courses pass, station after station.

    ``cells`` are the states of each station as v1 * (cap + 1) + v2, ``passed`` how many courses pass each,
    ``risk`` the chance that the leader is not that of the cap, ``first`` where the states of each station
    begin among all.
    """

    cap: int
    stations: IntArray
    cells: list[IntArray]
    passed: list[IntArray]
    risk: FloatArray
    first: IntArray
    moves: list[_Moves]

    @classmethod
    def of(cls, made: Courses, cap: int) -> States:
        """Count the states that courses pass, and their moves."""
        stations = stations_of(cap)
        cells: list[IntArray] = []
        ids: list[IntArray] = []
        for n in stations:
            names, inverse = np.unique(made.v1[:, n] * (cap + 1) + made.v2[:, n], return_inverse=True)
            cells.append(names)
            ids.append(inverse.astype(np.int64))
        passed = [np.bincount(each).astype(np.int64) for each in ids]
        risks = _risks(cap)
        risk = [risks[n][np.divmod(names, cap + 1)] for n, names in zip(stations, cells, strict=True)]
        first = np.concatenate([[0], np.cumsum([len(names) for names in cells])])
        moves = [_moves(i, made, stations, ids, passed, first) for i in range(len(stations) - 1)]
        return cls(cap, stations, cells, passed, np.concatenate(risk), first, moves)

    def schedule(self, depth: int, price: float | None) -> Schedule:
        """Return the best schedule at a price of the loss; without a price only the rule stops."""
        if price is None:
            # In the last round only the cap is sure to end it.
            rest = np.repeat(self.cap - self.stations, np.diff(self.first))
            value, chosen = np.asarray(rest + TIE, np.float64), [rest]
            stop = np.full(len(self.risk), np.inf)
        else:
            value = stop = np.asarray(price * self.risk, np.float64)
            chosen = list[IntArray]()
        while len(chosen) < depth:
            value, sizes = self._one_round(value, stop, may_stop=price is not None)
            chosen.append(sizes)
        return self._tabled(chosen, may_stop=price is not None)

    def _one_round(
        self, value: FloatArray, stop: FloatArray, *, may_stop: bool
    ) -> tuple[FloatArray, IntArray]:
        """Return the least cost of every state with one round more left, and the paths to draw."""
        least, size = stop.copy(), np.zeros(len(stop), np.int64)
        for i, moves in enumerate(self.moves):
            here = slice(self.first[i], self.first[i + 1])
            costs = moves.costs(value, len(self.cells[i]), may_stop=may_stop)
            # Of costs that differ by rounding only, the longest round.
            best = len(costs) - 1 - (costs[::-1] <= costs.min(axis=0) + 1e-9).argmax(axis=0)
            cost = costs[best, np.arange(costs.shape[1])]
            draws = np.full(len(cost), True) if i == 0 or not may_stop else cost < least[here]
            least[here] = np.where(draws, cost, least[here])
            size[here] = np.where(draws, moves.sizes[best], 0)
        return least, size

    def _tabled(self, chosen: list[IntArray], *, may_stop: bool) -> Schedule:
        shape = (len(chosen), len(self.stations), self.cap + 1, self.cap + 1)
        table = np.full(shape, LEAVES_TO_RULE, np.int16)
        for i, names in enumerate(self.cells):
            if i == len(self.moves) and not may_stop:
                continue
            # Nothing is stopped while no path has voted: there the rule decides.
            known = (self.passed[i] >= FEWEST) & ((names > 0) | (i == 0))
            v1, v2 = np.divmod(names[known], self.cap + 1)
            for turn, sizes in enumerate(chosen):
                table[turn, i, v1, v2] = sizes[self.first[i] : self.first[i + 1]][known]
        place = np.full(self.cap + 1, -1, np.int64)
        place[self.stations] = np.arange(len(self.stations))
        return Schedule(self.cap, table, place, may_stop)


def _risks(cap: int) -> FloatArray:
    """Return the chance that stopping gives another answer than the cap [cap + 1] * 3, by (n, v1, v2).

    By the law of the race of the two leading answers, for it is smooth: courses on which the answer still
    changes are rare, and a schedule made from them would be the best by chance.
    """
    risk = 1 - top_two_lead(cap, *GENERIC)
    risk[cap] = 0.0
    risk[:cap, 0] = 1.0
    return risk


def _moves(
    i: int, made: Courses, stations: IntArray, ids: list[IntArray], passed: list[IntArray], first: IntArray
) -> _Moves:
    states, later = len(passed[i]), range(i + 1, len(stations))
    cell: list[IntArray] = []
    to: list[IntArray] = []
    share: list[FloatArray] = []
    going: list[FloatArray] = []
    for place, j in enumerate(later):
        width = len(passed[j])
        code = ids[i] * width + ids[j]
        total = np.bincount(code, minlength=states * width)
        open_ = np.bincount(code, made.ahead[:, stations[j]] > 0, minlength=len(total))
        pair = np.flatnonzero(total)
        of = pair // width
        cell.append(place * states + of)
        to.append(first[j] + pair % width)
        share.append(total[pair] / passed[i][of])
        going.append(open_[pair] / passed[i][of])
    sizes = stations[i + 1 :] - stations[i]
    return _Moves(
        sizes, np.concatenate(cell), np.concatenate(to), np.concatenate(share), np.concatenate(going)
    )
