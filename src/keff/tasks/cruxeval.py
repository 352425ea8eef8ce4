"""CRUXEval (output prediction): what a short Python function returns."""

from __future__ import annotations

from keff.records import Item
from keff.task import Example, Row
from keff.tasks._base import Benchmark, DataSet, text


class CruxEval(Benchmark):
    """CRUXEval; gold answers are Python literals, compared by value without running code.

    Licence of the data: MIT.
    """

    name = "cruxeval"
    space = "literal"
    family = "output"
    data_set = DataSet("cruxeval-org/cruxeval", "default", ("test",), ("code", "input", "output", "id"))
    EXAMPLES = (
        Example("The list is sorted in reverse.\n\nFinal answer: [(4, 1), (2, 3)]", "[(4, 1), (2, 3)]"),
        Example("The loop first appends (4, 1), then", None, truncated=True),
    )

    def build(self, row: Row) -> Item:
        """Return the Item of a row with all columns."""
        question = f"```python\n{text(row, 'code')}\n```\n\nCall: f({row['input']})"
        return self.item(question, text(row, "output"), id=text(row, "id"))


task = CruxEval
