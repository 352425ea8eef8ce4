"""What a run holds, counted in one pass over the paths."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from keff.sampling.integrity import LONG

HELD = (
    "select (select count(*) from items) as items, "
    "count(*) filter (where error is null) as paths, "
    "count(*) filter (where error is not null) as errors, "
    "coalesce(sum(tokens), 0) as tokens, coalesce(sum(prompt_tokens), 0) as prompt_tokens, "
    "coalesce(sum(cached_tokens), 0) as cached_tokens from paths"
)

# As bytes, which need no decoding: a damaged text is for the reading question by question to name.
LONG_TEXTS = (
    f"select cast(item as blob), slot, cast(text as blob) from paths where error is null and tokens >= {LONG}"
)

SIGNS = (
    "select count(*) filter (where error is null) as paths, "
    "count(*) filter (where finish = 'length') as truncated, "
    "count(*) filter (where error is not null) as failed, "
    "(select count(*) from scores where key is null) as unread from paths"
)

# Questions with as many paths as wanted, or of which one was refused or failed.
ASKED = (
    "select count(*) as items from (select item from paths where attempt = 0 group by item "
    "having count(*) >= ? union select item from paths where error is not null)"
)

READ = "select count(distinct item) as items from scores"

SCORED = (
    "select (select count(*) from paths) - (select count(*) from paths where error is not null) as kept, "
    "(select count(*) from scores where version = ?) as scored"
)

STALE = (
    "select distinct item from paths left join scores using (item, slot, path, attempt) "
    "where error is null and version is not ?"
)


def pairs(blocks: Iterable[Sequence[tuple[object, ...]]]) -> tuple[int, int]:
    """Return how many pairs of rows (item, slot, text) are of one item and slot, and how many are equal.

    Rows are told apart by a 64-bit hash: the database would sort the texts themselves, which takes twice as
    long.
    """
    groups, rows = array("q"), array("q")
    for block in blocks:
        groups.extend([hash(row[:2]) for row in block])
        rows.extend(map(hash, block))
    return _equal(groups), _equal(rows)


def _equal(names: array[int]) -> int:
    """Return how many pairs of names are equal."""
    _, counts = np.unique(np.asarray(names, np.int64), return_counts=True)
    return int((counts * (counts - 1) // 2).sum())
