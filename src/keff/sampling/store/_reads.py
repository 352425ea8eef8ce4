"""Read-only queries on a run folder: what it holds, and what it still owes."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path as File

import numpy as np
import numpy.typing as npt

from keff.errors import StoreError
from keff.records import Item, frozen
from keff.sampling.integrity import LONG, Integrity
from keff.sampling.manifest import Manifest
from keff.sampling.store._database import ANSWER, JUDGED, clear_errors, damaged
from keff.sampling.store.rows import ITEM, ItemRow, ScoredPath, item_of, stored_path

# Slots with the number of paths that are wanted of each.
PathPlaces = Sequence[tuple[int, int]]


@frozen
class OwedPaths:
    """Paths ``start`` to ``start + count - 1`` of one item and slot that are still to be drawn.

    ``attempt`` is the number of this try, the same for all of them.
    """

    item: str
    slot: int
    start: int
    count: int
    attempt: int = 0


def missing(
    item: str, seen: Mapping[tuple[int, int], tuple[int, bool]], wanted: PathPlaces
) -> list[OwedPaths]:
    """Return the paths still owed; ``seen`` gives each (slot, path)'s last attempt, and if all failed."""
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


def equal_pairs(blocks: Iterable[Sequence[tuple[object, ...]]]) -> tuple[int, int]:
    """Return the pairs of texts within an item and slot, and how many are equal.

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


Float16Array = npt.NDArray[np.float16]

# Rows that are fetched at a time where all are counted.
BLOCK = 8192

# One of a JSON list of ids: so many in one question, and one text of it for any number of them.
AMONG = "in (select value from json_each(?))"


# All that a run holds beside its items: rows by table.
Tables = dict[str, list[tuple[object, ...]]]
MERGED = ("paths", "scores", "embeddings", "confidences")


class Reads:
    """Read-only queries on a run."""

    def __init__(self, folder: File, manifest: Manifest, database: sqlite3.Connection) -> None:
        self.folder = folder
        self.manifest = manifest
        self._database = database

    def item_rows(self) -> Iterator[ItemRow]:
        """Yield the items as stored, in order."""
        # In the order of rowid, which is that of position, and needs no sorting.
        return (tuple(row) for row in self._rows(f"select {ITEM} from items order by rowid", ()))

    def tables(self) -> Tables:
        """Return all rows but items, in the form of ``Run.insert``."""
        return {name: [tuple(row) for row in self._rows(f"select * from {name}", ())] for name in MERGED}

    def items(self) -> Iterator[Item]:
        """Yield the items in order."""
        return (item_of(row, self.folder) for row in self.item_rows())

    def item(self, item: str) -> Item:
        """Return the item of an id; raises StoreError where there is none."""
        row = next(self._rows(f"select {ITEM} from items where item = ?", (item,)), None)
        if row is None:
            raise StoreError(f"{self.folder}: there is no item {item!r}")
        return item_of(tuple(row), self.folder)

    def complete_ids(self, rows: Sequence[ItemRow], wanted: PathPlaces) -> set[str]:
        """Return the ids of items with every wanted path stored at its first attempt.

        In one question to the database for many items. Raises StoreError when the run holds something else
        under the id of one of them.
        """
        names = _names(row[0] for row in rows)
        share, size = _share(wanted)
        complete = self._rows(
            f"select item from paths where item {AMONG} and attempt = 0 and ({share}) group by item "
            f"having count(*) = ? except select item from paths where item {AMONG} and error is not null",
            (names, size, names),
        )
        self._refuse_changed(rows)
        return {row["item"] for row in complete}

    def complete(self, wanted: PathPlaces) -> int:
        """Return the number of items with every wanted path stored at its first attempt."""
        share, size = _share(wanted)
        (row,) = self._rows(
            f"select count(*) as items from (select item from paths where attempt = 0 and ({share}) "
            "group by item having count(*) = ? except select item from paths where error is not null)",
            (size,),
        )
        return row["items"]

    def _refuse_changed(self, rows: Sequence[ItemRow]) -> None:
        """Raise StoreError where a stored item differs from those of ``rows``."""
        given = {row[0]: row for row in rows}
        for held in self._rows(f"select {ITEM} from items where item {AMONG}", (_names(given),)):
            if tuple(held) != given.get(held["item"]):
                raise StoreError(
                    f"{self.folder}: item {held['item']} is not the item that this run holds under that id; "
                    "the data changed: use another --run folder"
                )

    def stale(self, version: str) -> set[str]:
        """Return the ids of items with a completed path unscored under a task version."""
        (counts,) = self._rows(SCORED, (version,))
        if counts["kept"] == counts["scored"]:
            return set()
        return {row["item"] for row in self._rows(STALE, (version,))}

    def owed(self, items: Sequence[str], wanted: PathPlaces) -> dict[str, list[OwedPaths]]:
        """Return the paths owed by each item, as spans of neighbours with the same attempt.

        ``wanted`` lists (slot, number of paths).
        """
        seen: dict[str, dict[tuple[int, int], tuple[int, bool]]] = {item: {} for item in items}
        for row in self._rows(
            "select item, slot, path, max(attempt), min(error is not null) "
            f"from paths where item {AMONG} group by item, slot, path",
            (_names(items),),
        ):
            item, slot, path, attempt, failed = row
            if item not in seen:
                raise damaged(self.folder, f"its index has no place for item {item!r}")
            seen[item][slot, path] = attempt, bool(failed)
        return {item: missing(item, held, wanted) for item, held in seen.items()}

    def kept(self, item: str) -> list[ScoredPath]:
        """Return the completed paths of one item, by slot and index."""
        rows = self._rows(
            f"select * from {JUDGED} where item = ? and error is null order by slot, path",
            (item,),
        )
        try:
            return [stored_path(row) for row in rows]
        except ValueError as error:
            raise StoreError(
                f"{self.folder}: item {item!r} is damaged ({error}): restore the folder from a copy"
            ) from None

    def ratings(
        self, item: str, version: str | None = None
    ) -> dict[tuple[int, int, int], tuple[float, float]]:
        """Return the verifier's confidence in an item's paths and its seconds, by slot, path and attempt.

        Of one version of the verifier, else of the last one that rated the path.
        """
        rows = self._rows(
            "select slot, path, attempt, value, seconds from confidences "
            f"where item = ? and version <> '{ANSWER}' and ? in (version, '') order by rowid",
            (item, version or ""),
        )
        return {tuple(row)[:3]: tuple(row)[3:] for row in rows}

    def paths(
        self, columns: Sequence[str], size: int, items: Iterable[str]
    ) -> Iterator[list[tuple[object, ...]]]:
        """Yield some columns of every completed path of items with its score, ``size`` at a time."""
        return self._blocks(
            f"select {', '.join(columns)} from {JUDGED} where item {AMONG} and error is null",
            size,
            (_names(items),),
        )

    def embeddings(self) -> Iterator[tuple[str, Float16Array]]:
        """Yield each item's id with the hidden states of its K paths [K, D], items in order; float16.

        One item is in memory at a time. K and the paths' order are those of launch; D is the engine's.
        Items that lack some of their paths or vectors are left out, as they are from a vote.
        """
        for item in self.embedded():
            yield item, self._vectors(item)

    def embedded(self) -> list[str]:
        """Return the ids of items with a hidden state for each of K paths, in order."""
        complete = self._rows(
            "select item from (select item from embeddings group by item having count(*) = ?) "
            "join items using (item) order by position",
            (self.manifest.k,),
        )
        return [row["item"] for row in complete]

    def _vectors(self, item: str) -> Float16Array:
        order = {slot: place for place, slot in enumerate(self.manifest.config.templates)}
        rows = self._rows("select slot, path, vector from embeddings where item = ?", (item,))
        kept = sorted(rows, key=lambda row: (row["path"], order.get(row["slot"], 0)))
        return np.stack([np.frombuffer(row["vector"], "<f2") for row in kept])

    def count_items(self) -> int:
        """Return the number of items."""
        (row,) = self._rows("select count(*) as items from items", ())
        return row["items"]

    def done(self) -> int:
        """Return the number of finished questions, by the manifest's K or policy.

        Imported: its answers are there. Sampled with K paths: each was asked for, whether it came or failed.
        Sampled under a policy: it was begun, for only the policy knows how many paths it takes.
        """
        if self.manifest.policy is not None:
            return self.count_items()
        imported = self.manifest.config.imported
        (row,) = self._rows(READ, ()) if imported else self._rows(ASKED, (self.manifest.k,))
        return row["items"]

    def has_paths(self) -> bool:
        """Return whether the run holds a completed path."""
        return next(self._rows("select 1 from paths where error is null limit 1", ()), None) is not None

    def count(self) -> dict[str, int]:
        """Return the numbers of items, completed paths, failed attempts and generated tokens."""
        (row,) = self._rows(HELD, ())
        return dict(row)

    def integrity(self) -> Integrity:
        """Return counts of copies, truncations, unread answers and failures."""
        pairs, identical = equal_pairs(self._blocks(LONG_TEXTS, BLOCK))
        (paths,) = self._rows(SIGNS, ())
        return Integrity(
            paths["paths"], pairs, identical, paths["truncated"], paths["unread"], paths["failed"]
        )

    def _blocks(
        self, sql: str, size: int, values: tuple[object, ...] = ()
    ) -> Iterator[list[tuple[object, ...]]]:
        with clear_errors(self.folder):
            cursor = self._database.cursor()
            cursor.row_factory = None  # plain tuples: there may be millions
            cursor.execute(sql, values)
            while block := cursor.fetchmany(size):
                yield block

    def _rows(self, sql: str, values: tuple[object, ...]) -> Iterator[sqlite3.Row]:
        with clear_errors(self.folder):
            # Not the cursor itself: a reader that stops early would close it after the database.
            yield from (row for row in self._database.execute(sql, values))


def _share(wanted: PathPlaces) -> tuple[str, int]:
    """Return an SQL condition on the wanted paths, and their number."""
    return " or ".join(f"slot = {slot} and path < {count}" for slot, count in wanted), sum(
        count for _, count in wanted
    )


def _names(ids: Iterable[str]) -> str:
    return json.dumps(list(ids), ensure_ascii=False)
