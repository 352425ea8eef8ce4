"""HotpotQA (distractor): questions over ten paragraphs, two of which are needed."""

from __future__ import annotations

from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, text


class HotpotQa(Benchmark):
    """HotpotQA; gold answers are spans, yes or no, right by a token F1 of at least 0.5 (as in the paper).

    Licence of the data: CC BY-SA 4.0.
    """

    name = "hotpotqa"
    space = "text"
    family = "qa"
    max_tokens = 512
    data_set = DataSet(
        "hotpotqa/hotpot_qa",
        "distractor",
        ("validation", "train"),
        ("id", "question", "answer", "type", "level", "context"),
        large=True,
    )
    EXAMPLES = (
        Example("VIVA Media became a GmbH.\n\nFinal answer: Chief of Protocol", "Chief of Protocol"),
        Example("The first paragraph says that the actress was born in", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        context = row["context"]
        paragraphs = "\n\n".join(
            f"{title}\n{''.join(sentences).strip()}"
            for title, sentences in zip(context["title"], context["sentences"], strict=True)
        )
        question = f"Context:\n{paragraphs}\n\nQuestion: {text(row, 'question')}"
        meta = {"type": row["type"], "level": row["level"]}
        return self.item(question, text(row, "answer"), id=text(row, "id"), meta=meta)


task = HotpotQa
