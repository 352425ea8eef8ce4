"""Tries of a question until a checker passes an answer: what m of them reach, what another is worth.

Within the recorded tries by exact averages over their orders. Beyond them, and for a choice, by a law: a
share of questions is ``never`` solved, and on the others the chance that a try is right follows a beta law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, binom, gammaln, xlog1py, xlogy

from keff.stats.votes import BoolArray, FloatArray, IntArray, Votes

# Points along each parameter of the law.
POINTS = 16

# The grid is drawn closer around the posterior until so many points count.
ENOUGH, REFINED = 150, 8

# Points that are less likely than the best by this factor change no figure that is shown.
NEGLIGIBLE = 1e-4


def votes_of_verdicts(votes: Votes) -> Votes:
    """Return verdicts alone as votes: what passes is one answer, rated 1, what fails is none, rated 0."""
    right = votes.scored()
    return replace(votes, answers=right - 1, confidences=right.astype(np.float64))


def until_passed(values: FloatArray, passed: BoolArray) -> FloatArray:
    """Return the expected sum of ``values`` [n, K] over the tries made, of at most 0..K tries [n, K + 1].

    Tries end at the first that passes. In a random order of the K recorded ones a given path is the j-th with
    j - 1 rejected ones before it with chance C(F, j - 1) / C(K - 1, j - 1) / K, F the rejected among the
    others. Exact averages over all orders, so unbiased for the model.
    """
    k, rejected = passed.shape[1], (~passed).sum(axis=1)[:, None]
    before = np.arange(k, dtype=np.int64)
    every = binom(k - 1, before) * k
    sums = np.where(passed, values, 0.0).sum(axis=1)[:, None]
    others = values.sum(axis=1)[:, None] - sums
    each: FloatArray = (
        sums * binom(rejected, before) + others * binom(np.maximum(rejected - 1, 0), before)
    ) / every
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(each, axis=1)], axis=1)


def fail_and_solve_chances(wrong: FloatArray, false_accept: float) -> tuple[FloatArray, FloatArray]:
    """Return the chance that the first 0, 1, ... tries all fail, and that a right one passes within them.

    ``wrong`` [..., M + 1] is the chance that so many are all wrong; a wrong one passes with chance f. Try j
    is made with chance (1 - f)^(j - 1) E (1 - theta)^(j - 1), and right with theta of it.
    """
    kept: FloatArray = (1 - false_accept) ** np.arange(wrong.shape[-1], dtype=np.float64)
    solved: FloatArray = np.zeros(wrong.shape)
    np.cumsum(kept[:-1] * -np.diff(wrong, axis=-1), axis=-1, out=solved[..., 1:])
    return kept * wrong, solved


def tries_made(failing: FloatArray) -> FloatArray:
    """Return the mean tries made of at most 0, 1, ..., from the chance [m, M + 1] that so many all fail."""
    return np.cumsum(np.pad(failing, ((0, 0), (1, 0)))[:, :-1], axis=1)


@dataclass(frozen=True, eq=False)
class _Points:
    """Points of the law on a grid: ``a`` and ``b`` of the beta law and the share ``never`` solved, each [G].

    ``place`` [G, 3] is in the unit cube, on which the prior is uniform. The mean has Jeffreys' prior and the
    correlation a uniform one. The share is 0 with probability one half, else Beta(1, 2).
    """

    place: FloatArray
    a: FloatArray
    b: FloatArray
    never: FloatArray

    @classmethod
    def within(cls, low: FloatArray, high: FloatArray) -> _Points:
        """Return the midpoints of equal cells of a box of the cube."""
        cells = (np.arange(POINTS) + 0.5) / POINTS
        axes = np.meshgrid(*(low + cells[:, None] * (high - low)).T, indexing="ij")
        place = np.stack([axis.ravel() for axis in axes], axis=1)
        mean, c = np.sin(place[:, 0] * np.pi / 2) ** 2, place[:, 1]
        size, solved = (1 - c) / c, np.minimum(2 * (1 - place[:, 2]), 1.0)
        return cls(place, mean * size, (1 - mean) * size, 1 - np.sqrt(solved))


@dataclass(frozen=True, eq=False)
class TryLaw:
    """Posterior of the law of a question's tries: points with their ``weight`` [G].

    ``a`` and ``b`` [G] are those of the beta law of the chance that a try is right, ``never`` [G] the share
    of questions on which none ever is. ``hidden`` is the share of wrong tries among the counted ones that
    passed for right.
    """

    a: FloatArray
    b: FloatArray
    never: FloatArray
    weight: FloatArray
    hidden: float = 0.0

    @classmethod
    def of(cls, passed: IntArray, tried: IntArray, units: int | None = None, hidden: float = 0.0) -> TryLaw:
        """Return the posterior from the tries of each question [n] that passed, and those made.

        Of ``units`` independent clusters the likelihood counts as much as that of so many questions.
        """
        low, high, scale = np.zeros(3), np.ones(3), (units or len(passed)) / len(passed)
        counts = [(k, np.bincount(passed[tried == k], minlength=k + 1)) for k in np.unique(tried).tolist()]
        points, weight = _Points.within(low, high), np.ones(POINTS**3)
        for _ in range(REFINED):
            log: FloatArray = np.zeros(POINTS**3)
            for k, times in counts:
                log += scale * xlogy(times, _passing(points, k, hidden)).sum(axis=1)
            weight = np.exp(log - log.max())
            if weight.sum() ** 2 >= ENOUGH * (weight**2).sum():
                break
            held, cell = points.place[weight > NEGLIGIBLE], (high - low) / POINTS
            low = np.clip(held.min(axis=0) - cell, 0, 1)
            high = np.clip(held.max(axis=0) + cell, 0, 1)
            points = _Points.within(low, high)
        kept = weight > NEGLIGIBLE
        weight = weight[kept] / weight[kept].sum()
        return cls(points.a[kept], points.b[kept], points.never[kept], weight, hidden)

    def unsolved_shares(self, most: int) -> FloatArray:
        """Return the share of questions left unsolved by 0..``most`` tries at each point [G, most + 1]."""
        return self.never[:, None] + (1 - self.never)[:, None] * _wrong(self.a, self.b, most)

    def next_right(self, most: int) -> FloatArray:
        """Return the chance that the next try is right after 0..``most`` wrong ones, at each point."""
        left = self.unsolved_shares(most + 1)
        return 1 - left[:, 1:] / left[:, :-1]

    def after(self, passed: int, tried: int, most: int) -> FloatArray:
        """Return E (1 - theta)^j for j from 0 to ``most`` on a question where ``passed`` of ``tried`` passed.

        The chance that so many further tries of it are all wrong.
        """
        right = np.arange(passed + 1)
        joint = _right(self.a, self.b, tried)[:, : passed + 1] * (1 - self.never)[:, None]
        joint *= _false(right, passed, tried, self.hidden)
        none = self.never * _false(np.zeros(1), passed, tried, self.hidden)[0]
        share = self.weight / np.maximum(joint.sum(axis=1) + none, 1e-300)
        left = np.full(most + 1, float(share @ none))
        for y in right[joint.sum(axis=0) > 0].tolist():
            left += (share * joint[:, y]) @ _wrong(self.a + y, self.b + tried - y, most)
        return left

    def interval(self, values: FloatArray, level: float = 0.95) -> tuple[float, float, float]:
        """Return the posterior mean and the ends of the central interval of values at each point [G]."""
        order = np.argsort(values)
        reached = np.cumsum(self.weight[order]) - self.weight[order] / 2
        lo, hi = np.interp([(1 - level) / 2, (1 + level) / 2], reached, values[order]).tolist()
        return float(self.weight @ values), lo, hi

    @cached_property
    def share_never(self) -> tuple[float, float, float]:
        """The share of questions that no number of tries solves, with its interval."""
        return self.interval(self.never)


def _wrong(a: FloatArray, b: FloatArray, most: int) -> FloatArray:
    """Return E (1 - theta)^j for j from 0 to ``most`` [G, most + 1], theta ~ Beta(a, b)."""
    j = np.arange(most, dtype=np.float64)
    steps: FloatArray = (b[:, None] + j) / ((a + b)[:, None] + j)
    out: FloatArray = np.ones((len(a), most + 1))
    np.cumprod(steps, axis=1, out=out[:, 1:])
    return out


def _right(a: FloatArray, b: FloatArray, k: int) -> FloatArray:
    """Return the beta-binomial chance that 0..k of k tries are right [G, k + 1]."""
    y = np.arange(k + 1)
    ways = gammaln(k + 1) - gammaln(y + 1) - gammaln(k - y + 1)
    log: FloatArray = ways + betaln(a[:, None] + y, b[:, None] + k - y) - betaln(a, b)[:, None]
    return np.asarray(np.exp(log), np.float64)


def _false(right: ArrayLike, passed: ArrayLike, tried: int, hidden: float) -> FloatArray:
    """Return the chance that as many tries pass, where ``right`` of them are right."""
    y, x = np.asarray(right, np.float64), np.asarray(passed, np.float64)
    ways = binom(tried - y, np.maximum(x - y, 0))
    chance = ways * np.exp(xlogy(np.maximum(x - y, 0), hidden) + xlog1py(tried - x, -hidden))
    return np.asarray(np.where(x >= y, chance, 0.0), np.float64)


def _passing(points: _Points, k: int, hidden: float) -> FloatArray:
    """Return the chance that 0..k of k tries pass [G, k + 1]."""
    y = np.arange(k + 1)
    right = _right(points.a, points.b, k) * (1 - points.never)[:, None]
    right[:, 0] += points.never
    return right if hidden == 0 else right @ _false(y[:, None], y, k, hidden)
