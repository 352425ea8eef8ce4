"""The interface of a task: where questions come from, and how an answer is read and judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from keff.records import AnswerSpace, Completion, Item, Message

Row = Mapping[str, Any]
"""One line of a data set, in its own column schema."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was read from one completion.

    ``answer`` as extracted (None: abstained), ``key`` its canonical vote key (None: abstains), ``correct``
    1 or 0, or None when there is no gold answer; ``rule`` names how the answer was found, or why not
    (``truncated``, ``no answer``, ``refusal``).
    """

    answer: str | None
    key: str | None
    correct: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class Example:
    """A completion text with what must be read from it: the task's contract test runs these."""

    text: str
    answer: str | None
    truncated: bool = False


class Task(ABC):
    """Base of all tasks. Made by ``keff.plugins.load("task", name, **options)``.

    ``to_item``, ``extract``, ``key`` and ``correct`` are pure. ``version`` changes whenever an answer or a
    score may come out differently for the same text. ``templates`` are the instruction of each slot: slot
    0 is the plain self-consistency prompt, slots 1 to 8 the prompt templates of the paper's appendix.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    space: AnswerSpace
    domain: ClassVar[str] = ""
    max_tokens: ClassVar[int] = 512
    templates: Sequence[str] = ("",)
    EXAMPLES: ClassVar[Sequence[Example]] = ()

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Read the data, row by row, in the data set's own order."""

    @abstractmethod
    def to_item(self, row: Row) -> Item:
        """Turn one row into an Item; raises TaskError naming the missing column."""

    @abstractmethod
    def extract(self, text: str, *, truncated: bool = False) -> str | None:
        """Read the final answer from a completion; None abstains."""

    @abstractmethod
    def key(self, answer: str) -> str | None:
        """Return the canonical vote key of an answer: equal keys are equal answers."""

    @abstractmethod
    def correct(self, answer: str, gold: Any) -> bool:
        """Say whether an answer is right."""

    def messages(self, item: Item, slot: int) -> tuple[Message, ...]:
        """Return the messages of an item under one slot's template."""
        del slot
        return item.messages

    @abstractmethod
    def judge(self, item: Item, completion: Completion) -> Judged:
        """Read, key and score one completion of an item."""
