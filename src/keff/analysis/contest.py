"""Is B better than A: two or more scores on the questions that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from keff.analysis.results.comparison import Better, Outcome, ScoreComparison
from keff.errors import UsageError
from keff.reading.repeated import RepeatedScores
from keff.records import Interval, Note
from keff.stats.scores.better import holm, paired
from keff.stats.scores.repeats import Repeats
from keff.stats.votes import IntArray

# The usual level of intervals; tests of several pairs correct theirs by Holm.
LEVEL = 0.95


def contest(scored: Sequence[RepeatedScores], level: float = LEVEL) -> ScoreComparison:
    """Compare each of several scores with each other one; p-values are adjusted by Holm.

    Raises UsageError for a single one, and for two that share no question.
    """
    return _adjusted([pair(a, b, level) for a, b in combinations(_several(scored), 2)], level)


def against(first: RepeatedScores, others: Sequence[RepeatedScores], level: float = LEVEL) -> ScoreComparison:
    """Compare each of some scores with the first; p-values are adjusted by Holm."""
    _several([first, *others])
    return _adjusted([pair(first, other, level) for other in others], level)


def _several(scored: Sequence[RepeatedScores]) -> Sequence[RepeatedScores]:
    if len(scored) < 2:
        raise UsageError("a comparison needs two scores: give two logs, or one of several models")
    return scored


def _adjusted(pairs: Sequence[tuple[Better, list[Note]]], level: float) -> ScoreComparison:
    adjusted = holm([better.p_value for better, _ in pairs])
    found = tuple(
        replace(better, p_adjusted=float(p), verdict=better.verdict if p < 1 - level else "not decided")
        for (better, _), p in zip(pairs, adjusted, strict=True)
    )
    notes = dict.fromkeys(note for _, notes in pairs for note in notes)
    return ScoreComparison(found[0] if len(found) == 1 else None, found, tuple(notes))


def pair(first: RepeatedScores, second: RepeatedScores, level: float = LEVEL) -> tuple[Better, list[Note]]:
    """Compare two scores on the questions that they share, matched by id; clusters are those of the first.

    Raises UsageError where they share no question, or are on different scales.
    """
    rows, notes = shared_rows((first.ids, second.ids), (first.path, second.path))
    clusters = None if first.repeats.clusters is None else first.repeats.clusters[rows[0]]
    a, b = _alike(first.repeats.take(rows[0], clusters), second.repeats.take(rows[1], clusters))
    found = paired(a, b, level)
    low, wide = a.scale[0], a.scale[1] - a.scale[0]
    limits = found.difference.limits
    lo, hi = (None, None) if limits is None else (wide * limits[0], wide * limits[1])
    outcome: Outcome = "not decided"
    if limits is not None and found.decided:
        outcome = "better" if limits[0] > 0 else "worse"
    better = Better(
        first=first.path,
        second=second.path,
        shared_questions=a.n,
        shared_clusters=a.units,
        verdict=outcome,
        difference=Interval(wide * found.difference.value, lo, hi, found.difference.method),
        p_value=found.p_value,
        p_adjusted=found.p_value,
        noise=None if found.noise is None else wide * found.noise,
        same_model_chance=found.same_model_chance,
        questions_needed=found.questions_needed,
        repeats_needed=found.repeats_needed,
        scores=(low + wide * float(a.mean.mean()), low + wide * float(b.mean.mean())),
        scale=a.scale,
    )
    return better, [
        *first.notes,
        *second.notes,
        *notes,
        *_other_texts(first, second, rows),
        *_notes(better, a, b),
    ]


def worse_than(better: Better, tolerance: float = 0.0) -> bool:
    """Return whether the second score is worse by more than ``tolerance`` points, beyond chance.

    The whole interval of the difference lies below -tolerance; points are hundredths of scores from 0 to 1,
    and units of other scales.
    """
    allowed = tolerance / 100 if better.scale == (0.0, 1.0) else tolerance
    hi = better.difference.hi
    return hi is not None and hi < -allowed and better.p_adjusted < 1 - LEVEL


def shared_rows(
    names: tuple[Sequence[str], Sequence[str]], paths: tuple[str, str]
) -> tuple[tuple[IntArray, IntArray], list[Note]]:
    """Return the rows of the questions that two records share, in the order of the first, and notes.

    Raises UsageError where they share none.
    """
    if names[0] == names[1]:
        rows = np.arange(len(names[0]))
        return (rows, rows), []
    places = {name: row for row, name in enumerate(names[1])}
    shared = [(row, places[name]) for row, name in enumerate(names[0]) if name in places]
    if not shared:
        heads = [", ".join(each[:3]) for each in names]
        text = f"the arms share no item id ({heads[0]}, ... against {heads[1]}, ...): nothing to pair"
        raise UsageError(text)
    notes = [
        Note(
            "unpaired_items",
            f"{path}: {len(each) - len(shared)} of {len(each)} items are not in the other arm",
        )
        for each, path in zip(names, paths, strict=True)
        if len(each) > len(shared)
    ]
    both = np.array(shared, np.int64)
    return (both[:, 0], both[:, 1]), notes


def _other_texts(
    first: RepeatedScores, second: RepeatedScores, rows: tuple[IntArray, IntArray]
) -> list[Note]:
    """Say where questions of one id have other texts, as two versions of a data set may."""
    asked = [None if each.record is None else each.record.ballot.asked for each in (first, second)]
    if asked[0] is None or asked[1] is None:
        return []
    one, other = asked[0][rows[0]], asked[1][rows[1]]
    differ = int(np.sum((one != other) & (one != 0) & (other != 0)))
    if not differ:
        return []
    text = (
        f"{differ} of {one.size} shared ids have another question text on the two sides: are they the same?"
    )
    return [Note("other_questions", text)]


def _alike(first: Repeats, second: Repeats) -> tuple[Repeats, Repeats]:
    """Return both on one scale: the wider of two where one holds the other, but never 0 to 1 with another."""
    if first.scale == second.scale:
        return first, second
    wider = (min(first.scale[0], second.scale[0]), max(first.scale[1], second.scale[1]))
    if (0.0, 1.0) in (first.scale, second.scale):
        one, other = (f"{scale[0]:g} to {scale[1]:g}" for scale in (first.scale, second.scale))
        raise UsageError(f"scores are on {one} and on {other}: bring both to one scale")
    return first.rescaled(wider), second.rescaled(wider)


def _notes(better: Better, first: Repeats, second: Repeats) -> list[Note]:
    notes: list[Note] = []
    if better.noise is None:
        text = (
            "neither side repeats a question, so how much two runs of one model differ is unknown: draw each "
            "question twice on one side at least"
        )
        notes.append(Note("one_repeat", text))
    if better.shared_clusters < 10:
        text = f"only {better.shared_clusters} independent questions are shared: the interval is rough"
        notes.append(Note("few_questions", text))
    if np.array_equal(first.mean, second.mean) and not np.all(first.second == 0):
        notes.append(
            Note("same_scores", "both sides have the same score on every question: is it one log twice?")
        )
    return notes
