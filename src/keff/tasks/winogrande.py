"""WinoGrande: which of two options fills the blank of a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from keff.records import Item, stable_hash
from keff.task import Example, LocatedRow, Row
from keff.tasks._base import Benchmark, DataSet, lettered, text

# Twins differ in the word that turns the answer and little else.
_TWIN_OVERLAP = 0.6


class WinoGrande(Benchmark):
    """WinoGrande; sentences are twins that differ in a word or two and swap the right option.

    The hub's columns do not name the twin, but twins stand in adjacent rows. A row is the twin of the one
    before if both have the same two options, their words overlap by at least 0.6 (difflib ratio), and that
    one has no twin yet. Twins share a cluster, named by a hash of the first row.
    Licence of the data: CC BY.
    """

    name = "winogrande"
    space = "choice"
    family = "blank"
    repeats = True
    data_set = DataSet(
        "allenai/winogrande",
        "winogrande_xl",
        ("validation", "train"),
        ("sentence", "option1", "option2", "answer"),
    )
    EXAMPLES = (
        Example("The easier cases went to the other surgeon.\n\nFinal answer: B", "B"),
        Example("The better surgeon is Sarah, so", None, truncated=True),
    )

    def rows(self) -> Iterator[LocatedRow]:
        """Yield the rows in order, with the column ``twins`` added."""
        before: LocatedRow | None = None
        for row in super().rows():
            paired = before is not None and _are_twins(before, row)
            row["twins"] = before["twins"] if paired and before else stable_hash(row)[:16]
            before = None if paired else row
            yield row

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        options = [text(row, "option1"), text(row, "option2")]
        question, meta = lettered(f"Sentence: {text(row, 'sentence')}", options)
        gold = meta["labels"][("1", "2").index(row["answer"])] if row["answer"] != "" else None
        return self.item(question, gold, cluster=str(row.get("twins", "")), meta=meta)


def _are_twins(row: Row, other: Row) -> bool:
    options = [{each.get("option1"), each.get("option2")} for each in (row, other)]
    ours, theirs = (str(each.get("sentence")).split() for each in (row, other))
    return options[0] == options[1] and SequenceMatcher(None, ours, theirs).ratio() >= _TWIN_OVERLAP


task = WinoGrande
