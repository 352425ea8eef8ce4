"""What a pilot says about policies that it is too short to replay: paths, agreement and accuracy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keff.policies import budget
from keff.policies._table import Table, TablePolicy
from keff.policy import format_spec, parse_policy
from keff.recommend.prior import GENERIC, Prior
from keff.stats.correlation import agreement_items
from keff.stats.draws import Draws, dense_codes
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


CLOSE_CALLS = 0.5
"""Where a rule goes wrong the answers are close, and the larger share is right less often than the slope
says. Chosen on 35 records, not left out: loose rules lost 0.55 of what the slope predicts. Leaving out one
family of records it is 0.42 to 0.73, and on competition mathematics alone about 1: there the loss of a
recommended rule is understated."""

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
class Slope:
    """How much accuracy a unit of answer share is worth on this workload, with its standard deviation.

    If an answer with twice the share is right twice as often the slope is 1. It is 0 where the most
    frequent answer is no better than another.
    """

    value: float
    sd: float


@dataclass(frozen=True)
class Forecast:
    """Expected paths [C], tokens [C] and accuracies of C candidates on questions like the pilot's.

    ``loss`` [C] is the share of the answer at the cap minus that of the answer given, on average;
    ``differs`` [C] how often they differ. ``share`` [cap + 1] is the mean share of the plurality after
    0..cap paths. ``accuracy`` and ``error`` are those of plurality at the cap, None without labels.
    """

    candidates: Candidates
    paths: FloatArray
    loss: FloatArray
    differs: FloatArray
    share: FloatArray
    slope: Slope
    accuracy: float | None
    error: float | None

    @property
    def worth(self) -> FloatArray:
        """How much accuracy a unit of loss costs under each candidate [C], in units of the slope."""
        worth = np.full(len(self.loss), CLOSE_CALLS)
        worth[SINGLE] = 1.0
        return worth


def forecast(pilot: Votes, cap: int, rng: np.random.Generator, prior: Prior = GENERIC) -> Forecast:
    """Simulate questions like the pilot's and replay every candidate on them.

    The answers of the pilot fit a mixture of partition laws (label-free); labels, where there are any,
    say what a share of the votes is worth. Needs answers and at least two paths.
    """
    counts, _ = vote_counts(pilot)
    weights = fit_weights(partition_log_law(counts), PSEUDO_ITEMS * prior.weights)
    new = simulate(pilot, weights, (max(20, SEQUENCES // pilot.n), cap), rng)
    seen, share = new.draws.tallies, new.share_of_leader()
    n = np.arange(cap + 1)
    choice = candidates(cap)
    cell = ((n * (cap + 1) + seen.v1) * (cap + 1) + seen.v2).astype(np.int32)
    results = [_replay(table, cell, share, seen.leader) for table in choice.tables]
    paths, loss, differs = np.array(results).T
    slope = fit_slope(pilot, prior)
    mean_share = share.mean(axis=(0, 1))
    accuracy, error = _accuracy(pilot, cap, slope, mean_share)
    return Forecast(choice, paths, loss, differs, mean_share, slope, accuracy, error)


def _replay(
    table: Table, cell: NDArray[np.int32], share: FloatArray, leader: NDArray[np.int16]
) -> tuple[float, float, float]:
    stop = table.ravel()[cell].argmax(axis=2)[..., None]
    kept = np.take_along_axis(share, stop, axis=2)[..., 0]
    answer = np.take_along_axis(leader, stop, axis=2)[..., 0]
    loss = (share[:, :, -1] - kept).mean()
    return float(stop.mean()), float(loss), float((answer != leader[:, :, -1]).mean())


def fit_slope(pilot: Votes, prior: Prior = GENERIC) -> Slope:
    """Return the slope from the pilot's labels, shrunk to that of recorded generations.

    The gain in accuracy from 1 path to K0 - 1, against the gain in share as the path left out sees it:
    both unbiased. Without labels or with fewer than three paths it is the prior.
    """
    if pilot.correct is None or pilot.k < 3 or pilot.n < 2:
        return Slope(prior.slope, prior.slope_sd)
    right = plurality_at_k_items(pilot)
    gain = right[:, pilot.k - 2] - right[:, 0]
    share = left_out_share(pilot) - agreement_items(pilot)
    precision = (
        max(float(share.mean()), 0.0) ** 2 * pilot.n / (np.var(gain - prior.slope * share, ddof=1) + 1e-6)
    )
    raw = gain.mean() / max(float(share.mean()), 1e-6)
    posterior = precision + 1 / prior.slope_sd**2
    return Slope(
        float((precision * raw + prior.slope / prior.slope_sd**2) / posterior), float(posterior**-0.5)
    )


def left_out_share(pilot: Votes) -> FloatArray:
    """Return how often the plurality of all paths but one has the answer of that one [n], ties split."""
    assert pilot.answers is not None
    codes = dense_codes(pilot.answers)
    k = pilot.k
    others = np.stack([np.r_[:j, j + 1 : k] for j in range(k)])
    same = (codes[:, others] == codes[:, :, None]) & (codes[:, :, None] >= 0)
    last = Draws(codes[:, others], same.astype(np.float32)).tallies.credit
    assert last is not None
    return last[:, :, -1].mean(axis=1).astype(np.float64)


def _accuracy(pilot: Votes, cap: int, slope: Slope, share: FloatArray) -> tuple[float | None, float | None]:
    if pilot.correct is None:
        return None, None
    right = plurality_at_k_items(pilot)[:, -1]
    rise = float(share[cap] - share[min(pilot.k, cap)])
    ids, sizes = np.unique(pilot.cluster_ids, return_counts=True)
    sums = np.bincount(pilot.cluster_ids, right - right.mean())
    # Two imagined clusters, one right and one wrong, keep a perfect pilot from claiming certainty.
    spread = (np.square(sums).sum() + 0.5 * np.square(sizes.mean())) / np.square(sizes.mean())
    groups = len(ids)
    variance = spread / (groups * max(groups - 1, 1)) + (slope.sd * rise) ** 2
    value = float(np.clip(right.mean() + slope.value * rise, 0, 1))
    return value, float(np.sqrt(variance))
