"""Several records: folders of logs, parts, models and prompts, read apart and not pooled unasked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from keff.errors import LogError, UsageError
from keff.log import LOG_ENDINGS, Log, Question, find_log, path_text
from keff.logs.parts.tabled import PER_PATH
from keff.reading.admit import first_paths
from keff.reading.ballot import ballot
from keff.reading.branches import columns_apart, with_copies_together
from keff.reading.copies import question_notes
from keff.reading.open import Opening, ReadLog, Record, named_part, naming, one_part, read_log, record_of_log
from keff.reading.questions import RecordedQuestions
from keff.records import Note
from keff.sampling import RUN_FILE

# Beginnings of files that tools write beside their logs.
ABOUT = (
    "logs.json",
    "eval-set",
    ".",
    "run_spec.json",
    "scenario.json",
    "stats.json",
    "per_instance_stats.json",
    "instances.json",
)
# Of some tools such a file is a log, of others it sums one up.
RESULTS = ("results_", "results.")
# A folder of more is taken for one named by mistake.
MOST_LOGS = 1000


def open_records(path: Path, opening: Opening | None = None) -> list[Record]:
    """Return all records of a run, log or folder, one per part, model and prompt.

    Models and prompts are those that a record names, those that ``opening.branches`` names, and columns of
    accuracies that no one model has. Each record says of which record it is a branch;
    ``PATH#PART`` names one.
    """
    path, opening = named_part(path, opening or Opening())
    return [record for file in logs_at(path, opening) for record in _records_of_log(file, opening)]


def logs_at(path: Path, opening: Opening) -> list[Path]:
    """Return the run or log itself, or those in a folder that is none."""
    whole = opening.format or not path.is_dir() or (path / RUN_FILE).is_file() or _is_log(path)
    return [path] if whole else logs_in(path)


def _is_log(folder: Path) -> bool:
    """Return whether a folder is one log, as a job of Harbor is, and no folder that holds a log beside it."""
    log = _reader(folder)
    if log is None:
        return False
    beside = (child for child in folder.iterdir() if not child.is_dir() or log.refuses(child))
    return not any(map(_reader, _logs_among(beside)))


def _reader(path: Path) -> Log | None:
    try:
        return find_log(path)
    except LogError:
        return None


def logs_in(folder: Path) -> list[Path]:
    """Return the runs and logs below a folder; raises LogError for none, or too many."""
    logs = [*islice(_logs_among(folder.iterdir()), MOST_LOGS + 1)]
    if len(logs) > MOST_LOGS:
        raise LogError(f"{folder}: more than {MOST_LOGS} files below it may be logs: name fewer of them")
    if not logs:
        raise LogError(f"{folder}: there is no log below it ({', '.join(LOG_ENDINGS)})")
    return logs


def _logs_among(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the runs and logs among files and folders, and below them."""
    for path in sorted(paths):
        if path.is_dir() and not path.is_symlink():
            if (path / RUN_FILE).is_file() or _is_log(path):
                yield path
            else:
                yield from _logs_among(path.iterdir())
        elif (
            path.suffix in LOG_ENDINGS
            and path.is_file()
            and not path.name.startswith(ABOUT)
            and (not path.name.startswith(RESULTS) or _reader(path))
        ):
            yield path


def _records_of_log(path: Path, opening: Opening) -> list[Record]:
    """Return the records of one file, by part and branch."""
    log = read_log(path, opening)
    records: list[Record] = []
    with naming(path):
        parts = parts_of(log.questions, opening.part)
        several = len(parts) > 1
        # Parts are models where the first row's model is one of them.
        models = several and log.info.model in parts
        for part, questions in parts.items():
            own = replace(log, info=replace(log.info, model=part)) if models else log
            records += _branches(own, questions, opening, part if several else "")
    return records


def parts_of(questions: RecordedQuestions, part: str | None) -> dict[str, RecordedQuestions]:
    """Return the questions of each part of a log, or of the branches or parts of one name."""
    if part is not None and part in questions.branch_names:
        return {part: questions.of_branch(part)}
    if part is not None:
        return {part: one_part(questions, part)}
    if not questions:
        raise LogError("there are no questions in it")
    own = np.array(questions.parts, np.int32)
    names = questions.part_names
    codes, first = np.unique(own, return_index=True)
    return {
        names[first[place]]: questions.take(np.flatnonzero(own == codes[place]))
        for place in np.argsort(first).tolist()
    }


def _branches(log: ReadLog, questions: RecordedQuestions, opening: Opening, part: str) -> list[Record]:
    names, own = questions.branch_names, dict[str, RecordedQuestions]()
    if opening.sources is not None:
        return [record_of_log(log, questions, opening, part)]
    if len(names) < 2:
        whole = record_of_log(log, questions, opening, part)
        differ, note = columns_apart(whole.ballot)
        if not differ:
            return [whole if note is None else _with_note(whole, note)]
        held = whole.ballot.questions
        own = {f"column {at + 1}": held.of_columns([at]) for at in range(whole.ballot.votes.k)}
    else:
        own = {name: questions.of_branch(name) for name in names}
    unnamed = not opening.branches and len(names) < 2
    text = (
        f"{path_text(log.path)} holds {len(own)} models or prompts, and keff reads each on its own. To weigh "
        f"their votes together: keff combine {path_text(log.path)}"
    )
    naming_them = "To name the columns: --branches a,b,c (or a JSON file)"
    note = Note("several_branches", f"{text}. {naming_them}" if unnamed else text)
    return [
        _with_note(
            replace(
                record_of_log(log, table, opening, f"{part}/{name}" if part else name),
                info=replace(log.info, model=name),
            ),
            note,
        )
        for name, table in own.items()
    ]


def _with_note(record: Record, note: Note) -> Record:
    return replace(record, ballot=replace(record.ballot, notes=(note, *record.ballot.notes)))


def pool_records(records: Sequence[Record], trim: int | None = None) -> Record:
    """Return several records pooled as one; questions with one id form a cluster.

    Records of one path per question are repeats: the paths of an id become those of one question.
    """
    first = records[0]
    repeats = all(record.ballot.votes.k == 1 for record in records)
    questions = side_by_side(records) if repeats else _all_questions(records)
    path = " + ".join(record.path for record in records)
    pooled = ballot(questions, first.ballot.reading, trim=trim)
    pooled = replace(pooled, notes=(*pool_notes(records), *pooled.notes))
    return Record(path, first.info, with_copies_together(pooled))


def pool_notes(records: Sequence[Record]) -> list[Note]:
    """Return notes on ids under which the records ask different questions."""
    return [*question_notes([record.path for record in records], [record.ballot for record in records])]


def _all_questions(records: Sequence[Record]) -> list[Question]:
    spaces = {record.ballot.reading.space for record in records}
    if len(spaces) > 1:
        raise UsageError(f"--pool: the records compare answers differently ({', '.join(sorted(spaces))})")
    # Of a run that ended by its outcome, only the first paths are like others.
    return [
        first_paths(question, record.ballot.votes.k) if record.info.stopped else question
        for record in records
        for question in record.ballot.questions
    ]


def side_by_side(records: Sequence[Record]) -> list[Question]:
    """Return all records' questions joined by id, each with the paths of all records.

    Raises UsageError where records compare answers differently, or give a question different gold answers.
    """
    found: dict[str, list[Question]] = {}
    for question in _all_questions(records):
        found.setdefault(question.id, []).append(question)
    lettered = records[0].ballot.reading.space.startswith("choice")
    return [_pooled_question(same, lettered=lettered) for same in found.values()]


def _pooled_question(same: Sequence[Question], *, lettered: bool) -> Question:
    first = same[0]
    if any(question.gold != first.gold for question in same):
        raise UsageError(f"--pool: the records have different gold answers to the question {first.id!r}")
    texts = {question.question for question in same} - {None}
    if lettered and len(texts) > 1:
        raise UsageError(
            f"--pool: the records ask different questions under the id {first.id!r}, so their letters may "
            "mean different options: give each question an id of its own"
        )
    paths: dict[str, Any] = {}
    for name in ("answers", *PER_PATH):
        values = [getattr(question, name) for question in same]
        paths[name] = None if None in values else tuple(chain.from_iterable(values))
    return replace(first, **paths)


def by_column(record: Record) -> Record:
    """Return a record with columns as slots where they differ like different models."""
    votes = record.ballot.votes
    if votes.slots is not None or not columns_apart(record.ballot)[0]:
        return record
    slots = np.arange(votes.k, dtype=np.int64)
    ballot = replace(record.ballot, votes=replace(votes, slots=slots))
    return replace(record, ballot=ballot, branches=tuple(f"column {place + 1}" for place in slots))


def one_model(record: Record) -> Record:
    """Return a record of one model and prompt, of numbered prompt slots, or of what are said to be sources.

    Raises UsageError for one that holds several models or prompts by name, or columns of accuracies that no
    one model has: their votes in a row are no repeats, and rules that stop early depend on their order.
    """
    names = record.branches
    several = len(names) > 1 or columns_apart(record.ballot)[0]
    if not several or record.sources is not None:
        return record
    size = len(names) or record.ballot.votes.k
    shown = f" ({', '.join(names[:3])}{', ...' if size > 3 else ''})" if names else ""
    way = f"keff combine {record.path} weighs their votes"
    if len(names) == record.ballot.votes.k:
        way += ", and keff analyze --sources random takes them as a sample of sources like these"
    if names and record.ballot.votes.k > size:
        way = f"name one of them, such as '{record.path}#{names[0]}'; {way}"
    raise UsageError(f"{record.path} holds {size} models or prompts{shown}, not paths of one: {way}")
