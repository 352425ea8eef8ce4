"""The cluster bootstrap by weight matrix: totals of resampled units."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keff.stats.votes import FloatArray, IntArray, Kind, Votes

# Weights of one block: they stay in a processor's cache from the draw to the matrix product.
BLOCK_CELLS = 100_000
# Resamples of a block at least: with fewer, a product reads the rows once for each of them.
FEWEST_AT_ONCE = 16

# Whole numbers up to here are exact in single precision, at half the memory.
EXACT_IN_SINGLE = 2**24
# From so many rows on, equal ones are looked for.
MANY_ROWS = 1000

# From so many rows on totals are normal, but for skewed ones. Fewer rows are resampled in no time.
NORMAL_ROWS = 5_000

# The normal limit is taken for what is less skewed, which moves a 95% limit by less than 2000 resamples leave
# unknown.
LEAST_SKEWNESS = 1 / 20

# A total that varies by less than this part of itself need not be normal, such as the number of items.
STEADY = 1e-3

# Counts of more kinds of rows than this take longer to draw than their normal limit.
MANY_KINDS = 200


def resampled_totals(
    units: NDArray[Any], replicates: int, rng: np.random.Generator, counts: IntArray | None = None
) -> FloatArray:
    """Return column totals [m, B] of ``units`` [G, m] over B bootstrap resamples of its G rows.

    Each resample weights the rows by Multinomial(G; 1/G, ..., 1/G), drawn as G uniform rows and counted;
    the totals are one matrix product a block. Rows are clusters that were summed beforehand, so whatever
    belongs to a cluster stays together. Integer units up to 2^24 / G go through single precision, exactly.
    Of many rows with few different ones the counts of these are drawn, at a cost that does not depend on G;
    of 5,000 rows with many different ones the totals come from their normal limit, but for rows that weigh
    much. Where ``counts`` [G] are given, they say how often each row stands there.
    """
    if counts is None and len(units) >= MANY_ROWS:
        first, times = _distinct_rows(units)
        if 2 * first.size < len(units):
            units, counts = units[first], times
        elif len(units) >= NORMAL_ROWS:
            counts = np.ones(len(units), np.int64)
    if counts is None:
        return _totals_of_rows(units, replicates, rng)
    many = counts.size > MANY_KINDS and counts.sum() >= NORMAL_ROWS
    return (_normal_totals if many else _totals_of_kinds)(units, counts, replicates, rng)


def _totals_of_rows(units: NDArray[Any], replicates: int, rng: np.random.Generator) -> FloatArray:
    """Return totals over resamples of the rows [G, m], drawn one by one."""
    g = len(units)
    fits = units.dtype.kind in "iub" and g * int(np.abs(units).max(initial=0)) < EXACT_IN_SINGLE
    columns = np.ascontiguousarray(units, np.float32 if fits else np.float64)
    out = np.empty((units.shape[1], replicates))
    block = min(max(FEWEST_AT_ONCE, BLOCK_CELLS // g), replicates)
    offsets = np.arange(block)[:, None] * g
    weights = np.empty((block, g), columns.dtype)
    for start in range(0, replicates, block):
        rows = min(block, replicates - start)
        drawn = rng.integers(0, g, (rows, g))
        drawn += offsets[:rows]
        weights[:rows] = np.bincount(drawn.ravel(), minlength=rows * g).reshape(rows, g)
        out[:, start : start + rows] = (weights[:rows] @ columns).T
    return out


def _totals_of_kinds(
    kinds: NDArray[Any], counts: IntArray, replicates: int, rng: np.random.Generator
) -> FloatArray:
    """Return totals over resamples of ``counts`` [u] rows of each kind [u, m]."""
    g = int(counts.sum())
    values, chances = kinds.astype(np.float64), counts / g
    out = np.empty((kinds.shape[1], replicates))
    # The same draws whatever the block: the generator goes through the replicates one after the other.
    block = max(1, KIND_CELLS // counts.size)
    for start in range(0, replicates, block):
        drawn = rng.multinomial(g, chances, min(block, replicates - start))
        out[:, start : start + block] = (drawn.astype(np.float64) @ values).T
    return out


# So many counts of kinds are drawn at a time, so that memory does not grow with the record.
KIND_CELLS = 2**20


def _normal_totals(
    units: NDArray[Any], counts: IntArray, replicates: int, rng: np.random.Generator
) -> FloatArray:
    """Draw totals [m, B] of ``counts`` [u] rows of each kind from their central limit.

    It has the covariance that resampling gives. Skewness is at most the root of a row's largest share of the
    variance, so rows of a larger share are counted, and the limit is that of the others.
    """
    blocks = [slice(start, start + NORMAL_ROWS) for start in range(0, len(units), NORMAL_ROWS)]
    totals = counts @ units
    mean = totals / counts.sum()
    variance = sum(counts[rows] @ np.square(units[rows] - mean) for rows in blocks)
    most = np.where(variance < (STEADY * totals) ** 2, np.inf, LEAST_SKEWNESS**2 * variance)
    alone = np.concatenate([np.any(np.square(units[rows] - mean) > most, axis=1) for rows in blocks])
    others = np.where(alone, 0, counts)
    left = int(others.sum())
    mean = others @ units / max(left, 1)
    covariance = np.zeros((mean.size, mean.size))
    for rows in blocks:
        apart = units[rows] - mean
        covariance += (apart * others[rows, None]).T @ apart
    values, vectors = np.linalg.eigh(covariance / max(left, 1))
    spread = vectors * np.sqrt(np.maximum(values, 0.0))
    # The others are one more kind; the last column counts them.
    kinds = np.vstack([units[alone], mean])
    kinds = np.column_stack([kinds, np.arange(len(kinds)) == len(kinds) - 1])
    *drawn, times = _totals_of_kinds(kinds, np.append(counts[alone], left), replicates, rng)
    return np.array(drawn) + np.sqrt(times) * (spread @ rng.standard_normal((mean.size, replicates)))


def _distinct_rows(units: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return the distinct rows [u] and their counts [u], found by a randomly weighted sum of columns."""
    weights: FloatArray = np.random.default_rng(0).random(len(units.T))
    name: FloatArray = np.zeros(len(units))
    for place, weight in enumerate(weights):
        name += weight * units[:, place]
    # What differs by rounding alone is one kind, so that resamples do not hang on the machine.
    _, first, counts = np.unique(name.round(11), return_index=True, return_counts=True)
    return first.astype(np.int64), counts.astype(np.int64)


def group_sums(values: NDArray[Kind], groups: IntArray, count: int) -> NDArray[Kind]:
    """Return the sums [G, m] of rows of ``values`` [n, m] by their group 0..G-1.

    That is ``values`` itself where every row is its own group, in order.
    """
    if count == len(values) and np.array_equal(groups, np.arange(count)):
        return values
    out = np.zeros((count, values.shape[1]), values.dtype)
    # Columns by bincount, which adds in the same order and goes through many rows several times as fast.
    for place in range(values.shape[1]):
        out[:, place] = np.bincount(groups, values[:, place], count)
    return out


def numbers_of(names: Iterable[Hashable]) -> IntArray:
    """Return the number 0..G-1 of each name [n], in order of first use."""
    table: dict[Hashable, int] = {}
    return np.array([table.setdefault(name, len(table)) for name in names], np.int64)


# Folds of every cross-fitting.
FOLDS = 5


def cluster_folds(votes: Votes, folds: int, rng: np.random.Generator) -> IntArray:
    """Return a cross-validation fold 0..folds-1 for each item [n], whole clusters together, sizes even.

    Raises ValueError for fewer than two folds or fewer clusters than folds.
    """
    if not 2 <= folds <= votes.n_clusters:
        raise ValueError(
            f"{folds} folds do not fit {votes.n_clusters} clusters: use at least 2, at most one each"
        )
    return (rng.permutation(votes.n_clusters) % folds)[votes.cluster_ids]


def clustered_variance(values: FloatArray, groups: IntArray) -> float:
    """Return the variance of the mean of ``values`` [n] when whole groups are sampled; 0 for a single one.

    G/(G-1) sum over groups of (sum of deviations)^2 / n^2.
    """
    count = int(groups.max()) + 1
    sums = np.bincount(groups, values - values.mean(), count)
    return float(sums @ sums) * count / (count - 1) / values.size**2 if count > 1 else 0.0


def clustered_se(values: FloatArray, groups: IntArray) -> float:
    """Return the standard error of the mean of ``values`` [n] when whole groups are sampled; NaN for one."""
    return math.sqrt(clustered_variance(values, groups)) if groups.any() else math.nan
