"""Numbers as the report page writes them."""

from __future__ import annotations

from keff.records import Interval
from keff.result import number


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share in percent."""
    return number(value, f".{digits}%")


def fixed(value: float | None, digits: int = 2) -> str:
    """Format a number with thousands apart."""
    return number(value, f",.{digits}f")


def within(value: Interval | None, digits: int = 2) -> str:
    """Format a value with its interval."""
    return "–" if value is None else value.text(f".{digits}f")


def pair(value: Interval | None, digits: int = 1) -> str:
    """Format a share with its interval, in percent."""
    return "–" if value is None else value.percent(digits)
