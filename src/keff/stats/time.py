"""Time to answer: quantiles with intervals, slowdown under concurrent paths, and the running vote in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.records import Interval, frozen
from keff.stats.resampling import clustered_se, resampled_totals
from keff.stats.votes import FloatArray, IntArray


@frozen
class Crowding:
    """Slowdown of a path by the number of paths that run at the same moment.

    Recorded seconds are those of a path among ``slots`` that run all the time. While ``running`` of them run
    each takes ``alone + (1 - alone) (running - 1) / (slots - 1)`` of that: a step of a batch costs a fixed
    part, for the weights are read once for all, and a part for each path in it. ``alone`` is 1 where paths do
    not notice each other, 1 / slots where they share out a fixed speed. More than ``slots`` never run.
    """

    slots: int
    alone: float = 1.0

    def pace(self, running: IntArray) -> FloatArray:
        """Return the seconds that one recorded second takes while so many paths run."""
        return self.alone + (1 - self.alone) * (running - 1) / max(self.slots - 1, 1)


# A server on which paths neither wait for nor notice each other.
NO_CONTENTION = Crowding(2**16)


# So many values between the least and the greatest stand for the law of the times in the bootstrap.
GRID = 400

# Resamples of the clusters: enough for 2.5% quantiles from a dozen.
REPLICATES = 500

# From so many clusters on, so many values near the quantile are enough: within twenty standard errors.
MANY_GROUPS, NEAR = 20_000, 64

# The quantile of the normal law that leaves 2.5% above.
NORMAL_95 = 1.959964

# Shares at whose quantiles a smoothed one looks.
STEPS: FloatArray = np.linspace(0, 1, 401, dtype=np.float64)


def quantiles(times: FloatArray, shares: Sequence[float], clusters: IntArray) -> tuple[Interval, ...]:
    """Return quantiles, with intervals, of times to answer [n, R] of n questions over R orders of drawing.

    Every question weighs the same. The limits are 95% percentile limits over resampled clusters [n], None
    with fewer than two, and of 20,000 clusters or more those of Woodruff, which need no resamples; the orders
    of one question stay together, for its paths are alike in length.
    """
    values = np.quantile(times, shares).tolist()
    groups = int(clusters.max()) + 1
    if groups < 2:
        return tuple(Interval(value, None, None, "replayed courses") for value in values)
    if groups >= MANY_GROUPS:
        return tuple(
            _woodruff(times, share, value, clusters) for share, value in zip(shares, values, strict=True)
        )
    # The same resamples for every share: below so many clusters all shares are looked at alike.
    (reached,) = _bootstrap_distributions((times,), shares[0], clusters)
    found: list[Interval] = []
    for share, value in zip(shares, values, strict=True):
        lo, hi = np.quantile(reached.quantile(share), [0.025, 0.975]).tolist()
        found.append(Interval(value, min(lo, value), max(hi, value), "replayed courses, cluster_bootstrap"))
    return tuple(found)


def _woodruff(times: FloatArray, share: float, value: float, clusters: IntArray) -> Interval:
    # Woodruff (JASA 1952): the limits of the share below the value, turned into times.
    half = NORMAL_95 * clustered_se((times <= value).mean(axis=1), clusters)
    lo, hi = np.quantile(times, [max(share - half, 0.0), min(share + half, 1.0)]).tolist()
    return Interval(value, lo, hi, "replayed courses, Woodruff")


def smoothing(share: float, questions: int) -> FloatArray:
    """Return the weights at ``STEPS`` by which the Harrell-Davis smoothed quantile averages plain quantiles.

    Harrell and Davis (Biometrika 1982): Beta((n + 1) q, (n + 1) (1 - q)) for n questions. Of 15 questions the
    plain median and 95th percentile are two questions' times, and vary by a third more.
    """
    # Rules import this module, and a gateway of rules holds no scipy.
    from scipy.special import betainc

    return np.asarray(betainc((questions + 1) * share, (questions + 1) * (1 - share), STEPS), np.float64)


def quantile_change(
    times: FloatArray, today: FloatArray, share: float, clusters: IntArray, law: FloatArray
) -> tuple[Interval, Interval]:
    """Return a quantile of ``times`` [n, R] minus today's, and their ratio, each with its 95% interval.

    The 95% limits are for as many new questions, of a normal law (of logarithms for the part): its mean is
    that of the quantiles smoothed by ``law`` in resamples of the clusters, its variance theirs, by which the
    pilot may be off, and that of plain quantiles, which new questions show.
    """
    mine, other = float(np.quantile(times, share)), float(np.quantile(today, share))
    # A rule that takes no time at all, as in a record of zeros, has a finite ratio.
    values = mine - other, mine / max(other, 1e-12)
    if int(clusters.max()) < 1:
        change, ratio = (Interval(value, None, None, "replayed courses") for value in values)
        return change, ratio
    both = _bootstrap_distributions((times, today), share, clusters)
    # A row of smoothed quantiles and one of plain ones, of the rule and of today's.
    pairs = [
        np.array([each.smoothed(law) for each in both]),
        np.array([each.quantile(share) for each in both]),
    ]
    # On the scale of logarithms: half and twice the time are equally far from today's.
    logs = [np.log(np.maximum(pair, 1e-12)) for pair in pairs]
    return _of_new(values[0], _limits(*pairs)), _of_new(values[1], np.exp(_limits(*logs)))


def _limits(smooth: FloatArray, plain: FloatArray) -> FloatArray:
    """Return the 95% limits [2] of a difference from its resamples [2, S], smoothed and plain."""
    known, new = smooth[0] - smooth[1], plain[0] - plain[1]
    return known.mean() + NORMAL_95 * np.hypot(known.std(), new.std()) * np.array([-1, 1])


def resampled_ratios(
    times: FloatArray, today: FloatArray, share: float, clusters: IntArray, law: FloatArray
) -> FloatArray:
    """Return bootstrap ratios [S] of two rules' quantiles, smoothed by ``law``; clusters are resampled."""
    mine, other = _bootstrap_distributions((times, today), share, clusters)
    # Today's time may be zero in a record without any: the ratio is large, and finite.
    return mine.smoothed(law) / np.maximum(other.smoothed(law), 1e-12)


@frozen
class _Reached:
    """Bootstrap distribution functions: shares [G, S] of S resamples at most each value of ``grid`` [G]."""

    grid: FloatArray
    shares: FloatArray

    def quantile(self, share: float) -> FloatArray:
        """Return the quantile at ``share`` of each resample [S]."""
        # A share is a sum of fractions: one that equals ``share`` may fall short of it by rounding.
        return self.grid[(self.shares >= share - 1e-12).argmax(axis=0)]

    def smoothed(self, law: FloatArray) -> FloatArray:
        """Return the smoothed quantile of each resample [S], with the weights of ``smoothing``."""
        weights: FloatArray = np.diff(np.interp(self.shares, STEPS, law), axis=0, prepend=0.0)
        return self.grid @ weights


def _bootstrap_distributions(times: Sequence[FloatArray], share: float, clusters: IntArray) -> list[_Reached]:
    """Return bootstrap distribution functions near a quantile of times [n, R]; all on the same resamples."""
    groups = int(clusters.max()) + 1
    looks = _probability_grid(share, groups)
    grids = [np.unique(np.sort(each, axis=None)[at_share(each.size, looks)]) for each in times]
    edges = np.cumsum([1, *(grid.size for grid in grids)])
    units = np.empty((groups, int(edges[-1])))
    units[:, 0] = np.bincount(clusters, minlength=groups)
    for each, grid, at in zip(times, grids, edges, strict=False):
        own = units[:, at : at + grid.size]
        np.cumsum(_counts_by_bin(each, grid, clusters, groups), axis=1, out=own)
        own /= each.shape[1]
    # All in one set of resamples: ratios are paired.
    totals = resampled_totals(units, REPLICATES, np.random.default_rng(0))
    parts = np.split(totals[1:] / totals[0], edges[1:-1] - 1)
    return [_Reached(grid, part) for grid, part in zip(grids, parts, strict=True)]


def at_share(size: int, shares: FloatArray) -> IntArray:
    """Return the indices of quantiles among ``size`` sorted values, by numpy's method inverted_cdf.

    Which takes forty times as long, for it finds each value by itself.
    """
    return np.maximum(np.ceil(size * shares - 1), 0).astype(np.int64)


def _of_new(value: float, limits: FloatArray) -> Interval:
    lo, hi = limits.tolist()
    return Interval(value, min(lo, value), max(hi, value), "replayed courses, as many new questions")


def _probability_grid(share: float, groups: int) -> FloatArray:
    """Return the grid of probabilities at which bootstrap distribution functions are kept."""
    if groups < MANY_GROUPS:
        return np.linspace(0, 1, GRID)
    # Ten standard errors of a share, at its most: no resample's quantile lies outside.
    wide = 10 / groups**0.5
    near: FloatArray = np.linspace(max(share - wide, 0.0), min(share + wide, 1.0), NEAR, dtype=np.float64)
    return np.concatenate([near, [1.0]])


def _counts_by_bin(times: FloatArray, grid: FloatArray, clusters: IntArray, groups: int) -> IntArray:
    """Return counts of times [n, R] in each bin of ``grid`` [G], by cluster: [groups, G]."""
    size = grid.size
    place = np.searchsorted(grid, times, side="left") + clusters[:, None] * (size + 1)
    counts = np.bincount(place.ravel(), minlength=groups * (size + 1)).reshape(groups, size + 1)
    return counts[:, :size]


@dataclass(frozen=True)
class Timetable:
    """Start and end of each of ``cap`` paths of a vote that never stops, [m, cap] by launch position.

    ``width`` paths run at once and the next starts when one ends. In units of recorded work (seconds, else
    tokens): all paths in flight slow each other down alike, so the order of events does not depend on the
    speed. ``arrival`` [m, cap] are the launch positions in the order of ending; of equals the first launched.
    """

    start: FloatArray
    end: FloatArray
    arrival: IntArray
    width: int

    @cached_property
    def in_launch_order(self) -> IntArray:
        """The event (from 0) at which the n-th vote may be counted [m, cap], in launch order.

        On arrival the n-th event is the n-th vote.
        """
        event = np.empty_like(self.arrival)
        np.put_along_axis(event, self.arrival, np.arange(event.shape[1], dtype=np.int64)[None], axis=1)
        return np.maximum.accumulate(event, axis=1)

    @cached_property
    def work(self) -> tuple[FloatArray, IntArray]:
        """How long each path takes [m, cap], above 0, and the flat indices of paths that take no time."""
        length = self.end - self.start
        # Work left is divided by it; paths of no length are put right by their places.
        return np.maximum(length, 1e-300), np.flatnonzero(length <= 0)


@frozen
class Cut:
    """Orders of drawing [m] at their stopping time: time, launched paths, and work done.

    ``time`` until then, ``launched`` paths, and ``ran`` [m, cap], the share of its work that each path had
    done by then: 1 ended, between 0 and 1 cancelled, 0 never launched.
    """

    time: FloatArray
    launched: IntArray
    ran: FloatArray


def timetable(work: NDArray[Any], in_flight: int) -> Timetable:
    """Return the schedule of many orders: ``work`` [m, cap] by launch position, ``in_flight`` at once.

    Ties: of paths that end at the same moment the first launched is heard first, and the next path starts
    when it is. ``work`` must be finite and not negative.
    """
    runs = np.asarray(work, np.float64)
    cap = runs.shape[1]
    width = min(in_flight, cap)
    start = np.zeros_like(runs)
    # Places stand first, sorted by when they are free: each path takes the first and is sorted in.
    busy = np.sort(runs[:, :width].T, axis=0)
    for path in range(width, cap):
        start[:, path] = busy[0]
        later = busy[0] + runs[:, path]
        for place in range(1, width):
            np.minimum(busy[place], later, out=busy[place - 1])
            np.maximum(busy[place], later, out=later)
        busy[-1] = later
    end = start + runs
    return Timetable(start, end, end.argsort(axis=1, kind="stable").astype(np.int64), width)


def stop_at(table: Timetable, event: IntArray, crowding: Crowding = NO_CONTENTION) -> Cut:
    """Return every order stopped at its ``event`` [m] (from 0), the end of a path, the others cancelled.

    ``crowding`` says how long a unit of work takes by how many paths run; paths beyond its slots queue, so
    make the timetable for at most as many in flight.
    """
    courses, cap = table.end.shape
    rows: IntArray = np.arange(courses, dtype=np.int64)
    now: FloatArray = table.end[rows, table.arrival[rows, event]]
    launched = np.minimum(cap, table.width + event)
    clock = now
    if crowding.alone < 1:
        ends = np.take_along_axis(table.end, table.arrival, axis=1)
        # Before event j as many paths run as were launched and have not ended: the same in every course.
        running = np.minimum(table.width, cap - np.arange(cap, dtype=np.int64))
        paces = np.diff(ends, axis=1, prepend=0.0) * crowding.pace(running)
        clock = paces.cumsum(axis=1)[rows, event]
    length, at_once = table.work
    ran = np.clip((now[:, None] - table.start) / length, 0.0, 1.0)
    # Of paths that take no time at all those that were launched have ended.
    ran.flat[at_once] = 1.0
    ran *= np.arange(cap, dtype=np.int64) < launched[:, None]
    return Cut(clock, launched, ran)


def in_rounds(
    ahead: NDArray[Any],
    work: NDArray[Any] | None = None,
    crowding: Crowding = NO_CONTENTION,
    table: NDArray[Any] | None = None,
) -> tuple[IntArray, IntArray, FloatArray | None]:
    """Return the stopping time of a rule that draws in rounds: paths, rounds and seconds of every order.

    ``ahead`` [m, cap + 1] is what the rule asks for after each number of paths, 0 to stop, or its place in a
    flat ``table``. A round ends with its slowest path; its paths run at once, as many as there are slots.
    """
    courses, side = ahead.shape
    first = int(ahead[:1, 0].max(initial=0))
    if work is None and first > 0 and (ahead[:, 0] == first).all() and (ahead[:, 1:] <= 1).all():
        # One path after the other: ten times sooner than round by round.
        ends: IntArray = first + (ahead[:, first:] <= 0).argmax(axis=1)
        return ends, ends - first + 1, None
    at, rounds = np.zeros(courses, np.int64), np.zeros(courses, np.int64)
    times = None if work is None else np.zeros(courses)
    asked, done = ahead.ravel(), 0
    going: IntArray = np.arange(courses, dtype=np.int64)
    start: IntArray = going * side
    place: IntArray = start.copy()
    while going.size:
        found = asked.take(place)
        step: IntArray = (found if table is None else table.take(found)).astype(np.int64)
        if (ended := step <= 0).any():
            stopped, rest = going[ended], ~ended
            at[stopped], rounds[stopped] = (place - start)[ended], done
            going, start, place, step = going[rest], start[rest], place[rest], step[rest]
        if work is not None and times is not None:
            times[going] += _round_times(work, going, place - start, step, crowding)
        place += step
        done += 1
    return at, rounds, times


def _round_times(
    work: NDArray[Any], rows: IntArray, start: IntArray, size: IntArray, crowding: Crowding
) -> FloatArray:
    """Return how long a round of ``size`` paths from ``start`` takes in each row of ``work`` [m, cap]."""
    times = np.zeros(len(rows))
    for width in np.unique(size):
        some = np.flatnonzero(size == width)
        window = work[rows[some, None], start[some, None] + np.arange(int(width))]
        if crowding.slots >= width and crowding.alone == 1:
            times[some] = window.max(axis=1)
            continue
        table = timetable(window, crowding.slots)
        times[some] = stop_at(table, np.full(len(some), width - 1), crowding).time
    return times
