"""Spans of OpenTelemetry with the GenAI conventions, as OTLP JSON or as its SDKs write single spans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions, mark
from keff.logs.parts.lines import Row, loads, objects, whole_json
from keff.logs.parts.values import at, inner, optional_text, spoken
from keff.narrow import Fields, Object, entries, fields, only, text
from keff.protocol.reply import is_cut

Attributes = Fields

# How OpenLLMetry wrote messages before the conventions had attributes for them.
FLAT = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.content")
EVALUATION = "gen_ai.evaluation."


class OpenTelemetry(ScoreOptions, FieldReader):
    """Reader of exported GenAI spans, of the current conventions and of OpenLLMetry's earlier ones.

    Spans with equal input messages are the paths of a question, and so are the output messages of one span;
    each model is a branch. The verdict is the evaluation event of the span that ``scorer`` names, the only
    one, or the only one with a label: its label (pass, fail) or score (from ``threshold`` on). Spans that are
    no calls of a model are passed over; calls that kept no messages, which is the default of most tools, are
    left out and counted.
    """

    name = "opentelemetry"
    table = FieldTable(
        signs=("context", "attributes"),
        names=("resourceSpans",),
        paths="said",
        fields={
            "id": lambda row: mark(row["asked"]),
            "question": lambda row: spoken(at(row, "asked/-1")),
            "model": "model",
            "text": lambda row: spoken(row["said"]),
            "truncated": lambda row: int(is_cut(at(row, "said/finish_reason"))),
        },
        # Usage is of the whole call.
        of_call={
            "tokens": ("held/gen_ai.usage.output_tokens", "held/gen_ai.usage.completion_tokens"),
            "prompt_tokens": ("held/gen_ai.usage.input_tokens", "held/gen_ai.usage.prompt_tokens"),
        },
        scores="scores",
        steps="step",
        left_out={
            "kept no messages (tools keep them only when asked to)": lambda row: (
                not (row["asked"] and row["said"])
            )
        },
        own="span",
    )

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return LogInfo(model=only({text(row["model"]) for _, row in self.rows_in(path) if not row["step"]}))

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every span: what was asked and said, and how it was scored."""
        for where, span in _spans(path, tell):
            held = _attributes(span.get("attributes"))
            names = at(span, "context/trace_id", "traceId"), at(span, "context/span_id", "spanId")
            yield (
                where,
                {
                    "span": span if names == (None, None) else names,
                    "held": held,
                    "step": not _is_call(held),
                    "model": optional_text(at(held, "gen_ai.request.model", "gen_ai.response.model")),
                    "asked": _messages(held, "input", "prompt"),
                    "said": _messages(held, "output", "completion"),
                    "scores": self._evaluations(span),
                },
            )

    def _evaluations(self, span: Row) -> Object:
        """Return a span's evaluations by name: labels, or scores where a threshold says what is right."""
        found: Object = {}
        for event in entries(span.get("events")):
            held = _attributes(event.get("attributes"))
            name, label, score = (
                held.get(f"{EVALUATION}{end}") for end in ("name", "score.label", "score.value")
            )
            if name is not None:
                found[str(name)] = score if label is None or self.threshold is not None else label
        return found


def _spans(path: Path, tell: NoteSink) -> Iterator[tuple[str, Row]]:
    """Yield (place, span) of every span."""
    try:
        rows = list(objects(path, tell))
    except LogError:
        # One document over several lines.
        rows = [(str(path), fields(whole_json(path)))]
    for where, row in rows:
        inside = [
            span
            for resource in entries(row.get("resourceSpans"))
            for scope in entries(resource.get("scopeSpans"))
            for span in entries(scope.get("spans"))
        ]
        for span in inside or [row]:
            yield where, span


def _attributes(value: object) -> Attributes:
    """Return a span's attributes by name, from the SDKs' form (object) or OTLP's (list)."""
    listed = {
        str(each.get("key")): next(iter(inner(each, "value").values()), None) for each in entries(value)
    }
    return listed or inner(value)


def _is_call(held: Attributes) -> bool:
    """Return whether a span is a call of a model."""
    operation = held.get("gen_ai.operation.name")
    calls = operation in ("chat", "text_completion", "generate_content")
    return calls or (operation is None and any(name.startswith("gen_ai.") for name in held))


def _messages(held: Attributes, now: str, before: str) -> list[Object]:
    value = held.get(f"gen_ai.{now}.messages")
    if isinstance(value, str):
        try:
            return entries(loads(value))
        except (ValueError, RecursionError):
            return []
    flat = {
        int(found[2]): text(held[found[0]])
        for name in held
        if (found := FLAT.fullmatch(name)) and found[1] == before
    }
    return entries(value) or [{"content": flat[place]} for place in sorted(flat)]


log = OpenTelemetry
