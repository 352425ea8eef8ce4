"""HellaSwag: which of four endings continues a scenario."""

from __future__ import annotations

import re

from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, lettered, text

# Marks of WikiHow pages that the data set keeps; a reader of the question would not see them.
_MARKS = re.compile(r"\s*\[(?:header|title|step|substeps)\]\s*")


class HellaSwag(Benchmark):
    """HellaSwag; ``label`` is the right ending's index, and marks of how-to pages are removed.

    Licence of the data: MIT.
    """

    name = "hellaswag"
    space = "choice"
    family = "continuation"
    repeats = True
    data_set = DataSet(
        "Rowan/hellaswag",
        "default",
        ("validation", "train"),
        ("activity_label", "ctx", "endings", "label"),
    )
    EXAMPLES = (
        Example("He is working on the roof, so he pulls up the roofing.\n\nFinal answer: D", "D"),
        Example("Ending A speaks of skis, which", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        scenario = f"Scenario ({text(row, 'activity_label')}): {_without_marks(text(row, 'ctx'))}"
        question, meta = lettered(scenario, [_without_marks(each) for each in row["endings"]])
        gold = meta["labels"][int(row["label"])] if row["label"] != "" else None
        return self.item(question, gold, meta=meta)


def _without_marks(passage: str) -> str:
    return _MARKS.sub(" ", passage).strip()


task = HellaSwag
