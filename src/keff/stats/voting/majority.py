"""Binary majority vote on correctness: under independence, and exactly from recorded paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from keff.stats.models.betabinomial import majority_curve
from keff.stats.votes import FloatArray, Votes, as_hist


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
    """Return each item's vote by its first 1..K paths [n, K]: 1 right, 0 wrong, 1/2 at a tie."""
    right = np.cumsum(votes.scored(), axis=1)
    return 0.5 + 0.5 * np.sign(2.0 * right - np.arange(1, votes.k + 1))


def majority_prefix(votes: Votes) -> FloatArray:
    """Return the majority-vote accuracy of the first 1..K paths [K], the paper's estimator.

    Noisier than ``majority_at_k``, for parity only.
    """
    return majority_prefix_items(votes).mean(axis=0)
