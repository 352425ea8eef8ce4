"""Plurality of answers from recorded paths, averaged exactly over all subsets of paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, reduce

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from keff.records import frozen
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import answer_runs, mean_of_items, one_of_each, vote_patterns


def win_chance(own: IntArray, others: IntArray, k: int) -> FloatArray:
    """Return the split-credit chance [T, k] that an answer with ``own`` [T] votes wins among 1..k drawn of k.

    ``others`` [T, r] are the votes of the other answers, largest first; the rest abstained. Ties are split.
    """
    rival = others.max(axis=1, initial=0)
    ways = _by_votes(own, rival, k, subsets_above)
    # It wins with t votes: draws of t of them, and of all others without one that has more.
    for rows, _, won in _levels(others, own, k, _ties_at, drawn=True):
        ways[rows] += won
    return ways[:, 1:] / binomials(k)[k, 1:]


def leader_votes(size: IntArray, k: int) -> FloatArray:
    """Return the expected votes of the most frequent answer among 0..k drawn of k paths [n, k + 1].

    ``size`` [n, r] are the votes of the answers, largest first; the rest abstained. It is the sum over t of
    the chance that some answer has more than t votes; from the second's votes on only the first can.
    """
    total = binomials(k)[k]
    second = size[:, 1:].max(axis=1, initial=0)
    height = _by_votes(size[:, 0], second, k, _summed_above) / total
    # Where only the first has more than t votes, that is counted above.
    for rows, levels, none in _levels(size, second, k, _at_most, drawn=False):
        height[rows] += levels[:, None] - none / total
    return height


# Of the votes [T, r] of some answers, a number of votes and k, polynomials [d, T] by the paths drawn of them.
Spread = Callable[[IntArray, int, int], FloatArray]


def _levels(
    size: IntArray, most: IntArray, k: int, spread: Spread, *, drawn: bool
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield rows [m], how many vote counts each has [m], and their sum by paths drawn [m, k + 1].

    A level is a number of votes t = 1..``most`` [n] that some of the answers ``size`` [n, r], largest first,
    have or exceed. It is the ``spread`` of these times any draw of the rest of k paths; where ``drawn``,
    times t of the ``most`` votes, which another answer has. Levels at which the same answers have the votes
    are summed before they meet the rest, which is most of the work.
    """
    width, step = size.shape[1], max(1, SUM_CELLS // (k + 1))
    for low, high in _classes(width):
        bottom = size[:, high] if high < width else np.zeros_like(most)
        top = np.minimum(size[:, low - 1], most)
        several = np.flatnonzero(top > bottom)
        for rows in (several[start : start + step] for start in range(0, several.size, step)):
            big, own, least, last = size[rows, :high], most[rows], bottom[rows], top[rows]
            first, kind = distinct_rows(big, k)
            sums = np.zeros((rows.size, k + 1))
            for t in range(int(least.min()) + 1, int(last.max()) + 1):
                here = np.flatnonzero((least < t) & (t <= last))
                kinds, back = np.unique(kind[here], return_inverse=True)
                shift = t if drawn else 0
                ways = _by_degree(spread, big[first[kinds]], t, k)[back, : k + 1 - shift]
                if drawn:
                    ways *= binomials(k)[own[here], t, None]
                sums[here, shift : shift + ways.shape[1]] += ways
            yield rows, last - least, _times_free_draws(sums, k - big.sum(axis=1) - (own if drawn else 0))


def subsets_above(own: int, k: int) -> FloatArray:
    """Return the d-subsets of k paths with more than t of ``own`` votes, by t and d [own + 1, k + 1]."""
    table, rest = binomials(k), k - own
    exactly = np.zeros((own + 2, k + 1))
    for t in range(1, own + 1):
        exactly[t, t : t + rest + 1] = table[own, t] * table[rest, : rest + 1]
    return np.cumsum(exactly[:0:-1], axis=0)[::-1]


def _summed_above(own: int, k: int) -> FloatArray:
    return np.cumsum(subsets_above(own, k)[::-1], axis=0)[::-1]


def _by_votes(own: IntArray, floor: IntArray, k: int, table: Callable[[int, int], FloatArray]) -> FloatArray:
    """Return row ``floor`` of the ``table`` for each answer's votes ``own`` [T, k + 1]; 0 beyond its rows."""
    out = np.zeros((own.size, k + 1))
    for votes in sorted(set(own.tolist())):
        rows = np.flatnonzero((own == votes) & (floor < votes))
        if rows.size:
            out[rows] = table(votes, k)[floor[rows]]
    return out


def _classes(most: int) -> list[tuple[int, int]]:
    """Split 1..most into ranges that are computed together: 1, 2, 3, ..., 7, 8-15, 16-31, ..."""
    edges: list[tuple[int, int]] = []
    while (low := edges[-1][1] + 1 if edges else 1) <= most:
        edges.append((low, low if low < 8 else 2 * low - 1))
    return edges


def _ties_at(big: IntArray, t: int, k: int) -> FloatArray:
    """Return by degree [d, T] the tie weights of draws from ``big`` [T, r] votes with no answer above t.

    A draw with u answers exactly at t counts 1/(u+1), as the integral of y^u over [0, 1].
    """
    if t == 1:  # the degree itself counts the ties
        ways = _product([np.stack([np.ones(len(big)), votes]) for votes in big.T], k)
        return ways / np.arange(1, len(ways) + 1)[:, None]
    y, weights = unit_quadrature(big.shape[1] // 2 + 1)
    factors = [np.repeat(_terms(votes, t, k)[:, None], y.size, axis=1) for votes in big.T]
    for factor in factors:
        factor[t] *= y[:, None]
    return np.tensordot(weights, _product(factors, k), (0, 1))


def _at_most(big: IntArray, t: int, k: int) -> FloatArray:
    """Return by degree [d, T] the number of draws from ``big`` [T, r] votes with no answer above t."""
    return _product([_terms(votes, t - 1, k) for votes in big.T], k)


def _terms(votes: IntArray, most: int, k: int) -> FloatArray:
    """Return the generating polynomials [most + 1, T] of at most so many drawn of ``votes`` [T] paths."""
    return binomials(k).T[: most + 1].take(votes, axis=1)


def _times_free_draws(ways: FloatArray, small: IntArray) -> FloatArray:
    """Multiply polynomials [m, k + 1] by those of free draws from ``small`` [m] paths, cut at degree k."""
    k, out = ways.shape[1] - 1, np.empty_like(ways)
    for paths in sorted(set(small.tolist())):
        rows = np.flatnonzero(small == paths)
        padded = np.concatenate([np.zeros(others := k - paths), binomials(k)[paths]])
        out[rows] = ways[rows, : others + 1] @ np.ascontiguousarray(sliding_window_view(padded, k + 1)[::-1])
    return out


def _by_degree(spread: Spread, big: IntArray, t: int, k: int) -> FloatArray:
    """Return the coefficients of ``spread`` for every case by degree [T, d], computed in blocks."""
    most = min(k, t * big.shape[1])
    step = max(1, BLOCK_CELLS // ((most + 1) * (big.shape[1] // 2 + 1)))
    out = np.zeros((len(big), most + 1))
    for start in range(0, len(big), step):
        ways = spread(big[start : start + step], t, k)
        out[start : start + step, : len(ways)] = ways.T
    return out


# So many coefficients of sums at a time, so that memory does not grow with the record.
SUM_CELLS = 2**22

# Coefficients of polynomials that are multiplied at a time: some megabytes.
BLOCK_CELLS = 2**18


def distinct_rows(rows: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Return the indices of distinct rows, and the distinct row of each of ``rows`` [m, r] with entries 0..k.

    Rows too wide to be written as one number are taken to differ.
    """
    width = rows.shape[1]
    # One number of 64 bits, sign and rounding of the logarithm apart.
    if width * np.log2(k + 1) > 62:
        return np.arange(len(rows)), np.arange(len(rows))
    # The first entry leads: cases side by side then leave about as many paths to the rest.
    number = rows @ (k + 1) ** np.arange(width, dtype=np.int64)[::-1]
    _, first, back = np.unique(number, return_index=True, return_inverse=True)
    return first.astype(np.int64), back.astype(np.int64)


def _product(factors: Iterable[FloatArray], k: int) -> FloatArray:
    """Multiply polynomials [f, ..., T], cut at degree k."""
    return reduce(lambda ways, factor: _times(ways, factor, k), factors)


def _times(ways: FloatArray, factor: FloatArray, k: int) -> FloatArray:
    """Multiply polynomials [d, ..., T] by polynomials [f, ..., T], cut at degree k.

    The cases stand last, side by side, so that the products of two degrees are one pass over them.
    """
    if len(factor) > len(ways):
        ways, factor = factor, ways
    least = len(factor) - 1
    size, shape = min(len(ways) + least, k + 1), np.broadcast_shapes(ways.shape[1:], factor.shape[1:])
    padded = np.zeros((least + size, *shape))
    padded[least : least + len(ways)] = ways[:size]
    # Degree d of the product is made of degrees d - least to d, which stand side by side.
    windows = sliding_window_view(padded, len(factor), axis=0)
    return np.einsum("d...e,e...->d...", windows, factor[::-1])


@lru_cache(maxsize=512)
def unit_quadrature(order: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1].

    Golub and Welsch (1969): eigenvalues and first components of the polynomials' recurrence. numpy has it in
    a package whose import takes a fiftieth of a command's start.
    """
    k = np.arange(1, order)
    beside = np.diag(k / np.sqrt(4.0 * k * k - 1), 1)
    nodes, vectors = np.linalg.eigh(beside + beside.T)
    return (nodes + 1) / 2, vectors[0] ** 2


@lru_cache(maxsize=8)
def binomials(k: int) -> FloatArray:
    """Return Pascal's triangle [k+1, k+1]: entry [m, s] is m over s."""
    table = np.zeros((k + 1, k + 1))
    table[:, 0] = 1.0
    for m in range(1, k + 1):
        table[m, 1:] = table[m - 1, 1:] + table[m - 1, :-1]
    table.setflags(write=False)
    return table


# Beyond this many paths the binomial coefficients leave the range of a double.
MOST_PATHS = 1000


def plurality_items(votes: Votes, k: int) -> FloatArray:
    """Return each item's plurality accuracy at ``k`` paths [n]."""
    return plurality_at_k_patterns(votes)[:, k - 1][vote_patterns(votes).back]


@lru_cache(maxsize=4)
def plurality_of_all(votes: Votes) -> FloatArray:
    """Return each item's plurality accuracy at all its K paths [n].

    Ties and answers that are right in part count as in ``plurality_at_k_patterns``.
    """
    item, length, right, voting = answer_runs(votes.answered(), votes.scored())
    size = np.where(voting, length, 0)
    top = np.zeros(votes.n, np.int64)
    np.maximum.at(top, item, size)
    leads = voting & (size == top[item])
    credit = np.bincount(item, np.where(leads, right / length, 0.0), votes.n)
    return credit / np.maximum(np.bincount(item, leads, votes.n), 1)


@lru_cache(maxsize=2)
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


def flip_patterns(votes: Votes) -> FloatArray:
    """Return P(plurality of k of its paths is no leader of all K) of each pattern [u, K].

    Label-free. At least the absolute difference of the accuracies at k and K. Where all paths abstain, none.
    """
    keys = _keys_of(votes)
    top = keys.size[:, 0]
    leaders = np.sum(keys.size == top[:, None], axis=1)
    item, column, chance = _wins(votes)
    item, chance = item[column == 0], chance[column == 0]
    flips = np.zeros((top.size, votes.k))
    flips[item] = 1.0 - leaders[item, None] * chance
    return np.clip(flips, 0.0, 1.0)


def flip(votes: Votes) -> FloatArray:
    """Return P(plurality of k paths differs from that of all K) for k = 1..K [K]; see ``flip_patterns``."""
    return mean_of_items(flip_patterns(votes), votes)


def share_patterns(votes: Votes) -> FloatArray:
    """Return the expected vote share of the plurality among k paths, k = 1..K, of each pattern [u, K].

    Label-free; the divisor is k, abstentions included.
    """
    return leader_votes(_keys_of(votes).size, votes.k)[:, 1:] / np.arange(1, votes.k + 1)


def plurality_share(votes: Votes) -> FloatArray:
    """Return the expected plurality share at 1..K paths [K]; see ``share_patterns``."""
    return mean_of_items(share_patterns(votes), votes)


@frozen
class _Keys:
    """Distinct answers of each item: ``size`` [n, r] votes, falling, padded with 0; ``right`` [n, r]."""

    size: IntArray
    right: FloatArray


@lru_cache(maxsize=4)
def _keys_of(votes: Votes) -> _Keys:
    """Return the distinct answers of each pattern; cached for the last votes."""
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
    """Return win chances [m, k] of each pattern's first answer and of its right answers.

    With the pattern [m] and the place [m] of each. What leads is mostly right, so both are found together.
    """
    keys = _keys_of(votes)
    wanted = keys.right > 0
    wanted[:, 0] |= keys.size[:, 0] > 0
    item, column = np.nonzero(wanted)
    return item, column, _win_chance_of(keys, item, keys.size[item, column], votes.k)


def _win_chance_of(keys: _Keys, item: IntArray, own: IntArray, k: int) -> FloatArray:
    """Return the win chance [m, k] of an answer with ``own`` votes in its item.

    Equal cases are done once.
    """
    first, back = distinct_rows(np.column_stack([own, keys.size[item]]), k)
    own, others = own[first], keys.size[item[first]]
    others[np.arange(own.size), np.argmax(others == own[:, None], axis=1)] = 0
    return win_chance(own, -np.sort(-others, axis=1), k)[back]
