"""Traces of MLflow as JSON (``trace.to_json()``): traces of one input are the paths of a question."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from keff.errors import LogError
from keff.log import Tell
from keff.logs.parts.foreign import (
    Canonical,
    Graded,
    PathReader,
    UsableRows,
    mark,
    spoken,
    verdict,
)
from keff.logs.parts.lines import Row, first_object, objects
from keff.logs.parts.values import as_truth, at, inner, thousandth
from keff.narrow import Fields, Object, entries, fields, text


class Mlflow(Graded, PathReader):
    """Reader of exported traces, one JSON object per line or in an array, of MLflow 2.14 and later.

    Traces with equal inputs of their root span are repeats. The verdict is the feedback that ``scorer``
    names, else the first that says yes or no, else the first number (right from ``threshold`` on, a graded
    score without it); an expectation is the gold answer. Traces that ended in an error are left out and
    counted.
    """

    name = "mlflow"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        row = first_object(path)
        if isinstance(row, str):
            return row
        if at(row, "info/trace_id", "info/request_id") is None or "data" not in row:
            return "the first object has no info with a trace_id, and data"
        return None

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the traces that succeeded."""
        for where, row in objects(path, tell):
            self._add(kept, where, row)

    def _add(self, kept: UsableRows, where: str, row: Row) -> None:
        info = inner(row, "info")
        if at(info, "state", "status") not in (None, "OK"):
            kept.left_out["ended in an error"] += 1
            return
        asked, said = _exchange(row)
        if said is None:
            kept.left_out["has no output"] += 1
            return
        usage = fields(_parsed(at(info, "trace_metadata/mlflow.trace.tokenUsage")))
        expected = (at(each, "expectation/value") for each in _assessments(info))
        kept.add(
            where,
            {
                "id": mark(asked),
                "question": _question(asked),
                "text": _answer(said),
                **self._verdict(where, info),
                "gold_answer": next((value for value in expected if value is not None), None),
                "tokens": usage.get("output_tokens"),
                "prompt_tokens": usage.get("input_tokens"),
                "seconds": thousandth(at(info, "execution_duration_ms", "execution_time_ms")),
            },
            at(info, "trace_id", "request_id"),
        )

    def _verdict(self, where: str, info: Fields) -> Canonical:
        said = [
            (name, at(each, "feedback/value"))
            for each in _assessments(info)
            if (name := at(each, "assessment_name", "name")) == self.scorer or not self.scorer
        ]
        # A boolean, or a word for one, is a verdict by itself.
        for name, value in sorted(
            said, key=lambda pair: not isinstance(pair[1], bool) and as_truth(pair[1]) is pair[1]
        ):
            try:
                found = verdict(f"{where}: the feedback {name}", value, self.threshold)
            except LogError:
                if self.scorer or self.threshold is not None:
                    raise
                continue
            if found:
                return found
        return {}


def _assessments(info: Fields) -> list[Object]:
    return [each for each in entries(info.get("assessments")) if each.get("valid") is not False]


def _exchange(row: Row) -> tuple[object, object]:
    """Return inputs and outputs of a trace: of its root span, else those kept by the trace."""
    for span in entries(at(row, "data/spans")):
        held = inner(span, "attributes")
        if not (span.get("parent_span_id") or span.get("parent_id")) and "mlflow.spanOutputs" in held:
            return _parsed(held.get("mlflow.spanInputs")), _parsed(held["mlflow.spanOutputs"])
    asked = at(row, "data/request", "info/request_preview")
    return _parsed(asked), _parsed(at(row, "data/response", "info/response_preview"))


def _parsed(value: object) -> object:
    """Return a text parsed as JSON, else the text."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _question(asked: object) -> str | None:
    """Return the question in an input: its only argument, or its last message."""
    values = list(fields(asked).values()) or [asked]
    messages = entries(fields(asked).get("messages"))
    return spoken(messages[-1] if messages else values[0] if len(values) == 1 else asked)


def _answer(said: object) -> str | None:
    """Return the answer in an output: the first choice of a chat completion, else the value returned."""
    choices = entries(fields(said).get("choices"))
    return spoken(choices[0].get("message")) if choices else text(said) or spoken(said)


log = Mlflow
