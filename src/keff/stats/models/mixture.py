"""Distribution of a workload's answers: a mixture of exchangeable partition laws, fitted without labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import ABSTAINS, dense_codes
from keff.stats.voting.draws import Draws

# Concentrations from nearly one answer to nearly all different; even in the logarithm.
THETAS = (0.03, 0.08, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 15.0, 60.0)
# Concentrations of answers among few options; even in the logarithm.
KAPPAS = (0.1, 0.3, 0.8, 2.0, 6.0, 20.0)
# The components: kind, then (discount d, strength theta) if open, or (M answers, kappa) if few.
COMPONENTS: tuple[tuple[str, float, float], ...] = (
    ("one", 0.0, 0.0),
    *[("open", d, theta) for d in (0.0, 0.4) for theta in THETAS],
    *[("few", float(m), kappa) for m in (2, 4) for kappa in KAPPAS],
)

# Made by ``benchmarks.constants.mixture_weights`` from 35 recorded sets of generations with at least 48 paths
# per question (mathematics, science, multiple choice, puzzles). Each record counts once. In the order of
# ``COMPONENTS``.
_ONE = [0.202]
_OPEN = [0.113, 0.064, 0.04, 0.047, 0.199, 0.006, 0.001, 0.001, 0.001, 0.002]
_OPEN_HEAVY_TAIL = [0.075, 0.04, 0.018, 0.01, 0.007, 0.007, 0.015, 0.015, 0.031, 0.001]
_TWO_ANSWERS = [0.033, 0.009, 0.004, 0.002, 0.002, 0.002]
_FOUR_ANSWERS = [0.017, 0.009, 0.01, 0.008, 0.003, 0.002]

# How often each component holds for a question of a workload like those recorded.
GENERIC_WEIGHTS: FloatArray = np.concatenate([_ONE, _OPEN, _OPEN_HEAVY_TAIL, _TWO_ANSWERS, _FOUR_ANSWERS])

# Unseen answers that a sampled open distribution names; beyond them no two answers are equal.
STICKS = 40

# Beta prior of a question's abstention rate.
ABSTENTION_PRIOR = (0.05, 1.0)


def prior_shares(weights: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw answer shares [count, A] of new questions from the fitted mixture."""
    pick = rng.choice(len(COMPONENTS), count, p=weights / weights.sum())
    shares = np.zeros((count, STICKS))
    for index, component in enumerate(COMPONENTS):
        rows = np.flatnonzero(pick == index)
        unseen = np.zeros((len(rows), 1), np.int64)
        drawn = posterior_shares(component, unseen, rng)
        # Its one answer stands among the seen, which none is yet.
        shares[rows] = drawn[:, 1:]
        shares[rows, 0] += drawn[:, 0]
    return shares


def posterior_shares(
    component: tuple[str, float, float], counts: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Draw answer shares of questions given votes ``counts`` [n, r]: seen answers first, then unseen ones."""
    kind, x, y = component
    n, r = counts.shape
    out = np.zeros((n, r + STICKS))
    if kind == "one":
        out[:, 0] = 1.0
        return out
    seen = counts > 0
    if kind == "few":
        unseen = np.arange(STICKS) < np.maximum(x - seen.sum(axis=1), 0)[:, None]
        mass = np.concatenate([np.where(seen, counts + y, 0.0), np.where(unseen, y, 0.0)], axis=1)
        return _dirichlet(mass, rng)
    k = seen.sum(axis=1)
    strength = y + k * x
    mass = _dirichlet(np.column_stack([np.where(seen, counts - x, 0.0), strength]), rng)
    out[:, :r] = mass[:, :r]
    later: FloatArray = strength[:, None] + x * np.arange(1, STICKS + 1)
    breaks = np.asarray(rng.beta(1 - x, later), np.float64)
    left = np.cumprod(1 - breaks, axis=1)
    out[:, r:] = mass[:, r:] * breaks * np.column_stack([np.ones(n), left[:, :-1]])
    return out


def _dirichlet(mass: FloatArray, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw one Dirichlet a row; a parameter of 0 gives a share of 0."""
    # Gamma draws of tiny shape underflow to 0, and a row of zeros has no shares.
    draws = np.where(mass > 0, np.maximum(rng.standard_gamma(np.maximum(mass, 1e-9)), 1e-300), 0.0)
    return draws / draws.sum(axis=1, keepdims=True)


def partition_log_law(counts: IntArray) -> FloatArray:
    """Return the log probability of each partition under each component [n, components].

    ``counts`` [n, r] are the votes of each answer, padded with 0. Ewens-Pitman formula; for M answers the
    probability of the partition, whichever answers carry it. Equal rows are done once.
    """
    kinds, back = np.unique(counts, axis=0, return_inverse=True)
    totals = kinds.sum(axis=1), (kinds > 0).sum(axis=1)
    laws = [_log_law(kind, x, y, kinds.astype(np.int64), totals) for kind, x, y in COMPONENTS]
    return np.stack(laws, axis=1)[back.ravel()]


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


def fit_weights(log_law: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the mixture weights by EM, with ``prior`` pseudo-questions of each component."""
    weights = prior / prior.sum()
    kinds, times = np.unique(log_law, axis=0, return_counts=True)
    law = np.exp(kinds - kinds.max(axis=1, keepdims=True))
    for _ in range(200):
        share = law * weights
        share *= (times / share.sum(axis=1))[:, None]
        weights = prior + share.sum(axis=0)
        weights /= weights.sum()
    return weights


def simulate(pilot: Votes, weights: FloatArray, size: tuple[int, int], rng: np.random.Generator) -> Draws:
    """Return simulated paths, ``size`` = (R, cap), of R new questions for every question of the pilot.

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
    return Draws(codes.reshape(len(counts), repeats, cap))


def vote_counts(pilot: Votes) -> tuple[IntArray, IntArray]:
    """Return the votes of each answer [n, r], padded with 0, and the abstentions [n]."""
    assert pilot.answers is not None
    codes = dense_codes(pilot.answers)
    width = int(codes.max(initial=0)) + 1
    item, column = np.nonzero(codes >= 0)
    cells = item * width + codes[item, column]
    counts: IntArray = np.bincount(cells, minlength=pilot.n * width).reshape(pilot.n, width).astype(np.int64)
    return counts, pilot.k - counts.sum(axis=1)
