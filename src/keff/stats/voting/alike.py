"""Vote patterns: items whose votes are the same up to the order of their paths.

The pattern of an item is how often it abstained and, of each of its answers, how many paths hold it and how
many of them are right; where only correctness was recorded, how many paths are right. Records of a hundred
thousand questions show some hundred patterns, so whatever depends on an item through its pattern alone is
computed once per pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.records import Note, frozen
from keff.stats.resampling import MANY_ROWS
from keff.stats.votes import BoolArray, FloatArray, Int16Array, IntArray, Votes

# As in Votes: no answer could be read.
ABSTAINS = -1

# So many paths are sorted at a time, so that memory does not grow with the record.
BLOCK_CELLS = 2**19


def dense_codes(answers: IntArray | NDArray[np.int32]) -> Int16Array:
    """Renumber the answers of each item [n, K] to 0, 1, ... in order of first use; -1 stays."""
    out = np.empty(answers.shape, np.int16)
    k = answers.shape[1]
    place, step = np.arange(k, dtype=np.int64), max(1, BLOCK_CELLS // k)
    for start in range(0, len(answers), step):
        block = answers[start : start + step]
        order: NDArray[Any] = np.argsort(block, axis=1, kind="stable")
        ordered: NDArray[Any] = np.take_along_axis(block, order, axis=1)
        starts: BoolArray = np.diff(ordered, axis=1, prepend=ABSTAINS - 1) != 0
        # The stable order puts the first use of an answer first among its equals.
        used = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
        first: NDArray[Any] = np.empty_like(order)
        np.put_along_axis(first, order, np.take_along_axis(order, used, axis=1), axis=1)
        number: Int16Array = np.cumsum((first == place) & (block >= 0), axis=1, dtype=np.int16)
        found = np.take_along_axis(number, first, axis=1) - 1
        out[start : start + step] = np.where(block >= 0, found, ABSTAINS)
    return out


# With fewer items of each pattern than this, on average, it takes longer to draw counts than items.
FEW_ITEMS = 16


@frozen
class VotePatterns:
    """Vote patterns of n items: a representative of each [u], ``counts`` [u], and each item's pattern [n]."""

    first: IntArray
    counts: IntArray
    back: IntArray


@lru_cache(maxsize=4)
def vote_patterns(votes: Votes) -> VotePatterns:
    """Return the patterns of the items of votes; kept for the last few votes.

    A pattern is named by the sum of a random 64-bit number for each answer's (paths, right paths), so two
    share a name by chance only (below 1e-7 for a million of patterns).
    """
    k = votes.k
    codes = np.broadcast_to(np.int64(0), (votes.n, k)) if votes.answers is None else votes.answers
    # Sums of random numbers name bags of pairs: equal bags have equal sums, whatever their order.
    name_of = np.random.default_rng(0).integers(1, 2**63, (k + 1) * (k + 1), np.uint64)
    step, names = max(1, BLOCK_CELLS // k), np.empty(votes.n, np.uint64)
    for start in range(0, votes.n, step):
        rows = slice(start, start + step)
        names[rows] = _names(codes[rows], None if votes.correct is None else votes.correct[rows], name_of)
    kinds = np.unique(names)
    # Indices of np.unique's own would sort the places of all items, in five times the memory.
    back = np.searchsorted(kinds, names)
    del names
    first = np.empty(kinds.size, np.int64)
    first[back[::-1]] = np.arange(votes.n)[::-1]
    return VotePatterns(first, np.bincount(back), back)


def _names(codes: IntArray, correct: IntArray | None, name_of: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each row's pattern [n]."""
    k = codes.shape[1]
    item, length, right, voting = answer_runs(codes, correct)
    name = np.where(voting, name_of[length * (k + 1) + right], np.uint64(0))
    return np.add.reduceat(name, np.flatnonzero(np.diff(item, prepend=-1)))


def answer_runs(codes: IntArray, correct: IntArray | None) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    """Return each item's distinct answers [m]: row, votes, right paths, and whether it is an answer.

    And whether it votes: abstentions are one answer that does not. By row, in no order of votes.
    """
    n, k = codes.shape
    # Sorting answer and correctness as one number puts equal answers together and counts the right ones.
    kind = np.int32 if int(codes.max()) < 2**30 else np.int64
    packed = codes.astype(kind) * kind(2)
    if correct is not None:
        packed += correct.astype(kind)
    packed.sort(axis=1)
    ordered, right = packed >> 1, packed & 1
    starts = np.ones((n, k), bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=starts[:, 1:])
    first: IntArray = np.flatnonzero(starts.ravel()).astype(np.int64)
    length = np.diff(np.append(first, n * k))
    return first // k, length, np.add.reduceat(right.ravel(), first), ordered.ravel()[first] >= 0


def distinct_answers(codes: IntArray) -> IntArray:
    """Return how many different answers each item [n] has; abstentions are none."""
    item, _, _, voting = answer_runs(codes, None)
    return np.bincount(item[voting], minlength=len(codes)).astype(np.int64)


# From so many questions on it is said where something goes question by question.
LARGE = 20_000


def pattern_notes(votes: Votes) -> tuple[Note, ...]:
    """Return a note where a large record has nearly as many patterns as questions."""
    if votes.n < LARGE or 2 * (unlike := vote_patterns(votes).counts.size) < votes.n:
        return ()
    text = (
        f"{unlike:,} of {votes.n:,} questions differ in their votes, so keff estimates question by "
        "question, not by patterns of votes. The numbers are the same, and take longer"
    )
    return (Note("few_alike", text),)


@lru_cache(maxsize=1)
def one_of_each(votes: Votes) -> Votes:
    """Return the votes of one representative item per pattern [u], in the order of ``vote_patterns``.

    Kept for the last votes.
    """
    return votes.take(vote_patterns(votes).first)


def pooled_counts(codes: IntArray) -> IntArray:
    """Return the frequencies of answers over all of ``codes`` [n, K], zeros left out."""
    if int(codes.max(initial=-1)) > codes.size:
        return np.unique(codes[codes >= 0], return_counts=True)[1].astype(np.int64)
    counts = np.bincount(codes.ravel() + 1)[1:]
    return counts[counts > 0].astype(np.int64)


def mean_of_items(values: FloatArray, votes: Votes) -> FloatArray:
    """Return the mean over items [m] of ``values`` [u, m] given by pattern."""
    return vote_patterns(votes).counts @ values / votes.n


def resampled_counts(votes: Votes, replicates: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield pattern frequencies [u] of bootstrap resamples of whole clusters.

    Of many independent items the counts are drawn as multinomial ones, at a cost that does not depend on n;
    where patterns are many, drawing the items themselves takes less, and of large records only the items of
    rare patterns are drawn.
    """
    same, groups = vote_patterns(votes), votes.n_clusters
    apart = groups == votes.n >= MANY_ROWS
    if apart and groups >= LARGE:
        yield from _drawn_patterns(same.counts, replicates, rng)
        return
    if apart and FEW_ITEMS * same.counts.size > groups:
        for _ in range(replicates):
            drawn = rng.integers(0, groups, groups)
            # Nothing is out of bounds; not to look takes half the time.
            yield np.bincount(same.back.take(drawn, mode="wrap"), minlength=same.counts.size)
        return
    if groups >= MANY_ROWS and not apart:
        for _ in range(replicates):
            times = np.bincount(rng.integers(0, groups, groups), minlength=groups)
            yield _by_pattern(same, times[votes.cluster_ids])
        return
    chances = same.counts / groups if apart else np.full(groups, 1 / groups)
    for _ in range(replicates):
        drawn = rng.multinomial(groups, chances)
        yield drawn if apart else _by_pattern(same, drawn[votes.cluster_ids])


def _drawn_patterns(counts: IntArray, replicates: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield resampled frequencies [u]: multinomial for common patterns, item by item for rare ones."""
    frequent, n = np.flatnonzero(counts >= FEW_ITEMS), int(counts.sum())
    rare = np.repeat(np.flatnonzero(counts < FEW_ITEMS), counts[counts < FEW_ITEMS])
    chances = np.append(counts[frequent], rare.size) / n
    for _ in range(replicates):
        drawn = rng.multinomial(n, chances)
        items = rare.take(rng.integers(0, max(rare.size, 1), int(drawn[-1])), mode="wrap")
        times = np.bincount(items, minlength=counts.size)
        times[frequent] = drawn[:-1]
        yield times


def _by_pattern(same: VotePatterns, weights: IntArray) -> IntArray:
    return np.bincount(same.back, weights, same.first.size).astype(np.int64)
