"""Covariances and correlations of correctness between branches, with cluster jackknife intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from keff.records import Interval, frozen
from keff.stats.resampling import group_sums
from keff.stats.votes import FloatArray, IntArray, Votes, cluster_numbers

# Fewer right or wrong answers than these, in independent questions, make a normal limit hopeless.
SCARCE = 10

# On atanh, the scale on which a correlation is nearly normal (Fisher).
JACKKNIFE = "cluster jackknife on atanh"
# Where a jackknife has too few questions, what the two accuracies allow is all that is known.
RANGE = "range by the margins, no interval"


@frozen
class Between:
    """Covariances of correctness of A branches on the same questions.

    ``p`` [A] mean accuracy of a path; ``variance`` [A] of one path, s^2 = p(1-p) + v with v the variance of
    the estimate p; ``latent`` [A, A] the covariance of the chances of being right, theta.
    The diagonal of ``latent`` is NaN for a branch with one path. ``units`` counts independent questions.
    """

    p: FloatArray
    variance: FloatArray
    latent: FloatArray
    units: int

    @property
    def c(self) -> FloatArray:
        """The correlation of two paths' correctness [A, A]; on the diagonal, within a branch."""
        return _divide(self.latent, np.sqrt(np.outer(self.variance, self.variance)))

    @property
    def r(self) -> FloatArray:
        """c_ab / sqrt(c_aa c_bb): 1 when two branches find the same questions hard; NaN where c_aa <= 0."""
        within = np.diag(self.latent)
        product = np.outer(within, within)
        positive = (within > 0)[:, None] & (within > 0)
        return _divide(self.latent, np.sqrt(np.where(positive, product, np.nan)))


class _Sums(NamedTuple):
    """Sufficient statistics of all clusters, or of all but one: each [...] with A or A x A behind."""

    n: FloatArray
    squared_n: FloatArray
    y: FloatArray
    n_y: FloatArray
    items: FloatArray
    clusters: FloatArray
    spread: FloatArray


def branch_covariances(correct: Sequence[IntArray], clusters: IntArray | None = None) -> Between:
    """Return the covariances of branches from their correctness [n, K_a] on the same n questions.

    C_ab = sum_i (Ybar_ai - p_a)(Ybar_bi - p_b) / (n - 1) is exactly unbiased for Cov(theta_a, theta_b) when
    the paths of different branches are drawn separately; the diagonal is the one-way analysis of variance.
    With ``clusters`` [n] the variance of p comes from cluster totals, with G - 1. Raises ValueError for
    fewer than two independent questions, and for branches with different questions.
    """
    sums, k = _sums(correct, clusters)
    units = len(sums.n)
    if units < 2:
        raise ValueError("the covariance of branches needs at least two independent questions")
    return Between(*_covariance(_total_sums(sums), k, units), units)


def correlation_intervals(
    correct: Sequence[IntArray], clusters: IntArray | None = None
) -> list[list[Interval]]:
    """Return c_ab of every pair [A][A] with a 95% cluster jackknife interval on atanh c, t with G - 1.

    Where a branch has fewer than ten independent questions' worth of right or of wrong answers there is no
    interval (percentile bootstraps cover .69 there): ``lo`` and ``hi`` are then only the range that
    |c_ab| <= sqrt(c_aa c_bb) and the margins allow, and ``method`` says so.
    """
    whole = branch_covariances(correct, clusters)
    sums, k = _sums(correct, clusters)
    units = whole.units
    few = units * np.minimum(whole.p, 1 - whole.p) < SCARCE
    left: FloatArray = np.full((units, len(k), len(k)), np.nan)
    if units > 2:
        _, variance, latent = _covariance(_leave_one_out_sums(sums), k, units - 1)
        left = _divide(latent, np.sqrt(variance[:, :, None] * variance[:, None, :]))
    half = float(stdtrit(units - 1, 0.975))
    lowest, highest = _ranges(whole)

    def interval(a: int, b: int) -> Interval:
        c = float(whole.c[a, b])
        if np.isfinite(c) and (few[a] or few[b] or not np.isfinite(left[:, a, b]).all()):
            # c_aa is estimated too, and of few questions c_ab may come out beyond what it allows.
            limits = min(lowest[a, b], c), max(highest[a, b], c)
            lo, hi = (float(limit) if np.isfinite(limit) else None for limit in limits)
            return Interval(c, lo, hi, RANGE)
        return _jackknife_interval(c, left[:, a, b], half)

    return [[interval(a, b) for b in range(len(k))] for a in range(len(k))]


@frozen
class BlockCorrelation:
    """Two levels of correlation of correctness: paths of one template, and paths of different templates.

    ``within`` and ``between`` are covariances over the mean variance of a path, so that the mean of K = T r
    paths, r of each of T templates, has the variance of T r / (1 + (r-1) c_within + (T-1) r c_between)
    independent ones whatever the templates' accuracies. ``difference`` is within minus between: what another
    template adds over another path of the same one. ``paths`` [T] are those of each template; one path each
    leaves ``within`` unknown.
    """

    templates: int
    paths: tuple[int, ...]
    within: Interval
    between: Interval
    difference: Interval


def block_correlation(votes: Votes, level: float = 0.95) -> BlockCorrelation:
    """Return c within and between the templates of an arm, with cluster jackknife intervals.

    ``votes`` name the template of each column (``slots``); columns of one template are exchangeable, and
    templates stand for a pool from which they could have been drawn. Intervals are on atanh c (the
    difference on its own scale), t with G - 1; none with fewer than ten independent questions' worth of
    right or of wrong answers. Needs two templates. Raises ValueError without labels, or with fewer than three
    independent questions.
    """
    names = votes.slots if votes.slots is not None else np.zeros(votes.k, np.int64)
    columns = [np.flatnonzero(names == name) for name in np.unique(names)]
    correct = [votes.scored()[:, own] for own in columns]
    sums, k = _sums(correct, votes.clusters)
    units, whole = len(sums.n), _total_sums(sums)
    if units < 3:
        raise ValueError("the correlation of templates needs at least three independent questions")
    values = _levels(whole, k, units)
    drawn = _levels(_leave_one_out_sums(sums), k, units - 1)
    half = float(stdtrit(units - 1, (1 + level) / 2))
    p = float(whole.y.sum() / whole.n / len(k))
    scarce = units * min(p, 1 - p) < SCARCE
    within, apart = (
        _jackknife_interval(float(values[at]), drawn[:, at], half, scarce=scarce) for at in range(2)
    )
    gap, gaps = float(values[0] - values[1]), drawn[:, 0] - drawn[:, 1]
    difference = _jackknife_interval(gap, gaps, half, scarce=scarce, fisher=False)
    return BlockCorrelation(len(k), tuple(int(each) for each in k), within, apart, difference)


def _levels(total: _Sums, k: IntArray, units: int) -> FloatArray:
    """Return c within and between templates [..., 2]: covariances over the mean variance of a path."""
    _, variance, latent = _covariance(total, k, units)
    own, several = np.diagonal(latent, axis1=-2, axis2=-1), k > 1
    row, column = np.triu_indices(len(k), 1)
    apart = _divide(latent[..., row, column].mean(axis=-1), variance.mean(axis=-1))
    inside: FloatArray | float = np.nan
    if several.any():
        inside = _divide(own[..., several].mean(axis=-1), variance[..., several].mean(axis=-1))
    return np.stack(np.broadcast_arrays(inside, apart), axis=-1)


def _jackknife_interval(
    value: float, left_out: FloatArray, half: float, *, scarce: bool = False, fisher: bool = True
) -> Interval:
    """Return the jackknife interval from leave-one-cluster-out values; correlations on Fisher's z scale."""
    if not np.isfinite(value) or scarce:
        return Interval(
            value, None, None, "undefined" if not scarce else "no interval: too few right or wrong"
        )
    # Fisher's z of a correlation of 1 is infinite.
    edge = 1 - 1e-9
    z: FloatArray = np.append(value, left_out)
    z = np.arctanh(np.clip(z, -edge, edge)) if fisher else z
    centre, others = z[0], z[1:]
    units = others.size
    error = float(np.sqrt((units - 1) / units * np.square(others - others.mean()).sum()))
    ends = centre - half * error, centre + half * error
    lo, hi = (float(np.tanh(end)) if fisher else float(end) for end in ends)
    return Interval(value, lo, hi, JACKKNIFE if fisher else "cluster jackknife")


def _ranges(whole: Between) -> tuple[FloatArray, FloatArray]:
    """Return the least and the greatest c_ab [A, A] that the accuracies and c_aa, c_bb allow."""
    p, scale = whole.p, np.sqrt(np.outer(whole.variance, whole.variance))
    product = np.outer(p, p)
    most = _divide(np.minimum(p[:, None], p) - product, scale)
    least = _divide(np.maximum(0, p[:, None] + p - 1) - product, scale)
    within = np.maximum(np.diag(whole.c), 0)
    bound = np.sqrt(np.outer(within, within))
    bound = np.where(np.isnan(bound), np.inf, bound)
    np.fill_diagonal(bound, np.inf)
    return np.maximum(least, -bound), np.minimum(most, bound)


def _sums(correct: Sequence[IntArray], clusters: ArrayLike | None) -> tuple[_Sums, IntArray]:
    """Return the sufficient statistics of each cluster [G, ...], and the paths of each branch [A]."""
    if len({len(matrix) for matrix in correct}) != 1:
        raise ValueError("branches must hold the same questions, in the same order")
    means = np.stack([matrix.mean(axis=1) for matrix in correct], axis=1)
    n, branches = means.shape
    ids = cluster_numbers(clusters, n)
    units = int(ids.max()) + 1
    y = group_sums(means, ids, units)
    size = np.bincount(ids, minlength=units).astype(np.float64)
    products = (means[:, :, None] * means[:, None, :]).reshape(n, -1)
    items = group_sums(products, ids, units).reshape(units, branches, branches)
    # Within a question: the unbiased variance of one path, NaN for a single one.
    k = np.array([matrix.shape[1] for matrix in correct])
    spread = means * (1 - means) * np.where(k > 1, k / np.maximum(k - 1, 1), np.nan)
    within = group_sums(spread, ids, units)
    return _Sums(size, size**2, y, size[:, None] * y, items, y[:, :, None] * y[:, None, :], within), k


def _total_sums(sums: _Sums) -> _Sums:
    """Return the sufficient statistics of all clusters."""
    return _Sums(*(np.asarray(part.sum(axis=0)) for part in sums))


def _leave_one_out_sums(sums: _Sums) -> _Sums:
    """Return the sufficient statistics without each cluster in turn [G, ...]."""
    return _Sums(*(np.asarray(part.sum(axis=0) - part) for part in sums))


def _covariance(total: _Sums, k: IntArray, units: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return accuracy, variance of a path and latent covariance by branch; leading axes are kept."""
    n = total.n[..., None]
    p = total.y / n
    cross = p[..., :, None] * p[..., None, :]
    plain = total.items / n[..., None] - cross
    spread = total.n_y[..., :, None] * p[..., None, :]
    clusters = total.clusters - spread - np.swapaxes(spread, -1, -2)
    clusters = clusters + cross * total.squared_n[..., None, None]
    of_p = clusters * units / (units - 1) / np.square(n[..., None])
    latent = plain + of_p
    variance = p * (1 - p) + np.diagonal(of_p, axis1=-2, axis2=-1)
    noise = total.spread / n / k
    at = np.arange(len(k))
    latent[..., at, at] -= noise  # the noise of a question's mean; NaN for a single path, there alone
    return p, variance, latent


def _divide(values: FloatArray, by: FloatArray) -> FloatArray:
    return np.divide(values, by, out=np.full(np.broadcast(values, by).shape, np.nan), where=by > 0)
