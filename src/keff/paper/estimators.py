"""The paper's own estimators, as its scripts compute them: for parity, beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from keff.paper.records import Sample
from keff.stats.betabinomial import majority_beta_binomial
from keff.stats.choose import k_star
from keff.stats.compare import c_from_totals, row_sums
from keff.stats.correlation import pearson_c
from keff.stats.majority import majority_binomial, majority_prefix, majority_prefix_items
from keff.stats.resampling import group_sums, resampled_totals
from keff.stats.votes import FloatArray, Votes

PILOT_K = 4
HELD_OUT_SEED = 2026
K_MAX = 32
UNCAPPED = 10**9


def prefix(votes: Votes, k: int) -> Votes:
    """Return the first k of all paths."""
    return votes.paths(np.arange(k))


def rho(votes: Votes, k: int | None = None) -> float:
    """Return the paper's c-hat: the mean pairwise Pearson correlation of the first k paths."""
    return pearson_c(votes if k is None else prefix(votes, k))[0]


def operating_point(c: float, epsilon: float = 0.025) -> int:
    """Return K* by Eq. 12 as in the paper's tables: c not clipped, K* not capped; K_max where c <= 0.

    A resampled c may pass 1 by a rounding error, which counts as 1.
    """
    return k_star(min(c, 1.0), epsilon, UNCAPPED, clip=None) if c > 0 else K_MAX


def beta_binomial(k: int, p: float, c: float) -> float:
    """Return the predicted majority vote of moment estimates; independence where c <= 0 or undefined."""
    c = 0.0 if math.isnan(c) else c
    return float(majority_beta_binomial(k, p, min(max(c, 0.0), 1.0)))


def held_out(sample: Sample, ks: Sequence[int]) -> dict[str, FloatArray]:
    """Return the paper's held-out test by K: observed vote, both predictions and both absolute errors.

    Instances are shuffled with seed 2026 and halved; p and c come from the first 4 paths of one half, the
    vote of the first K paths from the other. All are averaged over both directions; each [len(ks)].
    """
    order = np.arange(len(sample.names))
    np.random.default_rng(HELD_OUT_SEED).shuffle(order)
    half = order.size // 2
    own = sample.votes.cluster_ids
    sides = [np.isin(own, order[:half]), np.isin(own, order[half:])]
    means = {name: np.zeros(len(ks)) for name in ("observed", "bb", "binomial", "bb_error", "binomial_error")}
    for fit, test in (sides, sides[::-1]):
        pilot, rest = prefix(sample.votes.take(fit), PILOT_K), majority_prefix(sample.votes.take(test))
        observed = rest[np.array(ks) - 1]
        bb = np.array([beta_binomial(k, pilot.p, rho(pilot)) for k in ks])
        binomial = np.array([float(majority_binomial(k, pilot.p)) for k in ks])
        errors = np.abs(bb - observed), np.abs(binomial - observed)
        for name, values in zip(means, (observed, bb, binomial, *errors), strict=True):
            means[name] += values / 2
    return means


def pilot_draws(votes: Votes, n: int, replicates: int, rng: np.random.Generator) -> FloatArray:
    """Return c-hat [replicates] of the first 4 paths of n instances drawn with all their seed replicates."""
    pilot = prefix(votes, PILOT_K)
    sums = group_sums(row_sums(pilot, "pearson"), pilot.cluster_ids, pilot.n_clusters)
    weights = rng.multinomial(n, np.full(sums.shape[0], 1 / sums.shape[0]), size=replicates)
    return c_from_totals(sums.T @ weights.T, PILOT_K, "pearson")


def vote_gap(votes: Votes, k: int, replicates: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the 95% interval of MV@k minus MV@32 (first paths), by a cluster bootstrap over instances."""
    items = majority_prefix_items(votes)
    rows = np.stack([np.ones(votes.n), items[:, min(k, votes.k) - 1] - items[:, -1]], axis=1)
    totals = resampled_totals(group_sums(rows, votes.cluster_ids, votes.n_clusters), replicates, rng)
    lo, hi = np.quantile(totals[1] / totals[0], [0.025, 0.975])
    return float(lo), float(hi)


def per_seed(values: FloatArray, sample: Sample) -> tuple[float, float]:
    """Return the mean and the sample standard deviation over seeds of a mean over rows [n]."""
    means = [float(values[sample.seeds == seed].mean()) for seed in np.unique(sample.seeds)]
    return float(np.mean(means)), float(np.std(means, ddof=1)) if len(means) > 1 else math.nan


def ratio(part: float, whole: float) -> float:
    """Return part over whole; NaN where whole is 0."""
    return float(part) / float(whole) if whole else math.nan
