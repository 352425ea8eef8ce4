"""Runs and experiments of LangSmith as JSON: the runs of one example, or of equal inputs, are its paths."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions, answer_in, asked_in, mark
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, inner, seconds_between
from keff.narrow import Fields


class LangSmith(ScoreOptions, FieldReader):
    """Reader of runs as ``Client.list_runs`` returns them, one JSON object each (``run.model_dump_json()``).

    Only root runs are paths; their steps are passed over. The verdict is the feedback that ``scorer`` names,
    or the only one, by its mean over whoever gave it. Runs with an error are left out and counted.
    """

    name = "langsmith"
    table = FieldTable(
        signs=("id", "run_type", "inputs", "trace_id"),
        fields={
            "id": lambda row: row.get("reference_example_id") or mark(row.get("inputs")),
            "question": lambda row: asked_in(row.get("inputs")),
            "answer": lambda row: answer_in(row.get("outputs")),
            "text": lambda row: answer_in(row.get("outputs")),
            "tokens": "completion_tokens",
            "prompt_tokens": "prompt_tokens",
            "seconds": lambda row: seconds_between(row.get("start_time"), row.get("end_time")),
        },
        scores=lambda row: _feedback(row),
        steps=("parent_run_id", "parent_run_ids"),
        left_out={"has an error": "error", "has no output": lambda row: not at(row, "outputs")},
        own="id",
    )


def _feedback(row: Row) -> Fields:
    """Return the mean of each kind of feedback."""
    return {name: at(stats, "avg") for name, stats in inner(row, "feedback_stats").items()}


log = LangSmith
