"""DROP: questions on a passage that need counting, adding or comparing."""

from __future__ import annotations

from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, text


class Drop(Benchmark):
    """DROP; right by a token F1 of at least 0.5 with any reference, numbers exactly (as in the paper).

    The columns do not say whether several reference spans are alternatives or the parts of one answer; they
    are taken as alternatives. Questions on one passage share a cluster.
    Licence of the data: CC BY-SA 4.0.
    """

    name = "drop"
    space = "text"
    family = "discrete"
    data_set = DataSet(
        "ucinlp/drop",
        "default",
        ("validation", "train"),
        ("section_id", "query_id", "passage", "question", "answers_spans"),
    )
    EXAMPLES = (
        Example("The longest was the 53-yard kick.\n\nFinal answer: 53 yards", "53 yards"),
        Example("Final answer: Chaz Schilens.", "Chaz Schilens"),
        Example("The kicker made field goals of 33 and 30", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        golds = [each for each in dict.fromkeys(row["answers_spans"]["spans"]) if each.strip()]
        question = f"Passage: {text(row, 'passage').strip()}\n\nQuestion: {text(row, 'question')}"
        identity, cluster = text(row, "query_id"), text(row, "section_id")
        return self.item(question, golds or None, id=identity, cluster=cluster)


task = Drop
