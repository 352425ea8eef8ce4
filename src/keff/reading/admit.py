"""What comes in between a reader and its votes: numbers of paths, and answers that cannot be compared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from keff.errors import LogError
from keff.log import NAMED, Question, Tell
from keff.records import Note, stable_hash

# Records of at most this many paths per question are analysed.
MOST_PATHS = 4096

# Averages over all subsets are exact up to here; more paths of a question add next to nothing.
EXACT_PATHS = 1000

# Answer spaces that compare lists and objects.
FOR_STRUCTURES = frozenset({"json", "list", "set"})

# The fields of a Question with one entry per path.
PER_PATH = (
    "answers",
    "keys",
    "correct",
    "tokens",
    "prompt_tokens",
    "cached_tokens",
    "seconds",
    "confidences",
    "slots",
    "branches",
    "rules",
    "truncated",
    "texts",
    "scores",
)


@dataclass(slots=True)
class Admission:
    """Lets questions through, and says afterwards, in ``notes``, what was done to them.

    ``trim`` paths of each question are taken (None: all, at most ``MOST_PATHS``), of which ``most`` are kept;
    ``space`` is the answer space they will be compared by (None: not known yet).
    """

    trim: int | None = None
    space: str | None = None
    most: int | None = EXACT_PATHS
    counts: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        if self.trim is not None and self.trim > MOST_PATHS:
            raise LogError(f"--trim {self.trim}: at most {MOST_PATHS} paths per question are analysed")

    def of(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions, cut where they are too long; raises LogError for what cannot be taken."""
        for question in questions:
            size = len(question.answers)
            if self.trim is None and self.most is not None and size > MOST_PATHS:
                raise LogError(
                    f"question {question.id!r} has {size:,} paths, and at most {MOST_PATHS:,} are analysed: "
                    f"use the first ones of each question with --trim {MOST_PATHS}"
                )
            if question.structured and self.space is not None and self.space not in FOR_STRUCTURES:
                raise LogError(
                    f"question {question.id!r} has a list or an object as an answer, which the answer space "
                    f"{self.space} does not compare: write answers as text, or use --answer-space json"
                )
            self.counts["nan"] += question.nan
            yield self._cut(question)

    def _cut(self, question: Question) -> Question:
        limits = [limit for limit in (self.trim, self.most) if limit is not None]
        most = min(limits, default=len(question.answers))
        if len(question.answers) <= most:
            return question
        if most == self.most:
            self.counts["long"] = max(self.counts["long"], len(question.answers))
        return first_paths(question, most)

    def notes(self) -> list[Note]:
        """Return what was done, once the questions are through."""
        notes: list[Note] = []
        if self.counts["nan"]:
            text = f"{self.counts['nan']} answers are NaN, as pandas writes what is missing: they abstain"
            notes.append(Note("nan_answers", text))
        if self.counts["long"]:
            text = (
                f"the first {self.most:,} of up to {self.counts['long']:,} paths per question are "
                "used: averages over "
                "subsets are exact up to that number"
            )
            notes.append(Note("long_record", text))
        return notes


# After so many questions it is looked at how much memory is left.
LOOK = 2000


def within_memory(questions: Iterable[Question], tell: Tell) -> list[Question]:
    """Return the questions or, of more than fit in memory, those of a random part of the clusters.

    Which are in it depends on the cluster's name alone, else on the id: records of the same questions keep
    the same ones. Half of what is free at the start is left for the votes. It is said at once, by the logger
    ``keff``, and with the size of the sample in a note.
    """
    import logging

    held: list[Question] = []
    number, share, most, free = 0, 1.0, 0, memory_left()
    for number, question in enumerate(questions, 1):
        if share == 1 or _drawn(question) < share:
            held.append(question)
        if not most and number % LOOK == 0 and memory_left() < free / 2:
            most = number
            logging.getLogger("keff").warning(
                "warning: memory runs short after %s questions: of these and all that follow a random sample "
                "of whole clusters (seed 0) is used, at most as many questions",
                f"{number:,}",
            )
        if most and len(held) >= most:
            share /= 2
            held = [question for question in held if _drawn(question) < share]
    if most:
        tell(
            Note(
                "sampled",
                f"{number:,} questions do not fit in memory: {len(held):,} of them are used, a random sample "
                f"of 1 in {1 / share:.0f} clusters (seed 0)",
            )
        )
    return held


def _drawn(question: Question) -> float:
    """Return a number in [0, 1) that the name of the cluster decides."""
    return int(stable_hash(0, question.cluster or question.id)[:8], 16) / 16**8


def memory_left() -> float:
    """Return the bytes of memory that are free or can be freed, infinite where the system does not say."""
    try:
        stated = Path("/proc/meminfo").read_text("ascii").partition("MemAvailable:")[2].split()
    except OSError:
        return math.inf
    return 1024.0 * int(stated[0]) if stated else math.inf


def first_paths(question: Question, most: int) -> Question:
    """Return a question with its first paths only."""
    return chosen_paths(question, range(min(most, len(question.answers))))


def chosen_paths(question: Question, places: Iterable[int]) -> Question:
    """Return a question with the paths at some places, in that order."""
    places = list(places)
    changes = {
        name: tuple(values[place] for place in places)
        for name in PER_PATH
        if (values := getattr(question, name)) is not None
    }
    meta = {
        name: [cast("list[object]", values)[place] for place in places]
        for name, values in question.meta.items()
        if name.startswith(NAMED) and isinstance(values, list)
    }
    return replace(question, **changes, meta={**question.meta, **meta} if meta else question.meta)
