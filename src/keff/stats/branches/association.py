"""Tests of association between cells: rank sums between domains, and correlation of predictors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr

from keff.stats.votes import FloatArray, IntArray

Alternative = Literal["less", "greater", "two-sided"]

# Products of sample sizes up to which the exact law is counted; beyond, the normal limit.
MOST_EXACT = 2500


@dataclass(frozen=True, slots=True)
class RankTest:
    """A Mann-Whitney test: ``u`` counts pairs with x > y (half for ties), ``p`` its p-value; each [...]."""

    u: FloatArray
    p: FloatArray
    method: str


def mann_whitney(
    x: ArrayLike,
    y: ArrayLike,
    alternative: Alternative = "two-sided",
    method: Literal["auto", "exact", "normal"] = "auto",
) -> RankTest:
    """Test whether ``x`` [..., n1] tends to be less (or greater) than ``y`` [..., n2].

    "exact" is the permutation distribution without ties, "normal" its approximation with tie and continuity
    correction (what gives the paper's p = 5.0e-4 at 10 against 10 cells); "auto" is exact when no values
    tie and n1 n2 <= 2500. Leading axes are separate tests, such as bootstrap draws of cells [B, cells]; the
    method is then one for all. Raises ValueError for empty or undefined samples and for "exact" with ties.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim == 0 or y.ndim == 0 or not x.shape[-1] or not y.shape[-1]:
        raise ValueError("a rank test needs two samples that are not empty")
    if np.any(np.isnan(x)) or np.any(np.isnan(y)):
        raise ValueError("a rank test needs defined values: leave out NaN first")
    n1, n2 = x.shape[-1], y.shape[-1]
    ranks, tied = _midranks(np.concatenate(_broadcast(x, y), axis=-1))
    u = ranks[..., :n1].sum(axis=-1) - n1 * (n1 + 1) / 2
    ties = bool(np.any(tied > 0))
    if method == "exact" and ties:
        raise ValueError(
            "the exact rank distribution needs values without ties: use the normal approximation"
        )
    exact = method == "exact" or (method == "auto" and not ties and n1 * n2 <= MOST_EXACT)
    lower, upper = _exact_tails(u, n1, n2) if exact else _normal_tails(u, tied, n1, n2)
    both = np.minimum(1.0, 2.0 * np.minimum(lower, upper))
    p = {"less": lower, "greater": upper, "two-sided": both}[alternative]
    return RankTest(np.asarray(u), np.asarray(p), "exact" if exact else "normal")


def pearson_test(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Return Pearson's r of two vectors [n] and its two-sided p-value (Student's t with n-2 degrees).

    With x the mean answer diversity under one prompt and y the mean delta rho, each per benchmark, the
    paper's predictor (r = -0.62, p = 0.032 for n = 12). NaN when a vector is constant; ValueError for n < 3.
    """
    a, b = np.asarray(x, float), np.asarray(y, float)
    if a.ndim != 1 or a.shape != b.shape or a.size < 3 or not np.all(np.isfinite(a) & np.isfinite(b)):
        raise ValueError("a correlation test needs two equally long vectors of at least three finite numbers")
    a, b = a - float(a.mean()), b - float(b.mean())
    scale = math.sqrt(float(a @ a) * float(b @ b))
    if scale == 0:
        return math.nan, math.nan
    r = min(1.0, max(-1.0, float(a @ b) / scale))
    if abs(r) == 1.0:
        return r, 0.0
    t = abs(r) * math.sqrt((a.size - 2) / (1.0 - r * r))
    return r, 2.0 * float(stdtr(a.size - 2, -t))


def _broadcast(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    lead = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return np.broadcast_to(x, (*lead, x.shape[-1])), np.broadcast_to(y, (*lead, y.shape[-1]))


def _midranks(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return average ranks [..., N] and the tie term, sum of t^3 - t over groups of equal values, [...]."""
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    size = values.shape[-1]
    change = ordered[..., 1:] != ordered[..., :-1]
    edge = np.ones((*values.shape[:-1], 1), bool)
    position: IntArray = np.zeros(values.shape, np.int64) + np.arange(size, dtype=np.int64)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, change], -1), position, 0), axis=-1)
    closing = np.where(np.concatenate([change, edge], -1), position, size)
    last = np.minimum.accumulate(closing[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    length = (last - first + 1).astype(np.float64)
    return ranks, np.sum(length * length - 1, axis=-1)


def _normal_tails(u: FloatArray, tied: FloatArray, n1: int, n2: int) -> tuple[FloatArray, FloatArray]:
    total = n1 + n2
    spread = n1 * n2 / 12 * (total + 1 - tied / (total * (total - 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        below = (u - n1 * n2 / 2 + 0.5) / np.sqrt(spread)
        above = (u - n1 * n2 / 2 - 0.5) / np.sqrt(spread)
    flat = spread <= 0
    return np.where(flat, 1.0, ndtr(below)), np.where(flat, 1.0, ndtr(-above))


def _exact_tails(u: FloatArray, n1: int, n2: int) -> tuple[FloatArray, FloatArray]:
    pmf = _u_distribution(n1, n2)
    index = np.rint(u).astype(np.int64)
    # Each tail is summed from its own end, so that small p-values keep their digits.
    return np.cumsum(pmf)[index], np.cumsum(pmf)[n1 * n2 - index]


@cache
def _u_distribution(n1: int, n2: int) -> FloatArray:
    """Return P(U = u), u = 0..n1 n2: the largest of all values is an x, or a y (Mann and Whitney, 1947)."""
    row = [np.ones(1) for _ in range(n2 + 1)]
    for i in range(1, n1 + 1):
        new = [np.ones(1)]
        for j in range(1, n2 + 1):
            pmf = np.zeros(i * j + 1)
            pmf[j:] += i / (i + j) * row[j]
            pmf[: i * (j - 1) + 1] += j / (i + j) * new[j - 1]
            new.append(pmf)
        row = new
    return row[n2]
