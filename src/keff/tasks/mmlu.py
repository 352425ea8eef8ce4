"""MMLU: four-option exam questions in 57 subjects."""

from __future__ import annotations

from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, lettered, text


class Mmlu(Benchmark):
    """MMLU; the column ``answer`` is the right option's index.

    Licence of the data: MIT.
    """

    name = "mmlu"
    space = "choice"
    family = "science"
    repeats = True
    data_set = DataSet(
        "cais/mmlu",
        "all",
        ("test", "validation", "dev", "auxiliary_train"),
        ("question", "subject", "choices", "answer"),
    )
    EXAMPLES = (
        Example("The degree is 4.\n\nFinal answer: B", "B"),
        Example("**Answer: D**", "D"),
        Example("Let us look at option A first. It", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        question, meta = lettered(f"Question: {text(row, 'question')}", row["choices"])
        answer = row["answer"]
        if not 0 <= answer < len(row["choices"]):
            raise ValueError(f"answer is {answer!r}, not the index of an option")
        return self.item(question, meta["labels"][int(answer)], meta={**meta, "subject": row["subject"]})


task = Mmlu
