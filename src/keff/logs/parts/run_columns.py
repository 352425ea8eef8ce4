"""A run by columns: what the reader gives question by question, without an object per path."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from keff.log import Question
from keff.logs.parts.bulk import Bulk, Float, Int, text_hash
from keff.logs.parts.coding import Coded, Codes, Golds, Texts, joined
from keff.records import Item
from keff.sampling.store import Run
from keff.sampling.store.rows import item_of

# Paths, or items, that are turned into columns at a time.
BLOCK = 8192

# Begins the fields in which an import keeps what is no number of a path.
PREFIX = '"recorded_'

TEXTS = ("answer", "key", "rule")
WHOLE = ("item", "slot", "path", "correct")
# Of these 0 stands for unknown; a question has them where one of its paths does.
MEASURES = ("tokens", "prompt_tokens", "cached_tokens", "seconds")

LOGPROBS = ("logprob_mean", "logprob_bottom", "logprob_total")

REAL = (*MEASURES, *LOGPROBS)
COLUMNS: Sequence[str] = (*TEXTS, *WHOLE[1:], *REAL)


def run_columns(run: Run, question: Callable[[str], Question]) -> Bulk | None:
    """Return the columns of a run's completed paths, in launch order; None where they must be read singly.

    That is so while a path is not scored, where only some paths are labelled, where questions of unequal
    length differ in what is known of them, and for imports with fields of their own. ``question`` reads the
    question of an id again.
    """
    items, paths = _Items(), _Paths()
    try:
        if not items.read(run) or not paths.read(run, items.places):
            return None
    except (TypeError, ValueError, OverflowError, RecursionError):
        # A damaged file holds any kind of value anywhere: the reading question by question says where.
        return None
    order = paths.order({slot: place for place, slot in enumerate(run.manifest.config.templates)})
    if order is None:
        return None
    places, sizes = np.unique(paths.item[order], return_counts=True)
    kept: list[int] = places.tolist()
    numbers = paths.numbers(order, sizes)
    correct = paths.correct[order]
    labelled = bool((correct >= 0).all())
    if numbers is None or not (labelled or bool((correct < 0).all())):
        return None
    ids = [items.ids[place] for place in kept]
    return Bulk(
        ids=ids,
        sizes=sizes.astype(np.int64),
        answers=paths.coded("answer", order),
        gold=joined(items.golds.parts, np.int32)[places],
        golds=items.golds.values,
        clusters=[items.clusters[place] for place in kept],
        keys=paths.coded("key", order),
        rules=paths.coded("rule", order),
        correct=correct if labelled else None,
        slots=paths.slot[order],
        numbers=numbers,
        has_texts=True,
        question=lambda place: question(ids[place]),
        asked=np.array(items.asked, np.int64)[places],
        named=paths.named(order),
    )


class _Items:
    """What a run holds once per item, in order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.clusters: list[str] = []
        self.asked = array("q")
        self.golds = Golds()
        self.places: dict[str, int] = {}

    def read(self, run: Run) -> bool:
        """Read all items; returns whether none of them needs the reading question by question."""
        rows = run.item_rows()
        while block := list(islice(rows, BLOCK)):
            if any(PREFIX in row[-1] for row in block):
                return False
            items = [item_of(row) for row in block]
            self.ids += [item.id for item in items]
            self.clusters += [item.cluster for item in items]
            self.asked.extend(text_hash(_asked(item)) for item in items)
            self.golds.add([item.gold for item in items])
        self.places = {item: place for place, item in enumerate(self.ids)}
        return bool(self.ids)


def _asked(item: Item) -> str:
    """Return all that the question's messages say: of a conversation the last one alone is no question."""
    return "\n".join(str(message.get("content", "")) for message in item.messages)


class _Paths:
    """What a run holds of each completed path, as it comes from the database."""

    def __init__(self) -> None:
        self.texts = {name: Texts() for name in TEXTS}
        self._whole = {name: array("i") for name in WHOLE}
        self._real = {name: array("d") for name in REAL}

    def read(self, run: Run, places: dict[str, int]) -> bool:
        """Read all paths; returns whether all of them are scored."""
        for block in run.paths(("item", *COLUMNS), BLOCK):
            item, *columns = zip(*block, strict=True)
            named = dict(zip(COLUMNS, columns, strict=True))
            if None in named["rule"]:
                return False
            try:
                self._whole["item"].extend(map(places.__getitem__, item))
            except KeyError:
                return False
            for name, texts in self.texts.items():
                texts.add(named[name])
            for name in ("slot", "path"):
                self._whole[name].extend(named[name])
            self._whole["correct"].extend([-1 if value is None else value for value in named["correct"]])
            for name in MEASURES:
                self._real[name].extend(named[name])
            for name in LOGPROBS:
                self._real[name].extend([math.nan if value is None else value for value in named[name]])
        return bool(self._whole["item"])

    @property
    def item(self) -> Codes:
        """The place of each path's item."""
        return np.asarray(self._whole["item"], np.int32)

    @property
    def slot(self) -> Codes:
        """The slot of each path."""
        return np.asarray(self._whole["slot"], np.int32)

    @property
    def correct(self) -> Codes:
        """Whether each path is right; -1 where it is not labelled."""
        return np.asarray(self._whole["correct"], np.int32)

    def order(self, slots: dict[int, int]) -> Int | None:
        """Return the paths by item and launch; None where one was completed twice."""
        item, slot, path = self.item, self.slot, np.asarray(self._whole["path"], np.int32)
        numbers, place = np.unique(slot, return_inverse=True)
        rank = np.array([slots.get(number, 0) for number in numbers.tolist()])[place]
        order = np.lexsort((rank, path, item))
        launched = np.stack([item, path, rank])[:, order]
        twice = bool((launched[:, 1:] == launched[:, :-1]).all(axis=0).any())
        return None if twice else order

    def coded(self, name: str, order: Int) -> Coded:
        """Return a column of texts."""
        column = self.texts[name].done()
        return Coded(column.codes[order], column.names)

    def numbers(self, order: Int, sizes: Int) -> dict[str, Float] | None:
        """Return what is known of the paths of every question; None where that takes a look at each."""
        starts = np.cumsum(sizes) - sizes
        numbers: dict[str, Float] = {}
        for name in MEASURES:
            column = np.asarray(self._real[name])[order]
            known = np.logical_or.reduceat(column != 0, starts)
            if bool(known.all()):
                numbers[name] = column
            elif bool(known.any()) and bool((sizes != sizes[0]).any()):
                return None
        means = np.asarray(self._real["logprob_mean"])[order]
        if not bool(np.isnan(means).any()):
            numbers["confidences"] = means
        return numbers

    def named(self, order: Int) -> dict[str, Float]:
        """Return the further log-probabilities, where any path has them."""
        columns = {name: np.asarray(self._real[name])[order] for name in LOGPROBS[1:]}
        return {name: values for name, values in columns.items() if not bool(np.isnan(values).all())}
