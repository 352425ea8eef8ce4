"""Replies as server-sent events: chunks of chat, events of Responses, progress as comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from keff.gateway.http.errors import Problem
from keff.narrow import Fields, entries, fields, items
from keff.protocol.values import Object, sendable

# Headers of a stream that no proxy may hold back.
NOT_HELD = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def event(value: Fields) -> bytes:
    """Return one server-sent event."""
    return b"data: " + sendable(value) + b"\n\n"


def events_of(reply: Fields, *, include_usage: bool) -> bytes:
    """Return a finished reply, of chat or of Responses, as the events of a stream."""
    chat = "choices" in reply
    return b"".join(chunks(reply, include_usage=include_usage) if chat else response_events(reply))


def failure(problem: Problem) -> bytes:
    """Return the error event for a chat stream that has begun; the official client raises it."""
    return event({"error": problem.error()})


def chunks(reply: Fields, *, include_usage: bool) -> Iterator[bytes]:
    """Yield a finished chat reply as stream chunks.

    Of each choice role, content and end (of the first with the vote); usage where asked, ``[DONE]``.
    """
    base = {name: value for name, value in reply.items() if name not in ("choices", "usage", "keff")}
    base["object"] = "chat.completion.chunk"
    own: Object = {name: reply[name] for name in reply.keys() & {"keff"}}
    if include_usage:
        base["usage"] = None
    for index, choice in enumerate(entries(reply["choices"])):
        for delta in deltas(choice, index):
            yield event({**base, "choices": [delta]})
        end: Object = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
        yield event({**base, "choices": [end], **own})
        own = {}
    if include_usage:
        yield event({**base, "choices": [], "usage": reply.get("usage")})
    yield b"data: [DONE]\n\n"


def deltas(choice: Fields, index: int) -> Iterator[Object]:
    """Yield a finished choice as a stream's: its role, then its content."""
    message = fields(choice["message"])
    begun = None if message.get("content") is None else ""
    yield _delta(index, {"role": message.get("role") or "assistant", "content": begun})
    delta = _delta(index, _content(message))
    if choice.get("logprobs"):
        delta["logprobs"] = choice["logprobs"]
    yield delta


def _delta(index: int, content: Fields) -> Object:
    return {"index": index, "delta": content, "finish_reason": None}


def _content(message: Fields) -> Object:
    content = {name: value for name, value in message.items() if name != "role" and value is not None}
    if isinstance(content.get("tool_calls"), list):
        calls = items(content["tool_calls"])
        content["tool_calls"] = [{**fields(call), "index": place} for place, call in enumerate(calls)]
    return content


# The kind of an event of Responses, and what it holds beside its kind and number.
_Told: TypeAlias = tuple[str, Object]


def _numbered(events: Iterable[_Told]) -> Iterator[bytes]:
    """Yield events with their sequence numbers."""
    for number, (kind, told) in enumerate(events):
        body = {"type": kind, "sequence_number": number, **told}
        yield b"event: " + kind.encode() + b"\ndata: " + sendable(body) + b"\n\n"


def response_failure(problem: Problem, name: str) -> bytes:
    """Return a Responses stream that ends in an error: clients take none before a response is created."""
    error = problem.error()
    told = {name: error[name] for name in ("message", "code", "param")}
    begun: Object = {"id": name, "object": "response", "status": "in_progress", "output": []}
    return b"".join(_numbered([("response.created", {"response": begun}), ("error", told)]))


def response_events(reply: Fields) -> Iterator[bytes]:
    """Yield a finished Responses reply as stream events: created, its items one by one, completed."""
    return _numbered(_events(reply))


def _events(reply: Fields) -> Iterator[_Told]:
    begun: Object = {**reply, "status": "in_progress", "output": [], "usage": None}
    begun.pop("keff", None)
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for place, item in enumerate(entries(reply.get("output"))):
        yield from _item(place, item)
    ended = "response.incomplete" if reply.get("status") == "incomplete" else "response.completed"
    yield ended, {"response": reply}


def _item(place: int, item: Object) -> Iterator[_Told]:
    kind, where = str(item.get("type")), {"item_id": item.get("id"), "output_index": place}
    empty: Object = {**item, "status": "in_progress"}
    if kind == "message":
        empty["content"] = []
    elif kind == "function_call":
        empty["arguments"] = ""
    yield "response.output_item.added", {"output_index": place, "item": empty}
    if kind == "message":
        for index, part in enumerate(items(item.get("content"))):
            yield from _part({**where, "content_index": index}, fields(part))
    elif kind == "function_call":
        given = item.get("arguments")
        yield "response.function_call_arguments.delta", {**where, "delta": given}
        yield "response.function_call_arguments.done", {**where, "arguments": given}
    yield "response.output_item.done", {"output_index": place, "item": item}


def _part(where: Object, part: Object) -> Iterator[_Told]:
    field, event = ("refusal", "refusal") if part.get("type") == "refusal" else ("text", "output_text")
    logprobs: Object = {} if field == "refusal" else {"logprobs": part.get("logprobs") or []}
    yield "response.content_part.added", {**where, "part": {**part, field: ""}}
    yield f"response.{event}.delta", {**where, "delta": part.get(field), **logprobs}
    yield f"response.{event}.done", {**where, field: part.get(field), **logprobs}
    yield "response.content_part.done", {**where, "part": part}
