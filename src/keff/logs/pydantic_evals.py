"""Reports of pydantic-evals (EvaluationReportAdapter.dump_json): the repeats of a case are its paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.log import NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions, answer_in, asked_in
from keff.logs.parts.lines import Row, whole_json
from keff.logs.parts.values import at, inner
from keff.narrow import Fields, entries, fields


class PydanticEvals(ScoreOptions, FieldReader):
    """Reader of an evaluation's report.

    The runs of a case (``repeat=``) are its paths. The verdict is the assertion or score that ``scorer``
    names, the only one, or the only assertion; a score that is neither 0 nor 1 is right from ``threshold``
    on. Runs whose task failed are left out and counted.
    """

    name = "pydantic_evals"
    table = FieldTable(
        names=("name", "cases", "failures"),
        rows="cases",
        fields={
            "id": ("source_case_name", "name"),
            "question": lambda row: asked_in(row.get("inputs")),
            "gold_answer": "expected_output",
            "answer": lambda row: answer_in(row.get("output")),
            "text": lambda row: answer_in(row.get("output")),
            "tokens": "metrics/output_tokens",
            "prompt_tokens": "metrics/input_tokens",
            "seconds": "task_duration",
        },
        scores=lambda row: _values(row, "scores") | _values(row, "assertions"),
        left_out={"failed": "error_message"},
        own="name",
    )

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every run, those that failed among them."""
        yield from super().rows_in(path, tell)
        for number, failure in enumerate(entries(fields(whole_json(path)).get("failures")), 1):
            yield f"{path}: failure {number}", failure


def _values(row: Row, kind: str) -> dict[str, object]:
    """Return the results of a kind by name."""
    found: Fields = inner(row, kind)
    return {name: at(result, "value") for name, result in found.items()}


log = PydanticEvals
