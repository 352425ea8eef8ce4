"""A gate for continuous integration: pass, worse, or repeat once more.

In: the scores of a baseline and of one or more repeats of a run. Out: Gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from keff.analysis.results.comparison import QuestionChange
from keff.analysis.results.gate import Gate, GateVerdict
from keff.analysis.scores import (
    ENOUGH_DIFFERENCES,
    question_changes,
    shared_repeats,
    source_luck,
    worse_questions,
)
from keff.errors import UsageError
from keff.reading.repeated import RepeatedScores
from keff.records import Interval, Note, frozen
from keff.stats.gate import Look, look
from keff.stats.repeats import Repeats, own_variances
from keff.stats.resampling import clustered_variance
from keff.stats.scores import paired_test, questions_for_power
from keff.stats.sources import SourceScores

# A list of flaky questions is for a person to read.
FLAKY = 10

# The luck of a baseline of fewer repeats is most of what is seen; with 8 it is a ninth of it at one repeat.
FEW_REPEATS = 4


@frozen
class Gating:
    """Settings of a gate: points that may be lost, most repeats, whether questions are a sample."""

    tolerance: float
    max_repeats: int = 8
    new_questions: bool = False


def gate(baselines: Sequence[RepeatedScores], runs: Sequence[RepeatedScores], how: Gating) -> Gate:
    """Return whether a run became worse than its baseline, each in one or more logs of repeats.

    Questions are matched by id. Raises UsageError for a tolerance that nothing can lose, no run, no shared
    question, and a run that is a copy of the baseline or of another repeat.
    """
    if not runs:
        raise UsageError("a gate compares a run with its baseline: give two logs, BASELINE RUN")
    for one, other in combinations((*baselines, *runs), 2):
        _check_not_copied(one, other)
    baseline, run = pool_runs(baselines), pool_runs(runs)
    first, second, ids, notes = shared_repeats(baseline, run)
    wide = first.scale[1] - first.scale[0]
    allowed = how.tolerance / (100 if first.scale == (0.0, 1.0) else wide)
    if not 0 < allowed < 1:
        most = 100 if first.scale == (0.0, 1.0) else wide
        raise UsageError(f"a gate needs the points that may be lost, above 0 and below {most:g}")
    if how.max_repeats < 1:
        raise UsageError("a gate needs at least one repeat: --max-repeats 8")
    luck = source_luck(baseline, run)
    said = look(first, second, allowed, how.max_repeats, 0.0 if luck is None else luck.sources)
    if how.new_questions:
        said = replace(said, difference=paired_test(first, second, luck=luck).difference)
    repeats = tuple(int(side.count.max()) for side in (first, second))
    changes = question_changes(first, second, ids)
    worse = worse_questions(changes)
    low = first.scale[0]
    return Gate(
        verdict=_verdict(said.difference, allowed, last=how.new_questions or repeats[1] >= how.max_repeats),
        baseline=baseline.path,
        run=run.path,
        difference=said.difference.mapped(lambda share: wide * share),
        tolerance=how.tolerance,
        repeats=(repeats[0], repeats[1]),
        max_repeats=how.max_repeats,
        new_questions=how.new_questions,
        shared_questions=first.n,
        shared_clusters=first.units,
        scores=(low + wide * float(first.mean.mean()), low + wide * float(second.mean.mean())),
        scale=first.scale,
        regressed=worse,
        flaky=_flaky(first, second, changes, {each.id for each in worse or ()}),
        chance_to_pass=said.chance_to_pass,
        questions_needed=_questions_needed(first, second, allowed),
        warnings=tuple(dict.fromkeys([*baseline.notes, *run.notes, *notes, *_notes(first, said, how)])),
    )


def _verdict(difference: Interval, allowed: float, *, last: bool) -> GateVerdict:
    if difference.limits is not None:
        lo, hi = difference.limits
        if lo > -allowed:
            return "pass"
        if hi < 0:
            return "worse"
    return "undecided" if last else "repeat"


def pool_runs(runs: Sequence[RepeatedScores]) -> RepeatedScores:
    """Return the repeats of several logs of one suite as one, with the questions of any of them."""
    if len(runs) == 1:
        return runs[0]
    path = f"{runs[0].path} and {len(runs) - 1} more"
    ids = list(dict.fromkeys(name for run in runs for name in run.ids))
    rows = {name: row for row, name in enumerate(ids)}
    scales = {run.repeats.scale for run in runs}
    if len(scales) > 1:
        raise UsageError(f"the repeats of {runs[0].path} have scores on different scales: bring them to one")
    whole = [Repeats.nothing(len(ids), runs[0].repeats.scale)]
    for run in runs:
        places = np.array([rows[name] for name in run.ids], np.int64)
        whole.append(whole[-1].more(run.repeats, places))
    short = [name for name, count in zip(ids, whole[-1].count.tolist(), strict=True) if count < len(runs)]
    notes = [note for run in runs for note in run.notes]
    if short:
        some = ", ".join(short[:5]) + (", ..." if len(short) > 5 else "")
        text = f"{len(short)} of {len(ids)} questions are missing in some repeats of {runs[0].path}: {some}"
        notes.append(Note("missing_repeats", text))
    return RepeatedScores(path, ids, whole[-1], tuple(dict.fromkeys(notes)), sources=_sources(runs, rows))


def _sources(runs: Sequence[RepeatedScores], rows: Mapping[str, int]) -> SourceScores | None:
    """Return the sources of all runs' paths, by name; None where a run has none."""
    parts = [(run.sources, np.array([rows[name] for name in run.ids], np.int64)) for run in runs]
    held = [(part, places) for part, places in parts if part is not None]
    if len(held) < len(runs):
        return None
    names = list(dict.fromkeys(name for part, _ in held for name in part.names))
    numbers = [np.array([names.index(name) for name in part.names], np.int64) for part, _ in held]
    return SourceScores(
        np.concatenate([places[part.question] for part, places in held]),
        np.concatenate([own[part.source] for own, (part, _) in zip(numbers, held, strict=True)]),
        np.concatenate([part.score for part, _ in held]),
        tuple(names),
        None,
        any(part.random for part, _ in held),
    )


def _check_not_copied(one: RepeatedScores, other: RepeatedScores) -> None:
    """Raise UsageError where one log is the other: the same file, or the same answers though they vary."""
    paths = [Path(each.path) for each in (one, other)]
    same = paths[0] == paths[1] and paths[0].exists()
    if all(path.exists() for path in paths):
        same = paths[0].samefile(paths[1])
    if same or _same_scores(one, other):
        raise UsageError(
            f"{other.path} has the same answers as {one.path}: a run is the same questions asked once more, "
            "in a log of their own"
        )


def _same_scores(one: RepeatedScores, other: RepeatedScores) -> bool:
    """Return whether the second run only repeats answers of the first, more often than by chance."""
    first, second, _, _ = shared_repeats(one, other)
    spread = 2 * float(own_variances(first).sum())
    if one.votes is None or other.votes is None or one.votes.n != first.n or other.votes.n != first.n:
        same = np.array_equal(first.count, second.count) and np.array_equal(first.mean, second.mean)
        return same and spread >= 2 * ENOUGH_DIFFERENCES
    places = {name: row for row, name in enumerate(one.ids)}
    rows = np.array([places[name] for name in other.ids], np.int64)
    columns = {column.tobytes() for column in one.votes.scored()[rows].T}
    copied = all(column.tobytes() in columns for column in other.votes.scored().T)
    return copied and spread * other.votes.k >= 2 * ENOUGH_DIFFERENCES


def _flaky(
    first: Repeats, second: Repeats, changes: Sequence[QuestionChange], worse: set[str]
) -> tuple[QuestionChange, ...]:
    """Return the questions whose repeats differ most within one side, without those that got worse."""
    free = first.count + second.count - 2
    spread = (first.second + second.second) / np.maximum(free, 1)
    order: list[int] = np.argsort(-spread, kind="stable").tolist()
    mixed = [changes[row] for row in order if spread[row] > 0 and changes[row].id not in worse]
    return tuple(mixed[:FLAKY])


def _questions_needed(first: Repeats, second: Repeats, allowed: float) -> int | None:
    """Return how many questions like these would let a run pass in 80% where nothing changed."""
    return questions_for_power(first.n, allowed, clustered_variance(second.mean - first.mean, first.ids))


def _notes(first: Repeats, said: Look, how: Gating) -> Iterator[Note]:
    if first.k < FEW_REPEATS and not how.new_questions:
        luck = "its own luck affects every comparison"
        again = "Repeat the baseline 8 times, and draw a new one when you accept a prompt or model"
        if first.k == 1:
            yield Note("one_repeat", f"the baseline has one repeat of some questions, so {luck}. {again}")
        else:
            yield Note("few_repeats", f"the baseline has {first.k} repeats, so {luck}. {again}")
    if said.chance_to_pass < 0.5 and not how.new_questions:
        yield Note(
            "too_noisy",
            f"if nothing changed, only {said.chance_to_pass:.0%} of such runs pass within {how.max_repeats} "
            "repeats: add questions, repeat the baseline more often, or allow more points",
        )
    if first.units < 10:
        yield Note(
            "few_questions", f"only {first.units} independent questions are shared: the limits are rough"
        )
