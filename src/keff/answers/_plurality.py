"""The plurality of a list of vote keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Tally:
    """The count of a vote.

    ``counts`` holds the votes of each key in order of first appearance; ``leader`` is the key with most
    votes, the first seen of those that tie (None: nobody voted); ``ties`` are all keys that hold the top
    count, the leader first; ``abstentions`` counts missing keys; ``share`` is the leader's part of the
    votes that were cast, abstentions left out (0.0: nobody voted).
    """

    counts: Mapping[str, int]
    leader: str | None
    ties: tuple[str, ...]
    abstentions: int
    share: float


def tally(keys: Sequence[str | None]) -> Tally:
    """Count the keys of one item's paths in launch order; None abstains and never wins."""
    counts = Counter(key for key in keys if key is not None)
    cast = counts.total()
    top = max(counts.values(), default=0)
    ties = tuple(key for key, count in counts.items() if count == top)
    leader = ties[0] if ties else None
    return Tally(MappingProxyType(dict(counts)), leader, ties, len(keys) - cast, top / cast if cast else 0.0)
