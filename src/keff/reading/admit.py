"""Admission of questions: limits on paths and memory, and answers that cannot be compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from keff.errors import LogError
from keff.log import NAMED, NoteSink, Question
from keff.logs.parts.batches import ColumnBatch
from keff.logs.parts.tabled import PER_PATH
from keff.reading.ballot import Reading
from keff.reading.questions import RecordedQuestions
from keff.records import Note, stable_hash

# Questions come one by one, or by columns.
Recorded = TypeVar("Recorded", bound=Question | ColumnBatch)

# Records of at most this many paths per question are analysed.
MOST_PATHS = 4096

# Averages over all subsets are exact up to here; more paths of a question add next to nothing.
EXACT_PATHS = 1000

# Answer spaces that compare lists and objects.
FOR_STRUCTURES = frozenset({"json", "list", "set"})


def limit_paths(
    questions: Iterable[Recorded], space: str, tell: NoteSink, trim: int | None, most: int | None
) -> Iterator[Recorded]:
    """Yield the questions, cut to the path limit, and note at the end what was cut.

    ``trim`` paths of each are taken (None: all, at most ``MOST_PATHS``), of which ``most`` are kept (None: as
    many as there are); ``space`` is the answer space they will be compared by. Batches hold nothing else.
    Raises LogError for what cannot be taken.
    """
    if trim is not None and trim > MOST_PATHS:
        raise LogError(f"--trim {trim}: at most {MOST_PATHS} paths per question are analysed")
    nan = longest = 0
    limits = [limit for limit in (trim, most) if limit is not None]
    for question in _with_verdicts(questions, tell):
        if isinstance(question, ColumnBatch):
            yield question
            continue
        size = len(question.answers)
        if trim is None and most is not None and size > MOST_PATHS:
            raise LogError(
                f"question {question.id!r} has {size:,} paths, and at most {MOST_PATHS:,} are analysed: "
                f"use the first ones of each question with --trim {MOST_PATHS}"
            )
        if question.structured and space not in FOR_STRUCTURES:
            raise LogError(
                f"question {question.id!r} has a list or an object as an answer, which the answer space "
                f"{space} does not compare: write answers as text, or use --answer-space json"
            )
        nan += question.nan
        kept = min(limits, default=size)
        if size > kept == most:
            longest = max(longest, size)
        yield cast("Recorded", first_paths(question, kept)) if size > kept else question
    if nan:
        text = f"{nan} answers are NaN, which is how pandas writes a missing value, so they do not vote"
        tell(Note("nan_answers", text))
    if longest:
        text = (
            f"keff uses the first {most:,} of up to {longest:,} paths per question, since its averages over "
            "subsets are exact up to that number"
        )
        tell(Note("long_record", text))


def _with_verdicts(questions: Iterable[Recorded], tell: NoteSink) -> Iterator[Recorded]:
    """Yield the questions with a path that has a verdict, or needs none; note how many paths have none."""
    unjudged = 0
    for question in questions:
        left_out = 0 if isinstance(question, ColumnBatch) else question.unjudged
        unjudged += left_out
        if isinstance(question, ColumnBatch) or question.answers or not left_out:
            yield question
    if unjudged:
        tell(Note("left_out", f"{unjudged} paths are left out: each has no verdict"))


def merge_notes(notes: Iterable[Note]) -> list[Note]:
    """Return the notes on parts of a log as those on all of it.

    Each is there once; of those that differ in the number that they begin with there is one, with the sum.
    """
    counts: dict[tuple[str, str], int | None] = {}
    for note in notes:
        number, _, rest = note.message.partition(" ")
        counted = number.isdecimal()
        mark = note.code, rest if counted else note.message
        counts[mark] = (counts.get(mark) or 0) + int(number) if counted else None
    return [
        Note(code, rest if count is None else f"{count} {rest}") for (code, rest), count in counts.items()
    ]


def with_verdicts(
    questions: Iterable[Recorded], how: Reading, tell: NoteSink, *, rescore: bool
) -> Iterator[Recorded]:
    """Yield questions read in another space, and note whether the record's verdicts still count.

    Raises LogError where they are to be scored and none has a gold answer.
    """
    said = golds = number = 0
    for question in questions:
        if isinstance(question, ColumnBatch):
            number += len(question.ids)
            said += "correct" in question.numbers
            golds += sum(gold is not None for gold in question.golds)
        else:
            number += 1
            said += question.correct is not None and question.form != "scores"
            golds += question.gold is not None
        yield question
    if rescore and not golds:
        raise LogError("--rescore needs gold answers, and no question has one")
    if rescore and said:
        tell(Note("rescored", f"keff compared all answers with the gold answers again, as {how.space}"))
        if golds < number:
            text = f"{number - golds} questions without a gold answer keep the log's verdicts"
            tell(Note("not_rescored", text))
    elif how.again and said and not how.rescore:
        text = "keff takes the log's verdicts on which paths are right, however it reads their answers now"
        remedy = f"To compare them with the gold answers as {how.space}, add --rescore"
        tell(Note("verdicts_of_the_log", f"{text}. {remedy}"))


# After so many questions it is looked at how much memory is left.
LOOK = 2000


def within_memory(questions: Iterable[Recorded], tell: NoteSink, *, whole: bool = False) -> RecordedQuestions:
    """Return the questions, ``whole`` or without texts; of more than fit, a random part of the clusters.

    Which are in it depends on the cluster's name alone, else on the id: records of the same questions keep
    the same ones. Half of what is free at the start is left for the votes. It is said at once, by the logger
    ``keff``, and with the size of the sample in a note.
    """
    import logging

    held = RecordedQuestions(whole=whole)
    number, share, most, look, free = 0, 1.0, 0, LOOK, memory_left()
    for question in questions:
        if isinstance(question, ColumnBatch):
            number += len(question.ids)
            held.add_batch(question if share == 1 else _sample(question, share))
        else:
            number += 1
            if share == 1 or _hash_in_unit(question.cluster or question.id) < share:
                held.add(question)
        if not most and number >= look:
            look += LOOK
            most = number if memory_left() < free / 2 else 0
            if most:
                logging.getLogger("keff").warning(
                    "warning: memory runs short after %s questions. keff uses a random sample of whole "
                    "clusters (seed 0), at most this many questions",
                    f"{number:,}",
                )
        if most and len(held) >= most:
            share /= 2
            held = _of_share(held, share)
    if most:
        tell(
            Note(
                "sampled",
                f"{number:,} questions do not fit in memory, so keff uses {len(held):,} of them, a random "
                f"sample of 1 in {1 / share:.0f} clusters (seed 0)",
            )
        )
    return held


def _sample(batch: ColumnBatch, share: float) -> ColumnBatch:
    """Return a random share of the clusters of a batch."""
    held = RecordedQuestions()
    held.add_batch(batch)
    return _of_share(held, share).as_batch()


def _of_share(held: RecordedQuestions, share: float) -> RecordedQuestions:
    names = zip(held.cluster_names, held.names, strict=True)
    return held.take(np.flatnonzero([_hash_in_unit(cluster or own) < share for cluster, own in names]))


def _hash_in_unit(cluster: str) -> float:
    """Return a pseudo-random number in [0, 1), a hash of the cluster's name."""
    return int(stable_hash(0, cluster)[:8], 16) / 16**8


def memory_left() -> float:
    """Return the bytes of available memory; infinite where unknown."""
    try:
        stated = Path("/proc/meminfo").read_text("ascii").partition("MemAvailable:")[2].split()
    except OSError:
        return math.inf
    return 1024.0 * int(stated[0]) if stated else math.inf


def first_paths(question: Question, most: int) -> Question:
    """Return a question with its first ``k`` paths."""
    return chosen_paths(question, range(min(most, len(question.answers))))


def chosen_paths(question: Question, places: Iterable[int]) -> Question:
    """Return a question with the paths at some indices, in that order."""
    places = list(places)
    changes = {
        name: tuple(values[place] for place in places)
        for name in ("answers", *PER_PATH)
        if (values := getattr(question, name)) is not None
    }
    meta = {
        name: [cast("list[object]", values)[place] for place in places]
        for name, values in question.meta.items()
        if name.startswith(NAMED) and isinstance(values, list)
    }
    return replace(question, **changes, meta={**question.meta, **meta} if meta else question.meta)
