"""What every answer space offers, and the value that extraction gives."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from keff.records import AnswerSpace

MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Extracted:
    """A final answer as the text wrote it, and the name of the rule that found it.

    Rules that name an explicit statement: ``boxed``, ``####``, ``tag``, ``marker``, ``verdict``. All other
    names are heuristics, which are never used on truncated text.
    """

    answer: str
    rule: str


class Space(Protocol):
    """One way to read, compare and score answers.

    ``contract`` is the uniform final-answer instruction of the space, appended to a prompt. ``closed`` says
    whether the possible answers are known beforehand. ``key`` is idempotent, and equal keys are equal
    answers: an equivalence relation. ``gold`` is one reference answer or a list of acceptable ones.
    """

    name: ClassVar[AnswerSpace]
    closed: ClassVar[bool]
    contract: ClassVar[str]

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read the final answer; None abstains."""
        ...

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key; None abstains."""
        ...

    def correct(self, answer: str, gold: Any) -> bool:
        """Return whether the answer agrees with the gold answer or any of several."""
        ...


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match of a pattern."""
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def settled(form: Callable[[str], str], text: str) -> str:
    """Return the form of a text, taken until it no longer changes, so that the form of a form is itself.

    Of forms that turn in a circle, the first in the order of strings is returned.
    """
    seen: list[str] = []
    while text not in seen and len(seen) < MOST_ROUNDS:
        seen.append(text)
        text = form(text)
    return min(seen[seen.index(text) :]) if text in seen else text


def golds(gold: Any) -> list[str]:
    """Return the acceptable answers as strings, from one answer or a list of them."""
    if isinstance(gold, list | tuple | set | frozenset):
        return [str(each) for each in gold]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [str(gold)]


def same_key(space: Space, answer: str, gold: Any) -> bool:
    """Return whether the answer has the key of any acceptable answer."""
    key = space.key(answer)
    return key is not None and any(key == space.key(each) for each in golds(gold))
