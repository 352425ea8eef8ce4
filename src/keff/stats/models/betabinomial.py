"""Binary majority vote: under independence, by the beta-binomial model, and exactly from recorded paths."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, xlogy

from keff.stats.votes import FloatArray, Votes, as_hist

# Log odds that stand for infinite ones.
IMPOSSIBLE = 1e9


def prentice_bound(k: int, p: ArrayLike) -> FloatArray:
    """Return Prentice's lower bound of c for K exchangeable votes of accuracy p: -m/(K-1-m), m = min(p, 1-p).

    The extended beta-binomial of Prentice (1986) is a distribution down to it. -1 where nothing binds.
    """
    m = np.minimum(np.asarray(p, float), 1.0 - np.asarray(p, float))
    return np.asarray(-m / (k - 1.0 - m) if k > 2 else -np.ones_like(m))


def betabinom_logpmf(k: int, p: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return the log pmf of the number of correct paths among K, [..., K+1], with mean Kp and correlation c.

    Sums the logarithms of P(j+1)/P(j) = (K-j)/(j+1) (p(1-c)+jc)/(q(1-c)+(K-j-1)c) outwards from the mode
    and normalises: accurate to about 1e-11 for every admissible c, exactly binomial at c = 0, two points at
    c = 1. ``p`` and ``c`` broadcast. Raises ValueError outside 0 <= p <= 1 or below ``prentice_bound``.
    """
    p, c = np.broadcast_arrays(np.asarray(p, float)[..., None], np.asarray(c, float)[..., None])
    _check(k, p, c)
    j = np.arange(k, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = p * (1 - c) + j * c, (1 - p) * (1 - c) + (k - j - 1) * c
        steps = np.log((k - j) / (j + 1)) + np.log(np.maximum(up, 0)) - np.log(np.maximum(down, 0))
    point = (p <= 0) | (p >= 1) | (c >= 1)
    # An impossible outcome stands at the very end: a large finite step keeps the sums defined.
    log = _from_mode(np.clip(np.where(point, 0.0, steps), -IMPOSSIBLE, IMPOSSIBLE))
    log = np.where(log < -0.5 * IMPOSSIBLE, -np.inf, log)
    log -= np.log(np.sum(np.exp(log), axis=-1, keepdims=True))
    return np.where(point, _two_points(k, p), log)


def majority_curve(k_max: int, p: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return the majority-vote accuracy of 1..k_max beta-binomial votes, [..., k_max]; entry K-1 is MV(K).

    Half credit at an exact tie, so MV(2m) = MV(2m-1). MV(1) = p and MV(2m+1) = MV(2m-1) + t_m with
    t_1 = pq(1-c)^2(2p-1)/(1+c) and a ratio of neighbouring terms without gamma functions. ``p`` and ``c``
    broadcast; the cost is O(k_max). The paper's Eq. 9. Raises ValueError as ``betabinom_logpmf``.
    """
    p, c = np.broadcast_arrays(np.asarray(p, float), np.asarray(c, float))
    _check(k_max, p, c)
    half = (k_max - 1) // 2
    terms: FloatArray = np.empty((half + 1, *p.shape))
    terms[0] = p
    if half:
        terms[1] = p * (1 - p) * (1 - c) ** 2 * (2 * p - 1) / (1 + c)
        m = np.arange(1, half, dtype=np.float64).reshape(-1, *[1] * p.ndim)
        # Of thousands of (p, c) at once: in place, for most of the time goes into new memory.
        below = m * c
        ratio = (p * (1 - c) + below) * ((1 - p) * (1 - c) + below)
        ratio *= 2 * (2 * m + 1) / (m + 1)
        below *= 2
        below += 1
        ratio /= below
        below += c
        np.divide(ratio, below, out=terms[2:])
        np.cumprod(terms[1:], axis=0, out=terms[1:])
        np.cumsum(terms, axis=0, out=terms)
    return np.moveaxis(np.repeat(np.clip(terms, 0.0, 1.0, out=terms), 2, axis=0)[:k_max], 0, -1)


def majority_beta_binomial(k: int, p: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return the majority-vote accuracy of K beta-binomial votes; see ``majority_curve``."""
    return majority_curve(k, p, c)[..., -1]


def majority_limit(p: float, c: float) -> float:
    """Return the majority-vote accuracy of infinitely many beta-binomial votes, I_{1/2}(beta, alpha).

    The share of items with a success probability over one half. At c = 0 a step (0, 1/2 or 1), at c = 1 p.
    """
    if c <= 0 or p in (0.0, 1.0):
        return 0.5 if p == 0.5 else float(p > 0.5)
    if c >= 1:
        return p
    # The Beta parameters with mean p and correlation c (the paper's appendix on the beta-binomial model).
    alpha, beta = p * (1 - c) / c, (1 - p) * (1 - c) / c
    if math.isinf(alpha + beta):
        return majority_limit(p, 0.0)
    return float(betainc(beta, alpha, 0.5))


def log_likelihood(hist: ArrayLike, p: ArrayLike, c: ArrayLike) -> FloatArray:
    """Return the beta-binomial log-likelihood of counts N_0..N_K, without its constant; p and c broadcast.

    sum_i A_i log(p(1-c)+ic) + B_i log(q(1-c)+ic) - n log(1+(i-1)c) over i < K, with A_i items that have
    more than i paths right and B_i more than i wrong.
    """
    counts = np.asarray(hist, np.float64)
    k = counts.size - 1
    p, c = np.asarray(p, float)[..., None], np.asarray(c, float)[..., None]
    right = np.cumsum(counts[::-1])[::-1][1:]
    wrong = np.cumsum(counts)[::-1][1:]
    i = np.arange(1, k, dtype=np.float64)
    head = _times_log(right[0], p) + _times_log(wrong[0], 1 - p)
    # The factors 1-c of the first terms cancel down to one for each item that is neither all right nor all
    # wrong.
    head = head + _times_log(right[0] + wrong[0] - counts.sum(), 1 - c)
    tail = _times_log(right[1:], p * (1 - c) + i * c) + _times_log(wrong[1:], (1 - p) * (1 - c) + i * c)
    return head[..., 0] + np.sum(tail - counts.sum() * np.log1p((i - 1) * c), axis=-1)


def _times_log(weight: ArrayLike, x: FloatArray) -> FloatArray:
    return np.asarray(xlogy(np.asarray(weight, float), np.maximum(x, 0.0)), np.float64)


def _from_mode(steps: FloatArray) -> FloatArray:
    """Return log values [..., K+1] relative to the largest, from log ratios [..., K] of neighbours.

    Summing from the mode outwards keeps rounding small where the mass is.
    """
    k = steps.shape[-1]
    zero = np.zeros((*steps.shape[:-1], 1))
    mode = np.argmax(np.concatenate([zero, np.cumsum(steps, axis=-1)], axis=-1), axis=-1)[..., None]
    above = np.asarray(np.arange(k) >= mode, np.bool_)
    right = np.cumsum(np.where(above, steps, 0.0), axis=-1)
    left = np.cumsum(np.where(above, 0.0, steps)[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([zero, right], axis=-1) - np.concatenate([left, zero], axis=-1)


def _two_points(k: int, p: FloatArray) -> FloatArray:
    log = np.full((*p.shape[:-1], k + 1), -np.inf)
    with np.errstate(divide="ignore"):
        log[..., 0] = np.log(1 - p[..., 0])
        log[..., -1] = np.log(p[..., 0])
    return log


def _check(k: int, p: FloatArray, c: FloatArray) -> None:
    if k < 1:
        raise ValueError("the number of paths must be at least 1")
    if not np.all((p >= 0) & (p <= 1)) or not np.all(c <= 1):
        raise ValueError("the beta-binomial needs 0 <= p <= 1 and c <= 1, without NaN")
    # Prentice's bound itself is admissible, however it was rounded.
    if np.any(c < prentice_bound(k, p) * (1 + 1e-12)):
        raise ValueError(f"c is below the least correlation that {k} such paths can have: use max(c, 0)")


def majority_binomial(k: int, p: ArrayLike) -> FloatArray:
    """Return the majority-vote accuracy of K independent votes of accuracy p, half credit at a tie.

    The paper's Theorem 4.2, Eq. 7 (Condorcet).
    """
    return majority_curve(k, p, 0.0)[..., -1]


def multiclass_p(p: ArrayLike, m: int) -> FloatArray:
    """Return the paper's pairwise accuracy p(M-1)/(pM-2p+1) for M answers with evenly spread wrong ones.

    A heuristic (Remark 4.3): put it in place of p in a majority formula. Raises ValueError for M < 2.
    """
    if m < 2:
        raise ValueError("a vote needs at least two possible answers")
    p = np.asarray(p, float)
    return p * (m - 1) / (p * m - 2 * p + 1)


def majority_table(k: int) -> FloatArray:
    """Return H [K, K+1]: entry [j-1, s] is the chance that j of K paths, s of them right, vote right.

    Subsets drawn without replacement, half credit at a tie. H_{2m} = H_{2m-1}, and the odd rows follow from
    a ratio of neighbouring tie probabilities, vectorised over s.
    """
    s = np.arange(k + 1, dtype=np.float64)
    f = k - s
    table = np.empty((k, k + 1))
    current = s / k
    tie = 2 * s * f / (k * (k - 1)) if k > 1 else np.zeros(k + 1)
    for size in range(1, k + 1):
        m = size // 2
        if size % 2 and m:
            current = current + 0.5 * tie * (s - f) / (k - 2 * m)
            spare = (k - 2 * m) * (k - 2 * m - 1)
            grow = (2 * m + 1) * (2 * m + 2) / ((m + 1) ** 2 * max(spare, 1))
            tie = tie * np.maximum(s - m, 0) * np.maximum(f - m, 0) * grow
        table[size - 1] = current
    return np.clip(table, 0.0, 1.0)


def majority_at_k(source: Votes | ArrayLike) -> FloatArray:
    """Return the majority-vote accuracy at 1..K paths [K], averaged exactly over all subsets of the paths.

    ``source`` is votes or the count histogram N_0..N_K. An item scores 1 when more than half of the drawn
    paths are right, 1/2 at a tie. Unbiased for every k <= K when the paths are exchangeable; with template
    slots it describes drawing slots at random.
    """
    hist = as_hist(source)
    return majority_table(hist.size - 1) @ (hist / hist.sum())


def majority_at_k_items(votes: Votes) -> FloatArray:
    """Return the majority-vote accuracy of each item at 1..K paths [n, K]; see ``majority_at_k``."""
    return majority_table(votes.k)[:, votes.counts].T


def majority_prefix_items(votes: Votes) -> FloatArray:
    """Return each item's majority credit after its first 1..K paths [n, K]: 1 right, 1/2 tied, 0 wrong."""
    right = np.cumsum(votes.scored(), axis=1)
    return 0.5 + 0.5 * np.sign(2.0 * right - np.arange(1, votes.k + 1))


def majority_prefix(votes: Votes) -> FloatArray:
    """Return the majority-vote accuracy of the first 1..K paths [K], the paper's estimator.

    Noisier than ``majority_at_k``, for parity only.
    """
    return majority_prefix_items(votes).mean(axis=0)
