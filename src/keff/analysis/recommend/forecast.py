"""What a pilot says about policies that it is too short to replay: paths, agreement and accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keff.analysis.recommend.prior import GENERIC, Belief, Prior
from keff.policies import budget
from keff.policies._table import Table, TablePolicy
from keff.policy import format_spec, parse_policy
from keff.stats.correlation import agreement_items
from keff.stats.draws import Tallies
from keff.stats.mixture import fit_weights, partition_log_law, simulate, vote_counts
from keff.stats.plurality import plurality_at_k_items
from keff.stats.votes import FloatArray, Votes

PSEUDO_ITEMS = 10
"""How many pilot questions the generic weights are worth."""

SEQUENCES = 6_000
"""Simulated questions, shared by all candidates."""

STEPS = 48
SHAPES = (0.0, 2.0, 8.0, 64.0)
LOW_CAPS = (0.375, 0.5, 0.75)

LEAST_PRICE = 0.3
"""Even where the labels say that votes are worth nothing, answers may not change without end: a unit of
share costs at least this part of the accuracy. Chosen on 35 records, not left out."""

SINGLE, SAFE = 0, 1
"""Where the single path and the safe default stand among the candidates."""


@dataclass(frozen=True)
class Candidates:
    """Rules to choose from: their specs, and the tables [n, v1, v2] of where they stop."""

    specs: list[str]
    tables: list[Table]


def candidates(cap: int) -> Candidates:
    """Return a single path, the safe default, curtailment and many ``budget`` rules, some with lower caps."""
    never = np.zeros((cap + 1,) * 3, np.bool_)
    rules: dict[str, Table] = {"fixed:1": _stop_from(never, 1)}
    for spec in (safe_default(cap), format_spec("curtailed", cap=cap)):
        rule = parse_policy(spec)
        assert isinstance(rule, TablePolicy)
        rules[rule.spec] = rule.stops
    loose = np.geomspace(1.05, 2, 8)
    plans = [(k, b, cap) for b in SHAPES for k in np.geomspace(1.05, max(cap / 2, 1.1), STEPS)]
    plans += [(k, b, round(cap * part)) for part in LOW_CAPS for b in SHAPES[1:] for k in loose]
    for k, b, low in plans:
        short = float(f"{k:.3g}")
        if short < low:
            table = never.copy()
            table[: low + 1, : low + 1, : low + 1] = budget.boundary(short, low, b)
            rules[format_spec("budget", short, cap=low, b=b or None)] = _stop_from(table, low)
    different = {table.tobytes(): (spec, table) for spec, table in reversed(rules.items())}
    kept = list(reversed(different.values()))
    return Candidates([spec for spec, _ in kept], [table for _, table in kept])


def safe_default(cap: int) -> str:
    """Return the spec of what to deploy when a pilot cannot say."""
    return format_spec("adaptive_consistency", 0.95, cap=cap)


def _stop_from(table: Table, cap: int) -> Table:
    table = table.copy()
    table[:, 0] = False
    table[cap:] = True
    return table


@dataclass(frozen=True)
class Forecast:
    """Expected paths [C], tokens [C] and accuracies of C candidates on questions like the pilot's.

    ``loss`` [C] is the share of the answer at the cap minus that of the answer given, on average; ``differs``
    [C] how often they differ; ``price`` [C] the accuracy that a unit of loss costs. ``share`` [cap + 1] is
    the mean share of the plurality after 0..cap paths. ``accuracy`` and ``error`` are those of plurality at
    the cap, ``single`` is that of one path; None without labels. ``tokens`` is None where the pilot counts
    none.
    """

    candidates: Candidates
    paths: FloatArray
    loss: FloatArray
    differs: FloatArray
    share: FloatArray
    price: FloatArray
    slope: Belief
    accuracy: float | None
    error: float | None
    single: Belief | None = None
    tokens: FloatArray | None = None

    @property
    def level(self) -> float:
        """What there is to keep: the accuracy at the cap, or the share of its answer without labels."""
        return float(self.share[-1]) if self.accuracy is None else self.accuracy

    @property
    def lost(self) -> FloatArray:
        """The accuracy that each candidate loses against the vote at the cap [C]."""
        return self.price * self.loss


def forecast(pilot: Votes, cap: int, rng: np.random.Generator, prior: Prior = GENERIC) -> Forecast:
    """Simulate questions like the pilot's and replay every candidate on them.

    The answers of the pilot fit a mixture of partition laws (label-free); labels, where there are any,
    say what a share of the votes is worth. Needs answers and at least two paths.
    """
    counts, _ = vote_counts(pilot)
    weights = fit_weights(partition_log_law(counts), PSEUDO_ITEMS * prior.weights)
    new = simulate(pilot, weights, (max(4, SEQUENCES // pilot.n), cap), rng)
    seen, share = new.draws.tallies, new.share_of_leader()
    choice = candidates(cap)
    runs = _runs(seen, share, None if pilot.tokens is None else item_tokens(pilot.tokens))
    paths, loss, differs, spent = np.array([_replay(table, runs) for table in choice.tables]).T
    slope = fit_slope(pilot, prior)
    mean_share = share.mean(axis=(0, 1))
    accuracy, error = _accuracy(pilot, cap, slope, mean_share)
    level = mean_share[cap] if accuracy is None else accuracy
    price = np.full(len(loss), prior.price.at(slope.value))
    price[SINGLE] = slope.value  # it goes wrong in clear cases too
    price = np.maximum(price, LEAST_PRICE * level)
    return Forecast(
        choice,
        paths,
        loss,
        differs,
        mean_share,
        price,
        slope,
        accuracy,
        error,
        single=None if pilot.correct is None else _measured(pilot.scored().mean(axis=1), pilot),
        tokens=None if pilot.tokens is None else spent,
    )


def item_tokens(tokens: FloatArray) -> FloatArray:
    """Return the mean tokens of a path of each question [n]; the mean of all where none was counted."""
    known = ~np.isnan(tokens)
    count = known.sum(axis=1)
    total = np.where(known, tokens, 0.0).sum(axis=1)
    overall = total.sum() / max(count.sum(), 1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), overall), np.float64)


class _Runs(NamedTuple):
    """Distinct courses [U, cap + 1] of the two largest counts, as cells of a table, and their counts [U].

    ``loss`` and ``differs`` [U, cap + 1], and the tokens ``each`` path takes [U], are means over the
    simulated questions of that course.
    """

    cell: NDArray[np.int32]
    times: FloatArray
    loss: FloatArray
    differs: FloatArray
    each: FloatArray


def _runs(seen: Tallies, share: FloatArray, tokens: FloatArray | None = None) -> _Runs:
    """Join simulated questions of one course: a third to a half of them are alike, as unanimous ones are."""
    side = seen.v1.shape[2]
    cell: NDArray[np.int32] = np.arange(side, dtype=np.int32) * side + seen.v1
    cell = (cell * side + seen.v2).reshape(-1, side)
    rows = np.ascontiguousarray(cell).view([("row", np.void, cell[0].nbytes)]).ravel()
    _, first, course, times = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
    order, starts = course.argsort(kind="stable"), times.cumsum() - times
    leader, own = seen.leader.reshape(-1, side), share.reshape(-1, side)

    def mean(values: NDArray[Any]) -> FloatArray:
        return np.add.reduceat(values[order].astype(np.float64), starts, axis=0) / times[:, None]

    # Hard questions are longer and get more paths: each keeps the tokens of the pilot question it is like.
    repeats = len(cell) // len(seen.v1)
    each = np.zeros(len(cell)) if tokens is None else np.repeat(tokens, repeats)
    return _Runs(
        cell[first],
        times.astype(np.float64),
        mean(own[:, -1:] - own),
        mean(leader != leader[:, -1:]),
        mean(each[:, None])[:, 0],
    )


def _replay(table: Table, runs: _Runs) -> tuple[float, float, float, float]:
    stop = table.ravel()[runs.cell].argmax(axis=1)
    at = np.arange(len(stop)), stop
    sums = (
        np.dot(runs.times, values) for values in (stop, runs.loss[at], runs.differs[at], stop * runs.each)
    )
    paths, loss, differs, tokens = (float(one / runs.times.sum()) for one in sums)
    return paths, loss, differs, tokens


def fit_slope(pilot: Votes, prior: Prior = GENERIC) -> Belief:
    """Return the slope from the pilot's labels, shrunk to that of recorded generations.

    Two things speak: how well votes are calibrated, and the gain in accuracy from 1 path to K0 - 1 against
    the gain in share as the path left out sees it (both unbiased). Without labels or with fewer than three
    paths votes are taken at face value: calibrated.
    """
    if pilot.correct is None or pilot.k < 3 or pilot.n < 2:
        return Belief(prior.slope.at(1.0), prior.slope.sd)
    calibration = fit_calibration(pilot, prior)
    expected = prior.slope.at(calibration.value)
    sd = float(np.hypot(prior.slope.sd, prior.slope.gradient * calibration.sd))
    right = plurality_at_k_items(pilot)
    gain = right[:, pilot.k - 2] - right[:, 0]
    share = left_out_share(pilot) - agreement_items(pilot)
    rise = max(float(share.mean()), 1e-6)
    error = _mean_error(gain - expected * share) / rise
    return _join(Belief(float(gain.mean()) / rise, error), Belief(expected, sd))


def fit_calibration(pilot: Votes, prior: Prior = GENERIC) -> Belief:
    """Return p over the agreement of two paths, shrunk to that of recorded generations; needs labels."""
    right, agreement = pilot.scored().mean(axis=1), agreement_items(pilot)
    level = max(float(agreement.mean()), 1e-6)
    ratio = float(right.mean()) / level
    return _join(Belief(ratio, _mean_error(right - ratio * agreement) / level), prior.calibration)


def _mean_error(values: FloatArray) -> float:
    """Return the standard error of a mean [n]; a pilot without any spread does not claim certainty."""
    return float(np.sqrt((np.var(values, ddof=1) + 1e-6) / len(values)))


def _join(one: Belief, other: Belief) -> Belief:
    """Return the mean of two beliefs by their precision."""
    precisions = np.array([one.sd, other.sd]) ** -2.0
    value = float(precisions @ [one.value, other.value] / precisions.sum())
    return Belief(value, float(precisions.sum() ** -0.5))


def left_out_share(pilot: Votes) -> FloatArray:
    """Return how often the plurality of all paths but one has the answer of that one [n], ties split.

    Leaving out a vote for the leader keeps it ahead unless its lead is one vote; no other vote agrees.
    """
    counts = np.sort(vote_counts(pilot)[0], axis=1)[:, ::-1]
    top, rest = counts[:, 0], counts[:, 1:]
    second = rest.max(axis=1, initial=0)
    tied = (rest == second[:, None]).sum(axis=1)
    lead = top - second
    wins = np.where(lead > 1, 1.0, np.where((lead == 1) & (second > 0), 1 / (1 + tied), 0.0))
    return np.asarray(wins * top / pilot.k, np.float64)


def _accuracy(pilot: Votes, cap: int, slope: Belief, share: FloatArray) -> tuple[float | None, float | None]:
    if pilot.correct is None:
        return None, None
    drawn = min(pilot.k, cap)
    seen = _measured(plurality_at_k_items(pilot)[:, drawn - 1], pilot)
    rise = float(share[cap] - share[drawn])
    value = float(np.clip(seen.value + slope.value * rise, 0, 1))
    return value, float(np.hypot(seen.sd, slope.sd * rise))


def _measured(right: FloatArray, pilot: Votes) -> Belief:
    """Return the mean of an accuracy by question [n] with its standard error over clusters."""
    ids, sizes = np.unique(pilot.cluster_ids, return_counts=True)
    sums = np.bincount(pilot.cluster_ids, right - right.mean())
    # Two imagined clusters, one right and one wrong, keep a perfect pilot from claiming certainty.
    spread = (np.square(sums).sum() + 0.5 * np.square(sizes.mean())) / np.square(sizes.mean())
    groups = len(ids)
    return Belief(float(right.mean()), float(np.sqrt(spread / (groups * max(groups - 1, 1)))))
