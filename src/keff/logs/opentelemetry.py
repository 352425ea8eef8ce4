"""Spans of OpenTelemetry with the GenAI conventions, as OTLP JSON or as its SDKs write single spans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Tell, unheard
from keff.logs.parts.foreign import Canonical, Graded, PathReader, UsableRows, mark, spoken, verdict
from keff.logs.parts.lines import Row, first_object, loads, member_names, objects, whole_json
from keff.logs.parts.values import at, inner, optional_text
from keff.narrow import Fields, Object, entries, fields, only, text
from keff.protocol.reply import is_cut

Attributes = Fields

# How OpenLLMetry wrote messages before the conventions had attributes for them.
FLAT = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.content")
EVALUATION = "gen_ai.evaluation."


class OpenTelemetry(Graded, PathReader):
    """Reader of exported GenAI spans, of the current conventions and of OpenLLMetry's earlier ones.

    Spans with equal input messages are the paths of a question, and so are the output messages of one span;
    each model is a branch. The verdict is the evaluation event of the span that ``scorer`` names, else its
    first: its label (pass, fail) or score (from ``threshold`` on). Spans that are no calls of a model are
    passed over; calls that kept no messages, which is the default of most tools, are left out and counted.
    """

    name = "opentelemetry"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        if "resourceSpans" in member_names(path):
            return None
        row = first_object(path)
        if isinstance(row, str):
            return row
        if "context" in row and "attributes" in row:
            return None
        return "neither resourceSpans nor a span with context and attributes"

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return LogInfo(model=only({_model(held) for _, _, held in _spans(path, unheard) if _is_call(held)}))

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the outputs of model calls."""
        for where, span, held in _spans(path, tell):
            if _is_call(held):
                self._add(kept, where, span, held)

    def _add(self, kept: UsableRows, where: str, span: Row, held: Attributes) -> None:
        asked, said = _messages(held, "input", "prompt"), _messages(held, "output", "completion")
        if not asked or not said:
            kept.left_out["kept no messages (tools keep them only when asked to)"] += 1
            return
        measured = {
            "tokens": at(held, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
            "prompt_tokens": at(held, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        }
        judged = self._verdict(where, span)
        for place, message in enumerate(said):
            row = {
                "id": mark(asked),
                "question": spoken(asked[-1]),
                "model": _model(held),
                "text": spoken(message),
                **judged,
                "truncated": int(is_cut(message.get("finish_reason"))),
            }
            # Usage is of the whole call.
            kept.add(where, row | measured if len(said) == 1 else row, [_name(span), place])

    def _verdict(self, where: str, span: Row) -> Canonical:
        for event in entries(span.get("events")):
            held = _attributes(event.get("attributes"))
            if self.scorer not in (None, held.get(f"{EVALUATION}name")) or f"{EVALUATION}name" not in held:
                continue
            label, score = held.get(f"{EVALUATION}score.label"), held.get(f"{EVALUATION}score.value")
            value = score if label is None or self.threshold is not None else label
            said = f"{where}: the evaluation {held[f'{EVALUATION}name']}"
            return verdict(said, value, self.threshold)
        return {}


def _spans(path: Path, tell: Tell) -> Iterator[tuple[str, Row, Attributes]]:
    """Yield (place, span, attributes) of every span."""
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
            yield where, span, _attributes(span.get("attributes"))


def _name(span: Row) -> object:
    """Return a span's name: its trace id and its span id."""
    names = at(span, "context/trace_id", "traceId"), at(span, "context/span_id", "spanId")
    return span if names == (None, None) else names


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


def _model(held: Attributes) -> str | None:
    return optional_text(at(held, "gen_ai.request.model", "gen_ai.response.model"))


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
