"""Paths and scores as rows of the database, and back."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from typing import cast

import jiter

from keff.errors import StoreError
from keff.protocol import values
from keff.records import Completion, FinishReason, Item, Logprobs, Message, Path, frozen, stable_hash
from keff.task import ScoredText

# Seeds of paths: what servers take.
SEEDS = 2**31


def path_seed(run_seed: int, item: str, slot: int, index: int) -> int:
    """Return the seed of one path, in [0, 2^31).

    The hash of (run seed, item, slot) gives a base, and path ``index`` gets base + index: servers that
    draw n choices in one request give choice i the request's seed + i, so a path has the same seed
    whether it was drawn alone or with its neighbours.
    """
    base = int(stable_hash(run_seed, item, slot)[:15], 16)
    return (base + index) % SEEDS


@frozen
class ScoredPath:
    """One kept path with its score (None: not scored under any version yet)."""

    path: Path
    completion: Completion
    judged: ScoredText | None
    version: str | None


# An item as it is kept: id, messages, gold answer, space, cluster and meta, three of them as JSON.
ItemRow = tuple[str, str, str, str, str, str]

# The columns of such a row.
ITEM = "item, messages, gold, space, cluster, meta"

_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=dict).encode


def item_row(item: Item) -> ItemRow:
    """Return an item as a database row."""
    return (
        item.id,
        _JSON(item.messages),
        _JSON(item.gold),
        item.space,
        item.cluster,
        _JSON(item.meta),
    )


def item_of(row: ItemRow, folder: pathlib.Path | None = None) -> Item:
    """Return the item of a row; raises StoreError for one that is damaged, in the run of ``folder``."""
    try:
        return _item(row)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{folder}: item {row[0]!r} is damaged ({error}): restore the folder from a copy"
        ) from None


def _item(row: ItemRow) -> Item:
    item, kept_messages, kept_gold, space, cluster, kept_meta = row
    messages, gold, meta = _parse_json(kept_messages), _parse_json(kept_gold), _parse_json(kept_meta)
    listed = cast("list[object]", messages) if isinstance(messages, list) else [None]
    if not isinstance(meta, dict) or not all(isinstance(message, dict) for message in listed):
        raise ValueError("its messages or its meta are not objects")
    said = cast("list[Message]", listed)
    return Item(item, tuple(said), gold, space, cluster, cast("dict[str, object]", meta))


def _parse_json(kept: str) -> object:
    """Return parsed JSON: by jiter, or by Python's parser where that refuses."""
    try:
        return jiter.from_json(kept.encode())
    except (ValueError, AttributeError):
        return json.loads(kept)


def stored_path(row: sqlite3.Row) -> ScoredPath:
    """Return the path and score of a database row; raises ValueError for a damaged one.

    The row holds all columns of ``paths``, then version, answer, key, correct and rule of
    ``scores``, and the log-probability of the answer.
    """
    # By place: every look by name takes as long as all of them, and there may be millions of rows.
    item, slot, index, attempt, seed, text, reasoning, refusal, finish, *rest = row
    tokens, prompt_tokens, cached_tokens, mean, bottom, total, seconds, _, *score = rest
    version, answer, key, correct, rule, spoken = score
    # SQLite checks types when a row is written, not when it is read.
    counts = (slot, index, attempt, seed, tokens, prompt_tokens, cached_tokens)
    sound = all(isinstance(value, int) for value in counts) and isinstance(seconds, float)
    if not (sound and isinstance(text, str) and isinstance(finish, str)):
        raise ValueError("a row is no path")
    completion = Completion(
        text=text,
        finish=cast("FinishReason", finish),
        tokens=tokens,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        reasoning=reasoning,
        refusal=refusal,
        logprobs=None if mean is None else Logprobs(mean, bottom, total, spoken),
        seconds=seconds,
    )
    path = Path(item, slot, index, attempt, seed, completion)
    judged = None if rule is None else ScoredText(answer, key, correct, rule)
    return ScoredPath(path, completion, judged, version)


def path_row(path: Path) -> tuple[object, ...]:
    """Return a path or failed attempt as a database row."""
    done = path.completion or Completion(text="")
    summary = done.logprobs
    return (
        path.item,
        path.slot,
        path.index,
        path.attempt,
        path.seed,
        None if path.completion is None else storable(done.text),
        storable(done.reasoning),
        storable(done.refusal),
        None if path.completion is None else done.finish,
        done.tokens,
        done.prompt_tokens,
        done.cached_tokens,
        *((summary.mean, summary.bottom, summary.total) if summary else (None,) * 3),
        done.seconds,
        storable(path.error),
    )


def storable(text: str | None) -> str | None:
    """Return text that SQLite can hold."""
    return None if text is None else values.storable(text)
