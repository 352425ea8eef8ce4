"""Repeated scores of a log: every repeat of every question, graded or right/wrong, and whose each is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from keff.errors import LogError, UsageError
from keff.log import Question, path_text
from keff.reading.ballot import Reading, correct_of, with_answers
from keff.reading.branches import columns_apart
from keff.reading.open import Opening, ReadLog, Record, SourceKind, naming, read_log, record_of_log, trim_of
from keff.reading.questions import RecordedQuestions
from keff.reading.several import logs_at, one_model, parts_of
from keff.records import Note, frozen
from keff.stats.repeats import Repeats
from keff.stats.resampling import numbers_of
from keff.stats.sources import SourceScores
from keff.stats.votes import FloatArray, IntArray, Votes


@frozen
class RepeatedScores:
    """Repeated scores of one model: questions by ``ids``, with named ``clusters`` if any.

    ``record`` holds the votes where all repeats are among them, for what needs answers or columns.
    ``sources`` says which source each repeat is of, where these are taken for slots, judges, prompts or
    branches that differ: None for repeats of one.
    """

    path: str
    ids: Sequence[str]
    repeats: Repeats
    notes: tuple[Note, ...] = ()
    record: Record | None = None
    sources: SourceScores | None = None

    @property
    def votes(self) -> Votes | None:
        """The votes by column, where every question has equally many repeats."""
        return None if self.record is None else self.record.ballot.votes


def scored_logs(path: Path, opening: Opening | None = None, *, apart: bool = False) -> list[RepeatedScores]:
    """Return the repeated scores in a run, log or folder, one per part and model.

    All repeats of a question count, however many, unless ``opening.trim`` says so or a policy stopped the
    run. Where every path of a question has a source of its own, the sources are read together as some of
    many, but not where they are wanted ``apart``; ``opening.sources`` says so of any. Raises LogError where a
    log has neither scores nor gold answers, or sources score on different scales.
    """
    opening = opening or Opening()
    return [scored for file in logs_at(path, opening) for scored in _apart(file, opening, apart=apart)]


def _apart(path: Path, opening: Opening, *, apart: bool) -> list[RepeatedScores]:
    log = read_log(path, opening)
    with naming(path):
        return scores_of(log, opening, apart=apart)


def scores_of(log: ReadLog, opening: Opening, *, apart: bool = False) -> list[RepeatedScores]:
    """Return the repeated scores of a log that was read, as ``scored_logs``."""
    found: list[RepeatedScores] = []
    parts = parts_of(log.questions, opening.part)
    for part, questions in parts.items():
        kind = opening.sources or (None if apart else _kind(questions))
        models = () if kind else questions.branch_names
        for name in models or ("",):
            own = questions.of_branch(name) if models else questions
            mark = "/".join(filter(None, (part if len(parts) > 1 else "", name if len(models) > 1 else "")))
            label = f"{path_text(log.path)}#{mark}" if mark else path_text(log.path)
            found.append(_scored_as(log, own, opening, label, mark, kind))
    return found


def _scored_as(
    log: ReadLog, own: RecordedQuestions, opening: Opening, label: str, mark: str, kind: SourceKind | None
) -> RepeatedScores:
    ragged = np.ptp(own.sizes) > 0 and opening.trim is None and not log.info.stopped
    ragged |= kind is not None and not _all_answered(own)
    if not ragged and own.flat("scores") is None:
        return of_record(record_of_log(log, own, opening, mark), kind)
    trim, stopped = trim_of(log.info, own, opening) if log.info.stopped else (opening.trim, None)
    heard = replace(log, notes=[*log.notes, stopped]) if stopped else log
    return _of_questions(own, heard, trim, label, kind)


def _all_answered(questions: RecordedQuestions) -> bool:
    """Return whether every source has as many paths of each question."""
    found = questions.path_sources
    if found is None:
        return True
    size = len(found[1]) + 1
    cells = np.bincount(questions.path_questions * size + found[0] + 1, minlength=len(questions) * size)
    return not np.any(np.ptp(cells.reshape(-1, size), axis=0))


def _kind(questions: RecordedQuestions) -> SourceKind | None:
    """Return "random" where each path of a question has a source of its own, and some question several."""
    found = questions.path_sources
    if found is None or len(found[1]) < 2 or bool(np.any(found[0] < 0)):
        return None
    cells = questions.path_questions * len(found[1]) + found[0]
    alone = np.unique(cells).size == cells.size
    return "random" if alone and bool(np.any(questions.sizes > 1)) else None


def of_record(record: Record, kind: SourceKind | None = None) -> RepeatedScores:
    """Return a record's repeated scores, those of sources of a ``kind`` together.

    Columns that no one model has are sources, some of many unless ``kind`` says else. Raises UsageError for
    several models with several paths each.
    """
    votes = record.ballot.votes
    if kind is None and not record.branches and columns_apart(record.ballot)[0]:
        kind = "random"
    if kind is None:
        return as_scored(one_model(record))
    scored = as_scored(record)
    column = "column" if votes.slots is None else "slot"
    numbers = range(1, votes.k + 1) if votes.slots is None else np.unique(votes.slots).tolist()
    names = record.branches or tuple(f"{column} {number}" for number in numbers)
    paths = SourceScores.of_votes(votes, names, random=kind == "random")
    return _with_sources(scored, paths)


def _with_sources(scored: RepeatedScores, paths: SourceScores) -> RepeatedScores:
    """Return scores with the sources of their repeats, and a note on how these are taken."""
    if paths.size < 2:
        note = Note("one_source", f"all paths are of one source, {paths.names[0]}: there is none to compare")
        return replace(scored, notes=(*scored.notes, note))
    some = ", ".join(paths.names[:3]) + (", ..." if paths.size > 3 else "")
    who = f"keff takes the {paths.size} sources of paths ({some})"
    taken = (
        f"{who} as a sample of many: its figures are for sources like these. For these alone: --sources fixed"
        if paths.random
        else f"{who} as all there are: its figures are for these alone. For others, too: --sources random"
    )
    note = Note("sources", taken)
    return replace(scored, notes=(*scored.notes, note), sources=paths)


def as_scored(record: Record) -> RepeatedScores:
    """Return a record's repeated scores; raises UsageError without scores and gold answers."""
    votes = record.ballot.votes
    if votes.correct is None:
        raise UsageError(
            f"{record.path} has neither scores nor gold answers: add all_scores or gold_answer to each line"
        )
    return RepeatedScores(
        record.path, record.ballot.names, Repeats.of_votes(votes), record.ballot.notes, record
    )


def of_rows(
    rows: Sequence[Sequence[float | None]],
    cluster: Sequence[object] | None = None,
    kind: SourceKind | None = None,
) -> RepeatedScores:
    """Return repeated scores from lists in memory; None and NaN are missing repeats, columns the sources."""
    kept = [[math.nan if x is None else x for x in row] for row in rows]
    clusters = None if cluster is None else list(map(str, cluster))
    scored = _repeated_scores("scores", list(map(str, range(len(kept)))), kept, clusters, ())
    return scored if kind is None else _of_paths(scored, kept, None, kind)


def _of_questions(
    questions: RecordedQuestions, source: ReadLog, trim: int | None, name: str, kind: SourceKind | None
) -> RepeatedScores:
    answered = [with_answers(question, source.reading) for question in questions]
    rows = [_scores(question, source.reading)[:trim] for question in answered]
    clusters = [question.cluster or question.id for question in answered]
    scores = [any(value == value for value in row) for row in rows]
    distinct = len({name for name, has in zip(clusters, scores, strict=True) if has}) < sum(scores)
    scored = _repeated_scores(
        name, [question.id for question in answered], rows, clusters if distinct else None, source.notes
    )
    low, high = scored.repeats.k, int(scored.repeats.count.max())
    if low < high:
        note = Note("ragged", f"questions have {low} to {high} repeats: all of them are used")
        scored = replace(scored, notes=(*scored.notes, note))
    if kind is None:
        return scored
    lacking = (questions.sizes - [len(row) for row in rows]).tolist()
    whole = [[*row, *[math.nan] * number] for row, number in zip(rows, lacking, strict=True)]
    return _of_paths(scored, whole, questions.path_sources, kind)


def _of_paths(
    scored: RepeatedScores,
    rows: Sequence[Sequence[float]],
    found: tuple[IntArray, tuple[str, ...]] | None,
    kind: SourceKind,
) -> RepeatedScores:
    """Return scores with the source of each path of ``rows``; its place where none is ``found``."""
    sizes = np.array([len(row) for row in rows], np.int64)
    values = np.concatenate([np.asarray(row, np.float64) for row in rows])
    ends = np.cumsum(sizes)
    places: IntArray = np.arange(values.size) - np.repeat(ends - sizes, sizes)
    columns = tuple(f"column {number + 1}" for number in range(int(sizes.max())))
    own, labels = found or (places, columns)
    kept = np.isfinite(values)
    used, source = np.unique(np.where(own < 0, len(labels), own)[kept], return_inverse=True)
    question = np.unique(np.repeat(np.arange(sizes.size), sizes)[kept], return_inverse=True)[1]
    numbers: list[int] = used.tolist()
    names = tuple((*labels, "unnamed")[number] for number in numbers)
    _check_scales(values[kept], source, names)
    low, high = scored.repeats.scale
    unit = (values[kept] - low) / (high - low)
    clusters = scored.repeats.clusters
    return _with_sources(scored, SourceScores(question, source, unit, names, clusters, kind == "random"))


def _check_scales(values: FloatArray, source: IntArray, names: Sequence[str]) -> None:
    """Raise LogError where one source scores from 0 to 1 and another beyond, or to 10 and beyond."""
    most = np.zeros(len(names))
    np.maximum.at(most, source, values)
    for end in (1.0, 10.0):
        inside = np.flatnonzero(most <= end)
        if inside.size and np.any(most > end):
            low, high = names[int(inside[0])], names[int(np.argmax(most))]
            raise LogError(
                f"{low} scores up to {most[inside[0]]:g} and {high} up to {most.max():g}: sources score on "
                "different scales, bring them to one"
            )


def _repeated_scores(
    name: str,
    ids: Sequence[str],
    rows: Sequence[Sequence[float]],
    clusters: Sequence[str] | None,
    notes: Sequence[Note],
) -> RepeatedScores:
    """Return the repeats of the questions that have any; raises LogError where none has."""
    rows = [[value for value in row if value == value] for row in rows]
    kept = [place for place, row in enumerate(rows) if row]
    if not kept:
        raise LogError(
            f"{name} has neither scores nor gold answers: add all_scores or gold_answer to each line"
        )
    if len(kept) < len(rows):
        text = f"{len(rows) - len(kept)} of {len(rows)} questions have no score and were left out"
        notes = (*notes, Note("unscored", text))
    names = None if clusters is None else numbers_of([clusters[place] for place in kept])
    try:
        repeats = Repeats.of_scores([np.asarray(rows[place], np.float64) for place in kept], names)
    except ValueError as error:
        raise LogError(f"{name}: {error}") from None
    return RepeatedScores(name, [ids[place] for place in kept], repeats, tuple(notes))


def _scores(question: Question, reading: Reading) -> Sequence[float]:
    """Return the score of each path, NaN where it has none; nothing for a question without scores."""
    if question.scores is not None:
        return question.scores
    if question.correct is None and question.gold is None:
        return ()
    return correct_of(question, len(question.answers), reading)
