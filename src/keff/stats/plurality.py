"""Plurality of answers from recorded paths, averaged exactly over all subsets of the paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from keff.stats.alike import alike, mean_of_items, one_of_each
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
    rows = _keys_of(votes).size
    height = np.zeros((rows.shape[0], votes.k + 1))
    total = _binomials(votes.k)[votes.k]
    for t in range(int(rows.max(initial=0))):
        tall = rows[:, 0] > t
        height[tall] += 1.0 - _all_at_most(rows[tall], t, votes.k) / total
    return height[:, 1:] / np.arange(1, votes.k + 1)


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
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, axis=1)
    scores = np.zeros((n, k)) if votes.correct is None else np.take_along_axis(votes.correct, order, axis=1)
    starts = np.ones((n, k), bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.flatnonzero(starts.ravel())
    length = np.diff(np.append(first, n * k))
    right = np.add.reduceat(scores.ravel().astype(np.float64), first) / length
    kept = ordered.ravel()[first] >= 0
    item, length, right = first[kept] // k, length[kept], right[kept]
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
    cases = np.column_stack([own, keys.size[item]])
    unique, back = np.unique(cases, axis=0, return_inverse=True)
    own, others = unique[:, 0], unique[:, 1:].copy()
    place = np.argmax(others == own[:, None], axis=1)
    others[np.arange(own.size), place] = 0
    others = -np.sort(-others, axis=1)
    return _win_chance(own, others, k)[back.ravel()]


def _win_chance(own: IntArray, others: IntArray, k: int) -> FloatArray:
    """Return the chance [T, k] that an answer with ``own`` [T] votes wins among 1..k drawn of k paths.

    ``others`` [T, r] are the votes of the other answers, largest first; the rest abstained.
    """
    binomials = _binomials(k)
    ways = np.zeros((own.size, k + 1))
    for t in range(1, int(own.max(initial=0)) + 1):
        rivals = np.sum(others >= t, axis=1)
        for low, high in _classes(int(rivals.max(initial=0))):
            rows = np.flatnonzero((own >= t) & (rivals >= low) & (rivals <= high))
            if rows.size == 0:
                continue
            big = np.where(others[rows, :high] >= t, others[rows, :high], 0)
            small = k - own[rows] - big.sum(axis=1)
            rest = _by_degree(_ties_at_one if t == 1 else _ties_at, small, big, t, k)
            ways[rows, t:] += binomials[own[rows], t][:, None] * rest[:, : k + 1 - t]
    return ways[:, 1:] / binomials[k, 1:]


def _classes(most: int) -> list[tuple[int, int]]:
    """Split 0..most into ranges of like cost: 0, 1, 2-3, 4-7, ..."""
    edges = [(0, 0)]
    while edges[-1][1] < most:
        low = edges[-1][1] + 1
        edges.append((low, 2 * low - 1))
    return edges


def _all_at_most(size: IntArray, t: int, k: int) -> FloatArray:
    """Return by degree [T, k+1] the number of subsets in which no answer has more than t votes."""
    count, out = np.sum(size > t, axis=1), np.empty((len(size), k + 1))
    for low, high in _classes(int(count.max(initial=0))):
        rows = np.flatnonzero((count >= low) & (count <= high))
        big = np.where(size[rows, :high] > t, size[rows, :high], 0)
        out[rows] = _by_degree(_at_most, k - big.sum(axis=1), big, t, k)
    return out


def _ties_at(small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """Return by degree [k+1, T] the weight of draws of the rest in which nobody exceeds t.

    Of the rest, ``big`` [T, r] are the votes of answers with t or more, ``small`` [T] all other paths. A draw
    with u answers exactly at t counts 1/(u+1), as the integral of y^u over [0, 1].
    """
    binomials = _binomials(k)
    y, weights = _unit_quadrature(big.shape[1] // 2 + 1)
    ways = np.repeat(binomials[small].T[:, None, :], y.size, axis=1)
    for votes in big.T:
        below = _times(ways, binomials[votes, :t].T)
        below[t:] += ways[: k + 1 - t] * (y[:, None] * binomials[votes, t])
        ways = below
    return np.einsum("g,dgt->dt", weights, ways)


def _ties_at_one(small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """As ``_ties_at`` for t = 1, where the degree itself counts the ties and the small rest abstained."""
    binomials = _binomials(k)
    ways = np.zeros((k + 1, 1, small.size))
    ways[0] = 1.0
    for votes in big.T:
        ways[t:] += votes * ways[:-t]
    ways /= np.arange(1, k + 2)[:, None, None]
    return _times(ways, binomials[small, : int(small.max()) + 1].T)[:, 0]


def _at_most(small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """Return by degree [k+1, T] the number of subsets in which no answer has more than t votes.

    ``big`` [T, r] are the votes of answers with more than t, ``small`` [T] all other paths.
    """
    binomials = _binomials(k)
    ways = binomials[small].T[:, None, :]
    for votes in big.T:
        ways = _times(ways, binomials[votes, : t + 1].T)
    return ways[:, 0]


Spread = Callable[[IntArray, IntArray, int, int], FloatArray]


def _by_degree(spread: Spread, small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """Return [T, k+1] what ``spread`` says of every case; equal ones are done once, some at a time."""
    first, back = _once(np.column_stack([small, big]), k)
    step = max(1, BLOCK_CELLS // ((k + 1) * (big.shape[1] // 2 + 1)))
    out = np.empty((first.size, k + 1))
    for start in range(0, first.size, step):
        rows = first[start : start + step]
        out[start : start + step] = spread(small[rows], big[rows], t, k).T
    return out[back]


BLOCK_CELLS = 2**16
"""Coefficients of polynomials that are multiplied at a time: as many as stay in the cache."""


def _once(rows: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Return a row of each kind, and the kind of each of ``rows`` [m, r], whose entries are 0..k.

    Rows too wide to be written as one number are taken to differ.
    """
    width = rows.shape[1]
    if width * np.log2(k + 1) > 62:
        return np.arange(len(rows)), np.arange(len(rows))
    number = rows @ (k + 1) ** np.arange(width, dtype=np.int64)
    _, first, back = np.unique(number, return_index=True, return_inverse=True)
    return first.astype(np.int64), back.astype(np.int64)


def _times(ways: FloatArray, factor: FloatArray) -> FloatArray:
    """Multiply polynomials [k+1, g, T] by polynomials [f, T], cut at degree k.

    The cases stand last, side by side, so that each step is one pass over them.
    """
    out, part = ways * factor[0], np.empty_like(ways)
    for degree in range(1, factor.shape[0]):
        np.multiply(ways[:-degree], factor[degree], out=part[degree:])
        out[degree:] += part[degree:]
    return out


@lru_cache(maxsize=512)
def _unit_quadrature(order: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=8)
def _binomials(k: int) -> FloatArray:
    """Return Pascal's triangle [k+1, k+1]: entry [m, s] is m over s."""
    table = np.zeros((k + 1, k + 1))
    table[:, 0] = 1.0
    for m in range(1, k + 1):
        table[m, 1:] = table[m - 1, 1:] + table[m - 1, :-1]
    table.setflags(write=False)
    return table
