"""Narrow what JSON holds: an object, a list, a number, or nothing where something else stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import SupportsFloat, cast

Object = Mapping[str, object]
"""A JSON object."""


def entries(value: object) -> Object:
    """Return a JSON object, or an empty one where the value is something else."""
    return cast("Object", value) if isinstance(value, Mapping) else {}


def items(value: object) -> list[object]:
    """Return a JSON list, or an empty one where the value is something else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def inner(row: object, *names: str) -> Object:
    """Return the object found by following names, or an empty one where something else is there."""
    for name in names:
        row = entries(row).get(name)
    return entries(row)


def real(value: object) -> float:
    """Return a number, which may be written as text; raises ValueError for anything else."""
    if isinstance(value, str | int | float):
        return float(value)
    # Numbers of NumPy and decimals, as frames hold them.
    if isinstance(value, SupportsFloat):
        return float(value)
    raise ValueError(f"{type(value).__name__} is no number")


def number_or_none(value: object) -> float | None:
    """Return a finite number; None for anything else, true and false too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
