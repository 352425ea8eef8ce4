"""Traces and observations of Langfuse, from exports and its API: those of equal inputs are the paths."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions, answer_in, asked_in, mark, parsed
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at
from keff.narrow import Fields, entries, is_array, only

# Columns of an export that hold lists and are no scores, which stand in columns of their own names.
LISTS = ("tags", "comments", "traceTags", "observations", "scores", "availablePromptLists")


class Langfuse(ScoreOptions, FieldReader):
    """Reader of exports as JSON or JSONL, of traces or of observations (from the page, the API or a bucket).

    Traces, or observations that have no parent, of equal inputs are the paths of a question. The verdict is
    the score that ``scorer`` names, the only one, or the only one that is true or false; exports to a bucket
    keep scores elsewhere. What ended in an error is left out and counted.
    """

    name = "langfuse"
    table = FieldTable(
        signs=("id", "input", "output", ("bookmarked", "htmlPath", "trace_id", "traceId")),
        fields={
            "id": lambda row: mark(parsed(row.get("input"))),
            "question": lambda row: asked_in(parsed(row.get("input"))),
            "answer": lambda row: answer_in(parsed(row.get("output"))),
            "text": lambda row: answer_in(parsed(row.get("output"))),
            "tokens": ("usageDetails/output", "usage_details/output", "outputTokens"),
            "prompt_tokens": ("usageDetails/input", "usage_details/input", "inputTokens"),
            "seconds": "latency",
        },
        scores=lambda row: _scores(row),
        steps=("parentObservationId", "parent_observation_id"),
        left_out={
            "ended in an error": lambda row: row.get("level") == "ERROR",
            "has no output": lambda row: row.get("output") in (None, ""),
        },
        own="id",
    )


def _scores(row: Row) -> Fields:
    """Return the scores of a trace by name: of its list, or of the columns of an export."""
    listed = {str(each.get("name")): at(each, "stringValue", "value") for each in entries(row.get("scores"))}
    columns = {
        name: only(value) for name, value in row.items() if is_array(value) and value and name not in LISTS
    }
    return listed or columns


log = Langfuse
