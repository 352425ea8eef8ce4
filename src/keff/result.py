"""Result: a frozen value that is written as JSON, told in one line, and shown as a table in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from html import escape
from pathlib import PurePath
from typing import ClassVar, TypeAlias, cast

# What JSON can hold.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def plain(value: object) -> Json:
    """Return a value as JSON holds it.

    Dataclasses become objects in the order of their fields, keys become strings, NaN and infinities (which
    JSON does not have) become null. Raises TypeError for anything else that JSON cannot hold.
    """
    if isinstance(value, float):  # NumPy's float64 too
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name): plain(inner) for name, inner in items}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in cast("Iterable[object]", value)]
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")


class Result:
    """A frozen dataclass whose fields, in their order, are an object of the JSON contract."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def to_dict(self) -> dict[str, Json]:
        """Return the object that ``--json`` prints: undefined and infinite numbers are None."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


class Finding(Result):
    """A result that people look at: subclasses say it in one line, and as the rows of a table.

    Made with ``@dataclass(frozen=True, slots=True, repr=False)``, so that the one line is what a console
    shows instead of hundreds of numbers.
    """

    __slots__ = ()

    def line(self) -> str:
        """Return the result in one line."""
        raise NotImplementedError

    def rows(self) -> Sequence[Sequence[str]]:
        """Return a small table, its header first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.line()}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows; text that came from a record is escaped."""
        head, *body = self.rows()
        titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        lines = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body]
        caption = escape(self.line())
        return (
            f"<table><caption>{caption}</caption><thead><tr>{titles}</tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table>"
        )


def number(value: float | None, style: str = ".2f") -> str:
    """Format a number: a dash where it is unknown or undefined, ∞ where it is infinite."""
    if value is None or math.isnan(value):
        return "–"
    return format(value, style) if math.isfinite(value) else "∞" if value > 0 else "-∞"
