"""MATH (MATH-500): competition mathematics with a LaTeX answer."""

from __future__ import annotations

from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, text


class Math(Benchmark):
    """MATH; the gold answer is the column ``answer``, without a box.

    Licence of the data: MIT.
    """

    name = "math"
    space = "math"
    family = "math"
    data_set = DataSet(
        "HuggingFaceH4/MATH-500",
        "default",
        ("test",),
        ("problem", "answer", "subject", "level", "unique_id"),
    )
    EXAMPLES = (
        Example(r"Then $x = 3$ or $x = 4$, so the sum is $\boxed{7}$.", "7"),
        Example(r"We get r = 3 and the angle \frac{\pi}{2}, so", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        return self.item(
            text(row, "problem"),
            text(row, "answer"),
            id=text(row, "unique_id"),
            meta={"subject": row["subject"], "level": row["level"]},
        )


task = Math
