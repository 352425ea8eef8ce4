"""Type narrowing of decoded JSON, which is ``object`` until it is checked here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TypeAlias, TypeGuard, TypeVar

T = TypeVar("T")

# A JSON object of others: what its members hold is not known before they are looked at.
Object: TypeAlias = dict[str, object]
# The same where it is only read.
Fields: TypeAlias = Mapping[str, object]


def is_object(value: object) -> TypeGuard[Object]:
    """Return whether a decoded JSON value is an object (their names are strings)."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """Return whether a decoded JSON value is an array."""
    return isinstance(value, list)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def fields(value: object) -> Object:
    """Return ``value`` when it is a JSON object, else an empty one."""
    return value if is_object(value) else {}


def items(value: object) -> list[object]:
    """Return ``value`` when it is a JSON array, else an empty one."""
    return value if is_array(value) else []


def entries(value: object) -> list[Object]:
    """Return the entries of a JSON array (what is no object as an empty one); none for another value."""
    return [fields(part) for part in items(value)]


def only(values: Collection[T]) -> T | None:
    """Return the single value; None where there is none, or several."""
    return next(iter(values)) if len(values) == 1 else None


def text(value: object) -> str | None:
    """Return ``value`` when it is a string, else None."""
    return value if isinstance(value, str) else None


def number(value: object) -> int | float | None:
    """Return ``value`` when it is a number, else None."""
    return value if is_number(value) else None


def unique(pairs: list[tuple[str, object]]) -> Object:
    """Return an object from pairs; raises ValueError for a repeated name."""
    made = dict(pairs)
    if len(made) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name, count in times.items() if count > 1)
        raise ValueError(f"duplicate name {twice[:40]!r}")
    return made


# Half a surrogate pair: JSON can escape one, but no file or database can hold it.
HALF = re.compile("[\ud800-\udfff]")


def replace_surrogates(value: object) -> object:
    """Return a JSON value with lone surrogates replaced by U+FFFD."""
    if isinstance(value, str):
        return HALF.sub("\ufffd", value)
    if is_array(value):
        return [replace_surrogates(part) for part in value]
    if is_object(value):
        return {replace_surrogates(name): replace_surrogates(part) for name, part in value.items()}
    return value
