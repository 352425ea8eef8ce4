"""RepeatedScores -> Noise: how far to trust a score, and what more questions or repeats would tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from keff.analysis.results.noise import EqualCost, Noise, PowerLine, VarianceSplit
from keff.reading.repeated import RepeatedScores
from keff.records import Interval, Note
from keff.stats.scores.reliability import (
    all_right,
    any_right,
    flips,
    without_gradient,
)
from keff.stats.scores.repeats import (
    Components,
    Repeats,
    clustered_variance,
    components,
    icc_interval,
    quantiles,
    run_to_run,
    score,
)
from keff.stats.votes import Votes
from keff.stats.voting.columns import column_test

# The k of pass@k and pass^k that are told, as far as ``FARTHEST`` times the repeats.
KS = (1, 2, 4, 8, 16, 32, 64)

# pass^k is told up to so many times the repeats: what the law errs beyond was not measured.
FARTHEST = 4

# Numbers of trials that reliability is asked for: powers of two, from the least recorded ones.
GROUPS = (4, 8, 16, 32)

# Standard deviations of one run that two runs stay within in 95%.
TWO_RUNS = 1.959964 * math.sqrt(2)

# Variance of the difference of two models' means of a question, over that of one model's: mean of 7 recorded
# data sets, 243 pairs of models (.30 to .73; their means correlate by .64 to .86). Two models of one kind
# differ less.
BETWEEN_MODELS = 0.48

# Sizes of evaluation sets in use, for the table of what they can tell apart.
SIZES = (50, 100, 200, 500, 1000, 2000)
# Repeats that somebody would pay for.
TIMES = (1, 2, 4, 8, 16)

# Two runs that never differ are copies where this many differences are to be expected.
ENOUGH_DIFFERENCES = 10


def noise(scored: RepeatedScores) -> Noise:
    """Return how far to trust the score of one record; see ``Noise``.

    What two repeats of some question are needed for is None where there are none.
    """
    repeats = scored.repeats
    low, wide = repeats.scale[0], repeats.scale[1] - repeats.scale[0]
    spread, sd = components(repeats), run_to_run(repeats)
    exact = repeats.binary
    ks = [k for k in KS if k == 1 or (spread is not None and k <= max(FARTHEST * repeats.k, repeats.k))]
    ks = sorted({*ks, repeats.k if spread is not None else 1})
    groups = [size for size in GROUPS if spread is not None and size <= FARTHEST * repeats.k]
    return Noise(
        n=repeats.n,
        k=repeats.k,
        clusters=repeats.units,
        score=_scaled(score(repeats).interval, wide, low),
        run_to_run_sd=None if sd is None else _scaled(sd, wide),
        gap_of_two_runs=None if sd is None else TWO_RUNS * sd.value * wide,
        c=icc_interval(repeats),
        variance=None if spread is None else _split(spread, repeats, wide),
        pass_at_k=_by_k(any_right, repeats, ks) if exact else None,
        pass_hat_k=_by_k(all_right, repeats, ks) if exact else None,
        flips=flips(repeats) if exact and spread is not None else None,
        groups_without_gradient=_by_k(without_gradient, repeats, groups) if exact else None,
        power=() if spread is None else _power(repeats, spread, wide),
        equal_cost=() if spread is None else _equal_cost(repeats, spread, wide),
        scale=repeats.scale,
        warnings=tuple(dict.fromkeys((*scored.notes, *_notes(scored, spread)))),
    )


def _by_k(
    function: Callable[[Repeats, int], Interval], repeats: Repeats, ks: Sequence[int]
) -> Mapping[int, Interval]:
    return {k: function(repeats, k) for k in ks}


def _scaled(value: Interval, wide: float, low: float = 0.0) -> Interval:
    """Return an interval of the scale 0 to 1 on the scale of the scores."""
    lo, hi = (None if x is None else low + wide * x for x in (value.lo, value.hi))
    return Interval(low + wide * value.value, lo, hi, value.method)


def _split(spread: Components, repeats: Repeats, wide: float) -> VarianceSplit:
    square = wide * wide
    clusters = None if repeats.clusters is None else square * spread.clusters
    return VarianceSplit(square * spread.questions, square * spread.repeats, clusters)


def _design_effect(repeats: Repeats) -> float:
    """Return how much larger the variance of the mean is than if questions were independent."""
    alone = clustered_variance(repeats.mean, np.arange(repeats.n))
    return clustered_variance(repeats.mean, repeats.ids) / alone if alone > 0 else 1.0


def _power(repeats: Repeats, spread: Components, wide: float) -> tuple[PowerLine, ...]:
    """Return the minimum detectable effects of a paired comparison with a model as noisy as this one.

    2.80 standard errors of the difference: sqrt(2 W / (n r)) on these very questions, and on new ones
    sqrt((omega^2 deff + 2 W / r) / n) with omega^2 = ``BETWEEN_MODELS`` times the variance between questions
    (Miller 2024, section 5).
    """
    between = BETWEEN_MODELS * (spread.clusters + spread.questions) * _design_effect(repeats)
    needed = quantiles() * wide
    return tuple(
        PowerLine(
            n,
            r,
            needed * math.sqrt((between + 2 * spread.repeats / r) / n),
            needed * math.sqrt(2 * spread.repeats / (n * r)),
        )
        for n in sorted({*SIZES, repeats.n})
        for r in sorted({*TIMES, repeats.k})
    )


def _equal_cost(repeats: Repeats, spread: Components, wide: float) -> tuple[EqualCost, ...]:
    """Return the standard error of the score for as many answers as were drawn, split otherwise."""
    total = int(repeats.count.sum())
    between = (spread.clusters + spread.questions) * _design_effect(repeats)
    return tuple(
        EqualCost(n, r, wide * math.sqrt((between + spread.repeats / r) / n))
        for r in sorted({*TIMES, repeats.k})
        if (n := total // r) > 1
    )


def _notes(scored: RepeatedScores, spread: Components | None) -> list[Note]:
    repeats, notes = scored.repeats, list[Note]()
    if repeats.units < 10:
        notes.append(
            Note("few_questions", f"only {repeats.units} independent questions: intervals are rough")
        )
    if spread is None:
        text = (
            "no question has two repeats, so the noise of a run is unknown: run the same questions once more "
            "(two repeats of 50 questions say roughly how large it is) and give both"
        )
        return [*notes, Note("one_repeat", text)]
    if not repeats.binary:
        notes.append(Note("graded", "scores are graded: pass@k, pass^k and flips need right and wrong"))
    if spread.repeats == 0:
        text = "all repeats of every question scored alike: copies of one generation, or temperature 0?"
        return [*notes, Note("all_alike", text)]
    if scored.votes is not None:
        notes += _of_columns(scored.votes, repeats)
    return notes


def _of_columns(votes: Votes, repeats: Repeats) -> list[Note]:
    """Say where runs are copies of each other, or differ by more than chance."""
    notes: list[Note] = []
    same = _copies(votes, repeats)
    if same:
        pairs = ", ".join(f"{a} and {b}" for a, b in same[:3])
        text = (
            f"runs {pairs}{', ...' if len(same) > 3 else ''} are the same on every question: "
            "copies, or trials that share a seed; the noise told is too small"
        )
        notes.append(Note("copied_runs", text))
    elif column_test(votes, np.random.default_rng(0)).mixed:
        text = (
            "the scores of the runs differ by more than repeats do by chance (p < .001): something changed "
            "between them, and the noise told leaves it out"
        )
        notes.append(Note("unlike_runs", text))
    return notes


def _copies(votes: Votes, repeats: Repeats) -> list[tuple[int, int]]:
    """Return pairs of runs, numbered from 1, that agree on every question though many would differ."""
    matrix: NDArray[np.generic] = votes.scored() if votes.answers is None else votes.answered()
    values = matrix if votes.tokens is None else np.where(np.isnan(votes.tokens), matrix, votes.tokens)
    if votes.k < 2 or 2 * float(repeats.variances.sum()) < ENOUGH_DIFFERENCES:
        return []
    first: dict[bytes, int] = {}
    pairs: list[tuple[int, int]] = []
    for place in range(votes.k):
        name = np.ascontiguousarray(values[:, place]).tobytes()
        if name in first:
            pairs.append((first[name] + 1, place + 1))
        else:
            first[name] = place
    return pairs
