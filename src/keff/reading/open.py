"""Open a recorded log or a run as one Record: what it says about itself, and its votes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from keff import answers, plugins
from keff.errors import LogError, TaskError, UsageError
from keff.log import LogInfo, Question, find_log
from keff.reading.ballot import Ballot, Reading, ReadText, ballot, read_again
from keff.records import Note
from keff.task import Task

LABELS = tuple("ABCDEFGHIJ")


@dataclass(frozen=True, slots=True)
class Opening:
    """How to read a record.

    Its format and answer space (None: auto-detected), a trim, whether with texts, and the ``part`` of a log
    that holds several records.
    """

    format: str | None = None
    answer_space: str | None = None
    trim: int | None = None
    texts: bool = False
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One record: where it came from, what it says about itself, and its votes."""

    path: str
    info: LogInfo
    ballot: Ballot


def open_record(path: Path, opening: Opening | None = None) -> Record:
    """Read one run or log; raises LogError with file and line, or with the formats that were tried."""
    opening = opening or Opening()
    log = find_log(path, opening.format)
    info = log.info(path)
    notes: list[Note] = []
    with naming(path):
        how = reading(info, opening)
        wanted = opening.texts or how.again
        questions = one_part(log.questions(path, texts=wanted, tell=notes.append), opening.part)
        found = ballot(_as_asked(questions, how, opening), how, trim=opening.trim)
    return Record(str(path), info, replace(found, notes=(*notes, *found.notes)))


def _as_asked(questions: Iterator[Question], how: Reading, opening: Opening) -> Iterator[Question]:
    for question in questions:
        read = read_again(question, how)
        # Texts that were wanted only to be read are not kept.
        yield read if opening.texts or read.texts is None else replace(read, texts=None)


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Name the log in what is said against it."""
    try:
        yield
    except (LogError, TaskError) as error:
        raise error if str(path) in str(error) else LogError(f"{path}: {error}") from None


def one_part(questions: Iterator[Question], part: str | None) -> Iterator[Question]:
    """Yield the questions of one part of a log; raises LogError when it holds several and none is named."""
    seen: dict[str, int] = {}
    for question in questions:
        seen[question.part] = seen.get(question.part, 0) + 1
        if part is None or part in (question.part, *question.part.split("/")):
            yield question
        if part is None and len(seen) > 1:
            break
    if part is None and len(seen) > 1:
        seen |= {question.part: 0 for question in questions}
        raise LogError(f"it holds several records: name one of them, {', '.join(sorted(seen))}")
    if part is not None and not any(part in (name, *name.split("/")) for name in seen):
        raise LogError(f"it has no part {part!r}: there are {', '.join(sorted(seen)) or 'none'}")


def pool_records(records: Sequence[Record], trim: int | None = None) -> Record:
    """Read several records as one; questions that share an id form one cluster."""
    spaces = {record.ballot.reading.space for record in records}
    if len(spaces) > 1:
        raise UsageError(f"--pool: the records compare answers differently ({', '.join(sorted(spaces))})")
    first = records[0]
    questions = [question for record in records for question in record.ballot.questions]
    path = " + ".join(record.path for record in records)
    return Record(path, first.info, ballot(questions, first.ballot.reading, trim=trim))


def reading(info: LogInfo, opening: Opening) -> Reading:
    """Return how answers are compared: as asked, else as the named task does, else as exact text.

    Raises UsageError for an answer space that does not exist.
    """
    asked = opening.answer_space and answers.from_command_line(opening.answer_space)
    asked = answers.settle(asked, info.space)
    if asked is not None:
        how = _by_space(asked)
        scored = info.config is not None and "scorer" not in info.options
        return replace(how, again=True, rescore=scored)
    if info.space is None and info.task in plugins.names("task"):
        task = plugins.load("task", info.task)
        closed = task.space in ("choice", "binary")
        return Reading(task.key, task.correct, closed=closed, space=task.space, read=_by_task(task))
    if info.space is None:
        return replace(_by_space("exact"), read=None)
    return _by_space(info.space)


def _by_space(spec: str) -> Reading:
    space = answers.space(spec)
    # A log does not say how many options a question had: any label may be an answer.
    keyed = answers.space("choice", labels=LABELS) if spec == "choice" else space

    def read(text: str, truncated: bool) -> answers.Read:
        return answers.read(space, text, truncated=truncated)

    whole = answers.once(lambda text: read(text, False))
    return Reading(
        answers.once(keyed.key),
        keyed.correct,
        closed=space.closed,
        space=spec,
        read=lambda text, truncated: read(text, True) if truncated else whole(text),
    )


def _by_task(task: Task) -> ReadText:
    def read(text: str, truncated: bool) -> answers.Read:
        answer = task.extract(text, truncated=truncated)
        key = None if answer is None else task.key(answer)
        return answers.Read(answer, key, answers.ABSTAINED if key is None else "task")

    return read
