"""Interface of tasks: where questions come from, and how answers are extracted and scored."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from keff.errors import TaskError
from keff.records import AnswerSpace, Completion, Item, Message, frozen, stable_hash

# One line of a data set, in its own column schema.
Row = Mapping[str, Any]


Packed = TypeVar("Packed")


class LocatedRow(dict[str, Any]):
    """A row with its location, such as ``file.jsonl:12``, for error messages."""

    where: str = ""

    @classmethod
    def at(cls, where: str, row: Row) -> LocatedRow:
        """Return a copy of the row with its location."""
        located = cls(row)
        located.where = where
        return located


@frozen
class ScoredText:
    """The reading of one completion: answer, key, correctness and rule.

    ``answer`` as extracted (None: abstained), ``key`` its canonical vote key (None: abstains), ``correct``
    1 or 0, or None when there is no gold answer; ``rule`` names how the answer was found, or why not
    (``truncated``, ``no answer``, ``refusal``).
    """

    answer: str | None
    key: str | None
    correct: int | None
    rule: str


@frozen
class Example:
    """A completion with its expected reading, run by the task's contract test."""

    text: str
    answer: str | None
    truncated: bool = False


class Task(ABC):
    """Base class of tasks, made by ``keff.plugins.load("task", name, **options)``.

    ``to_item``, ``extract``, ``key`` and ``correct`` are pure. ``version`` changes whenever an answer or a
    score may come out differently for the same text. ``templates`` are the instruction of each slot: those of
    the paper's appendix, counted from 0, of which slot 0 is also the plain self-consistency prompt.
    ``item.messages`` are the bare question; ``messages`` adds the slot's instruction. ``repeats`` says that
    the data may hold one question several times: its copies are then numbered (``id#2``) and their cluster is
    the first one's, else a duplicate id is an error.
    """

    name: str
    version: str
    space: AnswerSpace
    max_tokens: ClassVar[int] = 512
    repeats: ClassVar[bool] = False
    templates: Sequence[str] = ("",)
    EXAMPLES: ClassVar[Sequence[Example]] = ()

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield the data's rows in their order."""

    @abstractmethod
    def to_item(self, row: Row) -> Item:
        """Return a row's Item; raises TaskError that names a missing column."""

    @abstractmethod
    def extract(self, text: str, *, truncated: bool = False) -> str | None:
        """Return the final answer of a completion; None abstains."""

    @abstractmethod
    def key(self, answer: str) -> str | None:
        """Return the canonical vote key of an answer: equal keys are equal answers."""

    @abstractmethod
    def correct(self, answer: str, gold: object) -> bool:
        """Return whether an answer is right."""

    def messages(self, item: Item, slot: int) -> tuple[Message, ...]:
        """Return the messages of an item under one slot's template."""
        del slot
        return item.messages

    @abstractmethod
    def judge(self, item: Item, completion: Completion) -> ScoredText:
        """Return the reading of one completion: answer, key and correctness."""

    def accepts_gold(self, item: Item) -> bool:
        """Return whether the gold answer passes its own scorer; True without a gold answer."""
        del item
        return True


def items(task: Task) -> Iterator[Item]:
    """Return all items of a task in the data's order.

    Raises TaskError, with the row's place, for a row that does not fit, a duplicate id (unless the
    task ``repeats``), or when there is no row at all.
    """
    return (item for _, item in _located_items(task))


def select(task: Task, n: int | None = None, seed: int = 0) -> list[Item]:
    """Return n items chosen by content hash: the n lowest of SHA-256(seed, item id), in that order.

    The same on every machine. The selection of n is a prefix of the selection of n + 1, so raising n keeps
    what is there. Without n, or with fewer items than n: all of them, in the same order. Data are streamed:
    memory holds n items and all ids. Raises TaskError as ``items`` does, for n < 1, and for a selected item
    whose gold answer fails its own scorer.
    """
    return ranked(task, n, seed, _itself, _itself)


def ranked(
    task: Task, n: int | None, seed: int, pack: Callable[[Item], Packed], unpack: Callable[[Packed], Item]
) -> list[Packed]:
    """Return items as ``select``, each packed as soon as read, for very many of them."""
    if n is None:
        # All are taken, so each is checked where it is read.
        every = [
            (stable_hash(seed, item.id), pack(_check_gold(task, where, item)))
            for where, item in _located_items(task)
        ]
        every.sort(key=itemgetter(0))
        return [packed for _, packed in every]
    if n < 1:
        raise TaskError(f"n must be at least 1, not {n}")
    keyed = ((stable_hash(seed, item.id), where, pack(item)) for where, item in _located_items(task))
    chosen = heapq.nsmallest(n, keyed, key=itemgetter(0))
    for _, where, packed in chosen:
        _check_gold(task, where, unpack(packed))
    return [packed for _, _, packed in chosen]


def _itself(item: Item) -> Item:
    return item


def _check_gold(task: Task, where: str, item: Item) -> Item:
    if not task.accepts_gold(item):
        raise TaskError(
            f"{where}: the gold answer {item.gold!r} of item {item.id} fails its own scorer "
            f"({item.space}): correct the row or choose another answer space"
        )
    return item


def _located_items(task: Task) -> Iterator[tuple[str, Item]]:
    seen: dict[str, int] = {}
    for index, row in enumerate(task.rows(), start=1):
        where = getattr(row, "where", "") or f"{task.name}: row {index}"
        try:
            item = task.to_item(row)
        except TaskError as error:
            raise TaskError(f"{where}: {error}") from error
        cluster = item.cluster or item.id
        copies = seen[item.id] = seen.get(item.id, 0) + 1
        if copies > 1:
            if not task.repeats:
                line = f"{where}: duplicate id {item.id!r}"
                raise TaskError(f"{line}: ids must be unique, and so must questions without one")
            item = replace(item, id=f"{item.id}#{copies}", cluster=cluster)
        yield where, item
    if not seen:
        raise TaskError(f"{task.name}: there are no rows in the data")
