"""ARC-Challenge: grade-school science questions with three to five options."""

from __future__ import annotations

from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, lettered, text


class ArcChallenge(Benchmark):
    """ARC-Challenge; options are lettered from A in the data's order, also where a row numbers them.

    Licence of the data: CC BY-SA 4.0.
    """

    name = "arc_challenge"
    space = "choice"
    family = "science"
    data_set = DataSet(
        "allenai/ai2_arc",
        "ARC-Challenge",
        ("test", "validation", "train"),
        ("id", "question", "choices", "answerKey"),
    )
    EXAMPLES = (
        Example("A faster rotation makes days shorter.\n\nFinal answer: C", "C"),
        Example("The answer is (B) because plants make sugar.", "B"),
        Example("Option A is about density, which does not", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        choices: dict[str, list[str]] = row["choices"]
        question, meta = lettered(f"Question: {text(row, 'question')}", choices["text"])
        gold = meta["labels"][choices["label"].index(row["answerKey"])] if row["answerKey"] else None
        return self.item(question, gold, id=text(row, "id"), meta=meta)


task = ArcChallenge
