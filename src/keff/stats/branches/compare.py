"""Two arms on the same items: how the correlation of correctness changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keff.records import Estimate, Note, frozen
from keff.stats.resampling import group_sums, resampled_totals
from keff.stats.votes import FloatArray, IntArray, Votes
from keff.stats.voting.choose import k_eff
from keff.stats.voting.correlation import anova_c, pearson_c, pooled_from_sums, unbias

Estimator = Literal["pearson", "anova"]

# Up to so many products of two columns each of them is resampled; beyond, their mean goes by three sums per
# question: the products of K columns would take K^2 / 2 numbers per question.
PAIRED_CELLS = 2**20

# Below 2% accuracy right answers are too few for a correlation.
ACCURACY_FLOOR = 0.02
# Clusters on the rarer side that a paired interval needs at least.
FEWEST_MINORITY = 10
# More undefined resamples than this, and what is left is a selected sample.
MOST_UNDEFINED = 0.1
TOO_EXTREME = "too_few_right_or_wrong"
# The estimators of c in one arm, judged on the same resamples: the paper's mean over pairs of slots, constant
# ones dropped, and the bias-corrected one.
C_OF: dict[Estimator, Callable[[Votes], float]] = {
    "pearson": lambda votes: pearson_c(votes)[0],
    "anova": anova_c,
}
METHODS = {"paired": "cluster_bootstrap", "rows": "row_bootstrap"}


@frozen
class ArmPlan:
    """Design of a comparison of two arms: what is resampled, how often, and the level.

    ``design``: "paired" resamples the clusters of both arms together; "rows" resamples the rows of each arm
    on its own, as the paper does, which ignores repeated items and pairing. ``replicates`` bootstrap draws
    give percentile intervals of this ``level``.
    """

    design: Literal["paired", "rows"] = "paired"
    replicates: int = 10_000
    level: float = 0.95


# The two arms of a question are resampled together.
PAIRED = ArmPlan()


@frozen
class ArmDraws:
    """Bootstrap draws of c in both arms, each [B]; NaN where a draw is degenerate."""

    first: FloatArray
    second: FloatArray

    @property
    def relative(self) -> FloatArray:
        """(second - first) / |first| [B], the paper's delta rho."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.second - self.first) / np.abs(self.first)


@frozen
class ArmComparison:
    """The second arm against the first: correlations, and changes with intervals.

    ``delta`` is second minus first, ``relative`` that over |first| (a share: -0.38 is the paper's -38%) with
    its bootstrap ``draws``, ``delta_k_eff`` the change of K/(1+(K-1)c).
    """

    c: tuple[float, float]
    delta: Estimate
    relative: Estimate
    draws: FloatArray
    delta_k_eff: Estimate


def compare_arms(
    first: Votes, second: Votes, rng: np.random.Generator, plan: ArmPlan = PAIRED
) -> list[ArmComparison]:
    """Compare the correctness correlation of two arms, such as one prompt and K templates.

    By each estimator of ``C_OF``.

    Clusters that share an id are the same item in both arms; one that is in a single arm still counts
    there. Percentile intervals from ``arm_draws``. No interval is given (lo and hi None, with a warning)
    when more than a tenth of the draws is undefined, or, in the paired design, when an arm has fewer than
    10 right or wrong clusters' worth of paths, where percentiles cover badly; an accuracy below 0.02 is
    warned of. Raises ValueError for one path, unlabelled votes, or paired arms that share no cluster.
    """
    n = min(arm.n if plan.design == "rows" else arm.n_clusters for arm in (first, second))
    base = Estimate(math.nan, None, None, METHODS[plan.design], n, second.k, _notes(first, second, plan))
    found: list[ArmComparison] = []
    for estimate, draws in zip(C_OF.values(), arm_draws(first, second, rng, plan), strict=True):
        a, b = estimate(first), estimate(second)
        with np.errstate(invalid="ignore"):  # where both are infinite the change is unknown
            change = k_eff(second.k, b) - k_eff(first.k, a)
            changes = k_eff(second.k, draws.second) - k_eff(first.k, draws.first)
        relative = (b - a) / abs(a) if a else math.nan
        found.append(
            ArmComparison(
                c=(a, b),
                delta=_percentile(base, b - a, draws.second - draws.first, plan.level),
                relative=_percentile(base, relative, draws.relative, plan.level),
                draws=draws.relative,
                delta_k_eff=_percentile(base, float(change), changes, plan.level),
            )
        )
    return found


def arm_draws(
    first: Votes, second: Votes, rng: np.random.Generator, plan: ArmPlan = PAIRED
) -> list[ArmDraws]:
    """Return bootstrap draws of c in both arms, by weights on units, for each estimator of ``C_OF``."""
    sums = [np.concatenate([row_sums(arm, each) for each in C_OF], axis=1) for arm in (first, second)]
    if plan.design == "rows" and len(sums[0]) == len(sums[1]):
        # The next resample of as many rows is independent of this one, and drawing takes longest.
        joint = resampled_totals(np.concatenate(sums, axis=1), plan.replicates, rng)
        own, other = np.split(joint, [sums[0].shape[1]])
        totals = [own, np.roll(other, 1, axis=1)]
    elif plan.design == "rows":
        totals = [resampled_totals(units, plan.replicates, rng) for units in sums]
    else:
        groups = _groups(first, second)
        count = int(max(groups[0].max(), groups[1].max())) + 1
        arms = [group_sums(units, ids, count) for units, ids in zip(sums, groups, strict=True)]
        joint = resampled_totals(np.concatenate(arms, axis=1), plan.replicates, rng)
        totals = np.split(joint, [sums[0].shape[1]])
    # Of the totals the last three are those of S and S^2.
    drawn = [
        (c_from_totals(own[:-3], arm.k, "pearson"), c_from_totals(own[-3:], arm.k, "anova"))
        for arm, own in zip((first, second), totals, strict=True)
    ]
    return [ArmDraws(one, other) for one, other in zip(*drawn, strict=True)]


def row_sums(votes: Votes, estimator: Estimator) -> NDArray[Any]:
    """Return each row's sufficient statistics for c: 1, S and S^2, or columns and their pairwise products.

    Of many columns, or questions, sums of standardised columns stand for their products; see
    ``_standardised_sums``.
    """
    y = votes.scored()
    if votes.k < 2:
        raise ValueError("correlation needs at least two paths per item")
    ones = np.ones((votes.n, 1), np.int64)
    if estimator == "pearson" and votes.k > 2 and votes.n * votes.k * (votes.k - 1) // 2 > PAIRED_CELLS:
        return _standardised_sums(y)
    if estimator == "pearson":
        j, k = np.triu_indices(votes.k, 1)
        return np.concatenate([ones, y, y[:, j] * y[:, k]], axis=1)
    s = y.sum(axis=1, keepdims=True)
    return np.concatenate([ones, s, s * s], axis=1)


def c_from_totals(totals: NDArray[Any], k: int, estimator: Estimator) -> FloatArray:
    """Return c [B] from weighted totals [m, B] of ``row_sums``; NaN where degenerate."""
    if estimator == "pearson":
        return _mean_standardised(totals) if len(totals) == 4 and k > 2 else _mean_pearson(totals, k)
    return unbias(pooled_from_sums(totals[0], totals[1], totals[2], k), totals[0], k)


def _mean_pearson(totals: NDArray[Any], k: int) -> FloatArray:
    """Return the mean pairwise Pearson correlation [B] of resampled columns."""
    n, sums, joint = totals[0], totals[1 : k + 1], totals[k + 1 :]
    spread = n * sums - sums * sums
    alive = spread > 0
    scale = np.where(alive, 1.0 / np.sqrt(np.where(alive, spread, 1.0)), 0.0)
    scaled = sums * scale
    total = np.zeros(n.shape)
    for row, (i, j) in enumerate(itertools.combinations(range(k), 2)):
        total += n * joint[row] * (scale[i] * scale[j]) - scaled[i] * scaled[j]
    kept = alive.sum(axis=0)
    pairs = kept * (kept - 1) / 2
    return np.where(pairs > 0, total / np.maximum(pairs, 1), np.nan)


def _standardised_sums(y: IntArray) -> FloatArray:
    """Return each row's 1, mean standardised score, mean pairwise product and mean square [n, 4].

    Columns are standardised once, by their accuracy and spread in all rows; constant ones are left out.
    """
    p = y.mean(axis=0)
    spread = p * (1 - p)
    kept = max(int(np.sum(spread > 0)), 1)
    scale = np.where(spread > 0, 1 / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)
    total = y @ scale - p @ scale
    square = y @ ((1 - 2 * p) * scale**2) + np.sum((p * scale) ** 2)
    pairs = (total * total - square) / max(kept * (kept - 1), 1)
    return np.stack([np.ones(len(y)), total / kept, pairs, square / kept], axis=1)


def _mean_standardised(totals: NDArray[Any]) -> FloatArray:
    """Return the mean correlation [B] from resampled ``_standardised_sums``; exact on the full sample.

    In a resample columns may shift together; that each also shifts on its own is averaged out over many
    columns.
    """
    n, mean, pairs, square = totals
    shift = (mean / n) ** 2
    left = square / n - shift
    # Where all scores are equal there is no variance to share, and the correlation is undefined.
    return np.where(left > 1e-12, (pairs / n - shift) / np.where(left > 1e-12, left, 1.0), np.nan)


def _groups(first: Votes, second: Votes) -> tuple[IntArray, IntArray]:
    """Return the cluster numbers of both arms [n], [m], shared ones alike; ValueError if none is shared."""
    ids = np.arange(first.n) if first.clusters is None else first.clusters
    others = np.arange(second.n) if second.clusters is None else second.clusters
    if np.intersect1d(ids, others).size == 0:
        raise ValueError('the arms share no cluster: use design="rows"')
    numbers = np.unique(np.concatenate([ids, others]), return_inverse=True)[1].astype(np.int64)
    return numbers[: first.n], numbers[first.n :]


def _notes(first: Votes, second: Votes, plan: ArmPlan) -> tuple[Note, ...]:
    notes: list[Note] = []
    for name, arm in (("first", first), ("second", second)):
        if arm.p in (0.0, 1.0):
            notes.append(
                Note("degenerate", f"The {name} arm is all right or all wrong, so it has no correlation.")
            )
        if arm.p < ACCURACY_FLOOR:
            notes.append(
                Note("accuracy_floor", f"The {name} arm is right in under 2% of paths. Its c means little.")
            )
        if plan.design == "paired" and arm.n_clusters * min(arm.p, 1 - arm.p) < FEWEST_MINORITY:
            notes.append(
                Note(TOO_EXTREME, f"The {name} arm is too near 0% or 100% for a bootstrap interval.")
            )
    return tuple(notes)


def _percentile(base: Estimate, value: float, draws: FloatArray, level: float) -> Estimate:
    defined = draws[~np.isnan(draws)]
    notes = base.warnings
    if defined.size < draws.size:
        text = f"{draws.size - defined.size} of {draws.size} bootstrap draws were undefined and left out."
        notes = (*notes, Note("undefined_draws", text))
    unusable = any(note.code == TOO_EXTREME for note in notes) or math.isnan(value)
    if unusable or defined.size < (1 - MOST_UNDEFINED) * draws.size:
        return replace(base, value=value, warnings=notes)
    lo, hi = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return replace(base, value=value, lo=float(lo), hi=float(hi), warnings=notes)
