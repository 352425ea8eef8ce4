"""A run by columns: what the reader gives question by question, without an object per path."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from keff.log import Question
from keff.logs.parts.bulk import Bulk, Float, Int, Names, text_hash
from keff.logs.parts.coding import Coded, Golds, NotPlainError, Texts, joined
from keff.policy.weighting import LOGPROBS
from keff.records import Item
from keff.sampling.store import Run
from keff.sampling.store.rows import ItemRow, item_of

# Paths that are turned into columns at a time.
BLOCK = 8192

# Begins the fields in which an import keeps what is no number of a path.
PREFIX = '"recorded_'

TEXTS = ("answer", "key", "rule")
WHOLE = ("item", "slot", "path", "correct")
# Of these 0 stands for unknown; a question has them where one of its paths does.
MEASURES = ("tokens", "prompt_tokens", "cached_tokens", "seconds")

REAL = (*MEASURES, *LOGPROBS)
COLUMNS: Sequence[str] = (*TEXTS, *WHOLE[1:], *REAL)


def run_parts(run: Run, question: Callable[[str], Question], most: int) -> Iterator[Bulk]:
    """Yield the columns of a run's completed paths, in launch order, of ``most`` paths at a time.

    Raises NotPlainError where they must be read singly: while a path is not scored, where only some are
    labelled, where questions of unequal length differ in what is known of them, and for imports with fields
    of their own. ``question`` reads the question of an id again.
    """
    items, paths, ids, rows = _Items(), _Paths(), Names(), run.item_rows()
    ranks = {slot: place for place, slot in enumerate(run.manifest.config.templates)}
    try:
        while block := list(islice(rows, max(1, most // run.manifest.k))):
            items.read(block)
            paths.read(run, items.places)
            if not paths.whole["item"].size:
                continue
            order = paths.order(ranks)
            places, sizes = np.unique(paths.whole["item"][order], return_counts=True)
            kept: list[int] = places.tolist()
            correct = paths.whole["correct"][order]
            labelled = bool((correct >= 0).all())
            if not labelled and not bool((correct < 0).all()):
                raise NotPlainError
            own = [items.ids[place] for place in kept]
            ids.add(own)
            yield Bulk(
                ids=own,
                sizes=sizes.astype(np.int64),
                answers=paths.coded("answer", order),
                gold=joined(items.golds.parts, np.int32)[places],
                golds=items.golds.values,
                clusters=[items.clusters[place] for place in kept],
                keys=paths.coded("key", order),
                rules=paths.coded("rule", order),
                correct=correct if labelled else None,
                slots=paths.whole["slot"][order] if len(ranks) > 1 else None,
                numbers=paths.numbers(order, sizes),
                has_texts=True,
                question=lambda place: question(ids[place]),
                asked=np.array(items.asked, np.int64)[places],
                named=paths.named(order),
            )
    except (TypeError, ValueError, OverflowError, RecursionError):
        # A damaged file holds any kind of value anywhere: the reading question by question says where.
        raise NotPlainError from None


class _Items:
    """What a part of a run holds once per item, in order."""

    def __init__(self) -> None:
        self.golds = Golds()

    def read(self, rows: Sequence[ItemRow]) -> None:
        """Read items; raises NotPlainError where one of them needs the reading question by question."""
        if any(PREFIX in row[-1] for row in rows):
            raise NotPlainError
        items = list(map(item_of, rows))
        self.ids = [item.id for item in items]
        self.clusters = [item.cluster for item in items]
        self.asked = [text_hash(_asked(item)) for item in items]
        self.golds.parts.clear()
        self.golds.add([item.gold for item in items])
        self.places = {item: place for place, item in enumerate(self.ids)}


def _asked(item: Item) -> str:
    """Return all that the question's messages say: of a conversation the last one alone is no question."""
    return "\n".join(str(message.get("content", "")) for message in item.messages)


class _Paths:
    """What a part of a run holds of each completed path, as it comes from the database."""

    def __init__(self) -> None:
        self.texts = {name: Texts() for name in TEXTS}

    def read(self, run: Run, places: dict[str, int]) -> None:
        """Read the paths of items by their places; raises NotPlainError where one is not scored."""
        whole = {name: array("i") for name in WHOLE}
        self._real = {name: array("d") for name in REAL}
        for texts in self.texts.values():
            texts.parts.clear()
        for block in run.paths(("item", *COLUMNS), BLOCK, places):
            item, *columns = zip(*block, strict=True)
            named = dict(zip(COLUMNS, columns, strict=True))
            if None in named["rule"]:
                raise NotPlainError
            whole["item"].extend(map(places.__getitem__, item))
            for name, texts in self.texts.items():
                texts.add(named[name])
            for name in ("slot", "path"):
                whole[name].extend(named[name])
            whole["correct"].extend([-1 if value is None else value for value in named["correct"]])
            for name in MEASURES:
                self._real[name].extend(named[name])
            for name in LOGPROBS:
                self._real[name].extend([math.nan if value is None else value for value in named[name]])
        # ``correct`` is -1 where a path is not labelled.
        self.whole = {name: np.asarray(values, np.int32) for name, values in whole.items()}

    def order(self, slots: dict[int, int]) -> Int:
        """Return the paths by item and launch; raises NotPlainError where one was completed twice."""
        item, slot, path = (self.whole[name] for name in ("item", "slot", "path"))
        numbers, place = np.unique(slot, return_inverse=True)
        rank = np.array([slots.get(number, 0) for number in numbers.tolist()])[place]
        order = np.lexsort((rank, path, item))
        launched = np.stack([item, path, rank])[:, order]
        if bool((launched[:, 1:] == launched[:, :-1]).all(axis=0).any()):
            raise NotPlainError
        return order

    def coded(self, name: str, order: Int) -> Coded:
        """Return a column of texts."""
        column = self.texts[name].done()
        return Coded(column.codes[order], column.names)

    def numbers(self, order: Int, sizes: Int) -> dict[str, Float]:
        """Return what is known of all paths; raises NotPlainError where unequal questions differ."""
        starts = np.cumsum(sizes) - sizes
        numbers: dict[str, Float] = {}
        for name in MEASURES:
            column = np.asarray(self._real[name])[order]
            known = np.logical_or.reduceat(column != 0, starts)
            if bool(known.all()):
                numbers[name] = column
            elif bool(known.any()) and bool((sizes != sizes[0]).any()):
                raise NotPlainError
        means = np.asarray(self._real["logprob_mean"])[order]
        if not bool(np.isnan(means).any()):
            numbers["confidences"] = means
        return numbers

    def named(self, order: Int) -> dict[str, Float]:
        """Return the further log-probabilities, where any path has them."""
        columns = {name: np.asarray(self._real[name])[order] for name in [*LOGPROBS][1:]}
        return {name: values for name, values in columns.items() if not bool(np.isnan(values).all())}
