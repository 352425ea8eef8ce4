"""Sets: items in any order, repeated ones once; each item is compared by an inner space."""

from __future__ import annotations

from keff.answers.list import ListSpace
from keff.answers.parts.base import Space
from keff.answers.parts.spec import cached
from keff.records import frozen


@frozen
class SetSpace(ListSpace):
    """Answer space of sets: the same items by ``inner``, in any order and number.

    The key is the sorted JSON array of the items' keys. Lists are found and split as in the space ``list``.
    """

    name = "set"


def space(inner: str | Space = "text") -> SetSpace:
    """Make the space: ``inner`` names the space of the items."""
    return SetSpace(cached(inner) if isinstance(inner, str) else inner, lambda keys: sorted(set(keys)))
