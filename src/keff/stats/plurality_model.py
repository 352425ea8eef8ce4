"""Plurality at more paths than the pilot has: a model of each item's answers, fitted to the pilot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaln, gammaln, stdtrit, xlog1py, xlogy

from keff.records import Estimate, Note
from keff.stats.plurality import plurality_at_k_items
from keff.stats.scatter import expected_credit, log_ways
from keff.stats.votes import FloatArray, IntArray, Votes

# Chance of a correct path, even in the angle: dense where items are always right or always wrong.
THETA: FloatArray = np.sin(np.linspace(0.0, np.pi / 2, 31)) ** 2
# How wrong answers scatter: near 0 they agree, at 20 they rarely meet.
SCATTER: FloatArray = np.array([0.1, 0.4, 1.0, 2.5, 6.0, 20.0])
FITTING_ROUNDS = 6
JUDGED_FACTOR = 4
# The model's own error, as the sampling error of this many items: from 35 recorded runs, docs/statistics.md.
WORTH_ITEMS = 100
_FAR = Note("far_extrapolation", "The model was judged only up to four times the paths of the pilot.")


@dataclass(frozen=True, slots=True)
class PluralityForecast:
    """The plurality accuracy at ``k`` paths, and its ``gain`` over the K0 paths of the pilot."""

    k: int
    plurality: Estimate
    gain: Estimate


def predict_plurality(votes: Votes, ks: Sequence[int], level: float = 0.95) -> tuple[PluralityForecast, ...]:
    """Predict plurality@k for each of ``ks`` from a pilot of n items x K0 paths, with intervals.

    Up to K0 the value is the exact average over subsets of paths. Beyond, the gain over plurality@K0 is
    predicted and added to it: an item's path is correct with chance theta, wrong answers scatter by a
    Chinese restaurant process of concentration g, and items abstain at beta-distributed rates. The laws of
    theta (a beta) and g are fitted to the pilot; then each item's expected vote is averaged over its
    posterior. The mean gain d is shrunk to d * d^2 / (d^2 + se^2), with se its standard error over items.

    Intervals are for the items' population at ``level``: Wilson's on the number of clusters for the
    plurality; for the gain Student's t on the model's spread of gains over items, with the sampling error
    of 100 items added for the model's own error. Assumes exchangeable paths, and correct paths that share
    one answer. The errors measured on recorded runs, and where predicting no gain is as good, are in
    docs/statistics.md. Deterministic. Raises ValueError without answers or gold labels, for fewer than two
    items or paths, and for k < 1.
    """
    if votes.n < 2 or votes.k < 2:
        raise ValueError("predicting a plurality takes at least two items with two paths each")
    if not ks or min(ks) < 1:
        raise ValueError("ks must hold one or more numbers of paths, each at least 1")
    if not 0 < level < 1:
        raise ValueError("level must lie between 0 and 1")
    items = plurality_at_k_items(votes)
    model = _Model(votes, max(ks)) if max(ks) > votes.k else None
    return tuple(_forecast(votes, items, model, k, level) for k in ks)


def _forecast(
    votes: Votes, items: FloatArray, model: _Model | None, k: int, level: float
) -> PluralityForecast:
    now, units = float(items[:, -1].mean()), votes.n_clusters
    if model is None or k <= votes.k:
        step = items[:, k - 1] - items[:, -1]
        gain, spread, method = float(step.mean()), float(step.std()), "subsets"
    else:
        gain, spread = model.gain(k, units)
        spread *= (1 + units / WORTH_ITEMS) ** 0.5
        method = "answer_model"
    notes = (_FAR,) if k > JUDGED_FACTOR * votes.k else ()
    value = min(max(now + gain, 0.0), 1.0)
    lo, hi = _wilson(value, units, level)
    half = float(stdtrit(max(units - 1, 1), (1 + level) / 2)) * spread / max(units - 1, 1) ** 0.5
    return PluralityForecast(
        k=k,
        plurality=Estimate(value, lo, hi, method, units, k, notes),
        gain=Estimate(gain, gain - half, gain + half, method, units, k, notes),
    )


def _wilson(share: float, n: int, level: float) -> tuple[float, float]:
    """Return Wilson's interval with Student's t in place of the normal quantile."""
    t = float(stdtrit(max(n - 1, 1), (1 + level) / 2))
    centre = (share + t * t / (2 * n)) / (1 + t * t / n)
    half = t / (1 + t * t / n) * (share * (1 - share) / n + t * t / (4 * n * n)) ** 0.5
    return max(centre - half, 0.0), min(centre + half, 1.0)


class _Model:
    """The fitted laws of correctness, scatter and abstention, and each item's posterior [n, theta * g]."""

    def __init__(self, votes: Votes, k_max: int) -> None:
        answers, correct = votes.answered(), votes.scored()
        abstained = np.sum(answers < 0, axis=1)
        right = correct.sum(axis=1)
        wrong = votes.k - abstained - right
        distinct = _distinct(np.where(correct > 0, -1, answers))
        likelihood = _likelihood(right, wrong, distinct)
        self.prior = _fit(likelihood)
        joint = likelihood.reshape(votes.n, -1) * self.prior
        self.posterior = joint / joint.sum(axis=1, keepdims=True)
        self.k0 = votes.k
        self.answering = _answering(abstained, votes.k)
        self.credit = expected_credit(k_max, THETA, SCATTER).reshape(k_max + 1, -1)

    def gain(self, k: int, units: int) -> tuple[float, float]:
        """Return the shrunk mean gain from K0 to k paths, and the prior's spread of gains over items."""
        step = self._credit_at(k) - self._credit_at(self.k0)
        item = np.sum(step * self.posterior, axis=1)
        mean, error = float(item.mean()), float(item.var()) / max(units - 1, 1)
        typical = step.mean(axis=0)
        spread = float(self.prior @ (typical - self.prior @ typical) ** 2) ** 0.5
        return mean * mean**2 / (mean**2 + error) if mean else 0.0, spread

    def _credit_at(self, k: int) -> FloatArray:
        """Return the expected credit [n, theta * g] of k paths, some of which abstain."""
        a, b = self.answering
        j = np.arange(k + 1)
        log_law = log_ways(k, j) + betaln(j + a[:, None], k - j + b[:, None]) - betaln(a, b)[:, None]
        return np.exp(log_law) @ self.credit[: k + 1]


def _distinct(codes: IntArray) -> IntArray:
    """Return how many different non-negative codes each row [n, K] holds."""
    ordered = np.sort(codes, axis=1)
    new = np.diff(ordered, axis=1, prepend=-1) > 0
    return np.sum(new & (ordered >= 0), axis=1)


def _likelihood(right: IntArray, wrong: IntArray, distinct: IntArray) -> FloatArray:
    """Return the likelihood [n, theta, g] of each item's votes, up to a factor of the item.

    Of a partition of wrong answers the number of blocks is sufficient for g (Ewens' sampling formula).
    """
    by_theta = xlogy(right[:, None], THETA) + xlog1py(wrong[:, None], -THETA)
    by_g = distinct[:, None] * np.log(SCATTER) + gammaln(SCATTER) - gammaln(SCATTER + wrong[:, None])
    log = by_theta[:, :, None] + by_g[:, None, :]
    return np.exp(log - log.max(axis=(1, 2), keepdims=True))


def _fit(likelihood: FloatArray) -> FloatArray:
    """Return fitted weights [theta * g]: the posterior mean over beta laws, times weights of g by EM."""
    n = likelihood.shape[0]
    laws = _beta_laws()
    g = np.full(SCATTER.size, 1 / SCATTER.size)
    theta = laws.mean(axis=0)
    for _ in range(FITTING_ROUNDS):
        fit = np.log((likelihood @ g) @ laws.T).sum(axis=0)
        weight = np.exp(fit - fit.max())
        theta = (weight / weight.sum()) @ laws
        share = np.einsum("ntg,t,g->ng", likelihood, theta, g)
        share /= share.sum(axis=1, keepdims=True)
        g = (share.sum(axis=0) + 1 / SCATTER.size) / (n + 1)
    return (theta[:, None] * g).ravel()


def _beta_laws() -> FloatArray:
    """Return beta laws over THETA [m, theta], for a grid of means and intraclass correlations."""
    mean = np.sin(np.linspace(0.1, np.pi / 2 - 0.1, 24))[:, None] ** 2
    c = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96])
    angle = np.linspace(0.0, np.pi / 2, THETA.size)
    edges = np.r_[0.0, np.sin((angle[1:] + angle[:-1]) / 2) ** 2, 1.0]
    a, b = (mean * (1 - c) / c).ravel(), ((1 - mean) * (1 - c) / c).ravel()
    laws = np.diff(betainc(a[:, None], b[:, None], edges), axis=1)
    return np.maximum(laws, 1e-300)


def _answering(abstained: IntArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return each item's posterior beta (a, b) [n] of the chance that a path answers.

    Shared prior by moments.
    """
    p = (float(abstained.sum()) + 0.25) / (abstained.size * k + 0.5)
    inflation = k * float((abstained / k).var()) / (p * (1 - p))
    c = min(max((inflation - 1) / (k - 1), 0.02), 0.98)
    size = (1 - c) / c
    silent = abstained.astype(np.float64)
    return (1 - p) * size + (k - silent), p * size + silent
