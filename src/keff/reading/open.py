"""Opening of a log or run as one Record: its metadata and its votes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from keff import answers, plugins
from keff.errors import LogError, TaskError, UsageError
from keff.log import Log, LogInfo, Question, Tell, find_log, shown, unheard
from keff.logs.parts.bulk import PATHS_OF_A_PART, Bulk, ColumnOptions, PartsLog, only_part
from keff.logs.parts.coding import NotPlainError
from keff.reading.admit import EXACT_PATHS, MOST_PATHS, kept_verdicts, taken, with_verdicts, within_memory
from keff.reading.ballot import (
    Ballot,
    RaggedError,
    Reading,
    ReadText,
    ballot,
    fullest,
    is_given,
    read_again,
)
from keff.reading.branches import branch_names, names_in, numbered, split, with_branches, with_copies_together
from keff.reading.bulk import Lazy, bulk_ballot
from keff.reading.check import checked
from keff.records import Note, frozen
from keff.stats.voting.alike import LARGE

if TYPE_CHECKING:
    from keff.task import Task

LABELS = tuple("ABCDEFGHIJ")


@frozen
class Opening:
    """Options of reading a record.

    Its format and answer space (None: detected), a trim, whether with texts, and the ``part`` of a log that
    holds several records. ``columns`` says which column means what (``id=question_id,answer=prediction``);
    ``scorer`` chooses among the scores of a log, and from ``threshold`` on a score is right; ``branches``
    names the columns of a record of several models (``a,b,c`` or a JSON file). ``partial`` takes a run that
    was broken off as it is; ``rescore`` finds again which answers are right where there is a gold answer,
    whatever the log says. ``on`` is a Ray cluster whose nodes read the files.
    """

    format: str | None = None
    answer_space: str | None = None
    trim: int | None = None
    texts: bool = False
    part: str | None = None
    columns: str | None = None
    scorer: str | None = None
    threshold: float | None = None
    branches: str | None = None
    partial: bool = False
    rescore: bool = False
    on: str | None = None

    @property
    def options(self) -> dict[str, object]:
        """The options of the log's reader."""
        given = {"columns": self.columns, "scorer": self.scorer, "threshold": self.threshold}
        return {name: value for name, value in given.items() if value is not None}


@frozen
class Record:
    """One record: source, metadata and votes.

    ``branches`` names the models or prompts whose paths are its slots, where it holds several.
    """

    path: str
    info: LogInfo
    ballot: Ballot
    branches: tuple[str, ...] = ()


def named_part(path: Path, opening: Opening) -> tuple[Path, Opening]:
    """Return file and part of ``PATH#PART``; an existing file name with ``#`` is taken whole."""
    file, mark, part = str(path).rpartition("#")
    if not mark or opening.part is not None or path.exists():
        return path, opening
    return Path(file), replace(opening, part=part)


def open_record(path: str | Path, opening: Opening | None = None) -> Record:
    """Return the record of a run or log; raises LogError with file and line, or the formats tried.

    ``PATH#PART`` names one record of a log that holds several.

    A record of several models or prompts is read as one, with a slot for each: for what weighs or compares
    them. ``several.open_records`` reads them apart.
    """
    path, opening = named_part(Path(path), opening or Opening())
    if (whole := by_columns(path, opening)) is not None:
        return whole
    source = log_questions(path, opening)
    with naming(path):
        if opening.part is not None and opening.part in names_in(source.questions):
            return recorded(source, split(source.questions, opening.part), opening, opening.part)
        return recorded(source, list(one_part(iter(source.questions), opening.part)), opening)


def by_columns(path: Path, opening: Opening) -> Record | None:
    """Return a log's record read by columns; None where only the row reader gives the same.

    That is so for logs that are read otherwise, for several parts or branches, and where a row is not plain:
    then questions are read one by one.
    """
    log = find_log(path, opening.format, opening.options)
    asked = opening.part is not None or opening.branches is not None
    if asked or not isinstance(log, PartsLog):
        return None
    notes: list[Note] = []
    info = told(log, path, opening, notes.append)
    with naming(path):
        how = reading(info, opening)
        parts = log.parts(path, ColumnOptions(opening.texts, PATHS_OF_A_PART, how.reread, notes.append))
        if (bulk := only_part(parts)) is None:
            return None
        most = EXACT_PATHS if opening.trim is None else MOST_PATHS
        if (how.rescore and bulk.correct is not None) or int(bulk.sizes.max()) > most:
            return None
        trim = None if opening.trim is None else min(opening.trim, EXACT_PATHS)
        if trim is None and opening.partial:
            trim = _paths_of_interrupted(bulk.sizes.tolist())
        try:
            if opening.on is None:
                votes = _of_all(bulk, parts, how, trim)
            else:
                votes = _on_nodes(path, opening, bulk, how, trim)
        except NotPlainError:  # questions are too unlike to be turned into votes part by part
            if opening.on:
                return None
            whole = only_part(log.parts(path, ColumnOptions(opening.texts, sys.maxsize, how.reread)))
            if whole is None:
                return None
            votes = bulk_ballot(whole, how, trim=trim)
        if how.again and bulk.correct is not None:
            notes.append(kept_verdicts(how))
        held = votes.questions
        questions = Lazy(len(held), lambda row: read_again(held[row], how, texts=opening.texts))
        votes = with_copies_together(checked(replace(votes, questions=questions)))
        return Record(shown(path), info, replace(votes, notes=(*notes, *votes.notes)))


def _of_all(first: Bulk, rest: Iterator[Bulk], how: Reading, trim: int | None) -> Ballot:
    if (second := next(rest, None)) is None:
        return bulk_ballot(first, how, trim=trim)
    if trim is not None:
        raise NotPlainError
    from keff.reading.parts import ballot_of_parts

    rest = chain((second,), rest)
    del second  # parts are let go once they are counted
    return ballot_of_parts(first, rest, how)


def _on_nodes(path: Path, opening: Opening, first: Bulk, how: Reading, trim: int | None) -> Ballot:
    nodes = plugins.import_extra("keff.reading.nodes", "--on ray")
    if trim is not None:
        raise NotPlainError
    return nodes.count_on_nodes(path, opening, first, how)


def told(log: Log, path: Path, opening: Opening, tell: Tell = unheard) -> LogInfo:
    """Return a log's metadata.

    Raises LogError where it says that it was broken off; told instead where what is there was asked for.
    """
    info = log.info(path)
    if info.missing and not opening.partial:
        raise LogError(f"{path}: {info.missing}; --partial analyzes what is there")
    if info.missing:
        tell(Note("partial", f"{path} was broken off and is analyzed as it is: {info.missing}"))
    return info


@frozen
class LogQuestions:
    """A log's questions before they become votes, with their reading and notes."""

    path: Path
    info: LogInfo
    reading: Reading
    questions: list[Question]
    notes: list[Note]
    format: str


def opened(
    path: Path, opening: Opening, tell: Tell, *, texts: bool, whole: bool = False
) -> tuple[Log, LogInfo, Reading, Iterator[Question]]:
    """Return a log's reader, metadata, reading, and stream of questions.

    Of ``whole`` questions, of one part, no paths are left out.
    """
    log = find_log(path, opening.format, opening.options)
    info = told(log, path, opening, tell)
    how = reading(info, opening)
    recorded = log.questions(path, texts=texts or how.again, tell=tell)
    if whole:
        recorded = one_part(recorded, opening.part)
    questions = taken(recorded, how.space, tell, opening.trim, None if whole else EXACT_PATHS)
    return log, info, how, with_verdicts(questions, how, tell, rescore=opening.rescore)


def log_questions(path: Path, opening: Opening) -> LogQuestions:
    """Return all questions of a log, with as many paths as are analysed."""
    if opening.on is not None:
        raise UsageError(f"{shown(path)}: {_NOT_ON_NODES}")
    notes: list[Note] = []
    with naming(path):
        log, info, how, found = opened(path, opening, notes.append, texts=opening.texts)
        read = (read_again(question, how, texts=opening.texts) for question in found)
        questions = within_memory(read, notes.append)
        if how.read is None and any(question.form == "completions" for question in questions):
            questions, note = scores_only(questions)
            notes += [note] if note else []
        if opening.branches is not None:
            names = branch_names(opening.branches)
            questions = [with_branches(question, names) for question in questions]
    if isinstance(log, PartsLog) and len(questions) >= LARGE:
        notes.append(Note("read_one_by_one", _ONE_BY_ONE))
    # Only some formats take a threshold, and their name is for its advice.
    format = log.name if hasattr(log, "threshold") else ""
    return LogQuestions(path, info, how, questions, notes, format)


_NOT_ON_NODES = (
    "--on reads Parquet with one row per question, lists of plain values and equally many paths of one "
    "model: keff export writes it; without --on other records are read too"
)
_ONE_BY_ONE = (
    "questions were read one by one, not by columns, which takes several times as long: texts, a part or "
    "branches were asked for, or some row holds more than lists of plain values"
)


def recorded(source: LogQuestions, questions: list[Question], opening: Opening, name: str = "") -> Record:
    """Return one record of a log's questions: all, or one part or branch ``name``."""
    names = names_in(questions)
    if len(names) > 1:
        questions = numbered(questions, names)
    trim, stopped = _trim(source.info, questions, opening)
    read = ballot(questions, source.reading, trim=trim, format=source.format)
    votes = with_copies_together(checked(read))
    if stopped:
        # Under its own code: nobody asked for this trim.
        votes = replace(votes, notes=(stopped, *(note for note in votes.notes if note.code != "trimmed")))
    path = f"{shown(source.path)}#{name}" if name else shown(source.path)
    info = replace(source.info, model=names[0]) if len(names) == 1 else source.info
    notes = (*source.notes, *votes.notes)
    return Record(path, info, replace(votes, notes=notes), names if len(names) > 1 else ())


def _trim(info: LogInfo, questions: Sequence[Question], opening: Opening) -> tuple[int | None, Note | None]:
    """Return the number of paths of each question to use, and a note where a policy stopped the run.

    A policy stops a question as soon as its votes allow, so the number of its paths depends on them. Only the
    first paths, as many as every question has, are like paths drawn without looking at the votes.
    """
    if opening.trim is not None:
        return min(opening.trim, EXACT_PATHS), None
    sizes = [len(question.answers) for question in questions]
    if not info.stopped or not sizes or min(sizes) == max(sizes):
        return (_paths_of_interrupted(sizes) if opening.partial else None), None
    text = (
        f"a policy stopped this run after {min(sizes)} to {max(sizes)} paths per question: the first "
        f"{min(sizes)} of "
        "each are used (how many were drawn depends on the votes)"
    )
    return min(sizes), Note("stopped_run", text)


def _paths_of_interrupted(sizes: Sequence[int]) -> int | None:
    """Return the number of paths to use of an interrupted log; None: all questions have as many."""
    return fullest(Counter(sizes)) if len(set(sizes)) > 1 else None


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Return a context that adds the log's path to errors."""
    try:
        yield
    except (LogError, TaskError) as error:
        named = RaggedError if isinstance(error, RaggedError) else LogError
        raise error if shown(path) in str(error) else named(f"{shown(path)}: {error}") from None


def one_part(questions: Iterator[Question], part: str | None) -> Iterator[Question]:
    """Yield one part's questions; raises LogError where there are several and none is named."""
    seen: set[str] = set()
    for question in questions:
        seen.add(question.part)
        if part is None or part in (question.part, *question.part.split("/")):
            yield question
        if part is None and len(seen) > 1:
            break
    if part is None and len(seen) > 1:
        seen |= {question.part for question in questions}
        raise LogError(f"it holds several records: name one of them, {', '.join(sorted(seen))}")
    if part is not None and not any(part in (name, *name.split("/")) for name in seen):
        raise LogError(f"it has no part {part!r}: there are {', '.join(sorted(seen)) or 'none'}")


def scores_only(questions: list[Question]) -> tuple[list[Question], Note | None]:
    """Return questions with correctness alone, where whole completions cannot be read.

    Questions are returned as they are where the record gives no correctness.
    """
    if any(question.correct is None for question in questions):
        return questions, None
    text = (
        "the answers are whole completions, so only their correctness is used: --answer-space says "
        "how answers are "
        "read from them"
    )
    bare = [
        replace(question, form="scores", answers=(None,) * len(question.answers), keys=None)
        for question in questions
    ]
    return bare, Note("whole_completions", text)


def reading(info: LogInfo, opening: Opening) -> Reading:
    """Return how to compare answers: as requested, else by the named task, else as exact text.

    Raises UsageError for an answer space that does not exist.
    """
    asked = opening.answer_space and answers.from_command_line(opening.answer_space)
    asked = answers.settle(asked, info.space)
    how = _by_space(asked) if asked is not None else _as_said(info)
    # A grader knows more than the answer: only what keff itself found is found again unasked.
    rescore = opening.rescore or (asked is not None and info.scored)
    return replace(how, again=asked is not None, rescore=rescore)


def _as_said(info: LogInfo) -> Reading:
    if info.space is None and info.task is not None and plugins.has("task", info.task):
        task = plugins.load("task", info.task)
        closed = task.space in ("choice", "binary")
        return Reading(task.key, task.correct, closed=closed, space=task.space, read=_by_task(task))
    if info.space is None:
        return replace(_by_space("exact"), read=None)
    return _by_space(info.space)


def _by_space(spec: str) -> Reading:
    space = answers.of_unknown_options(spec)
    # A log does not say how many options a question had: any label may be an answer.
    keyed = answers.space("choice", labels=LABELS) if spec == "choice" else space

    def read(text: str, truncated: bool) -> answers.Read:
        return answers.read(space, text, truncated=truncated)

    def stated(gold: object) -> object:
        return of_text(gold) if isinstance(gold, str) else answers.stated_gold(space, gold)

    whole = answers.once(lambda text: read(text, False))
    of_text = answers.once(lambda gold: answers.stated_gold(space, gold))
    return Reading(
        answers.once(keyed.key),
        lambda answer, gold: keyed.correct(answer, stated(gold)),
        closed=space.closed,
        space=spec,
        read=lambda text, truncated: read(text, True) if truncated else whole(text),
        by_key=bool(getattr(keyed, "by_key", False)),
        golds=lambda gold: answers.golds(stated(gold)),
        states=getattr(keyed, "states", is_given),
    )


def _by_task(task: Task) -> ReadText:
    def read(text: str, truncated: bool) -> answers.Read:
        answer = task.extract(text, truncated=truncated)
        key = None if answer is None else task.key(answer)
        return answers.Read(answer, key, answers.ABSTAINED if key is None else "task")

    return read
