"""Text -> vote: the answer, its key, and by which rule it was read or why it abstains; the plurality."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from keff.answers.parts.base import Explains, Space
from keff.answers.parts.visible import strip_thinking


@dataclass(frozen=True, slots=True)
class VoteCount:
    """The count of a vote.

    ``counts`` holds the votes of each key in order of first appearance; ``leader`` is the key with most
    votes, the first seen of those that tie (None: nobody voted); ``ties`` are all keys that hold the top
    count, the leader first; ``abstentions`` counts missing keys; ``share`` is the leader's part of the
    votes that were cast, abstentions left out (0.0: nobody voted).
    """

    counts: Mapping[str, int]
    leader: str | None
    ties: tuple[str, ...]
    abstentions: int
    share: float


def tally(keys: Sequence[str | None]) -> VoteCount:
    """Count the keys of one item's paths in launch order; None abstains and never wins."""
    counts = Counter(key for key in keys if key is not None)
    cast = counts.total()
    top = max(counts.values(), default=0)
    ties = tuple(key for key, count in counts.items() if count == top)
    leader = ties[0] if ties else None
    return VoteCount(
        MappingProxyType(dict(counts)), leader, ties, len(keys) - cast, top / cast if cast else 0.0
    )


T = TypeVar("T")

# The rule of a text in which no answer was found.
ABSTAINED = "no answer"

# So many texts, up to so many characters each, are not read again within one reading.
REMEMBERED, LONGEST_REMEMBERED = 2**16, 100_000


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


def last_answer(regex: re.Pattern[str], text: str, truncated: bool = False) -> str | None:
    """Return the last match of an expression of the user's (group 1, if it has one); thinking is never read.

    On truncated text a match that reaches the end is not used: it may be cut.
    """
    text, last = strip_thinking(text), None
    for match in regex.finditer(text):
        if match[bool(regex.groups)] and not (truncated and match.end() == len(text)):
            last = match
    return None if last is None else last[bool(regex.groups)].strip()


def once(function: Callable[[str], T]) -> Callable[[str], T]:
    """Return the function with a memory of its own: each distinct text is read once."""
    remembered = lru_cache(maxsize=REMEMBERED)(function)
    return lambda text: remembered(text) if len(text) <= LONGEST_REMEMBERED else function(text)
