"""What every rule does on every question: on simulated questions like the pilot's, or on recorded paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.analysis.recommend.rules import Rules
from keff.analysis.recommend.sums import Sums
from keff.stats.draws import Draws
from keff.stats.mixture import fit_weights, partition_log_law, simulate, vote_counts
from keff.stats.votes import FloatArray, IntArray, Votes

PSEUDO_ITEMS = 10
"""How many pilot questions the generic weights are worth."""

SEQUENCES = 6_000
"""Simulated questions, shared by all rules."""

ORDERS_IN_ALL = 20_000
"""Random orders of recorded paths, shared by all rules, when one is chosen by replay."""


QUESTIONS = 3_000
"""So many questions of a pilot are played at most: more of them would make no difference to a choice. From so
many on, each needs half the orders, or simulated questions like it."""


@dataclass(frozen=True)
class Played:
    """Expectations of C rules on n questions, each [n, C].

    ``share`` is the answer share that a rule loses against the vote at the cap, ``right`` the accuracy (None
    where it was not replayed with labels), ``differs`` how often the answers differ. ``leader`` [cap + 1] is
    the mean share of the plurality after 0..cap paths.
    """

    rules: Rules
    paths: FloatArray
    share: FloatArray
    differs: FloatArray
    right: FloatArray | None
    leader: FloatArray


ALL = slice(None)


@dataclass(frozen=True, slots=True)
class Summary:
    """What ``Played`` says of C rules, over questions: paths, share lost, other answers, accuracy lost."""

    paths: Sums
    share: Sums
    differs: Sums
    right: Sums | None

    @classmethod
    def of(cls, played: Played, clusters: IntArray, rows: slice | IntArray = ALL) -> Summary:
        """Add up how rules did on all questions, which are in ``clusters`` [n], or on some of them."""
        ids = clusters[rows]
        return cls(
            Sums.of(played.paths[rows], ids),
            Sums.of(played.share[rows], ids),
            Sums.of(played.differs[rows], ids),
            None if played.right is None else Sums.of(played.right[rows], ids),
        )

    def without(self, part: Summary) -> Summary:
        """Return the summary over all questions but those of a part."""
        right = None if self.right is None or part.right is None else self.right.without(part.right)
        return Summary(
            self.paths.without(part.paths),
            self.share.without(part.share),
            self.differs.without(part.differs),
            right,
        )


JUDGED = 20_000
"""So many recorded questions at most say what the rule keeps that was chosen: its 95% interval is then some
tenths of a point wide."""


def sampled(n: int, rng: np.random.Generator, most: int = QUESTIONS) -> IntArray | None:
    """Return the places of the questions to play; None for all of a pilot that is not large."""
    if n <= most:
        return None
    return np.sort(rng.choice(n, most, replace=False)).astype(np.int64)


def simulated(pilot: Votes, cap: int, weights: FloatArray, rng: np.random.Generator) -> Played:
    """Play the rules on questions like the pilot's.

    The answers of the pilot fit a mixture of partition laws: label-free. What is right is left open; labels
    played on simulated votes told no more about left-out records than the slope does.
    """
    counts, _ = vote_counts(pilot)
    mixture = fit_weights(partition_log_law(counts), PSEUDO_ITEMS * weights)
    least = 4 if pilot.n < QUESTIONS else 2
    repeats = max(least, SEQUENCES * 32 // (pilot.n * max(cap, 32)))
    new = simulate(pilot, mixture, (repeats, cap), rng)
    return _play(new.draws, new.share_of_leader())


def replayed(votes: Votes, draws: Draws) -> Played:
    """Play the rules on recorded paths, at least ``draws.cap`` of each question, in random orders.

    What the orders are off at the cap they are off alike for a rule that ends near it, so differences to the
    cap are taken order by order.
    """
    share = leader_worth(draws, vote_counts(votes)[0] / votes.k)
    return _play(draws, share, draws.tallies.credit)


def some_orders(draws: Draws, sample: IntArray | None = None) -> Draws:
    """Return as many of the orders as rules are chosen by: fewer than the one that is chosen is judged by.

    Of the questions at the places of a ``sample`` only, where there is one.
    """
    rows = slice(None) if sample is None else sample
    n = len(draws.codes[rows])
    count = max(ORDERS_IN_ALL // n, 16 if n < QUESTIONS else 8)
    if draws.correct is not None:
        _ = draws.tallies  # the rule that is chosen is judged by all orders, so they are counted once, here
    return draws.some(rows, count)


def leader_worth(draws: Draws, worth: FloatArray) -> FloatArray:
    """Return what the running leader is worth [n, R, cap + 1], by answer [n, A]; 0 for none."""
    n, width = worth.shape
    # The first column is that of no leader, -1.
    padded = np.zeros((n, width + 1))
    padded[:, 1:] = worth
    place: IntArray = np.arange(1, n * (width + 1), width + 1, dtype=np.int64)[:, None, None]
    return padded.ravel().take(place + draws.tallies.leader)


def _play(draws: Draws, share: FloatArray, right: NDArray[Any] | None = None) -> Played:
    """Stop every order where each rule does, and average over the orders of each question."""
    n, repeats, cap = draws.codes.shape
    rules, step = Rules(cap), max(1, PLAYED_AT_ONCE // repeats)
    blocks = [
        _averages(rules, draws, share, right, slice(start, start + step)) for start in range(0, n, step)
    ]
    paths, lost_share, differs, *rest = (np.concatenate(group) for group in zip(*blocks, strict=True))
    leader = np.asarray(share.mean(axis=(0, 1)), np.float64)
    return Played(rules, paths, lost_share, differs, rest[0] if rest else None, leader)


PLAYED_AT_ONCE = 2**11
"""Orders that every rule is played on at a time: the tables of some hundred rules stay small."""


def _averages(
    rules: Rules, draws: Draws, share: FloatArray, right: NDArray[Any] | None, rows: slice
) -> list[FloatArray]:
    """Return paths, share lost, how often answers differ, and accuracy lost, each [rows, C]."""
    seen, flat = draws.tallies, (-1, rules.cap + 1)
    leader, share = seen.leader[rows], share[rows]
    lost = [share[..., -1:] - share, leader != leader[..., -1:]]
    if right is not None:
        lost.append(right[rows, :, -1:] - right[rows])
    tables = [np.ascontiguousarray(values, np.float64).ravel() for values in lost]
    offset = np.arange(0, leader.size, rules.cap + 1)[:, None]
    sums: list[list[FloatArray]] = [[] for _ in range(1 + len(tables))]
    for stop in rules.stops(seen.v1[rows].reshape(flat), seen.v2[rows].reshape(flat)):
        cell = stop + offset
        for place, values in enumerate([stop, *(table.take(cell) for table in tables)]):
            by_order = values.reshape(*leader.shape[:2], -1)
            sums[place].append(np.einsum("qoc->qc", by_order) / by_order.shape[1])
    return [np.concatenate(group, axis=1) for group in sums]
