"""Integer coding of answer texts and gold answers, for records read by columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from keff.errors import LogError
from keff.logs.parts.values import gold_of, optional_text
from keff.records import frozen

Codes = NDArray[np.int32]
Scalar = TypeVar("Scalar", bound=np.generic)

# Of floats and lists the text is not the value as it stands (4.0 is 4): they go the way row by row.
_TEXT_KINDS = frozenset({str, int, bool, type(None)})


class NotPlainError(Exception):
    """Raised for a row that only the row reader can parse, or refuse with its line."""


@frozen
class Coded:
    """Texts as integers: ``codes`` index ``names``, -1 for none."""

    codes: Codes
    names: Sequence[str]


# Records with more different answers than this are refused: their names alone would take gigabytes.
MOST_DISTINCT = 2**23


class TooVariedError(LogError):
    """Raised for a record with more distinct answers than fit in memory."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"it has more than {most:,} different answers, too many to hold: settle how they are read before "
            "(keff read shows it), or analyse fewer questions at a time"
        )


class OtherKindError(Exception):
    """Raised for a value that is neither text nor missing: as keys 1, True and 1.0 would be equal."""


class Numbering(dict[object, int]):
    """Numbers texts 0, 1, 2, ... by first use; None and "" are -1.

    Raises OtherKindError for anything else, and TooVariedError from ``MOST_DISTINCT`` different ones on.
    """

    def __init__(self) -> None:
        super().__init__({None: -1, "": -1})

    def __missing__(self, text: object) -> int:
        if type(text) is not str:
            raise OtherKindError
        number = len(self) - 2
        if number >= MOST_DISTINCT:
            raise TooVariedError(MOST_DISTINCT)
        self[text] = number
        return number

    @property
    def names(self) -> list[str]:
        """The texts in the order of their numbers."""
        return cast("list[str]", list(self)[2:])


class Texts:
    """An integer-coded column of texts, built as it is read; missing ones are -1."""

    def __init__(self) -> None:
        self.numbers = Numbering()
        self.parts: list[Codes] = []

    def add(self, *lists: Sequence[object]) -> None:
        """Append the values of lists, one after the other.

        Raises NotPlainError for structured answers and floats, NaN among them.
        """
        size = sum(map(len, lists))
        try:
            # Millions of values: nothing is done for each but to look it up.
            codes = np.fromiter(map(self.numbers.__getitem__, chain.from_iterable(lists)), np.int32, size)
        except (OtherKindError, TypeError):
            values = list(chain.from_iterable(lists))
            if not set(map(type, values)) <= _TEXT_KINDS:
                raise NotPlainError from None
            codes = np.fromiter((self.numbers[optional_text(value)] for value in values), np.int32, size)
        self.parts.append(codes)

    def done(self) -> Coded:
        """Return the whole column."""
        return Coded(joined(self.parts, np.int32), self.numbers.names)


class Golds:
    """Integer-coded gold answers; a list or number differs from the text that looks alike."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.others: dict[str, int] = {}
        self.values: list[object] = []
        self.parts: list[Codes] = []

    def add(self, values: Sequence[object]) -> None:
        """Append gold answers as a row has them."""
        try:
            known = list(map(cast("dict[object, int]", self.texts).get, values))
        except TypeError:  # a list of acceptable answers
            known = [None] * len(values)
        if None not in known:
            self.parts.append(np.array(known, np.int32))
            return
        codes = (
            self._code(value) if code is None else code for code, value in zip(known, values, strict=True)
        )
        self.parts.append(np.fromiter(codes, np.int32, len(values)))

    def _code(self, value: object) -> int:
        value = value if type(value) is str and value else gold_of(value)
        if value is None:
            return -1
        codes, name = (
            (self.texts, value) if type(value) is str else (self.others, json.dumps(value, default=str))
        )
        if name not in codes:
            codes[name] = len(self.values)
            self.values.append(value)
        return codes[name]


def joined(parts: Iterable[NDArray[Scalar]], kind: type[Scalar]) -> NDArray[Scalar]:
    """Return parts of a column as one array; empty where there are none."""
    return np.concatenate([np.zeros(0, kind), *parts])
