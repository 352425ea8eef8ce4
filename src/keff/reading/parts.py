"""Votes of a large record, accumulated from parts that are not kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from keff.log import NAMED, Question
from keff.logs.parts.bulk import SMALL_K, Bulk, Names, repeat
from keff.logs.parts.coding import Coded, Codes, NotPlainError
from keff.reading.ballot import Ballot, HeldColumns, Reading, abstained_correct, keys_of, read_again
from keff.reading.bulk import Lazy, PathColumns, coded_keys, judged, labelled_rows, unread_answers
from keff.reading.unanswered import words_noted
from keff.records import frozen
from keff.stats.votes import Votes
from keff.stats.voting.alike import dense_codes

# Keys and gold answers of so many paths are held beside the votes; of more they are read again when needed.
HELD_PATHS = 2**23


def ballot_of_parts(first: Bulk, rest: Iterator[Bulk], reading: Reading) -> Ballot:
    """Return the Votes of columns that arrive in parts, one byte per answer.

    Raises NotPlainError for parts whose questions are too unlike: of unequal K, labelled in part, or with
    lists or clusters that only some parts have.
    """
    k = int(first.sizes[0])
    if not 0 < k <= SMALL_K or first.slots is not None:
        raise NotPlainError
    gathered = VoteParts(k, reading)
    gathered.add(first)
    del first
    for part in rest:
        gathered.add(part)
    return gathered.ballot()


@frozen
class VoteTable:
    """Votes of one share of a record with K paths, as sent between processes.

    ``columns`` are a byte for each answer, its correctness and what stands beside them, by name. ``numbered``
    are the names behind their numbers, in the order of first use: clusters, rules, and keys of a closed set.
    ``lost`` paths were called right without an answer.
    """

    k: int
    lost: int
    model: object
    ids: Names
    columns: Mapping[str, NDArray[np.generic]]
    numbered: Mapping[str, Sequence[str]]


class VoteParts:
    """Accumulates the votes of a large record."""

    def __init__(self, k: int, reading: Reading) -> None:
        self.k, self.reading, self.lost = k, reading, 0
        self.columns: dict[str, list[NDArray[np.generic]]] = {}
        self.names, self.clusters = Names(), dict[str, int]()
        self.rules: Sequence[str] = ()
        self.keys: Sequence[str] = ()
        self.held: list[tuple[Coded, Codes, Sequence[str]]] | None = []
        self.golds: Sequence[object] = ()
        self.model: object = None
        self.unread: Counter[str] = Counter()
        self.question: Callable[[int], Question] | None = None

    def add(self, bulk: Bulk) -> None:
        """Append a part; raises NotPlainError where it differs in form from the others."""
        n, reading = bulk.sizes.size, self.reading
        labelled = labelled_rows(bulk, reading)
        if bool(np.any(bulk.sizes != self.k)) or bool(labelled.any()) != bool(labelled.all()):
            raise NotPlainError
        rows = np.arange(n, dtype=np.int64)
        columns = PathColumns(bulk.sizes, rows, self.k)
        answers = columns.of(bulk.answers.codes)
        # Keys are numbered in the order of their first use, over all parts.
        coded = coded_keys(bulk, answers, columns, reading, every=True)
        keys = coded.codes
        self.unread += unread_answers(bulk, answers, coded)
        if reading.closed and int(keys.max(initial=0)) > SMALL_K:
            raise NotPlainError
        codes = (keys if reading.closed else dense_codes(keys)).astype(np.int8)
        held: dict[str, NDArray[np.generic]] = {"answers": codes}
        if labelled.all():
            own = bulk.correct
            right = columns.of(own) if own is not None else judged(bulk, answers, rows, reading)
            right = right.astype(np.int8)
            self.lost += int(np.count_nonzero(right[codes < 0]))
            right[codes < 0] = 0
            held["correct"] = right
        if bulk.clusters is not None:
            names = (name or own for name, own in zip(bulk.clusters, bulk.ids, strict=True))
            held["clusters"] = np.array(
                [self.clusters.setdefault(name, len(self.clusters)) for name in names], np.int64
            )
        if bulk.rules is not None:
            held["rules"], self.rules = columns.of(bulk.rules.codes), bulk.rules.names
        if bulk.asked is not None:
            held["asked"] = bulk.asked
        held |= {name: columns.of(values) for name, values in bulk.numbers.items()}
        held |= {NAMED + name: columns.of(values) for name, values in bulk.named.items()}
        self._append(held)
        self.names.add(bulk.ids)
        self.question, self.golds, self.model = bulk.question, bulk.golds, bulk.model
        self.keys = coded.names if reading.closed else ()
        if self.held is not None:
            self.held.append((coded, bulk.gold, bulk.clusters or ()))
            self.held = self.held if len(self.names) * self.k <= HELD_PATHS else None

    def _append(self, columns: Mapping[str, NDArray[np.generic]]) -> None:
        if self.columns and columns.keys() != self.columns.keys():
            raise NotPlainError
        for name, values in columns.items():
            self.columns.setdefault(name, []).append(values)

    def table(self) -> VoteTable:
        """Return the accumulated votes as a table."""
        numbered = {"clusters": list(self.clusters), "rules": self.rules, "answers": self.keys}
        whole = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        return VoteTable(self.k, self.lost, self.model, self.names, whole, numbered)

    def join(self, tables: Sequence[VoteTable], question: Callable[[int], Question]) -> None:
        """Append shares of a record in order; raises NotPlainError where they differ in form."""
        closed = self.reading.closed
        numbers = {name: dict[str, int]() for name in tables[0].numbered}
        for table in tables:
            if (table.k, table.model) != (self.k, tables[0].model):
                raise NotPlainError
            held = dict(table.columns)
            for name, texts in table.numbered.items():
                # A share numbers names as it meets them; together they are numbered as one pass would.
                known = numbers[name]
                again = np.array([*(known.setdefault(text, len(known)) for text in texts), -1], np.int64)
                if name in held and (name != "answers" or closed):
                    held[name] = again[cast("Codes", held[name])].astype(held[name].dtype)
            self._append(held)
            self.lost += table.lost
            self.names.add(table.ids[:])
        if closed and len(numbers["answers"]) > SMALL_K + 1:
            raise NotPlainError
        if repeat(np.fromiter(map(hash, self.names), np.int64, len(self.names))):
            raise NotPlainError
        self.rules, self.question, self.held = list(numbers["rules"]), question, None

    def ballot(self) -> Ballot:
        """Return the votes of all parts."""
        read, reading, k = self.question, self.reading, self.k
        assert read is not None
        whole: dict[str, Any] = {}
        for name in list(self.columns):
            whole[name] = np.concatenate(self.columns.pop(name))
        rules, asked = whole.pop("rules", None), whole.pop("asked", None)
        named = {name: whole.pop(name) for name in list(whole) if name.startswith(NAMED)}
        whole["named"] = {name.removeprefix(NAMED): values for name, values in named.items()}
        notes = () if not self.lost else (abstained_correct(self.lost),)
        notes += tuple(words_noted(self.unread, self.golds, reading.states, reading.space))
        return Ballot(
            Votes(closed=reading.closed, correct=whole.pop("correct", None), **whole),
            Lazy(
                len(self.names),
                lambda row: keys_of(read_again(read(row), reading), k, reading.key),
            ),
            Lazy(len(self.names), read),
            reading,
            notes,
            None if rules is None else Coded(rules, self.rules),
            asked,
            self.names,
            self._held(),
        )

    def _held(self) -> HeldColumns | None:
        if self.held is None:
            return None
        keys, gold, clusters = zip(*self.held, strict=True)
        golds = [None if code < 0 else self.golds[code] for code in np.concatenate(gold).tolist()]
        codes = np.concatenate([each.codes for each in keys])
        named = list(chain.from_iterable(clusters)) if self.clusters else None
        return HeldColumns(Coded(codes, keys[-1].names), golds, named)
