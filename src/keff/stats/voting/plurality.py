"""Plurality of answers from recorded paths, averaged exactly over all subsets of the paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial, reduce

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from keff.records import frozen
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import alike, answer_runs, mean_of_items, one_of_each


def win_chance(own: IntArray, others: IntArray, k: int) -> FloatArray:
    """Return the chance [T, k] that an answer with ``own`` [T] votes wins among 1..k drawn of k paths.

    ``others`` [T, r] are the votes of the other answers, largest first; the rest abstained. Ties are split.
    """
    rival = others.max(axis=1, initial=0)
    ways = _by_votes(own, rival, k, above)
    for t in range(1, int(np.minimum(own, rival).max(initial=0)) + 1):
        _add_cases(ways[:, t:], own, np.where((own >= t)[:, None], others, 0), t, partial(_won_with, t, k), k)
    return ways[:, 1:] / binomials(k)[k, 1:]


def leader_votes(size: IntArray, k: int) -> FloatArray:
    """Return the mean votes of the most frequent answer among 0..k drawn of k paths [n, k + 1].

    ``size`` [n, r] are the votes of the answers, largest first; the rest abstained. It is the sum over t of
    the chance that some answer has more than t votes; from the second's votes on only the first can.
    """
    total = binomials(k)[k]
    second = size[:, 1:].max(axis=1, initial=0)
    height = _by_votes(size[:, 0], second, k, _summed_above) / total
    nobody = np.zeros(len(size), np.int64)
    for t in range(int(second.max(initial=0))):
        # Where only the first has more than t votes, that is counted above.
        several = np.where((second > t)[:, None], size, 0)
        _add_cases(height, nobody, several, t + 1, partial(_above_for_some, t, k), k)
    return height


# Of cases of few votes and of many [T], [T, r], what they add to sums [T, degrees].
Term = Callable[[IntArray, IntArray], FloatArray]


def _add_cases(sums: FloatArray, own: IntArray, others: IntArray, least: int, term: Term, k: int) -> None:
    """Add to each row of the sums the term of its answers in ``others`` [n, r] with ``least`` votes or more.

    The term is given all paths that are neither theirs nor ``own`` [n], and theirs. Equal cases are done
    once.
    """
    count = np.sum(others >= least, axis=1)
    for low, high in _classes(int(count.max(initial=0))):
        rows = np.flatnonzero((count >= low) & (count <= high))
        big = np.where(others[rows, :high] >= least, others[rows, :high], 0)
        small = k - own[rows] - big.sum(axis=1)
        first, kind = once(np.column_stack([small, big]), k)
        values = term(small[first], big[first])
        for start in range(0, rows.size, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            sums[rows[part]] += values[kind[part]]


def _won_with(t: int, k: int, small: IntArray, big: IntArray) -> FloatArray:
    """Return by degree - t the weight of draws that the remaining answer wins with t votes."""
    own = k - small - big.sum(axis=1)
    rest = _by_degree(_ties_at_one if t == 1 else _ties_at, small, big, t, k)[:, : k + 1 - t]
    rest *= binomials(k)[own, t][:, None]
    return rest


def _above_for_some(t: int, k: int, small: IntArray, big: IntArray) -> FloatArray:
    """Return by degree the chance that some answer has more than t votes."""
    return 1.0 - _by_degree(_at_most, small, big, t, k) / binomials(k)[k]


def above(own: int, k: int) -> FloatArray:
    """Return by t and d [own + 1, k + 1] the draws of d of k paths with more than t of ``own`` votes."""
    table, rest = binomials(k), k - own
    exactly = np.zeros((own + 2, k + 1))
    for t in range(1, own + 1):
        exactly[t, t : t + rest + 1] = table[own, t] * table[rest, : rest + 1]
    return np.cumsum(exactly[:0:-1], axis=0)[::-1]


def _summed_above(own: int, k: int) -> FloatArray:
    return np.cumsum(above(own, k)[::-1], axis=0)[::-1]


def _by_votes(own: IntArray, floor: IntArray, k: int, table: Callable[[int, int], FloatArray]) -> FloatArray:
    """Return row ``floor`` of the ``table`` of each answer's votes ``own`` [T, k + 1]; 0 beyond its rows."""
    out = np.zeros((own.size, k + 1))
    for votes in sorted(set(own.tolist())):
        rows = np.flatnonzero((own == votes) & (floor < votes))
        if rows.size:
            out[rows] = table(votes, k)[floor[rows]]
    return out


def _classes(most: int) -> list[tuple[int, int]]:
    """Split 1..most into ranges of like cost: 1, 2, 3, ..., 7, 8-15, 16-31, ..."""
    edges: list[tuple[int, int]] = []
    while (low := edges[-1][1] + 1 if edges else 1) <= most:
        edges.append((low, low if low < 8 else 2 * low - 1))
    return edges


def _ties_at(small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """Return by degree [k+1, T] the weight of draws of the rest in which nobody exceeds t.

    Of the rest, ``big`` [T, r] are the votes of answers with t or more, ``small`` [T] all other paths. A draw
    with u answers exactly at t counts 1/(u+1), as the integral of y^u over [0, 1].
    """
    y, weights = _unit_quadrature(big.shape[1] // 2 + 1)
    factors = [np.repeat(_terms(votes, t, k)[:, None], y.size, axis=1) for votes in big.T]
    for factor in factors:
        factor[t] *= y[:, None]
    return _with_any(np.tensordot(weights, _product(factors, k), (0, 1)), small, k)


def _ties_at_one(small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """As ``_ties_at`` for t = 1, where the degree itself counts the ties and the small rest abstained."""
    ways = _product([np.stack([np.ones(small.size), votes]) for votes in big.T], k)
    ways /= np.arange(t, t + len(ways))[:, None]
    return _with_any(ways, small, k)


def _at_most(small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """Return by degree [k+1, T] the number of subsets in which no answer has more than t votes.

    ``big`` [T, r] are the votes of answers with more than t, ``small`` [T] all other paths.
    """
    return _with_any(_product([_terms(votes, t, k) for votes in big.T], k), small, k)


def _with_any(ways: FloatArray, small: IntArray, k: int) -> FloatArray:
    """Multiply polynomials [d, T] by those of draws of any of ``small`` [T] paths, cut at degree k."""
    return _times(ways, _terms(small, int(small.max(initial=0)), k), k)


def _terms(votes: IntArray, most: int, k: int) -> FloatArray:
    """Return the polynomials [most + 1, T] of draws of at most so many of ``votes`` [T] paths."""
    return binomials(k).T[: most + 1].take(votes, axis=1)


Spread = Callable[[IntArray, IntArray, int, int], FloatArray]


def _by_degree(spread: Spread, small: IntArray, big: IntArray, t: int, k: int) -> FloatArray:
    """Return [T, k+1] what ``spread`` says of every case, some of them at a time."""
    step = max(1, BLOCK_CELLS // ((k + 1) * (big.shape[1] // 2 + 1)))
    out = np.zeros((small.size, k + 1))
    for start in range(0, small.size, step):
        rows = slice(start, start + step)
        ways = spread(small[rows], big[rows], t, k)
        out[rows, : len(ways)] = ways.T
    return out


# So many rows of sums are added to at a time, so that memory does not grow with the record.
ROWS_AT_ONCE = 2048

# Coefficients of polynomials that are multiplied at a time: some megabytes.
BLOCK_CELLS = 2**18


def once(rows: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Return a row of each kind, and the kind of each of ``rows`` [m, r], whose entries are 0..k.

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
    """Multiply one or more polynomials [f, ..., T], cut at degree k."""
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
def _unit_quadrature(order: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


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
    """Return each pattern's chance that the plurality of k of its paths is no leader of all K, [u, K].

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
    """Return each pattern's expected share of k paths that hold their plurality, for k = 1..K [u, K].

    Label-free; the divisor is k, abstentions included.
    """
    return leader_votes(_keys_of(votes).size, votes.k)[:, 1:] / np.arange(1, votes.k + 1)


def plurality_share(votes: Votes) -> FloatArray:
    """Return the expected plurality share at 1..K paths [K]; see ``share_patterns``."""
    return mean_of_items(share_patterns(votes), votes)


@frozen
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
