"""Fit the prior of ``pilot_budget`` without a pilot to recorded generations, families left out.

    python -m benchmarks.constants budget_prior

Of each question the votes of its two most frequent answers count, in 16 paths drawn at random (8 where there
are no more): with probability ``w`` all paths agree, else the leader's share of the two follows a symmetric
beta law with both parameters ``a``. The pair of greatest likelihood is found, each record counting once.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import betabinom

from benchmarks.constants._row import HEAD, row, span
from benchmarks.families import Record, records
from keff.stats.votes import FloatArray, IntArray

MOST, LEAST = 16, 8
SEED = 18


def top_two(record: Record) -> IntArray:
    """Return the votes [n, 2] of the two most frequent answers of each question."""
    votes = record.votes
    rng = np.random.default_rng(SEED)
    chosen = votes.paths(rng.choice(votes.k, min(MOST, votes.k), replace=False)).answered()
    codes = np.arange(chosen.max() + 1)
    counts = np.sort([np.bincount(row[row >= 0], minlength=codes.size) for row in chosen], axis=1)
    two = np.pad(counts, ((0, 0), (2, 0)))[:, :-3:-1]
    return np.asarray(two[two[:, 0] > 0], np.int64)


def log_law(two: IntArray, a: float, w: float) -> FloatArray:
    """Return the log chance of each pair of counts, given their sum."""
    n, second = two.sum(axis=1), two[:, 1]
    apart = betabinom.pmf(second, n, a, a) * np.where(2 * second == n, 1, 2)
    return np.log((1 - w) * apart + w * (second == 0))


def fitted(groups: list[IntArray]) -> FloatArray:
    """Return ``a`` and ``w`` of greatest likelihood."""

    def loss(point: FloatArray) -> float:
        a, w = float(np.exp(point[0])), float(expit(point[1]))
        return -sum(float(log_law(two, a, w).mean()) for two in groups)

    found = minimize(loss, [np.log(0.5), logit(0.3)], method="Nelder-Mead").x
    return np.array([np.exp(found[0]), expit(found[1])])


def main() -> None:
    """Print the pair, and how far it moves without each family."""
    known = [(each.data_set, top_two(each)) for each in records(LEAST) if "multimodel" not in each.name]
    families = sorted({family for family, _ in known})
    without = [fitted([two for family, two in known if family != name]) for name in families]
    print(f"{len(known)} records of {len(families)} families by data set\n\n{HEAD}")
    left = " and ".join(span(values) for values in np.transpose(without).tolist())
    print(row("keff.policies._table:GENERIC", fitted([two for _, two in known]), left))


if __name__ == "__main__":
    main()
