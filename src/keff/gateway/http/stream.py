"""Server-sent events: a decided reply as chunks of chat or as events of Responses, progress as comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keff.gateway.http.errors import Problem
from keff.narrow import entries, fields, items
from keff.protocol.responses import CALLS
from keff.protocol.values import Object, sendable

DONE = b"data: [DONE]\n\n"


def event(value: Mapping[str, object]) -> bytes:
    """Return one event."""
    return b"data: " + sendable(value) + b"\n\n"


def comment(text: str) -> bytes:
    """Return a comment, which clients skip and which keeps the connection open."""
    return f": {text}\n\n".encode()


def failure(problem: Problem) -> bytes:
    """Return the event of an error after the stream has begun; the official client raises it."""
    return event({"error": problem.error()})


def chunks(reply: Mapping[str, object], *, include_usage: bool) -> Iterator[bytes]:
    """Yield a whole reply as a stream.

    Of each choice role, content and end (of the first with the vote); usage where asked, ``[DONE]``.
    """
    base = {name: value for name, value in reply.items() if name not in ("choices", "usage", "keff")}
    base["object"] = "chat.completion.chunk"
    if include_usage:
        base["usage"] = None
    for index, choice in enumerate(entries(reply["choices"])):
        message = fields(choice["message"])
        begun = {"role": message.get("role") or "assistant", "content": ""}
        yield event({**base, "choices": [_delta(index, begun)]})
        delta = _delta(index, _content(message))
        if choice.get("logprobs"):
            delta["logprobs"] = choice["logprobs"]
        yield event({**base, "choices": [delta]})
        end: Object = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
        yield event({**base, "choices": [end], **({} if index else {"keff": reply["keff"]})})
    if include_usage:
        yield event({**base, "choices": [], "usage": reply["usage"]})
    yield DONE


def _delta(index: int, content: Mapping[str, object]) -> Object:
    return {"index": index, "delta": content, "finish_reason": None}


def _content(message: Mapping[str, object]) -> Object:
    content = {name: value for name, value in message.items() if name != "role" and value is not None}
    if isinstance(content.get("tool_calls"), list):
        calls = items(content["tool_calls"])
        content["tool_calls"] = [{**fields(call), "index": place} for place, call in enumerate(calls)]
    return content


class Numbered:
    """Writes events with their numbers."""

    def __init__(self) -> None:
        self._next = 0

    def event(self, kind: str, **more: object) -> bytes:
        """Return one event."""
        body: Object = {"type": kind, "sequence_number": self._next, **more}
        self._next += 1
        return b"event: " + kind.encode() + b"\ndata: " + sendable(body) + b"\n\n"


def response_failure(problem: Problem) -> bytes:
    """Return the event of an error after the stream has begun."""
    error = problem.error()
    told = {name: error[name] for name in ("message", "code", "param")}
    return Numbered().event("error", **told)


def response_events(reply: Mapping[str, object]) -> Iterator[bytes]:
    """Yield a whole response as a stream: it is created, its items come one by one, it is completed."""
    numbered = Numbered()
    begun: Object = {**reply, "status": "in_progress", "output": [], "usage": None}
    begun.pop("keff", None)
    yield numbered.event("response.created", response=begun)
    yield numbered.event("response.in_progress", response=begun)
    for place, item in enumerate(entries(reply.get("output"))):
        yield from _item(numbered, place, item)
    ended = "response.incomplete" if reply.get("status") == "incomplete" else "response.completed"
    yield numbered.event(ended, response=reply)


def _item(numbered: Numbered, place: int, item: Object) -> Iterator[bytes]:
    kind, where = str(item.get("type")), {"item_id": item.get("id"), "output_index": place}
    empty: Object = {**item, "status": "in_progress"}
    if kind == "message":
        empty["content"] = []
    elif kind in CALLS:
        empty[CALLS[kind][0]] = ""
    yield numbered.event("response.output_item.added", output_index=place, item=empty)
    if kind == "message":
        for index, part in enumerate(items(item.get("content"))):
            yield from _part(numbered, {**where, "content_index": index}, fields(part))
    elif kind in CALLS:
        field, event = CALLS[kind]
        yield numbered.event(f"response.{event}.delta", **where, delta=item.get(field))
        yield numbered.event(f"response.{event}.done", **where, **{field: item.get(field)})
    yield numbered.event("response.output_item.done", output_index=place, item=item)


def _part(numbered: Numbered, where: Mapping[str, object], part: Object) -> Iterator[bytes]:
    field, event = ("refusal", "refusal") if part.get("type") == "refusal" else ("text", "output_text")
    logprobs: Object = {} if field == "refusal" else {"logprobs": part.get("logprobs") or []}
    yield numbered.event("response.content_part.added", **where, part={**part, field: ""})
    yield numbered.event(f"response.{event}.delta", **where, delta=part.get(field), **logprobs)
    yield numbered.event(f"response.{event}.done", **where, **{field: part.get(field)}, **logprobs)
    yield numbered.event("response.content_part.done", **where, part=part)
