"""Paths and scores as rows of the database, and back."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from keff.records import Completion, Item, Logprobs, Path
from keff.task import Judged


@dataclass(frozen=True, slots=True)
class Scored:
    """One kept path with its score (None: not scored under any version yet)."""

    path: Path
    completion: Completion
    judged: Judged | None
    version: str | None


ItemRow = tuple[str, str, str, str, str, str]
"""An item as it is kept: id, messages, gold answer, space, cluster and meta, three of them as JSON."""

ITEM = "item, messages, gold, space, cluster, meta"
"""The columns of such a row."""

_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=dict).encode


def item_row(item: Item) -> ItemRow:
    """Return an item as it is kept."""
    return (
        item.id,
        _JSON(item.messages),
        _JSON(item.gold),
        item.space,
        item.cluster,
        _JSON(item.meta),
    )


def item_of(row: ItemRow) -> Item:
    """Return an item; raises ValueError or TypeError when its JSON is damaged."""
    item, kept_messages, kept_gold, space, cluster, kept_meta = row
    messages, gold, meta = json.loads(kept_messages), json.loads(kept_gold), json.loads(kept_meta)
    if not isinstance(meta, dict) or not all(isinstance(message, dict) for message in messages):
        raise ValueError("its messages or its meta are not objects")
    return Item(item, tuple(messages), gold, space, cluster, meta)  # pyright: ignore[reportUnknownArgumentType]


_WHOLE = ("slot", "path", "attempt", "seed", "tokens", "prompt_tokens", "cached_tokens")


def scored(row: sqlite3.Row) -> Scored:
    """Return a path; raises ValueError where the row is not one, as in a damaged database."""
    # SQLite checks types when a row is written, not when it is read.
    sound = all(isinstance(row[name], int) for name in _WHOLE) and isinstance(row["seconds"], float)
    if not (sound and isinstance(row["text"], str) and isinstance(row["finish"], str)):
        raise ValueError("a row is no path")
    logprobs = None
    if row["logprob_mean"] is not None:
        logprobs = Logprobs(row["logprob_mean"], row["logprob_bottom"], row["logprob_total"])
    completion = Completion(
        text=row["text"],
        finish=row["finish"],
        tokens=row["tokens"],
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["cached_tokens"],
        reasoning=row["reasoning"],
        refusal=row["refusal"],
        logprobs=logprobs,
        seconds=row["seconds"],
    )
    path = Path(row["item"], row["slot"], row["path"], row["attempt"], row["seed"], completion)
    judged = None
    if row["rule"] is not None:
        judged = Judged(row["answer"], row["key"], row["correct"], row["rule"])
    return Scored(path, completion, judged, row["version"])


def path_row(path: Path) -> tuple[object, ...]:
    """Return a path, or a failed attempt at one, as it is kept."""
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
        summary.mean if summary else None,
        summary.bottom if summary else None,
        summary.total if summary else None,
        done.seconds,
        storable(path.error),
    )


def storable(text: str | None) -> str | None:
    """Return text that SQLite can hold."""
    # A server may send half a surrogate pair, which UTF-8 cannot hold.
    return None if text is None else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
