"""Repeated scores of a log: every repeat of every question, graded or right/wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from keff.errors import LogError, UsageError
from keff.log import Question, shown
from keff.reading.ballot import Reading, correct_of, with_answers
from keff.reading.open import Opening, ReadLog, Record, naming, read_log, recorded
from keff.reading.several import logs_at, one_model, parts_of
from keff.records import Note, frozen
from keff.stats.repeats import Repeats
from keff.stats.resampling import numbers_of
from keff.stats.votes import Votes


@frozen
class RepeatedScores:
    """Repeated scores of one model: questions by ``ids``, with named ``clusters`` if any.

    ``record`` holds the votes where all repeats are among them, for what needs answers or columns.
    """

    path: str
    ids: Sequence[str]
    repeats: Repeats
    notes: tuple[Note, ...] = ()
    record: Record | None = None

    @property
    def votes(self) -> Votes | None:
        """The votes by column, where every question has equally many repeats."""
        return None if self.record is None else self.record.ballot.votes


def scored_logs(path: Path, opening: Opening | None = None) -> list[RepeatedScores]:
    """Return the repeated scores in a run, log or folder, one per part and model.

    All repeats of a question count, however many, unless ``opening.trim`` says so or a policy stopped the
    run. Raises LogError where a log has neither scores nor gold answers, UsageError where columns are several
    models without names.
    """
    opening = opening or Opening()
    return [scored for file in logs_at(path, opening) for scored in _apart(file, opening)]


def _apart(path: Path, opening: Opening) -> list[RepeatedScores]:
    log = read_log(path, opening)
    found: list[RepeatedScores] = []
    with naming(path):
        parts = parts_of(log.questions, opening.part)
        for part, questions in parts.items():
            models = questions.branch_names
            for name in models or ("",):
                own = questions.of_branch(name) if models else questions
                mark = "/".join(
                    filter(None, (part if len(parts) > 1 else "", name if len(models) > 1 else ""))
                )
                ragged = np.ptp(own.sizes) > 0 and opening.trim is None and not log.info.stopped
                if ragged or own.flat("scores") is not None:
                    label = f"{shown(path)}#{mark}" if mark else shown(path)
                    found.append(_of_questions(own, log, opening.trim, label))
                else:
                    found.append(of_record(recorded(log, own, opening, mark)))
    return found


def of_record(record: Record) -> RepeatedScores:
    """Return a record's repeated scores; raises UsageError for several models."""
    return as_scored(one_model(record))


def as_scored(record: Record) -> RepeatedScores:
    """Return a record's repeated scores; raises UsageError without scores and gold answers."""
    votes = record.ballot.votes
    if votes.correct is None:
        raise UsageError(
            f"{record.path} has neither scores nor gold answers: the noise of a score cannot be measured"
        )
    return RepeatedScores(
        record.path, record.ballot.names, Repeats.of_votes(votes), record.ballot.notes, record
    )


def of_rows(
    rows: Sequence[Sequence[float | None]], cluster: Sequence[object] | None = None
) -> RepeatedScores:
    """Return repeated scores from lists in memory; None and NaN are missing repeats."""
    kept = [[x for x in row if x is not None and x == x] for row in rows]
    clusters = None if cluster is None else list(map(str, cluster))
    return _scored("scores", list(map(str, range(len(kept)))), kept, clusters, ())


def _of_questions(
    questions: Sequence[Question], source: ReadLog, trim: int | None, name: str
) -> RepeatedScores:
    rows = [_scores(with_answers(question, source.reading), source.reading)[:trim] for question in questions]
    clusters = [question.cluster or question.id for question in questions]
    distinct = len({name for name, row in zip(clusters, rows, strict=True) if row}) < sum(map(bool, rows))
    scored = _scored(
        name, [question.id for question in questions], rows, clusters if distinct else None, source.notes
    )
    low, high = scored.repeats.k, int(scored.repeats.count.max())
    if low == high:
        return scored
    note = Note("ragged", f"questions have {low} to {high} repeats: all of them are used")
    return replace(scored, notes=(*scored.notes, note))


def _scored(
    name: str,
    ids: Sequence[str],
    rows: Sequence[Sequence[float]],
    clusters: Sequence[str] | None,
    notes: Sequence[Note],
) -> RepeatedScores:
    """Return the repeats of the questions that have any; raises LogError where none has."""
    kept = [place for place, row in enumerate(rows) if row]
    if not kept:
        raise LogError(
            f"{name}: it has neither scores nor gold answers: the noise of a score cannot be measured"
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
    if question.scores is not None:
        return [value for value in question.scores if value == value]
    if question.correct is None and question.gold is None:
        return ()
    return correct_of(question, len(question.answers), reading)
