"""Server-sent events in the OpenAI form: a decided reply as chunks, progress as comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keff.gateway.http.errors import Problem
from keff.narrow import entries, fields, items
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
