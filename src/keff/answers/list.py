"""Lists, item by item in their order; each item is compared by an inner space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keff.answers.parts.base import Space
from keff.answers.parts.items import Items, ItemsSpace
from keff.answers.parts.spec import cached


@dataclass(frozen=True, slots=True)
class ListSpace(ItemsSpace):
    """Lists are one answer when they have the same items in the same order; ``order`` "free": in any order.

    The key is the JSON array of the items' keys by ``inner``. An answer with an item that ``inner`` cannot
    read abstains. A list is a JSON array, bullets, lines, or parts between semicolons, commas and "and".
    """

    name: ClassVar[str] = "list"
    closed: ClassVar[bool] = False
    contract: ClassVar[str] = 'End with a line "Final answer: [<item>, <item>]", a JSON array.'


def space(inner: str | Space = "text", order: str = "kept") -> ListSpace:
    """Make the space: ``inner`` names the space of the items, ``order`` is "kept" or "free"."""
    if order not in ("kept", "free"):
        raise ValueError(f"order is kept or free, not {order!r}")
    each = cached(inner) if isinstance(inner, str) else inner
    return ListSpace(Items(each, sorted if order == "free" else list))
