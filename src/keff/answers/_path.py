"""Parts of a JSON value by path: ``total``, ``result.total``, ``items[0].name``, ``items[*].name``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from keff.errors import TaskError
from keff.narrow import is_array, is_object

# What stands for a part that the value does not have (null is a value).
MISSING: Final = object()

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d{1,6}|\*)\]")


@lru_cache(maxsize=256)
def steps(path: str) -> tuple[str | int, ...]:
    """Return the steps of a path: names, places, ``*``; raises TaskError when it is malformed."""
    text = path.removeprefix("$").removeprefix(".")
    parsed, at = list[str | int](), 0
    for step in _STEP.finditer(text):
        if step.start() != at:
            break
        parsed.append(int(step[2]) if step[2] and step[2] != "*" else step[2] or step[1])
        at = step.end()
    if at != len(text) or not parsed:
        raise TaskError(f"answer space json: {path!r} is not a path such as result.total or items[0].name")
    return tuple(parsed)


def look_up(value: object, path: str) -> object:
    """Return the part at a path, or MISSING; a member whose name is the whole path comes first."""
    if is_object(value) and path in value:
        return value[path]
    return _walk(value, steps(path))


def _walk(value: object, left: tuple[str | int, ...]) -> object:
    if not left:
        return value
    step, *rest = left
    if step == "*":
        if not is_array(value):
            return MISSING
        parts = [_walk(each, tuple(rest)) for each in value]
        return MISSING if any(part is MISSING for part in parts) else parts
    if isinstance(step, int):
        return _walk(value[step], tuple(rest)) if is_array(value) and step < len(value) else MISSING
    if is_object(value) and step in value:
        return _walk(value[step], tuple(rest))
    return MISSING


def without(value: object, names: frozenset[str]) -> object:
    """Return a value without the members of these names, at any depth."""
    if is_object(value):
        return {name: without(inner, names) for name, inner in value.items() if name not in names}
    return [without(each, names) for each in value] if is_array(value) else value
