"""GSM8K: grade-school mathematics word problems with a numeric answer."""

from __future__ import annotations

from keff.errors import TaskError
from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, text


class Gsm8k(Benchmark):
    """GSM8K; the gold answer follows the last ``####`` of the worked solution.

    Licence of the data: MIT.
    """

    name = "gsm8k"
    space = "numeric"
    family = "math"
    repeats = True
    max_tokens = 1024
    data_set = DataSet("openai/gsm8k", "main", ("test", "train"), ("question", "answer"))
    EXAMPLES = (
        Example("She sells 9 eggs for $2 each, so 9 * 2 = 18.\n#### 18", "18"),
        Example("The total is **$70,000**.\n\nFinal answer: 70,000", "70,000"),
        Example("First, 16 - 3 = 13. Then 13 - 4", None, truncated=True),
        Example("I cannot work this out.", None),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        _, mark, gold = text(row, "answer").rpartition("####")
        if not mark:
            raise TaskError("the answer has no '#### number' line")
        return self.item(text(row, "question"), gold.strip().replace(",", ""))


task = Gsm8k
