"""Is B better than A: the paired difference of two repeated scores on the same questions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr, stdtrit

from keff.records import Interval
from keff.stats.repeats import Repeats, clustered_variance, quantiles, within_value
from keff.stats.votes import FloatArray

# Up to so many clusters that differ, the test is by exact counting; beyond, t and it agree to a digit.
FEW = 2000

# Cells of the law of a sum of signs; with more, as for graded scores, signs are drawn.
MOST_STEPS = 2**20

# Rounding of the transform: no smaller p-value is told by counting.
LEAST_P = 1e-12

# A p-value of 5% is then known to .15%.
DRAWS = 20_000
# Fixed, so that one pair of files has one p-value.
SEED = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """The second score minus the first on the shared questions, on the scale 0 to 1.

    ``p_value`` is that of the sign-flip test of no difference, ``noise`` the standard deviation of the
    difference that repeats alone give on these very questions (None where no question has two repeats on
    either side), ``same_model_chance`` how often two runs of one model, of as many repeats, differ by as much
    or more. ``questions_needed`` and ``repeats_needed`` are how many in all would find the difference seen,
    were it the true one, with 80% power at 5%: None where no number would.
    """

    difference: Interval
    p_value: float
    noise: float | None
    same_model_chance: float | None
    questions_needed: int | None
    repeats_needed: int | None

    @property
    def decided(self) -> bool:
        """Whether the interval leaves no doubt which is better."""
        limits = self.difference.limits
        return limits is not None and (limits[0] > 0 or limits[1] < 0)


def paired(first: Repeats, second: Repeats, level: float = 0.95) -> Difference:
    """Compare two scores on the same questions, row by row; repeats may be unequally many.

    The interval is t over clusters, of the mean of differences of question means, so repeats and questions
    both are in it; one difference of each sign is added to its variance, as Bonett and Price (2012) do for
    single answers, so that it has a width where nothing differs, and it reaches 0 where the exact test does
    not reject. The test flips the signs of the differences of whole clusters: exact under exchange of the two
    sides, McNemar's for single answers. Raises ValueError for unequal numbers of questions.
    """
    if first.n != second.n:
        raise ValueError(f"{first.n} and {second.n} questions cannot be paired")
    apart = second.mean - first.mean
    ids, units = second.ids, second.units
    value = float(apart.mean())
    p_value, exact = sign_flips(np.bincount(ids, apart).astype(np.float64))
    noise = _noise(first, second)
    if units < 2:
        return Difference(Interval(value, None, None, "one cluster"), p_value, noise, None, None, None)
    unit = float(np.mean(1 / np.maximum(first.count, second.count)))
    variance = clustered_variance(apart, ids)
    half = float(stdtrit(units - 1, (1 + level) / 2)) * math.sqrt(variance + 2 * (unit / first.n) ** 2)
    lo, hi = max(value - half, -1.0), min(value + half, 1.0)
    if exact and p_value >= 1 - level:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    elif not exact:
        p_value = 2 * float(stdtr(units - 1, -abs(value) / math.sqrt(variance))) if variance > 0 else p_value
    method = "paired, cluster t" + (", sign flips" if exact else "")
    return Difference(
        Interval(value, lo, hi, method),
        p_value,
        noise,
        _same_model(value, first, second),
        _needed(first.n, value, variance),
        _repeats_needed(first, second, value, variance),
    )


def sign_flips(totals: FloatArray) -> tuple[float, bool]:
    """Return the two-sided p-value of a sum under random signs of its terms, and whether it was counted.

    The law of the sum is the convolution of two-point laws on the grid that the terms share, through its
    characteristic function; of terms that share no such grid ``DRAWS`` signs are drawn. Not for more than
    ``FEW`` terms that are not 0.
    """
    terms = np.abs(totals[np.abs(totals) > 1e-12])
    if terms.size == 0:
        return 1.0, True
    if terms.size > FEW:
        return math.nan, False
    seen = abs(float(totals.sum()))
    step = _grid(terms)
    size = 0 if step is None else round(float(terms.sum()) / step) * 2 + 2
    if step is None or size > MOST_STEPS:
        rng = np.random.default_rng(SEED)
        as_far = sum(
            int(np.sum(np.abs(rng.choice((-1.0, 1.0), (DRAWS // 20, terms.size)) @ terms) >= seen - 1e-9))
            for _ in range(20)
        )
        return (1 + as_far) / (DRAWS + 1), True
    whole, counts = np.unique(np.rint(terms / step).astype(np.int64), return_counts=True)
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    wave = np.ones(angle.size)
    for term, times in zip(whole.tolist(), counts.tolist(), strict=True):
        wave *= np.cos(angle * term) ** times
    law = np.fft.irfft(wave, size)
    reach = np.minimum(np.arange(size), size - np.arange(size))
    return float(min(max(law[reach >= round(seen / step)].sum(), LEAST_P), 1.0)), True


def _grid(terms: FloatArray) -> float | None:
    """Return the step of which all terms are whole multiples; None where there is none of a useful size."""
    smallest = float(terms.min())
    for part in range(1, 65):
        step = smallest / part
        if float(np.max(np.abs(terms / step - np.rint(terms / step)))) < 1e-6:
            return step
    return None


def _inside(first: Repeats, second: Repeats) -> tuple[float, float] | None:
    """Return the mean variance of one answer on each side; None where no question has two repeats on either.

    A side of single answers is taken to be as noisy as the other.
    """
    one, other = within_value(first), within_value(second)
    if one is None and other is None:
        return None
    return (other if one is None else one) or 0.0, (one if other is None else other) or 0.0


def _noise(first: Repeats, second: Repeats) -> float | None:
    inside = _inside(first, second)
    if inside is None:
        return None
    sides = zip(inside, (first, second), strict=True)
    return math.sqrt(sum(value * float(np.mean(1 / side.count)) for value, side in sides) / first.n)


def _same_model(value: float, first: Repeats, second: Repeats) -> float | None:
    """Return P(|difference| of two runs >= that seen), by the noise of one answer that both sides show."""
    inside = _inside(first, second)
    if inside is None:
        return None
    spread = sum(inside) / 2 * float(np.mean(1 / first.count + 1 / second.count)) / first.n
    if spread <= 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * ndtr(-abs(value) / math.sqrt(spread)))


# More questions than exist: said as never.
MOST_NEEDED = 10**9


def _needed(n: int, value: float, variance: float) -> int | None:
    if value == 0:
        return None
    needed = n * variance * (quantiles() / value) ** 2
    return max(2, math.ceil(needed - 1e-9)) if needed < MOST_NEEDED else None


def _repeats_needed(first: Repeats, second: Repeats, value: float, variance: float) -> int | None:
    """Return how many repeats on each side make the difference found; None where questions alone hide it."""
    inside, noise = _inside(first, second), _noise(first, second)
    if value == 0 or inside is None or noise is None:
        return None
    both = sum(inside) / first.n
    left = (value / quantiles()) ** 2 - max(variance - noise**2, 0.0)
    return max(1, math.ceil(both / left - 1e-9)) if left > 0 and both / left < MOST_NEEDED else None


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values [m] adjusted for their number by Holm (1979)."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * (p.size - np.arange(p.size)))
    out = np.empty(p.size)
    out[order] = np.minimum(adjusted, 1.0)
    return out
