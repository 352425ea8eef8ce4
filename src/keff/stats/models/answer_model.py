"""Empirical Bayes model of each item's answers, fitted to a pilot, to predict the plurality of more paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import betainc, betaln, gammaln, xlog1py, xlogy

from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.alike import distinct_answers, one_of_each, vote_patterns


def expected_credit(k_max: int, theta: FloatArray, scatter: FloatArray) -> FloatArray:
    """Return the expected credit [K+1, theta, g] of a plurality of v = 0..K answers, each right by theta."""
    out = np.zeros((k_max + 1, theta.size, scatter.size))
    tables = np.stack([credit_table(k_max, float(g)) for g in scatter], axis=-1)
    for v in range(1, k_max + 1):
        s = np.arange(v + 1)[:, None]
        binomial = np.exp(log_ways(v, s) + xlogy(s, theta) + xlog1py(v - s, -theta))
        out[v] = binomial.T @ tables[v, : v + 1]
    return out


def credit_table(k_max: int, g: float) -> FloatArray:
    """Return [v, s] the credit of s equal correct answers among v, the wrong ones scattered by g.

    Exact: wrong answers of a Chinese restaurant process, all blocks below s, have the generating function
    exp(g sum_{j<s} z^j / j) over that of all partitions; a block of s exactly ties, and t of them leave
    1/(t+1).
    """
    below = np.zeros((k_max + 1, k_max + 1))
    below[0] = 1.0
    height = np.arange(k_max + 1)
    window = np.zeros(k_max + 1)
    for w in range(1, k_max + 1):
        window += np.where(height > 1, below[w - 1], 0.0)
        tall = height[2 : w + 1]
        window[tall] -= below[w - tall, tall]
        below[w] = g / w * window
    every = np.exp(np.r_[0.0, np.cumsum(np.log((g + height[:-1]) / (height[:-1] + 1)))])
    out = np.zeros((k_max + 1, k_max + 1))
    for s in range(1, k_max + 1):
        ways, factor = below[:, s].copy(), 1.0
        for t in range(1, k_max // s + 1):
            factor *= g / (s * t)
            ways[s * t :] += factor / (t + 1) * below[: k_max + 1 - s * t, s]
        wrong = height[: k_max + 1 - s]
        out[s + wrong, s] = ways[wrong] / every[wrong]
    return np.clip(out, 0.0, 1.0)


def log_ways(k: int, j: IntArray) -> FloatArray:
    """Return log of k over j."""
    return np.asarray(gammaln(k + 1) - gammaln(j + 1) - gammaln(k - j + 1), np.float64)


# Chance of a correct path, even in the angle: dense where items are always right or always wrong.
THETA: FloatArray = np.sin(np.linspace(0.0, np.pi / 2, 31)) ** 2
# How wrong answers scatter: near 0 they agree, at 20 they rarely meet.
SCATTER: FloatArray = np.array([0.1, 0.4, 1.0, 2.5, 6.0, 20.0])
# The law of theta and that of g are fitted in turn, so many times.
FITTING_ROUNDS = 6


class AnswerModel:
    """Empirical Bayes model of each item's answers: fitted laws of accuracy theta, scatter g and abstention.

    An item's path is correct with chance theta, wrong answers scatter by a Chinese restaurant process of
    concentration g, and items abstain at beta-distributed rates. The laws of theta (a beta) and g are fitted
    to the pilot. Assumes exchangeable paths, and that correct paths share one answer. Items whose right
    paths, wrong paths and different wrong answers are equal are of one kind, for nothing else of their votes
    counts: ``counts`` [s] says how many there are, ``likelihood`` [s, theta, g] is that of their votes up to
    a factor, ``flat`` [s, theta * g] the same.
    """

    def __init__(self, votes: Votes, k_max: int) -> None:
        right, wrong, distinct, self._kind = _distinct_counts(votes)
        self.counts = self.pool_weights(vote_patterns(votes).counts[None].astype(np.float64))[0]
        abstained = votes.k - right - wrong
        self.k0, self.units = votes.k, votes.n_clusters
        self.likelihood = likelihood(right, wrong, distinct)
        self.flat = self.likelihood.reshape(len(right), -1)
        self._beta_laws = _beta_laws()
        theta, self._g = self._fit()
        self.prior: FloatArray = (theta[:, None] * self._g).ravel()
        joint = self.flat * self.prior
        self.posterior = joint / joint.sum(axis=1, keepdims=True)
        self._answering = _answering(abstained, self.counts, votes.k)
        self._credit = expected_credit(k_max, THETA, SCATTER).reshape(k_max + 1, -1)

    def pool_weights(self, weights: FloatArray) -> FloatArray:
        """Return weights [B, s] of the model's distinct counts, summed from those of patterns [B, u]."""
        size = int(self._kind.max()) + 1
        return np.array([np.bincount(self._kind, row, size) for row in weights], np.float64)

    def gains(self, ks: Sequence[int], weights: FloatArray) -> FloatArray:
        """Return the shrunk mean gain over K0 paths at each of ``ks`` [B, ks], for pattern weights [B, u].

        Their counts are the sample itself, a row of multinomial counts a bootstrap resample: the law of theta
        is fitted anew to each, that of g is the sample's. The mean d is shrunk to d * d^2 / (d^2 + se^2),
        with
        se its standard error over the sample's items.
        """
        weights = self.pool_weights(weights)
        prior = (self._fit_theta(weights, self._g)[:, :, None] * self._g).reshape(len(weights), -1)
        under = prior @ self.flat.T
        out = np.empty((len(weights), len(ks)))
        for column, k in enumerate(ks):
            step = self.step(k)
            item = (prior @ (self.flat * step).T) / under
            mean = np.sum(item * weights, axis=1) / weights.sum(axis=1)
            error = _variance(np.sum(step * self.posterior, axis=1), self.counts) / max(self.units - 1, 1)
            # Shrunk by the share of its square that is no error, as an empirical Bayes estimate towards 0.
            out[:, column] = mean * mean**2 / np.maximum(mean**2 + error, 1e-300)
        return out

    def spread(self, k: int) -> float:
        """Return the model's standard deviation over items of the gain from K0 to ``k`` paths."""
        typical = self.counts @ self.step(k) / self.counts.sum()
        return float(self.prior @ (typical - self.prior @ typical) ** 2) ** 0.5

    def step(self, k: int) -> FloatArray:
        """Return the expected gain in credit [n, theta * g] from K0 to ``k`` paths."""
        return self._credit_at(k) - self._credit_at(self.k0)

    def answering(self, k: int) -> float:
        """Return the share of items on which at least one of ``k`` paths answers: a ceiling of plurality."""
        a, b = self._answering
        return float(1 - self.counts @ np.exp(betaln(a, b + k) - betaln(a, b)) / self.counts.sum())

    def _credit_at(self, k: int) -> FloatArray:
        """Return the expected credit [n, theta * g] of k paths with abstentions."""
        a, b = self._answering
        j = np.arange(k + 1)
        log_law = log_ways(k, j) + betaln(j + a[:, None], k - j + b[:, None]) - betaln(a, b)[:, None]
        return np.exp(log_law) @ self._credit[: k + 1]

    def _fit(self) -> tuple[FloatArray, FloatArray]:
        """Return the mixing weights of theta (posterior mean over beta laws) and of g (by EM)."""
        scatter: FloatArray = np.full(SCATTER.size, 1 / SCATTER.size)
        theta = self._fit_theta(self.counts[None], scatter)[0]
        for _ in range(FITTING_ROUNDS - 1):
            joint: FloatArray = np.einsum("ntg,t,g->ng", self.likelihood, theta, scatter)
            share = joint / joint.sum(axis=1, keepdims=True)
            scatter = (self.counts @ share + 1 / SCATTER.size) / (self.counts.sum() + 1)
            theta = self._fit_theta(self.counts[None], scatter)[0]
        return theta, scatter

    def _fit_theta(self, weights: FloatArray, g: FloatArray) -> FloatArray:
        fit = weights @ np.log((self.likelihood @ g) @ self._beta_laws.T)
        weight = np.exp(fit - fit.max(axis=1, keepdims=True))
        return (weight / weight.sum(axis=1, keepdims=True)) @ self._beta_laws


def _distinct_counts(votes: Votes) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the distinct counts (right, wrong, distinct wrong) [s], and the row of each pattern [u].

    No more of an item's votes counts for the model.
    """
    some = one_of_each(votes)
    answers, correct = some.answered(), some.scored()
    right = correct.sum(axis=1)
    wrong = np.sum(answers >= 0, axis=1) - right
    distinct = distinct_answers(np.where(correct > 0, -1, answers))
    side = votes.k + 1
    _, first, kind = np.unique(
        (right * side + wrong) * side + distinct, return_index=True, return_inverse=True
    )
    return right[first], wrong[first], distinct[first], kind.ravel().astype(np.int64)


def likelihood(right: IntArray, wrong: IntArray, distinct: IntArray) -> FloatArray:
    """Return the likelihood [n, theta, g] of each item's votes, up to a constant of the item.

    Of a partition of wrong answers the number of blocks is sufficient for g (Ewens' sampling formula).
    """
    by_theta = xlogy(right[:, None], THETA) + xlog1py(wrong[:, None], -THETA)
    by_g = distinct[:, None] * np.log(SCATTER) + gammaln(SCATTER) - gammaln(SCATTER + wrong[:, None])
    log = by_theta[:, :, None] + by_g[:, None, :]
    return np.exp(log - log.max(axis=(1, 2), keepdims=True))


def _beta_laws() -> FloatArray:
    """Return beta laws over THETA [m, theta], for a grid of means and intraclass correlations."""
    # Even in the angle, as THETA is; finer laws are not told apart by pilots of some hundred questions.
    mean = np.sin(np.linspace(0.1, np.pi / 2 - 0.1, 24))[:, None] ** 2
    c = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96])
    angle = np.linspace(0.0, np.pi / 2, THETA.size)
    edges = np.r_[0.0, np.sin((angle[1:] + angle[:-1]) / 2) ** 2, 1.0]
    a, b = (mean * (1 - c) / c).ravel(), ((1 - mean) * (1 - c) / c).ravel()
    laws = np.diff(betainc(a[:, None], b[:, None], edges), axis=1)
    # A law may put nothing into a cell; its logarithm must stay finite.
    return np.maximum(laws, 1e-300)


def _variance(values: FloatArray, counts: FloatArray) -> float:
    """Return the variance of values [u] with frequencies ``counts`` [u]."""
    share = counts / counts.sum()
    return float(share @ np.square(values - share @ values))


def _answering(abstained: IntArray, counts: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the beta posterior (a, b) [u] of each pattern's chance that a path answers.

    Shared prior by moments.
    """
    # Half an imagined path, divided evenly: a pilot without abstentions does not promise that none will come.
    p = (float(counts @ abstained) + 0.25) / (float(counts.sum()) * k + 0.5)
    inflation = k * _variance(abstained / k, counts) / (p * (1 - p))
    # Moments of few questions leave the range of a correlation, at whose ends a beta law has no size.
    c = min(max((inflation - 1) / (k - 1), 0.02), 0.98)
    size = (1 - c) / c
    silent = abstained.astype(np.float64)
    return (1 - p) * size + (k - silent), p * size + silent
