"""What the logs of other tools hold, deep within: objects by their path, and numbers in any dress."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import SupportsFloat, cast


def inner(row: object, *names: str) -> Mapping[str, object]:
    """Return the object found by following names, or an empty one where something else is there."""
    for name in names:
        row = _named(row).get(name)
    return _named(row)


def _named(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


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
