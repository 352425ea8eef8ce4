"""Columnar form of a whole record, for plain rows: no object per path."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain, islice
from pathlib import Path
from threading import local
from types import NoneType
from typing import Any, Generic, Protocol, TypeVar, cast, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keff.answers import Read
from keff.errors import LogError
from keff.log import LISTED, NAMED, Question, Tell, unheard
from keff.logs.parts.coding import Coded, Codes, Golds, NotPlainError, Texts, TooVariedError, joined
from keff.logs.parts.columns import LISTS as LIST_OF
from keff.logs.parts.values import MOST_COUNT, name_of, optional_text
from keff.narrow import Fields, Object
from keff.records import frozen

T = TypeVar("T")
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
# What answers are read again from, where a reading was asked for.
COMPLETIONS = {"texts": "all_texts", "truncated": "all_truncated"}
# Text of a completion, and whether it was cut -> what it says.
ReadText = Callable[[str, bool], Read]
# Fields that a row has once.
NAMES = ("id", "gold_answer", "cluster", "model")
LISTS = (*TEXTS.values(), *NUMBERS.values(), *CODED.values())
# Lists of the JSONL that only the reading row by row understands.
OTHERS = frozenset(LIST_OF.values()) - {*LISTS, *COMPLETIONS.values()}

_NUMBER_KINDS = frozenset({float, int, bool, type(None)})
_WHOLE_KINDS = frozenset({int, bool})


@frozen
class Bulk:
    """Columns of a record of n questions; per-path values are concatenated, question by question.

    ``sizes`` [n] are the numbers of paths. ``gold`` [n] indexes ``golds``, -1 for none. ``clusters`` are
    names ("" for none).
    ``question`` reads one question again, by its place in the file. ``asked`` [n] are hashes of the
    questions' texts, 0 where there is none: equal ones are copies (None where no text is known). ``named``
    are further confidences; ``model`` is the one that all rows name.
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
    question: Callable[[int], Question]
    asked: Int | None = None
    named: Mapping[str, Float] = field(default_factory=dict[str, "Float"])
    model: object = None


# So many paths are held by columns before they are turned into votes: a large record is read in such parts.
PATHS_OF_A_PART = 2**21

# Answers of questions of more paths have codes of more than one byte: such a record is read whole.
SMALL_K = 127


@frozen
class ColumnOptions:
    """Options of reading by columns.

    A part has about ``most`` paths. With ``texts`` every question may be read again for its texts; ``read``
    replaces answers, keys and rules by what it reads from the texts; where there are none, keys and rules are
    left out.
    """

    texts: bool = False
    most: int = PATHS_OF_A_PART
    read: ReadText | None = None
    tell: Tell = unheard


@runtime_checkable
class PartsLog(Protocol):
    """A reader that can yield its columns in parts, in bounded memory."""

    def parts(self, path: Path, how: ColumnOptions) -> Iterator[Bulk]:
        """Yield columns, in file order; names of answers and gold answers are numbered alike in all parts.

        Raises NotPlainError, or what is wrong with the file, where it must be read question by question.
        """
        ...


def read_row(row: Fields, read: ReadText) -> Object:
    """Return a row with answers, keys and rules as its texts are read; raises NotPlainError."""
    if row.get("all_texts") is None:
        return {**row, "all_keys": None, "all_rules": None}
    names = *COMPLETIONS.values(), *TEXTS.values()
    given = {name: cast("list[Any]", row[name]) for name in names if row.get(name) is not None}
    sizes = {len(values) if type(values) is list else -1 for values in given.values()}
    if len(sizes) > 1 or not min(sizes) > 0 or "all_answers" not in given:
        raise NotPlainError
    texts, cut = given["all_texts"], given.get("all_truncated", [0] * min(sizes))
    # Of answers that are no text the question tells.
    if not {*map(type, texts + given["all_answers"])} <= {str, NoneType} or any(x not in (0, 1) for x in cut):
        raise NotPlainError
    said = [read(text or "", bool(each)) for text, each in zip(texts, cut, strict=True)]
    found = zip(*((each.answer, each.key, each.rule) for each in said), strict=True)
    return {**row, **dict(zip(TEXTS.values(), map(list, found), strict=True))}


class Names(Sequence[str]):
    """A sequence of texts packed into one block of bytes, a fifth of the size of str objects."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.ends = array("Q")

    def add(self, texts: Sequence[str]) -> None:
        """Append texts."""
        whole = "".join(texts)
        units = texts if whole.isascii() else [text.encode("utf-8", "surrogatepass") for text in texts]
        sizes = np.fromiter(map(len, units), np.uint64, len(texts))
        self.ends.frombytes((np.cumsum(sizes) + np.uint64(len(self.text))).tobytes())
        self.text += whole.encode("utf-8", "surrogatepass")

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        start = self.ends[place - 1] if place else 0
        return self.text[start : self.ends[place]].decode("utf-8", "surrogatepass")


class RowColumns:
    """Builds columns from rows with lists, some thousand rows at a time."""

    def __init__(self, read: ReadText | None = None) -> None:
        self.read = read
        self.ids: list[str] = []
        self.paths = 0
        self.seen: list[Int] = []
        self.sizes: list[Int] = []
        self.texts = {name: Texts() for name in TEXTS.values()}
        self.golds = Golds()
        self.clusters: list[str] | None = None
        self.models: set[object] = set()
        self.numbers: dict[str, list[Float]] = {name: [] for name in NUMBERS.values()}
        self.codes: dict[str, list[Codes]] = {name: [] for name in CODED.values()}
        self.asked = array("q")
        self.lists: frozenset[str] | None = None

    def add(self, rows: Sequence[Fields]) -> None:
        """Append rows; raises NotPlainError where one has to be read by the row reader."""
        if self.read is not None:
            rows = [read_row(row, self.read) for row in rows]
        known = frozenset[str]().union(*rows)
        given = {name for name in known if any(row.get(name) is not None for row in rows)}
        lists = self.lists_of(given)
        self.asked.extend(text_hash(row.get("question")) for row in rows)
        self.add_names({name: [row.get(name) for row in rows] for name in NAMES if name in given}, len(rows))
        columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in lists}
        if any(set(map(type, column)) != {list} for column in columns.values()):
            raise NotPlainError
        self.add_sizes(*(np.fromiter(map(len, column), np.int64, len(rows)) for column in columns.values()))
        for name, column in columns.items():
            self.add_lists(name, column)

    def lists_of(self, given: Collection[str]) -> frozenset[str]:
        """Return the names of list columns in rows; raises NotPlainError where earlier rows had others."""
        lists = frozenset(LISTS).intersection(given)
        if self.lists is None:
            self.lists = lists
        # A list that only some rows have, models or templates by name, and named confidences are read by row.
        named = any(name.startswith((NAMED, LISTED)) for name in given)
        if named or lists != self.lists or OTHERS.intersection(given) or "all_answers" not in lists:
            raise NotPlainError
        return lists

    def enough(self, most: int) -> bool:
        """Return whether a part is full, of questions short enough for reading in parts."""
        return self.paths >= most and int(self.sizes[-1][0]) <= SMALL_K

    def add_sizes(self, sizes: Int, *others: Int) -> None:
        """Append the lengths of a list column; raises NotPlainError where another list's differ."""
        if not all(np.array_equal(sizes, other) for other in others):
            raise NotPlainError
        self.sizes.append(sizes)
        self.paths += int(sizes.sum())

    def add_names(self, columns: Mapping[str, Sequence[object]], size: int) -> None:
        """Append the values of once-per-question columns (``NAMES``) for ``size`` rows."""
        none = [None] * size
        self.ids += names(columns.get("id", none))
        self.golds.add(columns.get("gold_answer", none))
        self.models.update(map(optional_text, columns.get("model", (None,))))
        if len(self.models) > 1:
            raise NotPlainError
        if "cluster" in columns and self.clusters is None:
            self.clusters = [""] * (len(self.ids) - size)
        if self.clusters is not None:
            self.clusters += [
                value if type(value) is str else names([value])[0] if value is not None else ""
                for value in columns.get("cluster", none)
            ]

    def add_lists(self, column: str, lists: Sequence[Sequence[object]]) -> None:
        """Append the concatenated values of a list column that every row has."""
        if column in self.texts:
            self.texts[column].add(*lists)
            return
        values = list(chain.from_iterable(lists))
        if column in self.numbers:
            self.numbers[column].append(numbers_of(column, values))
        else:
            self.codes[column].append(whole_of(column, values))

    def part(self, question: Callable[[int], Question], *, last: bool = False) -> Bulk:
        """Return the columns added since the last part.

        Raises NotPlainError where there is nothing and, with the ``last`` part, where ids repeat in any.
        """
        if self.lists is None or not self.ids:
            raise NotPlainError
        self.seen.append(np.fromiter(map(hash, self.ids), np.int64, len(self.ids)))
        if last and repeat(np.concatenate(self.seen)):
            raise NotPlainError
        texts = {name: self.texts[name].done() for name in TEXTS.values() if name in self.lists}
        codes = {name: joined(parts, np.int32) for name, parts in self.codes.items() if name in self.lists}
        asked = np.array(self.asked, np.int64)
        bulk = Bulk(
            ids=self.ids,
            sizes=joined(self.sizes, np.int64),
            answers=texts["all_answers"],
            gold=joined(self.golds.parts, np.int32),
            golds=self.golds.values,
            clusters=self.clusters,
            keys=texts.get("all_keys"),
            rules=texts.get("all_rules"),
            correct=codes.get("all_correct"),
            slots=codes.get("slots"),
            numbers={
                name: joined(self.numbers[known], np.float64)
                for name, known in NUMBERS.items()
                if known in self.lists
            },
            question=question,
            asked=asked if asked.size == len(self.ids) and asked.any() else None,
            model=next(iter(self.models)),
        )
        self._clear()
        return bulk

    def _clear(self) -> None:
        """Drop the values of the last part, but keep the numbering of texts."""
        self.ids, self.sizes, self.paths = [], [], 0
        self.clusters = None if self.clusters is None else []
        self.asked = array("q")
        for column in (self.golds, *self.texts.values()):
            column.parts.clear()
        for parts in (*self.numbers.values(), *self.codes.values()):
            parts.clear()


# Questions that are turned into columns at a time.
BLOCK = 1024


def parts_of_questions(questions: Callable[[Tell], Iterator[Question]], how: ColumnOptions) -> Iterator[Bulk]:
    """Yield columns from questions that a table gives one by one; see ``PartsLog``."""
    columns, again, rows = RowColumns(how.read), Reread(questions), map(_row, questions(how.tell))
    while block := list(islice(rows, BLOCK)):
        if columns.enough(how.most):
            yield columns.part(again.question)
        columns.add(block)
    yield columns.part(again.question, last=True)


def _row(question: Question) -> Object:
    """Return a question as a row with lists; raises NotPlainError where it has more fields."""
    more = question.nan or question.structured or question.scores or question.branches
    if more or question.form != "answers" or any(name.startswith(NAMED) for name in question.meta):
        raise NotPlainError
    row: Object = {"id": question.id, "gold_answer": question.gold, "question": question.question}
    row |= {"cluster": question.cluster or None, "model": question.part or None}
    fields = (TEXTS | NUMBERS | CODED | COMPLETIONS).items()
    lists = {known: getattr(question, name) for name, known in fields}
    return row | {known: list(values) for known, values in lists.items() if values is not None}


class Reread(local, Generic[T]):
    """Rereads single questions of a log (or batches of them) by index; each thread has its own position."""

    def __init__(self, questions: Callable[[Tell], Iterator[T]]) -> None:
        self._questions, self._rest, self._next = questions, questions(unheard), 0
        self._found: Any = None

    def question(self, row: int) -> T:
        """Return the question at an index."""
        if row != self._next - 1:  # the last one is held
            if row < self._next:
                self._next, self._rest = 0, self._questions(unheard)
            self._found = next(islice(self._rest, row - self._next, None))
            self._next = row + 1
        return self._found


def repeat(hashes: Int) -> bool:
    """Return whether ids may repeat, by their hashes."""
    hashes.sort()
    return bool(np.any(hashes[1:] == hashes[:-1]))


def only_part(parts: Iterator[Bulk]) -> Bulk | None:
    """Return the first of ``parts``; None where the file must be read question by question."""
    try:
        return next(parts)
    except TooVariedError:
        raise
    except (NotPlainError, LogError, ValueError, StopIteration):
        return None


def text_hash(text: object) -> int:
    """Return a hash of a question's text, stable within this process; 0 for none."""
    return hash(text) if type(text) is str and text else 0


def names(values: Sequence[object]) -> list[str]:
    """Return ids or names as text; raises NotPlainError for values of another kind."""
    if set(map(type, values)) == {str} and all(values):
        return cast("list[str]", values)
    try:
        return [name_of(value) for value in values]
    except ValueError:
        raise NotPlainError from None


def numbers_of(name: str, values: Sequence[object]) -> Float:
    """Return numbers, NaN where missing; raises NotPlainError for values that need conversion."""
    if not set(map(type, values)) <= _NUMBER_KINDS:
        raise NotPlainError
    column = np.array(values, np.float64)  # None becomes NaN
    known = column[~np.isnan(column)]
    if np.any(np.isinf(known)) or (name != "all_confidences" and np.any((known < 0) | (known > MOST_COUNT))):
        raise NotPlainError
    return column


def whole_of(name: str, values: Sequence[object]) -> Codes:
    """Return a column of 0 and 1, or of slots, as integers; raises NotPlainError for other values."""
    if not set(map(type, values)) <= _WHOLE_KINDS:
        raise NotPlainError
    column = np.array(values, np.int64)
    # A slot is kept as 32 bits.
    if column.size and (column.min() < 0 or column.max() > (1 if name == "all_correct" else 2**31 - 1)):
        raise NotPlainError
    return column.astype(np.int32)
