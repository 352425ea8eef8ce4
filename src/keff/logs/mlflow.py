"""Traces of MLflow as JSON (``trace.to_json()``): traces of one input are the paths of a question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.log import NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable, milliseconds_at
from keff.logs.parts.foreign import ScoreOptions, answer_in, asked_in, mark, parsed
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, inner
from keff.narrow import entries


class Mlflow(ScoreOptions, FieldReader):
    """Reader of exported traces, one JSON object per line or in an array, of MLflow 2.14 and later.

    Traces with equal inputs of their root span are repeats. The verdict is the feedback that ``scorer``
    names, the only one, or the only one that says yes or no (a number is right from ``threshold`` on, a
    graded score without it); an expectation is the gold answer. Traces that ended in an error are left out
    and counted.
    """

    name = "mlflow"
    table = FieldTable(
        signs=(("info/trace_id", "info/request_id"), "data"),
        fields={
            "id": lambda row: mark(row["asked"]),
            "question": lambda row: asked_in(row["asked"]),
            "text": lambda row: answer_in(row["said"]),
            "gold_answer": "gold",
            "tokens": "usage/output_tokens",
            "prompt_tokens": "usage/input_tokens",
            "seconds": milliseconds_at("info/execution_duration_ms", "info/execution_time_ms"),
        },
        scores="scores",
        left_out={
            "ended in an error": lambda row: at(row, "info/state", "info/status") not in (None, "OK"),
            "has no output": lambda row: row["said"] is None,
        },
        own=("info/trace_id", "info/request_id"),
    )

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every trace, with what was asked and said, its scores and its gold answer."""
        for where, row in super().rows_in(path, tell):
            asked, said = _exchange(row)
            assessed = [
                each for each in entries(at(row, "info/assessments")) if each.get("valid") is not False
            ]
            scores = {
                str(at(each, "assessment_name", "name")): at(each, "feedback/value") for each in assessed
            }
            gold = (at(each, "expectation/value") for each in assessed)
            yield (
                where,
                row
                | {
                    "asked": asked,
                    "said": said,
                    "scores": scores,
                    "gold": next((value for value in gold if value is not None), None),
                    "usage": parsed(at(row, "info/trace_metadata/mlflow.trace.tokenUsage")),
                },
            )


def _exchange(row: Row) -> tuple[object, object]:
    """Return inputs and outputs of a trace: of its root span, else those kept by the trace."""
    for span in entries(at(row, "data/spans")):
        held = inner(span, "attributes")
        if not (span.get("parent_span_id") or span.get("parent_id")) and "mlflow.spanOutputs" in held:
            return parsed(held.get("mlflow.spanInputs")), parsed(held["mlflow.spanOutputs"])
    asked = at(row, "data/request", "info/request_preview")
    return parsed(asked), parsed(at(row, "data/response", "info/response_preview"))


log = Mlflow
