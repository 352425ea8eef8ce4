"""What every answer space offers, and the value that extraction gives."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from keff.errors import PluginError

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
    answers: an equivalence relation. ``gold`` is one reference answer or a list of acceptable ones. A space
    may say ``by_key = True``: an answer is right when its key is that of an acceptable answer (``same_key``),
    so large records are scored by keys.
    """

    @property
    def name(self) -> str:
        """The name of the space."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the possible answers are known beforehand."""
        ...

    @property
    def contract(self) -> str:
        """The final-answer instruction."""
        ...

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read the final answer; None abstains."""
        ...

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key; None abstains."""
        ...

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer agrees with the gold answer or any of several."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A space that can say why it abstains."""

    def why(self, text: str) -> str | None:
        """Return in a few words why a text, or an answer, has no key."""
        ...


class Keyed(Protocol):
    """What has vote keys."""

    def key(self, answer: str) -> str | None:
        """Return the canonical vote key; None abstains."""
        ...


class SmallSpace(Keyed, Protocol):
    """The least that a space of another package has."""

    def extract(self, text: str) -> Extracted | str | None:
        """Return the final answer as a string (or as ``Extracted``, with the rule); None abstains."""
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A small space with what it lacks: truncated text is not read, and equal keys are equal answers."""

    small: SmallSpace
    name: str
    closed: bool = False
    contract: str = ""

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read as the small space does; text that was cut abstains."""
        answer = None if truncated else self.small.extract(text)
        return Extracted(answer, self.name) if isinstance(answer, str) else answer

    def key(self, answer: str) -> str | None:
        """Return the small space's key."""
        return self.small.key(answer)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the keys are equal."""
        return same_key(self, answer, gold)


def complete(made: object, name: str) -> Space:
    """Return a whole ``Space``, from one that may have ``extract`` and ``key`` only.

    Raises PluginError when it has not even these.
    """
    if not callable(getattr(made, "extract", None)) or not callable(getattr(made, "key", None)):
        raise PluginError(f"space {name}: it has no extract(text) and key(answer)")
    if all(hasattr(made, each) for each in ("name", "closed", "contract", "correct")):
        return cast("Space", made)
    closed, contract = bool(getattr(made, "closed", False)), str(getattr(made, "contract", ""))
    return Completed(cast("SmallSpace", made), name, closed, contract)


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


def golds(gold: object) -> list[str]:
    """Return the acceptable answers as strings, from one answer or a list of them."""
    if isinstance(gold, list | tuple | set | frozenset):
        return [str(each) for each in cast("Collection[object]", gold)]
    return [str(gold)]


def same_key(space: Keyed, answer: str, gold: object) -> bool:
    """Return whether the answer has the key of any acceptable answer."""
    key = space.key(answer)
    return key is not None and any(key == space.key(each) for each in golds(gold))


def words(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return an option that is a list: ``a,b`` as a spec writes it, or a sequence."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in map(str, parts) if part.strip())


def truth(value: str | bool) -> bool:
    """Return an option that is true or false; raises ValueError for anything else."""
    if isinstance(value, str) and value.lower() in ("true", "yes", "1", "false", "no", "0"):
        return value.lower() in ("true", "yes", "1")
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value
