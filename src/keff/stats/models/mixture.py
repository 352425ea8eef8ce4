"""How a workload's answers are distributed: a mixture of exchangeable partition laws, fitted without labels.

Each question has an unknown distribution over its own answers. Its votes are a random partition of the
paths, so the laws are those of partitions: Pitman-Yor (d, theta) where the answers are open, symmetric
Dirichlet (M, kappa) where they are few, and one answer only. The weights of the components are fitted by
EM to the pilot, with some questions' worth of generic weights.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from keff.stats.models.partitions import ABSTENTION_PRIOR, COMPONENTS, STICKS, Simulated, posterior_shares
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import ABSTAINS, dense_codes
from keff.stats.voting.draws import Draws


def partition_log_law(counts: IntArray) -> FloatArray:
    """Return the log probability of each partition under each component [n, components].

    ``counts`` [n, r] are the votes of each answer, padded with 0. Ewens-Pitman formula; for M answers the
    probability of the partition, whichever answers carry it. Equal rows are done once.
    """
    kinds, back = np.unique(counts, axis=0, return_inverse=True)
    return _laws(kinds.astype(np.int64))[back.ravel()]


def _laws(counts: IntArray) -> FloatArray:
    size, k = counts.sum(axis=1), (counts > 0).sum(axis=1)
    return np.stack([_log_law(kind, x, y, counts, (size, k)) for kind, x, y in COMPONENTS], axis=1)


def _log_law(
    kind: str, x: float, y: float, counts: IntArray, totals: tuple[IntArray, IntArray]
) -> FloatArray:
    size, k = totals
    if kind == "one":
        return np.where(k <= 1, 0.0, -np.inf)
    seen = counts > 0
    if kind == "few":
        answers, kappa = x, y
        ways = gammaln(answers + 1) - gammaln(np.maximum(answers - k, 0) + 1)
        each = np.where(seen, gammaln(kappa + counts) - gammaln(kappa), 0.0).sum(axis=1)
        log_law = ways + gammaln(answers * kappa) - gammaln(answers * kappa + size) + each
        return np.where(k <= answers, log_law, -np.inf)
    d, theta = x, y
    steps = np.arange(1, max(int(k.max(initial=1)), 2))
    new = np.concatenate([[0.0, 0.0], np.cumsum(np.log(theta + steps * d))])[k]
    each = np.where(seen, gammaln(np.maximum(counts, 1) - d) - gammaln(1 - d), 0.0).sum(axis=1)
    return np.where(size > 0, new - gammaln(theta + np.maximum(size, 1)) + gammaln(theta + 1) + each, 0.0)


def fit_weights(log_law: FloatArray, prior: FloatArray, rounds: int = 200) -> FloatArray:
    """Return the component weights by EM, ``prior`` being pseudo-questions of each component."""
    weights = prior / prior.sum()
    kinds, times = np.unique(log_law, axis=0, return_counts=True)
    law = np.exp(kinds - kinds.max(axis=1, keepdims=True))
    for _ in range(rounds):
        share = law * weights
        share *= (times / share.sum(axis=1))[:, None]
        weights = prior + share.sum(axis=0)
        weights /= weights.sum()
    return weights


def simulate(pilot: Votes, weights: FloatArray, size: tuple[int, int], rng: np.random.Generator) -> Simulated:
    """Simulate ``size`` = (R, cap) paths of R questions for every question of the pilot.

    Each has a distribution drawn from the posterior given the question's votes, and paths drawn from it
    afresh: not a continuation of the pilot's.
    """
    repeats, cap = size
    counts, abstained = vote_counts(pilot)
    log_law = partition_log_law(counts)
    posterior = np.exp(log_law - log_law.max(axis=1, keepdims=True)) * weights
    posterior /= posterior.sum(axis=1, keepdims=True)
    edges = posterior.cumsum(axis=1)
    pick = np.minimum(
        (rng.random((len(counts), repeats))[..., None] > edges[:, None]).sum(axis=2), len(weights) - 1
    )
    item = np.repeat(np.arange(len(counts)), repeats)
    shares = np.zeros((len(item), counts.shape[1] + STICKS))
    for index, component in enumerate(COMPONENTS):
        rows = np.flatnonzero(pick.ravel() == index)
        shares[rows] = posterior_shares(component, counts[item[rows]], rng)
    codes = (rng.random((len(item), cap, 1)) > shares.cumsum(axis=1)[:, None, :]).sum(axis=2)
    # What is beyond the named answers is a new one each time.
    codes = np.where(codes < shares.shape[1], codes, shares.shape[1] + np.arange(cap)).astype(np.int16)
    low, high = ABSTENTION_PRIOR
    rate = rng.beta(low + abstained[item], high + pilot.k - abstained[item])
    codes[rng.random(codes.shape) < rate[:, None]] = ABSTAINS
    shape = (len(counts), repeats, -1)
    return Simulated(Draws(codes.reshape(shape)), shares.reshape(shape))


def vote_counts(pilot: Votes) -> tuple[IntArray, IntArray]:
    """Return the votes of each answer [n, r], padded with 0, and the abstentions [n]."""
    assert pilot.answers is not None
    codes = dense_codes(pilot.answers)
    width = int(codes.max(initial=0)) + 1
    item, column = np.nonzero(codes >= 0)
    cells = item * width + codes[item, column]
    counts: IntArray = np.bincount(cells, minlength=pilot.n * width).reshape(pilot.n, width).astype(np.int64)
    return counts, pilot.k - counts.sum(axis=1)
