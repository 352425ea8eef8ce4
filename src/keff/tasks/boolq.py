"""BoolQ: yes/no questions on a passage."""

from __future__ import annotations

from keff.records import Item, stable_hash
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, text


class BoolQ(Benchmark):
    """BoolQ; questions on one passage share a cluster, and ``answer`` is true for yes.

    Licence of the data: CC BY-SA 3.0.
    """

    name = "boolq"
    space = "binary"
    family = "passage"
    repeats = True
    max_tokens = 256
    data_set = DataSet(
        "google/boolq",
        "default",
        ("validation", "train"),
        ("question", "answer", "passage"),
    )
    EXAMPLES = (
        Example("The passage says that it takes less energy.\n\nFinal answer: no", "no"),
        Example("Yes.", "yes"),
        Example("The passage says that no evidence", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        passage, answer = text(row, "passage"), row["answer"]
        if not isinstance(answer, bool):
            raise TypeError(f"answer is {answer!r}, not true or false")
        question = f"Passage: {passage}\n\nQuestion: {text(row, 'question').rstrip('?')}?"
        return self.item(question, "yes" if answer else "no", cluster=stable_hash(passage)[:16])


task = BoolQ
