"""Text -> vote: the answer, its key, and by which rule it was read or why it abstains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from keff.answers._base import Explains, Space

T = TypeVar("T")

ABSTAINED = "no answer"
"""The rule of a text in which no answer was found."""

REMEMBERED, LONGEST_REMEMBERED = 2**16, 100_000
"""So many texts, up to so many characters each, are not read again within one reading."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one text says.

    ``answer`` as written (None: none was found), ``key`` its canonical vote key (None: abstains), ``rule``
    how the answer was found, or why the text abstains.
    """

    answer: str | None
    key: str | None
    rule: str


def read(space: Space, text: str, *, truncated: bool = False) -> Read:
    """Read a completion: find the answer, take its key, and say by which rule or why not."""
    extracted = space.extract(text, truncated=truncated)
    if extracted is None:
        return Read(None, None, "truncated" if truncated else why(space, text))
    key = space.key(extracted.answer)
    if key is None:
        return Read(extracted.answer, None, why(space, extracted.answer))
    return Read(extracted.answer, key, extracted.rule)


def why(space: Space, text: str) -> str:
    """Return why a text or an answer abstains, in a few words."""
    return (space.why(text) if isinstance(space, Explains) else None) or ABSTAINED


def once(function: Callable[[str], T]) -> Callable[[str], T]:
    """Return the function with a memory of its own: each distinct text is read once."""
    remembered = lru_cache(maxsize=REMEMBERED)(function)
    return lambda text: remembered(text) if len(text) <= LONGEST_REMEMBERED else function(text)
