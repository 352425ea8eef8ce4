"""Noise of repeated scores, and paired tests between models.

RepeatedScores -> Noise says what more questions or repeats would tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from keff.analysis.results.comparison import Better, QuestionChange, ScoreComparison, ScoreVerdict
from keff.analysis.results.scores import EqualCost, Noise, PowerLine, VarianceSplit
from keff.analysis.sources import KS, SIZES, TIMES, TWO_RUNS, rescale, with_sources
from keff.errors import UsageError
from keff.reading.repeated import RepeatedScores
from keff.records import Interval, Note
from keff.stats.gate import SURE, worse_chances
from keff.stats.intervals import mean_share
from keff.stats.repeats import (
    Components,
    Repeats,
    components,
    icc_interval,
    quantiles,
    run_to_run,
)
from keff.stats.resampling import clustered_variance
from keff.stats.scores import all_right, any_right, flips, holm, paired_test, without_gradient
from keff.stats.sources import SourceLuck, luck_of_difference
from keff.stats.votes import IntArray, Votes
from keff.stats.voting.columns import column_test

# pass^k is told up to so many times the repeats: what the law errs beyond was not measured.
FARTHEST = 4

# Numbers of trials that reliability is asked for: powers of two, from the least recorded ones.
GROUPS = (4, 8, 16, 32)

# Variance of the difference of two models' means of a question, over that of one model's: mean of 7 recorded
# data sets, 243 pairs of models (.30 to .73; their means correlate by .64 to .86). Two models of one kind
# differ less. Found by ``benchmarks.constants.score_spreads``.
BETWEEN_MODELS = 0.48

# Two runs that never differ are copies where this many differences are to be expected.
ENOUGH_DIFFERENCES = 10


def noise(scored: RepeatedScores) -> Noise:
    """Return the noise of the score of one record; see ``Noise``.

    What two repeats of some question are needed for is None where there are none.
    """
    repeats = scored.repeats
    low, wide = repeats.scale[0], repeats.scale[1] - repeats.scale[0]
    spread, sd = components(repeats), run_to_run(repeats)

    def told(share: Callable[[Repeats, int], Interval], ks: Sequence[int]) -> dict[int, Interval] | None:
        return {k: share(repeats, k) for k in ks} if repeats.binary else None

    ks = [k for k in KS if k == 1 or (spread is not None and k <= max(FARTHEST * repeats.k, repeats.k))]
    ks = sorted({*ks, repeats.k if spread is not None else 1})
    groups = [size for size in GROUPS if spread is not None and size <= FARTHEST * repeats.k]
    found = Noise(
        n=repeats.n,
        k=repeats.k,
        clusters=repeats.units,
        score=rescale(mean_share(repeats.mean, repeats.ids), wide, low),
        run_to_run_sd=None if sd is None else rescale(sd, wide),
        gap_of_two_runs=None if sd is None else min(TWO_RUNS * sd.value, 1.0) * wide,
        c=icc_interval(repeats),
        variance=None if spread is None else _split(spread, repeats, wide),
        pass_at_k=told(any_right, ks),
        pass_hat_k=told(all_right, ks),
        flips=flips(repeats) if repeats.binary and spread is not None else None,
        groups_without_gradient=told(without_gradient, groups),
        power=() if spread is None else _power(repeats, spread, wide),
        equal_cost=() if spread is None else _equal_cost(repeats, spread, wide),
        scale=repeats.scale,
        warnings=tuple(dict.fromkeys((*scored.notes, *_notes(scored, spread)))),
    )
    return found if scored.sources is None else with_sources(found, scored.sources)


def _split(spread: Components, repeats: Repeats, wide: float) -> VarianceSplit:
    square = wide * wide
    clusters = None if repeats.clusters is None else square * spread.clusters
    return VarianceSplit(square * spread.questions, square * spread.repeats, clusters)


def _design_effect(repeats: Repeats) -> float:
    """Return the design effect: variance of the mean over that of independent questions."""
    alone = clustered_variance(repeats.mean, np.arange(repeats.n))
    return clustered_variance(repeats.mean, repeats.ids) / alone if alone > 0 else 1.0


def _power(repeats: Repeats, spread: Components, wide: float) -> tuple[PowerLine, ...]:
    """Return the minimum detectable differences of a paired comparison with an equally noisy model.

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
    """Return the standard errors of the score with equally many answers, split otherwise."""
    total = int(repeats.count.sum())
    between = (spread.clusters + spread.questions) * _design_effect(repeats)
    return tuple(
        EqualCost(n, r, wide * math.sqrt((between + spread.repeats / r) / n))
        for r in sorted({*TIMES, repeats.k})
        if (n := total // r) > 1
    )


def _notes(scored: RepeatedScores, spread: Components | None) -> Iterator[Note]:
    repeats = scored.repeats
    # Limits by the t distribution rest on a variance of fewer clusters than that.
    if repeats.units < 10:
        yield Note("few_questions", f"with only {repeats.units} independent questions intervals are rough")
    if spread is None and repeats.several.any():
        yield Note("one_question", "one question says nothing about others, however often it is repeated")
        return
    if spread is None:
        yield Note(
            "one_repeat",
            "no question has two repeats, so keff cannot tell the noise of a run. Run the same questions "
            "once more (50 of them tell roughly), and put both in one log: keff join --pool",
        )
        return
    if not repeats.binary:
        yield Note("graded", "scores are graded, and pass@k, pass^k and flips need right and wrong")
    if spread.repeats == 0:
        yield Note(
            "all_alike",
            "all repeats of every question score the same. Are they copies, or temperature 0?",
        )
    elif scored.votes is not None and scored.sources is None:
        yield from _column_notes(scored.votes, repeats)


def _column_notes(votes: Votes, repeats: Repeats) -> Iterator[Note]:
    """Yield a note where runs are copies of each other or differ by more than chance."""
    if same := _copies(votes, repeats):
        pairs = ", ".join(f"{a} and {b}" for a, b in same[:3])
        yield Note(
            "copied_runs",
            f"runs {pairs}{', ...' if len(same) > 3 else ''} are the same on every question, "
            "as copies or runs with one seed are. The true noise is larger than shown",
        )
    elif column_test(votes, np.random.default_rng(0)).mixed:
        yield Note(
            "unlike_runs",
            "the scores of the runs differ by more than chance (p < .001). Something changed between them, "
            "and the noise shown does not include that",
        )


def _copies(votes: Votes, repeats: Repeats) -> list[tuple[int, int]]:
    """Return pairs of runs (from 1) that agree on every question, though many would differ by chance.

    They agree by answers, and by tokens too where these are known: equal tokens alone are no sign, for short
    answers have equally many, and some servers state those of a request with each of its paths.
    """
    matrix: NDArray[np.generic] = votes.scored() if votes.answers is None else votes.answered()
    values = matrix if votes.tokens is None else np.concatenate([matrix, np.nan_to_num(votes.tokens)])
    if votes.k < 2 or 2 * float(repeats.variances.sum()) < ENOUGH_DIFFERENCES:
        return []
    names = [values[:, place].tobytes() for place in range(votes.k)]
    first = [names.index(name) for name in names]
    return [(one + 1, place + 1) for place, one in enumerate(first) if one < place]


# The usual level of intervals; tests of several pairs correct theirs by Holm.
LEVEL = 0.95


def contest(
    scored: Sequence[RepeatedScores], level: float = LEVEL, *, with_first: bool = False
) -> ScoreComparison:
    """Compare all pairs of scores, or each ``with_first``; p-values adjusted by Holm.

    Raises UsageError for a single one, and for two that share no question.
    """
    if len(scored) < 2:
        raise UsageError("a comparison needs two scores: give two logs, or one of several models")
    sides = [(scored[0], other) for other in scored[1:]] if with_first else combinations(scored, 2)
    pairs = [pair(first, second, level) for first, second in sides]
    adjusted = holm([better.p_value for better, _ in pairs])
    found = tuple(
        replace(better, p_adjusted=float(p), verdict=better.verdict if p < 1 - level else "not decided")
        for (better, _), p in zip(pairs, adjusted, strict=True)
    )
    notes = dict.fromkeys(note for _, notes in pairs for note in notes)
    return ScoreComparison(found[0] if len(found) == 1 else None, found, tuple(notes))


def pair(first: RepeatedScores, second: RepeatedScores, level: float = LEVEL) -> tuple[Better, list[Note]]:
    """Compare two scores on their shared questions, matched by id; clusters are the first's.

    Raises UsageError where they share no question, or are on different scales.
    """
    a, b, ids, notes = shared_repeats(first, second)
    found = paired_test(a, b, level, source_luck(first, second))
    low, wide = a.scale[0], a.scale[1] - a.scale[0]
    difference = rescale(found.difference, wide)
    outcome: ScoreVerdict = "not decided"
    if found.decided:
        outcome = "better" if difference.value > 0 else "worse"
    better = Better(
        first=first.path,
        second=second.path,
        shared_questions=a.n,
        shared_clusters=a.units,
        verdict=outcome,
        difference=difference,
        p_value=found.p_value,
        p_adjusted=found.p_value,
        noise=None if found.noise is None else wide * found.noise,
        same_model_chance=found.same_model_chance,
        questions_needed=found.questions_needed,
        repeats_needed=found.repeats_needed,
        scores=(low + wide * float(a.mean.mean()), low + wide * float(b.mean.mean())),
        scale=a.scale,
        regressed=worse_questions(question_changes(a, b, ids)),
    )
    return better, [*first.notes, *second.notes, *notes, *_contest_notes(better, a, b)]


def source_luck(first: RepeatedScores, second: RepeatedScores) -> SourceLuck | None:
    """Return what the sources of paths add to the difference of two scores on their shared questions."""
    (one, other), _ = shared_rows((first.ids, second.ids), (first.path, second.path))
    sides = [
        None if side.sources is None else side.sources.take(rows)
        for side, rows in ((first, one), (second, other))
    ]
    return luck_of_difference(*sides)


def shared_repeats(
    first: RepeatedScores, second: RepeatedScores
) -> tuple[Repeats, Repeats, list[str], list[Note]]:
    """Return both scores on their shared questions and on one scale, the ids, and what to say of that.

    Clusters are the first's. Raises UsageError where they share no question, or are on different scales.
    """
    rows, notes = shared_rows((first.ids, second.ids), (first.path, second.path))
    clusters = None if first.repeats.clusters is None else first.repeats.clusters[rows[0]]
    a, b = _on_one_scale(first.repeats.take(rows[0], clusters), second.repeats.take(rows[1], clusters))
    places: list[int] = rows[0].tolist()
    ids = [str(first.ids[row]) for row in places]
    return a, b, ids, [*notes, *_other_texts(first, second, rows)]


def question_changes(first: Repeats, second: Repeats, ids: Sequence[str]) -> list[QuestionChange]:
    """Return each question's scores on both sides and the probability that the second is worse at it."""
    low, wide = first.scale[0], first.scale[1] - first.scale[0]
    chances = np.where(first.several & second.several, worse_chances(first, second), np.nan)
    sides = ((low + wide * side.mean).tolist() for side in (first, second))
    return [
        QuestionChange(name, (before, after), None if chance != chance else chance)
        for name, before, after, chance in zip(ids, *sides, chances.tolist(), strict=True)
    ]


def worse_questions(changes: Sequence[QuestionChange]) -> tuple[QuestionChange, ...] | None:
    """Return the questions that surely got worse, the surest first; None where no question can be told."""
    told = [(each.chance, each) for each in changes if each.chance is not None]
    sure = sorted((pair for pair in told if pair[0] >= SURE), key=lambda pair: -pair[0])
    return tuple(each for _, each in sure) if told else None


def worse_than(better: Better, tolerance: float = 0.0) -> bool:
    """Return whether the second score is worse by more than ``tolerance`` points at 5%.

    The whole interval of the difference lies below -tolerance; points are hundredths of scores from 0 to 1,
    and units of other scales.
    """
    allowed = tolerance / 100 if better.scale == (0.0, 1.0) else tolerance
    hi = better.difference.hi
    return hi is not None and hi < -allowed and better.p_adjusted < 1 - LEVEL


def shared_rows(
    names: tuple[Sequence[str], Sequence[str]], paths: tuple[str, str]
) -> tuple[tuple[IntArray, IntArray], list[Note]]:
    """Return the row indices of questions shared by two records, in the first's order, and notes.

    Raises UsageError where they share none.
    """
    if names[0] == names[1]:
        rows = np.arange(len(names[0]))
        return (rows, rows), []
    places = {name: row for row, name in enumerate(names[1])}
    shared = [(row, places[name]) for row, name in enumerate(names[0]) if name in places]
    if not shared:
        heads = [", ".join(each[:3]) for each in names]
        text = f"the arms share no item id ({heads[0]}, ... and {heads[1]}, ...), so keff cannot pair them"
        raise UsageError(text)
    notes = [
        Note(
            "unpaired_items",
            f"{path}: {len(each) - len(shared)} of {len(each)} items are not in the other arm "
            f"({_listed(set(each) - set(others), each)})",
        )
        for each, others, path in zip(names, names[::-1], paths, strict=True)
        if len(each) > len(shared)
    ]
    both = np.array(shared, np.int64)
    return (both[:, 0], both[:, 1]), notes


def _listed(wanted: set[str], names: Sequence[str]) -> str:
    """Return the first of the wanted names, in their order."""
    found = [name for name in names if name in wanted]
    return ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")


def _other_texts(
    first: RepeatedScores, second: RepeatedScores, rows: tuple[IntArray, IntArray]
) -> Iterator[Note]:
    """Yield a note where questions of one id have different texts, as between versions of a data set."""
    asked = [None if each.record is None else each.record.ballot.questions.asked for each in (first, second)]
    if asked[0] is None or asked[1] is None:
        return
    one, other = asked[0][rows[0]], asked[1][rows[1]]
    if differ := int(np.sum((one != other) & (one != 0) & (other != 0))):
        text = f"{differ} of {one.size} shared ids have different question texts on the two sides"
        yield Note("other_questions", f"{text}. Are they the same questions?")


def _on_one_scale(first: Repeats, second: Repeats) -> tuple[Repeats, Repeats]:
    """Return both scores on one scale; UsageError for 0 to 1 against another scale."""
    if first.scale == second.scale:
        return first, second
    wider = (min(first.scale[0], second.scale[0]), max(first.scale[1], second.scale[1]))
    if (0.0, 1.0) in (first.scale, second.scale):
        one, other = (f"{scale[0]:g} to {scale[1]:g}" for scale in (first.scale, second.scale))
        raise UsageError(f"one side has scores from {one}, the other from {other}. Bring both to one scale")
    return first.on_scale(wider), second.on_scale(wider)


def _contest_notes(better: Better, first: Repeats, second: Repeats) -> Iterator[Note]:
    if better.noise is None:
        yield Note(
            "one_repeat",
            "neither side repeats a question, so keff cannot tell how much two runs of one model differ. Ask "
            "each question twice, on one side at least",
        )
    if better.shared_clusters < 10:
        text = f"with only {better.shared_clusters} shared independent questions the interval is rough"
        yield Note("few_questions", text)
    if np.array_equal(first.mean, second.mean) and not np.all(first.second == 0):
        yield Note("same_scores", "both sides have the same score on every question. Is it one log twice?")
