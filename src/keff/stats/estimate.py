"""Estimate: a number, its interval, and how both were made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A structured warning: a stable ``code`` for programs and one sentence for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """A point estimate with its interval.

    ``lo`` and ``hi`` are None when no trustworthy interval exists; ``warnings`` then say why, and the value
    is still given. ``n`` is the number of independent units (items, or clusters when they repeat), ``k`` the
    number of paths. An undefined value is NaN, an unbounded limit is infinite.
    """

    value: float
    lo: float | None
    hi: float | None
    method: str
    n: int
    k: int
    warnings: tuple[Note, ...] = ()
