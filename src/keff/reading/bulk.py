"""Votes of a record read by columns: distinct answers are keyed once, distinct pairs judged once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from keff.log import Question
from keff.logs.parts.bulk import Bulk
from keff.logs.parts.coding import Coded, Codes
from keff.reading.admit import first_paths
from keff.reading.ballot import (
    Ballot,
    HeldColumns,
    Reading,
    admitted,
    one_order,
    scored,
)
from keff.reading.unanswered import words_noted
from keff.records import frozen
from keff.stats.resampling import numbers_of
from keff.stats.votes import BoolArray, IntArray, Votes
from keff.stats.voting.alike import dense_codes

T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)

# Up to so many pairs of an answer and a gold answer, those that occur are marked in a table.
TABLE_CELLS = 2**22


@frozen
class Lazy(Sequence[T], Generic[T]):
    """A sequence whose entries are computed on access."""

    size: int
    entry: Callable[[int], T]

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return tuple(self.entry(place) for place in range(self.size)[index])
        return self.entry(range(self.size)[index])


def bulk_ballot(bulk: Bulk, reading: Reading, *, trim: int | None = None) -> Ballot:
    """Return the Votes of columns, as ``ballot`` of questions; raises LogError as it does."""
    labelled = labelled_rows(bulk, reading)
    k, rows, notes = admitted(bulk.sizes, labelled, trim)
    columns = PathColumns(bulk.sizes, rows, k)
    answers = columns.of(bulk.answers.codes)
    keys = coded_keys(bulk, answers, columns, reading)
    correct = None
    if bool(labelled[rows].any()):
        own = bulk.correct
        right = columns.of(own).copy() if own is not None else judged(bulk, answers, rows, reading)
        correct = cast("IntArray", right)
    unread, golds = unread_answers(bulk, answers, keys), (bulk.golds[code] for code in bulk.gold if code >= 0)
    notes += words_noted(unread, golds, reading.states, reading.space)
    # Small integers and booleans until Votes makes them its own, which is the one copy of eight bytes a path.
    codes = _renumbered(keys.codes) if reading.closed else cast("IntArray", dense_codes(keys.codes))
    votes = Votes(
        answers=codes,
        correct=scored(codes, correct, notes),
        slots=None if bulk.slots is None else one_order(columns.of(bulk.slots)),
        clusters=_clusters(bulk, rows),
        closed=reading.closed,
        named={name: columns.of(values) for name, values in bulk.named.items()},
        **cast("dict[str, Any]", {name: columns.of(values) for name, values in bulk.numbers.items()}),
    )
    rules = None if bulk.rules is None else Coded(columns.of(bulk.rules.codes), bulk.rules.names)
    return Ballot(
        votes,
        Lazy(rows.size, lambda row: _named(keys, row)),
        _questions(bulk.question, rows, trim),
        reading,
        tuple(notes),
        rules,
        None if bulk.asked is None else bulk.asked[rows],
        bulk.ids if rows.size == bulk.sizes.size else [bulk.ids[int(row)] for row in rows],
        HeldColumns(
            keys,
            [None if code < 0 else bulk.golds[code] for code in bulk.gold[rows].tolist()],
            None if bulk.clusters is None else [bulk.clusters[int(row)] or "" for row in rows],
        ),
    )


def labelled_rows(bulk: Bulk, reading: Reading) -> BoolArray:
    """Return which questions have verdicts or a gold answer."""
    if bulk.correct is not None:
        return np.ones(bulk.sizes.size, bool)
    stated = np.array([*map(reading.states, bulk.golds), False], bool)
    return stated[bulk.gold]


def unread_answers(bulk: Bulk, answers: Codes, keys: Coded) -> Counter[str]:
    """Return the answers [n, k] that have no key, with their numbers."""
    codes, counts = np.unique(answers[(keys.codes < 0) & (answers >= 0)], return_counts=True)
    names = [bulk.answers.names[int(code)] for code in codes]
    return Counter(dict(zip(names, counts.tolist(), strict=True)))


class PathColumns:
    """Reshapes per-path columns into matrices [n, k] of the admitted questions."""

    def __init__(self, sizes: IntArray, rows: IntArray, k: int) -> None:
        self.shape = (rows.size, k)
        self.whole = rows.size == sizes.size and bool(np.all(sizes == k))
        starts = np.cumsum(sizes) - sizes
        self.places = None if self.whole else starts[rows][:, None] + np.arange(k)

    def of(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return a column as a matrix."""
        return values.reshape(self.shape) if self.places is None else values[self.places]


def coded_keys(
    bulk: Bulk, answers: Codes, columns: PathColumns, reading: Reading, *, every: bool = False
) -> Coded:
    """Return the key codes of all paths [n, k], over ``every`` answer or those in use here."""
    if bulk.keys is not None:
        return Coded(columns.of(bulk.keys.codes), bulk.keys.names)
    used = np.full(len(bulk.answers.names) + 1, every)
    used[answers] = True
    code, names = _keyed(bulk.answers.names, used, reading)
    if np.array_equal(code[:-1], np.arange(code.size - 1)):
        return Coded(answers, names)  # every text is its own key: the codes are not held twice
    return Coded(code[answers], names)


def _keyed(texts: Sequence[str], used: BoolArray, reading: Reading) -> tuple[Codes, list[str]]:
    """Return each text's key code, -1 last for no answer, and the key names."""
    numbers: dict[str, int] = {}
    code = np.full(len(texts) + 1, -1, np.int32)
    for place, text in enumerate(texts):
        if used[place]:
            key = reading.key(text)
            code[place] = -1 if key is None else numbers.setdefault(key, len(numbers))
    return code, list(numbers)


def judged(bulk: Bulk, answers: Codes, rows: IntArray, reading: Reading) -> BoolArray:
    """Return correctness [n, k]; each distinct pair of answer and gold answer is judged once."""
    gold = bulk.gold[rows]
    if reading.by_key:
        by_key = _judged_by_key(bulk, answers, gold, reading)
        if by_key is not None:
            return by_key
    width, out = len(bulk.golds), np.zeros(answers.shape, bool)
    step = max(1, TABLE_CELLS // (8 * answers.shape[1]))
    for start in range(0, len(gold), step):
        block, own = answers[start : start + step], gold[start : start + step]
        pair = block.astype(np.int64) * width + own[:, None]
        pairs, back = _distinct(np.where((block >= 0) & (own >= 0)[:, None], pair, -1), width, bulk)
        texts, golds = bulk.answers.names, bulk.golds
        numbers: list[int] = pairs.tolist()
        right = [p >= 0 and reading.correct(texts[p // width], golds[p % width]) for p in numbers]
        out[start : start + step] = np.array(right, bool)[back]
    return out


def _distinct(pairs: IntArray, width: int, bulk: Bulk) -> tuple[IntArray, IntArray]:
    """Return the distinct pairs, and each one's index."""
    cells = len(bulk.answers.names) * width + 1
    if cells > TABLE_CELLS:
        values, back = np.unique(pairs, return_inverse=True)
        return values, back.reshape(pairs.shape).astype(np.int64)
    seen = np.zeros(cells, bool)
    seen[pairs] = True
    values = np.flatnonzero(seen)
    places = np.zeros(cells, np.int32)
    places[values] = np.arange(values.size)
    # -1 is the last cell.
    return np.where(values == cells - 1, -1, values), places[pairs].astype(np.int64)


def _judged_by_key(bulk: Bulk, answers: Codes, gold: Codes, reading: Reading) -> BoolArray | None:
    """Return correctness by comparing keys; None where a gold answer has alternatives."""
    several = any(isinstance(each, list | tuple | set | frozenset) for each in bulk.golds)
    if several:
        return None
    texts = [*bulk.answers.names, *(name for each in bulk.golds for name in reading.golds(each))]
    code, _ = _keyed(texts, np.ones(len(texts), bool), reading)
    first = len(bulk.answers.names)
    own = np.append(code[first:-1], np.int32(-2))[gold]  # the last for no gold answer
    mine = np.append(code[:first], np.int32(-1))[answers]
    return (mine == own[:, None]) & (mine >= 0)


def _renumbered(codes: Codes) -> IntArray:
    """Return codes [n, k] of a closed set renumbered by first use; -1 stays."""
    flat = codes.ravel()
    most = int(flat.max(initial=-1)) + 1
    first = np.full(most + 1, flat.size, np.int64)
    first[flat[::-1]] = np.arange(flat.size)[::-1]  # of writes to one cell the last stays: its first use
    rank = np.empty(most + 1, np.int64)
    rank[np.argsort(first[:-1], kind="stable")] = np.arange(most)
    rank[-1] = -1
    return rank[codes]


def _clusters(bulk: Bulk, rows: IntArray) -> IntArray:
    if bulk.clusters is None:
        return np.arange(rows.size, dtype=np.int64)
    return numbers_of(bulk.clusters[int(row)] or bulk.ids[int(row)] for row in rows)


def _questions(read: Callable[[int], Question], rows: IntArray, trim: int | None) -> Lazy[Question]:
    """Return questions reread on access, without holding the columns."""

    def question(row: int) -> Question:
        whole = read(int(rows[row]))
        return whole if trim is None else first_paths(whole, trim)

    return Lazy(rows.size, question)


def _named(keys: Coded, row: int) -> tuple[str | None, ...]:
    codes: list[int] = keys.codes[row].tolist()
    return tuple(None if code < 0 else keys.names[code] for code in codes)
