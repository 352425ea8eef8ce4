"""Plurality of answers from recorded paths, averaged exactly over all subsets of the paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from keff.stats.alike import alike, answer_runs, mean_of_items, one_of_each
from keff.stats.subset_sums import leader_votes, once, win_chance
from keff.stats.votes import FloatArray, IntArray, Votes

MOST_PATHS = 1000
"""Beyond this many paths the binomial coefficients leave the range of a double."""


def plurality_at_k_items(votes: Votes) -> FloatArray:
    """Return each item's plurality accuracy at 1..K paths [n, K]; see ``plurality_at_k_patterns``."""
    return plurality_at_k_patterns(votes)[alike(votes).back]


def plurality_items(votes: Votes, k: int) -> FloatArray:
    """Return each item's plurality accuracy at ``k`` paths [n], without those at all other numbers."""
    return plurality_at_k_patterns(votes)[:, k - 1][alike(votes).back]


@lru_cache(maxsize=4)
def plurality_of_all(votes: Votes) -> FloatArray:
    """Return each item's accuracy by the plurality of all its K paths [n], without sums over subsets.

    Ties and answers that are right in part count as in ``plurality_at_k_patterns``.
    """
    item, length, right, voting = answer_runs(votes.answered(), votes.scored())
    size = np.where(voting, length, 0)
    top = np.zeros(votes.n, np.int64)
    np.maximum.at(top, item, size)
    leads = voting & (size == top[item])
    credit = np.bincount(item, np.where(leads, right / length, 0.0), votes.n)
    return credit / np.maximum(np.bincount(item, leads, votes.n), 1)


def plurality_at_k_patterns(votes: Votes) -> FloatArray:
    """Return the plurality accuracy at 1..K paths of each pattern [u, K], over all subsets of the K paths.

    The most frequent answer wins, ties are split evenly, abstentions never win, and a subset of nothing but
    abstentions is wrong. Where paths with one answer differ in correctness (given by a log), a plurality is
    as right as the drawn paths that hold its answer are on average. Exact: for each winning height t the
    generating function of the other answers, cut at t, with ties integrated by Gauss-Legendre quadrature of
    sufficient order. All terms are positive, so rounding stays near 1e-14. Unbiased for plurality@k when
    paths are exchangeable. The array is read-only and kept for the last few votes asked for. Raises
    ValueError without answers or gold labels, or above 1000 paths.
    """
    keys = _keys_of(votes)
    item, column, chance = _wins(votes)
    credit = np.zeros((len(keys.size), votes.k))
    np.add.at(credit, item, keys.right[item, column][:, None] * chance)
    credit = np.clip(credit, 0.0, 1.0)
    credit.setflags(write=False)
    return credit


def plurality_at_k(votes: Votes) -> FloatArray:
    """Return the plurality accuracy at 1..K paths [K]; see ``plurality_at_k_patterns``."""
    return mean_of_items(plurality_at_k_patterns(votes), votes)


def flip_items(votes: Votes) -> FloatArray:
    """Return each item's chance that the plurality of k of its paths is no leader of all K, [n, K].

    Label-free. At least the absolute difference of the accuracies at k and K. An item whose paths all
    abstain never flips.
    """
    return _flips(votes)[alike(votes).back]


def _flips(votes: Votes) -> FloatArray:
    keys = _keys_of(votes)
    top = keys.size[:, 0]
    leaders = np.sum(keys.size == top[:, None], axis=1)
    item, column, chance = _wins(votes)
    item, chance = item[column == 0], chance[column == 0]
    flips = np.zeros((top.size, votes.k))
    flips[item] = 1.0 - leaders[item, None] * chance
    return np.clip(flips, 0.0, 1.0)


def flip(votes: Votes) -> FloatArray:
    """Return P(plurality of k paths differs from that of all K) for k = 1..K [K]; see ``flip_items``."""
    return mean_of_items(_flips(votes), votes)


def plurality_share_items(votes: Votes) -> FloatArray:
    """Return each item's expected share of k paths that hold their plurality, for k = 1..K [n, K].

    Label-free; the divisor is k, abstentions included.
    """
    return _leader_shares(votes)[alike(votes).back]


def _leader_shares(votes: Votes) -> FloatArray:
    return leader_votes(_keys_of(votes).size, votes.k)[:, 1:] / np.arange(1, votes.k + 1)


def plurality_share(votes: Votes) -> FloatArray:
    """Return the expected plurality share at 1..K paths [K]; see ``plurality_share_items``."""
    return mean_of_items(_leader_shares(votes), votes)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Answers of each item: ``size`` [n, r] votes, largest first, padded with 0; ``right`` [n, r] in 0..1."""

    size: IntArray
    right: FloatArray


@lru_cache(maxsize=4)
def _keys_of(votes: Votes) -> _Keys:
    """Return the answers of each pattern; kept for the last few votes."""
    return _keys(one_of_each(votes))


def _keys(votes: Votes) -> _Keys:
    codes = votes.answered()
    n, k = codes.shape
    if k > MOST_PATHS:
        raise ValueError(f"exact plurality averages take at most {MOST_PATHS} paths, got {k}")
    item, length, right, voting = answer_runs(codes, votes.correct)
    item, length, right = item[voting], length[voting], (right / length)[voting]
    rank = np.lexsort((-length, item))
    item, length, right = item[rank], length[rank], right[rank]
    place: IntArray = np.asarray(np.arange(item.size) - np.searchsorted(item, item), np.int64)
    width = int(place.max(initial=0)) + 1
    size, share = np.zeros((n, width), np.int64), np.zeros((n, width))
    size[item, place], share[item, place] = length, right
    return _Keys(size, share)


@lru_cache(maxsize=2)
def _wins(votes: Votes) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the chance [m, k] that an answer wins, of the first answer and the right ones of each pattern.

    With the pattern [m] and the place [m] of each. What leads is mostly right, so both are found together.
    """
    keys = _keys_of(votes)
    wanted = keys.right > 0
    wanted[:, 0] |= keys.size[:, 0] > 0
    item, column = np.nonzero(wanted)
    return item, column, _win_chance_of(keys, item, keys.size[item, column], votes.k)


def _win_chance_of(keys: _Keys, item: IntArray, own: IntArray, k: int) -> FloatArray:
    """Return the chance [m, k] that an answer with ``own`` votes wins in its item.

    Equal cases are done once.
    """
    first, back = once(np.column_stack([own, keys.size[item]]), k)
    own, others = own[first], keys.size[item[first]]
    others[np.arange(own.size), np.argmax(others == own[:, None], axis=1)] = 0
    return win_chance(own, -np.sort(-others, axis=1), k)[back]
