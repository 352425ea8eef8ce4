"""The single way in: from any source of answers to a Record."""

from __future__ import annotations

import difflib
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from keff.errors import LogError, UsageError
from keff.log import LogInfo, Question
from keff.narrow import Fields
from keff.plugins import import_extra
from keff.reading.arrays import questions_of, record_of_votes
from keff.reading.ballot import with_answers
from keff.reading.open import Opening, ReadLog, Record, SourceKind, naming, reading, record_of_log
from keff.reading.questions import RecordedQuestions
from keff.reading.repeated import RepeatedScores, of_record, scores_of
from keff.records import Note
from keff.stats.votes import Votes


class SourceOptions(TypedDict, total=False):
    """Options of reading a source.

    ``answer_space`` says how answers are compared (default: what a log names, else exact text), ``trim``
    uses the first K paths. ``sources`` says whether the slots, judges or branches of paths are all there are
    ("fixed") or a sample of many ("random"). ``format``, ``part``, ``partial`` and ``rescore`` are for logs
    (``Opening``). The others say what means what: the name of a column of a frame, or the data themselves
    beside an array or lists (one value per question for ``id``, ``gold_answer`` and ``cluster``, one list of
    paths per question for the others).
    """

    answer_space: str | None
    trim: int | None
    format: str | None
    part: str | None
    partial: bool
    rescore: bool
    sources: SourceKind | None
    id: object
    answer: object
    correct: object
    gold_answer: object
    model: object
    slot: object
    tokens: object
    seconds: object
    confidence: object
    text: object
    cluster: object


OPENING = ("answer_space", "trim", "format", "part", "partial", "rescore", "sources")
WORDS = tuple(word for word in SourceOptions.__annotations__ if word not in OPENING)

EXPECTED = (
    "give a path, a Record, Votes, a 0/1 array [questions, paths], nested lists of answers with "
    "gold_answer=[...], or a data frame with one row per path"
)


def opening_of(how: Fields, *, texts: bool = False) -> Opening:
    """Return the opening options of a log; raises UsageError for other keywords."""
    unknown(how)
    _no_words([word for word in how if word in WORDS], "a path")
    return _opening(how, texts)


def _opening(how: Mapping[str, Any], texts: bool = False) -> Opening:
    return Opening(texts=texts, **{name: value for name, value in how.items() if name in OPENING})


def record_of(source: object, how: Fields, *, gaps: bool = False) -> Record:
    """Return the record of data in memory: a Record, Votes, array, nested lists or frame.

    ``gaps`` as in ``Opening``. Raises UsageError with what was expected.
    """
    if isinstance(source, Record | Votes):
        unknown(how)
        _no_words(how, f"a {type(source).__name__}")
        return source if isinstance(source, Record) else record_of_votes(source)
    log, opening = log_of(source, how)
    with _keywords(), naming(log.path):
        return record_of_log(log, log.questions, replace(opening, gaps=gaps))


def scored_of(source: object, how: Fields, *, apart: bool = False) -> list[RepeatedScores]:
    """Return the repeated scores of data in memory, one for each model; sources as ``record_of``."""
    if isinstance(source, Record | Votes):
        return [of_record(record_of(source, how))]
    log, opening = log_of(source, how)
    with _keywords(), naming(log.path):
        return scores_of(log, opening, apart=apart)


def log_of(source: object, how: Fields) -> tuple[ReadLog, Opening]:
    """Return an array, nested lists or a frame as a log that was read, and how it is opened."""
    unknown(how)
    opening = _opening(how)
    words = {word: value for word, value in how.items() if word in WORDS}
    if isinstance(source, np.ndarray | list | tuple):
        model = words.pop("model", None)
        info = LogInfo(model=None if model is None else str(model))
        name = "array" if isinstance(source, np.ndarray) else "lists"
        return _log_in_memory(name, questions_of(cast("object", source), words), info, opening), opening
    if hasattr(type(source), "columns"):  # asked of the instance, a lazy frame would be resolved
        questions, info, notes = _questions_of_frame(source, words)
        return _log_in_memory("frame", questions, info, opening, notes), opening
    raise UsageError(f"a {type(source).__name__} holds no answers: {EXPECTED}")


def unknown(given: Iterable[str], *more: str) -> None:
    """Raise UsageError for an unknown keyword, with the nearest known one."""
    words = (*OPENING, *WORDS, *more)
    for word in given:
        if word not in words:
            near = difflib.get_close_matches(word, words, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(words)}"
            raise UsageError(f"there is no keyword {word!r}: {hint}")


def _no_words(words: Iterable[str], what: str) -> None:
    given = ", ".join(words)
    if given:
        raise UsageError(f"{what} already says what it holds: leave out {given}")


def _log_in_memory(
    name: str, questions: list[Question], info: LogInfo, opening: Opening, notes: tuple[Note, ...] = ()
) -> ReadLog:
    """Return questions in memory as a log that was read."""
    how = reading(info, opening)
    table = RecordedQuestions((with_answers(question, how) for question in questions), whole=True)
    return ReadLog(Path(name), info, how, table, [*notes], "")


@contextmanager
def _keywords() -> Generator[None]:
    """Raise a log's errors with its options as keywords: answer_space=, trim=."""
    try:
        yield
    except LogError as error:
        said = re.sub(r"--([a-z-]+) ", lambda option: option[1].replace("-", "_") + "=", str(error))
        raise type(error)(said) from None


def _questions_of_frame(frame: object, words: Fields) -> tuple[list[Question], LogInfo, tuple[Note, ...]]:
    frames = import_extra("keff.reading.frames", "reading a data frame")
    wrong = next((word for word, name in words.items() if not isinstance(name, str)), None)
    if wrong is not None:
        raise UsageError(f"{wrong} must be the name of a column of the frame, not {words[wrong]!r}")
    return frames.frame_questions(frame, words)
