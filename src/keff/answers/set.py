"""Sets: items in any order, repeated ones once; each item is compared by an inner space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keff.answers._base import Extracted, Space
from keff.answers._items import Items
from keff.answers._spec import cached


@dataclass(frozen=True, slots=True)
class SetSpace:
    """Sets are one answer when they have the same items by ``inner``, whatever their order and number.

    The key is the sorted JSON array of the items' keys. Lists are found and split as in the space ``list``.
    """

    items: Items
    name: ClassVar[str] = "set"
    closed: ClassVar[bool] = False
    contract: ClassVar[str] = 'End with a line "Final answer: [<item>, <item>]", a JSON array.'

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Read a JSON array, else what the last statement lists, else the last bullets or the last line."""
        return self.items.extract(text, truncated=truncated)

    def key(self, answer: str) -> str | None:
        """Return the sorted JSON array of the items' keys; None abstains."""
        return self.items.key_or_none(answer)

    def why(self, text: str) -> str | None:
        """Return why a text or an answer abstains; None when it does not."""
        return self.items.why(text)

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer lists the gold items."""
        return self.items.correct(answer, gold)


def _unique(keys: list[str]) -> list[str]:
    return sorted(dict.fromkeys(keys))


def space(inner: str | Space = "text") -> SetSpace:
    """Make the space: ``inner`` names the space of the items."""
    return SetSpace(Items(cached(inner) if isinstance(inner, str) else inner, _unique))
