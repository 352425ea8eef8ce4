"""What is still to be drawn of an item: wanted minus kept, as spans of neighbouring paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Slots with the number of paths that are wanted of each.
Wanted = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class OwedPaths:
    """Paths ``start`` to ``start + count - 1`` of one item and slot that are still to be drawn.

    ``attempt`` is the number of this try, the same for all of them.
    """

    item: str
    slot: int
    start: int
    count: int
    attempt: int = 0


def missing(item: str, seen: Mapping[tuple[int, int], tuple[int, bool]], wanted: Wanted) -> list[OwedPaths]:
    """Return wanted minus kept; ``seen`` gives the last attempt at a (slot, path), and whether all failed."""
    spans: list[OwedPaths] = []
    for slot, count in wanted:
        for index in range(count):
            attempt, failed = seen.get((slot, index), (-1, True))
            if not failed:
                continue
            last = spans[-1] if spans else None
            if last and (last.slot, last.start + last.count, last.attempt) == (slot, index, attempt + 1):
                spans[-1] = OwedPaths(item, slot, last.start, last.count + 1, attempt + 1)
            else:
                spans.append(OwedPaths(item, slot, index, 1, attempt + 1))
    return spans
