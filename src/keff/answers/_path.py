"""Parts of a JSON value by path: ``total``, ``result.total``, ``items[0].name``, ``items[*].name``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, cast

from keff.errors import TaskError

MISSING: Final = object()
"""What stands for a part that the value does not have (null is a value)."""

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


def look_up(value: Any, path: str) -> Any:
    """Return the part at a path, or MISSING; a member whose name is the whole path comes first."""
    if isinstance(value, dict) and path in value:
        return cast("dict[str, Any]", value)[path]
    return _walk(value, steps(path))


def _walk(value: Any, left: tuple[str | int, ...]) -> Any:
    if not left:
        return value
    step, *rest = left
    if step == "*":
        if not isinstance(value, list):
            return MISSING
        parts = [_walk(each, tuple(rest)) for each in cast("list[Any]", value)]
        return MISSING if any(part is MISSING for part in parts) else parts
    if isinstance(step, int):
        inside = isinstance(value, list) and step < len(cast("list[Any]", value))
        return _walk(value[step], tuple(rest)) if inside else MISSING
    if isinstance(value, dict) and step in value:
        return _walk(cast("dict[str, Any]", value)[step], tuple(rest))
    return MISSING


def without(value: Any, names: frozenset[str]) -> Any:
    """Return a value without the members of these names, at any depth."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: without(inner, names) for name, inner in members.items() if name not in names}
    return [without(each, names) for each in cast("list[Any]", value)] if isinstance(value, list) else value
