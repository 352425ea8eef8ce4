"""A whole record by columns: what readers give where every row is plain, without an object per path."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keff.log import NAMED, Question
from keff.logs.parts.coding import Coded, Codes, Golds, NotPlainError, Texts, joined
from keff.logs.parts.columns import LISTS as LIST_OF
from keff.logs.parts.values import MOST_COUNT, name_of, optional_text

Int = NDArray[np.int64]
Float = NDArray[np.float64]

# Fields of votes with a number per path -> lists of the JSONL.
NUMBERS = {
    "tokens": "all_tokens",
    "prompt_tokens": "all_prompt_tokens",
    "cached_tokens": "all_cached_tokens",
    "seconds": "all_seconds",
    "confidences": "all_confidences",
}

TEXTS = {"answers": "all_answers", "keys": "all_keys", "rules": "all_rules"}
CODED = {"correct": "all_correct", "slots": "slots"}
LISTS = (*TEXTS.values(), *NUMBERS.values(), *CODED.values())
# Lists of the JSONL that only the reading row by row understands.
OTHERS = frozenset(LIST_OF.values()) - {*LISTS, "all_texts", "all_truncated"}

_NUMBER_KINDS = frozenset({float, int, bool, type(None)})
_WHOLE_KINDS = frozenset({int, bool})


@dataclass(frozen=True, slots=True)
class Bulk:
    """The columns of a record of n questions; all that is per path stands in one row, question by question.

    ``sizes`` [n] are the numbers of paths. ``gold`` [n] indexes ``golds``, -1 for none. ``clusters`` are
    names ("" for none). ``has_texts`` says that raw completions are there, though they are not held.
    ``question`` reads one question again from the file. ``asked`` [n] are hashes of the questions' texts, 0
    where there is none: equal ones are copies (None where texts are not read). ``named`` are further
    confidences.
    """

    ids: Sequence[str]
    sizes: Int
    answers: Coded
    gold: Codes
    golds: Sequence[object]
    clusters: Sequence[str] | None
    keys: Coded | None
    rules: Coded | None
    correct: Codes | None
    slots: Codes | None
    numbers: Mapping[str, Float]
    has_texts: bool
    question: Callable[[int], Question]
    asked: Int | None = None
    named: Mapping[str, Float] = field(default_factory=dict[str, "Float"])


@runtime_checkable
class BulkLog(Protocol):
    """A reader that can give all columns at once."""

    def bulk(self, path: Path, *, texts: bool = False) -> Bulk | None:
        """Return the columns of a file; None where it must be read question by question.

        With ``texts`` the questions that are read again have them.
        """
        ...


class RowColumns:
    """Gathers the columns of rows with lists, some thousand rows at a time."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.sizes: list[Int] = []
        self.texts = {name: Texts() for name in TEXTS}
        self.golds = Golds()
        self.clusters: list[str] | None = None
        self.models: set[object] = set()
        self.flat: dict[str, list[NDArray[np.generic]]] = {name: [] for name in (*NUMBERS, *CODED)}
        self.asked = array("q")
        self.lists: frozenset[str] | None = None
        self.has_texts = False

    def add(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Append rows; raises NotPlainError where one needs the reading row by row."""
        known = frozenset[str]().union(*rows)
        given = {name for name in known if any(row.get(name) is not None for row in rows)}
        lists = frozenset(given.intersection(LISTS))
        if self.lists is None:
            self.lists = lists
        # A list that only some rows have, and models or templates by name, are read row by row.
        named = any(name.startswith(NAMED) for name in given)
        if lists != self.lists or OTHERS & given or named or "all_answers" not in lists:
            raise NotPlainError
        self.has_texts |= "all_texts" in given
        self.asked.extend(text_hash(row.get("question")) for row in rows)
        self.add_names(rows, given)
        columns = {name: [row.get(name) for row in rows] for name in lists}
        if any(set(map(type, column)) != {list} for column in columns.values()):
            raise NotPlainError
        filled = cast("dict[str, list[list[object]]]", columns)
        sizes = np.fromiter(map(len, filled["all_answers"]), np.int64, len(rows))
        for name, column in filled.items():
            if name != "all_answers" and not np.array_equal(
                np.fromiter(map(len, column), np.int64, len(rows)), sizes
            ):
                raise NotPlainError
        self.sizes.append(sizes)
        for name, column in filled.items():
            self.add_lists(name, column)

    def add_names(self, rows: Sequence[Mapping[str, object]], given: Collection[str]) -> None:
        """Append what each row has once; ``given`` are the fields that any of them has."""
        self.ids += names([row.get("id") for row in rows])
        self.golds.add([row.get("gold_answer") for row in rows])
        if "model" in given:
            self.models.update(optional_text(row.get("model")) for row in rows)
        else:
            self.models.add(None)
        if len(self.models) > 1:
            raise NotPlainError
        if "cluster" in given and self.clusters is None:
            self.clusters = [""] * (len(self.ids) - len(rows))
        if self.clusters is not None:
            self.clusters += [
                value if type(value) is str else names([value])[0] if value is not None else ""
                for value in (row.get("cluster") for row in rows)
            ]

    def add_lists(self, column: str, lists: Sequence[Sequence[object]]) -> None:
        """Append the values of a list that every row has, one after the other."""
        for name, known in TEXTS.items():
            if known == column:
                self.texts[name].add(*lists)
                return
        values = list(chain.from_iterable(lists))
        for name, known in NUMBERS.items():
            if known == column:
                self.flat[name].append(numbers_of(name, values))
        for name, known in CODED.items():
            if known == column:
                self.flat[name].append(whole_of(name, values))

    def done(self, question: Callable[[int], Question]) -> Bulk:
        """Return the columns; raises NotPlainError where ids repeat or there are none."""
        if not self.ids or len(set(self.ids)) < len(self.ids) or self.lists is None:
            raise NotPlainError
        lists = self.lists
        coded = {name: cast("list[Codes]", self.flat[name]) for name in CODED}
        return Bulk(
            ids=self.ids,
            sizes=joined(self.sizes, np.int64),
            answers=self.texts["answers"].done(),
            gold=joined(self.golds.parts, np.int32),
            golds=self.golds.values,
            clusters=self.clusters,
            keys=self.texts["keys"].done() if "all_keys" in lists else None,
            rules=self.texts["rules"].done() if "all_rules" in lists else None,
            correct=joined(coded["correct"], np.int32) if "all_correct" in lists else None,
            slots=joined(coded["slots"], np.int32) if "slots" in lists else None,
            numbers={
                name: joined(cast("list[Float]", self.flat[name]), np.float64)
                for name, known in NUMBERS.items()
                if known in lists
            },
            has_texts=self.has_texts,
            question=question,
            asked=np.array(self.asked, np.int64) if len(self.asked) == len(self.ids) else None,
        )


def text_hash(text: object) -> int:
    """Return a number that equal texts of questions share in this process; 0 for none."""
    return hash(text) if type(text) is str and text else 0


def names(values: Sequence[object]) -> list[str]:
    """Return ids or names as text; raises NotPlainError for what cannot be one."""
    if set(map(type, values)) == {str} and all(values):
        return cast("list[str]", values)
    try:
        return [name_of(value) for value in values]
    except ValueError:
        raise NotPlainError from None


def numbers_of(name: str, values: Sequence[object]) -> Float:
    """Return numbers, NaN where missing; raises NotPlainError for what a reader refuses or has to convert."""
    if not set(map(type, values)) <= _NUMBER_KINDS:
        raise NotPlainError
    column = np.array(values, np.float64)  # None becomes NaN
    known = column[~np.isnan(column)]
    if np.any(np.isinf(known)) or (name != "confidences" and np.any((known < 0) | (known > MOST_COUNT))):
        raise NotPlainError
    return column


def whole_of(name: str, values: Sequence[object]) -> Codes:
    """Return 0 and 1, or slots; raises NotPlainError for anything else."""
    if not set(map(type, values)) <= _WHOLE_KINDS:
        raise NotPlainError
    column = np.array(values, np.int64)
    if column.size and (column.min() < 0 or column.max() > (1 if name == "correct" else 2**31 - 1)):
        raise NotPlainError
    return column.astype(np.int32)
