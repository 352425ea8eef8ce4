"""How numbers and sections of the page on differences are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from keff.paper import claims

Numbers = dict[str, Any]


def section(title: str, text: str) -> str:
    """Return one section in Markdown."""
    return f"## {title}\n\n{text}\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def beside_print(numbers: Numbers, where: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a table of (label, name in the paper or "", our value), with the paper's on its own records."""
    known = bool(numbers["checks"]["printed_numbers"])
    header = ("", "paper", "here") if known else ("", "here")
    lines = (
        (label, claims.printed(where, name) or "–", value) if known else (label, value)
        for label, name, value in rows
    )
    return table(header, lines)


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share in percent."""
    return "unknown" if value is None else f"{value:.{digits}%}"


def number(value: float | None, form: str = ".2f") -> str:
    """Return a number in a format, or that it is unknown."""
    return "unknown" if value is None else f"{value:{form}}"


def points(lo: float | None, hi: float | None) -> str:
    """Return an interval of shares in percentage points."""
    return "unknown" if lo is None or hi is None else f"[{100 * lo:+.1f}, {100 * hi:+.1f}] points"


def span(values: Sequence[float], form: str) -> str:
    """Return the least and the largest of some values, as one where they read the same."""
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"
