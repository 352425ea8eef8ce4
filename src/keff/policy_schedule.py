"""The schedule of a rule in at most R rounds, for workloads whose paths agree so often."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np

from keff.policy_induction import DEPTH, Schedule, States
from keff.policy_view import ByCounts, Everywhere, Policy, Vectorised
from keff.stats.courses import GENERIC_WEIGHTS, courses, tilted
from keff.stats.draws import Draws
from keff.stats.votes import FloatArray, IntArray

COURSES, FRESH = 12_000, 4
"""Simulated questions that a schedule is made from (cap 32), and how many times as many it is judged on."""

BLOCK = 200

BISECTIONS, HIGHEST = 16, 16.0
"""Steps to the price of a loss, and the logarithm of the highest: a path per 10 millionths of a share."""

KEPT = 32


@dataclass(frozen=True)
class _Simulation:
    """Simulated courses before any rule: the same for all rules with one cap.

    ``lost`` [m, cap + 1] is the answer share lost by stopping there instead of at the cap.
    """

    draws: Draws
    lost: FloatArray


@lru_cache(maxsize=2)
def _simulation(weights: tuple[float, ...], count: int, cap: int, seed: int) -> _Simulation:
    """Simulate courses, kept for the next rule: making them takes longer than what is done with them."""
    new = courses(np.array(weights), count, cap, np.random.default_rng(seed))
    # In few tall blocks: some rules follow one block at a time.
    draws = Draws(new.draws.codes.reshape(-1, BLOCK, cap))
    leader = draws.tallies.leader.reshape(count, cap + 1).astype(np.int64)
    shares = np.take_along_axis(new.shares[:, 0], np.maximum(leader, 0), axis=1)
    share = np.where(leader < 0, 0.0, shares)
    return _Simulation(draws, share[:, -1:] - share)


@dataclass(frozen=True)
class _Courses:
    """Simulated courses with what the rule does on them.

    ``v1`` and ``v2`` [m, cap + 1] are the counts, ``lost`` [m, cap + 1] the answer share lost by stopping
    there instead of at the cap, ``ahead`` [m, cap + 1] what the rule asks for.
    """

    v1: IntArray
    v2: IntArray
    lost: FloatArray
    ahead: IntArray

    @classmethod
    def of(cls, rule: Policy, simulation: _Simulation) -> _Courses:
        assert isinstance(rule, Vectorised)
        draws, shape = simulation.draws, simulation.lost.shape
        asked = rule.everywhere(draws) if isinstance(rule, Everywhere) else rule.ahead(draws)
        return cls(
            draws.tallies.v1.reshape(shape).astype(np.int64),
            draws.tallies.v2.reshape(shape).astype(np.int64),
            simulation.lost,
            np.asarray(asked).reshape(shape).astype(np.int64),
        )

    def alone(self) -> tuple[IntArray, int]:
        """Return where the fewest votes that could stop lead [m], and the most rounds of them."""
        rows, at = np.arange(len(self.v1)), np.zeros(len(self.v1), np.int64)
        for turn in count():
            step = self.ahead[rows, at]
            if not step.any():
                return at, turn
            at += step
        raise AssertionError("a rule stops at its cap")

    def followed(self, schedule: Schedule, rounds: int) -> IntArray:
        """Return where a schedule ends [m]."""
        rows, at = np.arange(len(self.v1)), np.zeros(len(self.v1), np.int64)
        for left in range(rounds, 0, -1):
            counts = self.v1[rows, at], self.v2[rows, at]
            at = at + schedule.sizes(left, at, self.ahead[rows, at], counts)
        return at

    def loss(self, at: IntArray) -> FloatArray:
        """Return the share lost by ending there [m]."""
        return self.lost[np.arange(len(at)), at]


_known: OrderedDict[tuple[str, int, float | None], Schedule] = OrderedDict()


def plan(rule: Policy, rounds: int, agreement: float | None) -> Schedule:
    """Return the schedule of a rule for a workload whose paths agree this often (None: as recorded ones).

    Minimises E[paths] + price * E[loss]. The price is bisected until the loss on fresh courses is no greater
    than that of the rule itself. Beside it stands the schedule whose sizes are planned but which only the
    rule stops, so that every fixed sequence of waves is among what is chosen from; the cheaper on fresh
    courses is taken. Where no course needs more rounds than there are, the fewest votes that could stop the
    rule are drawn each time, which loses nothing; a rule that loses nothing, or looks at more than counts, is
    the only one to stop. The same arguments give the same schedule.
    """
    key = rule.spec, rounds, agreement
    if key not in _known:
        weights = GENERIC_WEIGHTS if agreement is None else tilted(GENERIC_WEIGHTS, agreement)
        _known[key] = make_schedule(rule, rounds, weights)
        if len(_known) > KEPT:
            _known.popitem(last=False)
    _known.move_to_end(key)
    return _known[key]


def make_schedule(rule: Policy, rounds: int, weights: FloatArray) -> Schedule:
    """Make the schedule for workloads that mix the laws of ``stats.partitions`` in these proportions."""
    if not isinstance(rule, Vectorised) or rule.cap < 2:
        return Schedule(rule.cap)
    size = max(COURSES * 32 // max(rule.cap, 32), 2000) // BLOCK * BLOCK
    made, fresh = (
        _Courses.of(rule, _simulation(tuple(weights.tolist()), times * size, rule.cap, seed))
        for seed, times in enumerate((1, FRESH))
    )
    (_, most), (ends, also) = made.alone(), fresh.alone()
    if max(most, also) <= rounds:
        return Schedule(rule.cap)
    states, lost = States.of(made, rule.cap), fresh.loss(ends)
    by_rule = states.schedule(min(rounds, DEPTH), None)
    if lost.mean() <= 0 or not (isinstance(rule, ByCounts) and rule.by_counts):
        return by_rule
    priced = _as_faithful(states, fresh, rounds, lost)
    return min([by_rule, *priced], key=lambda each: float(fresh.followed(each, rounds).mean()))


def _as_faithful(states: States, fresh: _Courses, rounds: int, lost: FloatArray) -> list[Schedule]:
    """Return the cheapest schedule at a price that loses no more than ``lost`` [m] on fresh courses, if any.

    Surely no more: by a standard error of the difference, for the cheapest of many is so by chance too.
    """
    low, high = 0.0, HIGHEST
    best = list[Schedule]()
    for _ in range(BISECTIONS):
        price = (low + high) / 2
        schedule = states.schedule(min(rounds, DEPTH), np.exp(price))
        more = fresh.loss(fresh.followed(schedule, rounds)) - lost
        if more.mean() + more.std() / len(more) ** 0.5 <= 0:
            best, high = [schedule], price
        else:
            low = price
    return best
