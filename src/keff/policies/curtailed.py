"""Draw up to the cap, but stop once the rest cannot change the answer: exact, with fewer paths."""

from __future__ import annotations

from functools import partial
from typing import Any

from keff.errors import PolicyError
from keff.policies._table import BoundedTable
from keff.policy import Policy
from keff.policy.spec import DEFAULT_CAP, format_spec


def policy(value: float | None = None, *, cap: int = DEFAULT_CAP) -> Policy:
    """Return the rule that stops at v1 - v2 > cap - n, with the answer of ``fixed`` at the cap."""
    if value is not None:
        raise PolicyError(f"curtailed takes no value: write curtailed:cap={value}")
    spec = format_spec("curtailed", cap=cap)
    return BoundedTable(spec, cap, partial(_settled, cap))


def _settled(cap: int, n: Any, v1: Any, v2: Any, most: float) -> Any:
    return v1 - v2 > most * (cap - n)
