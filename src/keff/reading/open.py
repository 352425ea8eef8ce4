"""Opening of a log or run as one Record: its metadata and its votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from keff import answers, plugins
from keff.errors import LogError, TaskError
from keff.log import Log, LogInfo, NoteSink, Question, find_log, ignore, path_text
from keff.logs.parts.batches import BatchedLog, Batching, ColumnBatch
from keff.reading.admit import EXACT_PATHS, limit_paths, with_verdicts, within_memory
from keff.reading.ballot import (
    COMPLETIONS,
    Ballot,
    RaggedError,
    Reading,
    ReadText,
    ballot,
    fullest,
    is_given,
    read_again,
    with_answers,
)
from keff.reading.branches import branch_names, with_branches
from keff.reading.check import check_ballot
from keff.reading.questions import RecordedQuestions
from keff.records import Note, frozen

if TYPE_CHECKING:
    from keff.task import Task

LABELS = tuple("ABCDEFGHIJ")

# Whether the sources of paths at hand are some of many, or all there are.
SourceKind = Literal["fixed", "random"]


@frozen
class Opening:
    """Options of reading a record.

    Its format and answer space (None: detected), a trim, whether with texts, and the ``part`` of a log that
    holds several records. ``columns`` says which column means what (``id=question_id,answer=prediction``);
    ``scorer`` chooses among the scores of a log, and from ``threshold`` on a score is right; ``branches``
    names the columns of a record of several models (``a,b,c`` or a JSON file). ``partial`` takes a run that
    was broken off as it is; ``rescore`` finds again which answers are right where there is a gold answer,
    whatever the log says. ``sources`` says whether the slots, judges, prompts or branches that paths come
    from are some of many ("random") or all there are ("fixed"). ``gaps`` reads the questions that lack a slot
    or judge too, into ``Record.with_gaps``. ``on`` is a Ray cluster whose nodes read the files.
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
    sources: SourceKind | None = None
    gaps: bool = False
    on: str | None = None

    @property
    def options(self) -> dict[str, object]:
        """The options of the log's reader."""
        given = {"columns": self.columns, "scorer": self.scorer, "threshold": self.threshold}
        return {name: value for name, value in given.items() if value is not None}


@frozen
class Record:
    """One record: source, metadata and votes.

    If it holds several models or prompts, ``branches`` names them; the paths of each are a slot.
    ``sources`` says whether these are a sample of many or all there are, if somebody said so.
    ``with_gaps`` has every question, with no answer if a slot or judge has no path (None: each question has
    all, or nobody asked). If no question has all, ``ballot`` is the same.
    """

    path: str
    info: LogInfo
    ballot: Ballot
    branches: tuple[str, ...] = ()
    sources: SourceKind | None = None
    with_gaps: Ballot | None = None


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
    log = read_log(path, opening)
    with naming(path):
        if opening.part is not None and opening.part in log.questions.branch_names:
            return record_of_log(log, log.questions.of_branch(opening.part), opening, opening.part)
        return record_of_log(log, one_part(log.questions, opening.part), opening)


def log_info(log: Log, path: Path, opening: Opening, tell: NoteSink = ignore) -> LogInfo:
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
class ReadLog:
    """A log's questions before they become votes, with their reading and notes."""

    path: Path
    info: LogInfo
    reading: Reading
    questions: RecordedQuestions
    notes: list[Note]
    format: str


def begin(path: Path, opening: Opening, tell: NoteSink) -> tuple[Log, LogInfo, Reading]:
    """Return a log's reader, its metadata, and how it is read."""
    log = find_log(path, opening.format, opening.options)
    info = log_info(log, path, opening, tell)
    return log, info, reading(info, opening)


def questions_of_log(
    path: Path, opening: Opening, tell: NoteSink, *, texts: bool, whole: bool = False
) -> tuple[Log, LogInfo, Reading, Iterator[Question]]:
    """Return a log's reader, metadata, reading, and stream of questions.

    Of ``whole`` questions, of one part, no paths are left out.
    """
    log, info, how = begin(path, opening, tell)
    recorded = log.questions(path, texts=texts or how.again, tell=tell)
    if whole:
        recorded = only_part(recorded, opening.part)
    questions = limit_paths(recorded, how.space, tell, opening.trim, None if whole else EXACT_PATHS)
    return log, info, how, with_verdicts(questions, how, tell, rescore=opening.rescore)


def read_log(path: Path, opening: Opening) -> ReadLog:
    """Return all questions of a log, read once, with as many paths as are analysed."""
    notes: list[Note] = []
    with naming(path):
        if opening.on is not None:
            nodes = plugins.import_extra("keff.reading.nodes", "--on ray")
            log, info, how, table = nodes.read_on_nodes(path, opening, notes.append)
        else:
            log, info, how, table = read_share(path, opening, notes.append)
    info = replace(info, stopped=info.stopped or table.tries is not None)
    # Only some formats take a threshold, and their name is for its advice.
    return ReadLog(path, info, how, table, notes, log.name if hasattr(log, "threshold") else "")


def read_share(
    path: Path, opening: Opening, tell: NoteSink, share: tuple[int, int] = (0, 1)
) -> tuple[Log, LogInfo, Reading, RecordedQuestions]:
    """Return a log's reader, metadata, reading and questions; of Parquet, a ``share`` of its row groups."""
    log, info, how = begin(path, opening, tell)
    names = () if opening.branches is None else branch_names(opening.branches)
    found: Iterator[Question | ColumnBatch]
    batched = not (opening.texts or opening.trim or names)
    if batched and isinstance(log, BatchedLog):
        found = log.batches(path, Batching(EXACT_PATHS, how.again, how.rescore, share), tell)
    else:
        found = log.questions(path, texts=opening.texts or how.again, tell=tell)
    found = limit_paths(found, how.space, tell, opening.trim, EXACT_PATHS)
    found = with_verdicts(found, how, tell, rescore=opening.rescore)
    found = (_with_vote(each, how, names, texts=opening.texts) for each in found)
    table = within_memory(found, tell, whole=opening.texts)
    if batched and table.repeats_ids:
        for _ in log.questions(path):  # one by one they say where
            pass
    if bool(np.any(np.array(table.only_completions))):
        table = _scores_of_completions(table, tell)
    return log, info, how, table


def _with_vote(
    question: Question | ColumnBatch, how: Reading, names: Sequence[str], *, texts: bool
) -> Question | ColumnBatch:
    """Return a question as it votes: read again where that was asked for, answers found in completions."""
    if isinstance(question, ColumnBatch):
        return question
    question = read_again(question, how, texts=texts)
    if question.form == "completions" and how.read is not None:
        question = with_answers(question, how)
    return with_branches(question, names) if names else question


def _scores_of_completions(table: RecordedQuestions, tell: NoteSink) -> RecordedQuestions:
    """Return questions with correctness alone, where whole completions cannot be read."""
    if not bool(table.has("correct").all()):
        raise LogError(COMPLETIONS)
    text = (
        "the answers are whole completions, so only their correctness is used: --answer-space says "
        "how answers are "
        "read from them"
    )
    tell(Note("whole_completions", text))
    return table.as_scores()


def record_of_log(log: ReadLog, questions: RecordedQuestions, opening: Opening, name: str = "") -> Record:
    """Return one record of a log's questions: all, or one part or branch ``name``."""
    names = questions.branch_names
    if len(names) > 1:
        questions = questions.with_branches_as_slots()
    whole, lacking = questions.in_order_of_slots()
    gaps = None
    scored, verdicts = questions.only_scores, questions.with_verdicts()
    # A path that holds a graded score alone has no way to say that it is missing.
    if lacking and opening.gaps and (not any(scored) or (all(scored) and verdicts.has("correct").all())):
        filled = verdicts.with_all_slots()
        gaps = check_ballot(ballot(filled, log.reading, trim=opening.trim, format=log.format))
    if lacking and not len(whole) and gaps is None:
        raise LogError(
            "no question has the paths of all slots or judges: name those to read together, or see keff "
            "noise, which reads what there is"
        )
    trim, stopped = trim_of(log.info, whole, opening)
    if gaps is not None and not len(whole):
        votes = gaps
    else:
        votes = check_ballot(ballot(whole, log.reading, trim=trim, format=log.format))
    if stopped:
        # Under its own code: nobody asked for this trim.
        votes = replace(votes, notes=(stopped, *(note for note in votes.notes if note.code != "trimmed")))
    path = f"{path_text(log.path)}#{name}" if name else path_text(log.path)
    info = replace(log.info, model=names[0]) if len(names) == 1 else log.info
    notes = (*log.notes, *(gaps or votes).notes)
    if lacking:
        text = f"{lacking} of {len(questions)} questions lack the path of some slot or judge"
        means = "are left out: keff noise reads them too"
        if gaps is not None:
            means = "count in the panel with the judges that they have"
        notes = (*notes, Note("missing_sources", f"{text} and {means}"))
    branches = names if len(names) > 1 else ()
    return Record(path, info, replace(votes, notes=notes), branches, opening.sources, gaps)


# What is said of tries that ended at the first that passed.
TRIED = Note(
    "stopped_run",
    "tries end at the first that passes, so only hard questions have more: how many to allow keff reads from "
    "all of them, everything else from the first of each question",
)


def trim_of(info: LogInfo, questions: RecordedQuestions, opening: Opening) -> tuple[int | None, Note | None]:
    """Return the number of paths of each question to use, and a note where a policy stopped the run.

    A policy stops a question as soon as its votes or verdicts allow, so the number of its paths depends on
    them. Only the first paths, as many as every question has, are like paths drawn without looking at them,
    whatever trim was asked for.
    """
    sizes: list[int] = questions.sizes.tolist()
    asked = None if opening.trim is None else min(opening.trim, EXACT_PATHS)
    if not info.stopped or not sizes or min(sizes) == max(sizes) or min(sizes) >= (asked or max(sizes)):
        return asked or (_paths_of_interrupted(sizes) if opening.partial else None), None
    if questions.tries is not None:
        return min(sizes), TRIED
    text = (
        f"this run stopped after {min(sizes)} to {max(sizes)} paths per question, as their answers or "
        f"verdicts allowed, so keff uses the first {min(sizes)} of each: only hard questions have more"
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
        raise error if path_text(path) in str(error) else named(f"{path_text(path)}: {error}") from None


def one_part(questions: RecordedQuestions, part: str | None) -> RecordedQuestions:
    """Return one part's questions; raises LogError where there are several and none is named."""
    own = questions.part_names
    _check_part(own, part)
    return questions.take(np.flatnonzero([part is None or _is_part(name, part) for name in own]))


def only_part(questions: Iterator[Question], part: str | None) -> Iterator[Question]:
    """Yield one part's questions as ``one_part`` returns them."""
    seen: dict[str, None] = {}
    for question in questions:
        seen[question.part] = None
        if part is None and len(seen) > 1:
            seen |= {question.part: None for question in questions}
        elif part is None or _is_part(question.part, part):
            yield question
    _check_part(seen, part)


def _is_part(name: str, part: str) -> bool:
    return part in (name, *name.split("/"))


def _check_part(names: Iterable[str], part: str | None) -> None:
    seen = sorted({*names})
    if part is None and len(seen) > 1:
        raise LogError(f"it holds several records: name one of them, {', '.join(seen)}")
    if part is not None and not any(_is_part(name, part) for name in seen):
        raise LogError(f"it has no part {part!r}: there are {', '.join(seen) or 'none'}")


def reading(info: LogInfo, opening: Opening) -> Reading:
    """Return how to compare answers: as requested, else by the named task, else as exact text.

    Raises UsageError for an answer space that does not exist.
    """
    asked = opening.answer_space and answers.from_command_line(opening.answer_space)
    asked = answers.settle(asked, info.space)
    how = _by_space(asked) if asked is not None else _reading_of_info(info)
    # A grader knows more than the answer: only what keff itself found is found again unasked.
    rescore = opening.rescore or (asked is not None and info.scored)
    return replace(how, again=asked is not None, rescore=rescore)


def _reading_of_info(info: LogInfo) -> Reading:
    if info.space is None and info.task is not None and plugins.has("task", info.task):
        task = plugins.load("task", info.task)
        closed = task.space in ("choice", "binary")
        return Reading(task.key, task.correct, closed=closed, space=task.space, read=_by_task(task))
    if info.space is None:
        return replace(_by_space("exact"), read=None)
    return _by_space(info.space)


def _by_space(spec: str, kept: Collection[str] = ()) -> Reading:
    space = answers.space(answers.keeping(spec, [*kept])) if kept else answers.of_unknown_options(spec)
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
        keeping=lambda words: _by_space(spec, words),
    )


def _by_task(task: Task) -> ReadText:
    def read(text: str, truncated: bool) -> answers.Read:
        answer = task.extract(text, truncated=truncated)
        key = None if answer is None else task.key(answer)
        return answers.Read(answer, key, answers.ABSTAINED if key is None else "task")

    return read
