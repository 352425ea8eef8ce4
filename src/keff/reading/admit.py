"""What comes in between a reader and its votes: numbers of paths, and answers that cannot be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from keff.errors import LogError
from keff.log import NAMED, Question
from keff.records import Note

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
