"""The reply to a voted request: a path with the winning answer, total usage, and the vote.

Whole, or as server-sent events: chunks of chat, events of Responses, progress as comments.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from keff.gateway.http.errors import Problem
from keff.gateway.vote.vote import Drawn, Outcome
from keff.narrow import entries, fields, items
from keff.protocol.reply import counts_of
from keff.protocol.responses import response_of, response_usage
from keff.protocol.values import MOST_TOKENS, Object, count, sendable, text_of
from keff.records import stable_hash

# Headers are kept short; the whole key stands in the body's keff object.
LONGEST_KEY = 200


def winner(outcome: Outcome, reply: str) -> Drawn:
    """Return the path to show: one with the winning answer, else the first of the last branch asked.

    ``shortest`` is by characters of the visible text, the first among equals.
    """
    if outcome.stop.answer is None:
        return next(path for path in outcome.paths if path.branch == outcome.paths[-1].branch)
    holders = [path for path in outcome.paths if path.key == outcome.stop.answer] or list(outcome.paths)
    if reply == "first":
        return holders[0]
    return min(holders, key=lambda path: len(text_of(fields(path.choice["message"]).get("content"))))


def total_usage(paths: Iterable[Drawn]) -> Object:
    """Return the total usage billed upstream, field by field, each response counted once."""
    bodies = {id(path.body): path.body for path in paths}
    total: Object = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    for body in bodies.values():
        _add(total, fields(body.get("usage")))
    total["total_tokens"] = sum(_number(total[name]) for name in ("prompt_tokens", "completion_tokens"))
    return total


def _add(total: Object, more: Mapping[str, object], *, details: bool = True) -> None:
    """Add the numbers of a usage to a total, ``details`` one level deep; absurd ones are skipped."""
    for name, value in more.items():
        before = total.get(name)
        if isinstance(value, dict):
            if not details or isinstance(before, int | float):
                continue
            total[name] = inner = fields(before)
            _add(inner, cast("Object", value), details=False)
        elif not isinstance(before, dict) and (amount := _amount(value)) is not None:
            total[name] = amount + _number(before)


def _number(value: object) -> int | float:
    return value if isinstance(value, int | float) else 0


def _amount(value: object) -> int | float | None:
    """Return a usage number (tokens, dollars or seconds), or None for any other value."""
    return value if isinstance(value, float) and 0 <= value <= MOST_TOKENS else count(value)


def votes_of(paths: Sequence[Drawn]) -> dict[str, int]:
    """Return the votes of each answer, most first; long answers are cut and end in their hash."""
    counts = Counter(path.key for path in paths if path.key is not None)
    return {shown(key): count for key, count in counts.most_common()}


def shown(key: str) -> str:
    """Return a vote key as shown in replies."""
    return key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}...#{stable_hash(key)[:12]}"


def vote_share(outcome: Outcome) -> float:
    """Return the winner's share of the votes; 0 without a winner."""
    keys = [path.key for path in outcome.paths if path.key is not None]
    return keys.count(outcome.stop.answer) / len(keys) if keys and outcome.stop.answer is not None else 0.0


def vote_object(
    outcome: Outcome,
    policy: str,
    stale: Sequence[str],
    usage: Mapping[str, object],
    uncounted: int,
    dollars: float | None,
) -> Object:
    """Return the ``keff`` object of a reply."""
    stop, bill = outcome.stop, counts_of(usage)
    answer = None if stop.answer is None else shown(stop.answer)
    return {
        "policy": policy,
        "answer": answer,
        "votes": votes_of(outcome.paths),
        "share": vote_share(outcome),
        "weight": {"value": stop.weight, "kind": stop.kind},
        "paths": len(outcome.paths),
        "abstentions": sum(path.key is None for path in outcome.paths),
        "unused": len(outcome.unused),
        "failed": outcome.failed,
        "cancelled": outcome.cancelled,
        "stop": outcome.cause,
        "stop_reason": stop.reason,
        "stale_plan": list(stale),
        "cost": {
            "prompt_tokens": bill.prompt,
            "cached_tokens": bill.cached,
            "completion_tokens": bill.output or 0,
            "uncounted_answers": uncounted,
            "dollars": dollars,
        },
    }


def all_paths(paths: Sequence[Drawn]) -> list[Object]:
    """Return every path that was consumed, in launch order, with its vote."""
    return [
        {
            "answer": None if path.key is None else shown(path.key),
            "message": path.choice.get("message"),
            "finish_reason": path.choice.get("finish_reason"),
        }
        for path in paths
    ]


def completion(
    name: str, paths: Sequence[Drawn], usage: Mapping[str, object], vote: Mapping[str, object]
) -> Object:
    """Return the chat reply: the response of the first path, with these paths as its choices.

    ``name`` if it has no id.
    """
    return {
        "id": name,
        "created": int(time.time()),
        **paths[0].body,
        "object": "chat.completion",
        "choices": [{**path.choice, "index": index} for index, path in enumerate(paths)],
        "usage": usage,
        "keff": vote,
    }


def response(
    name: str,
    path: Drawn,
    usage: Mapping[str, object],
    vote: Mapping[str, object],
    asked: Mapping[str, object] | None = None,
) -> Object:
    """Return the Responses reply: the shown path's response with the usage of all paths.

    ``asked`` is the request where the path answers a chat request that stands for it.
    """
    own = path.body.get("response")
    if asked is not None:
        own = response_of(name, path.choice, path.body.get("model"), asked)
    return {
        "id": name,
        "object": "response",
        "created_at": int(time.time()),
        **fields(own),
        "usage": response_usage(usage),
        "keff": vote,
    }


DONE = b"data: [DONE]\n\n"


def event(value: Mapping[str, object]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + sendable(value) + b"\n\n"


def comment(text: str) -> bytes:
    """Return a server-sent comment, which clients skip and which keeps the connection open."""
    return f": {text}\n\n".encode()


def failure(problem: Problem) -> bytes:
    """Return the error event for a chat stream that has begun; the official client raises it."""
    return event({"error": problem.error()})


def chunks(reply: Mapping[str, object], *, include_usage: bool) -> Iterator[bytes]:
    """Yield a finished chat reply as stream chunks.

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


# The kind of an event of Responses, and what it holds beside its kind and number.
_Told: TypeAlias = tuple[str, Object]


def _numbered(events: Iterable[_Told]) -> Iterator[bytes]:
    """Yield events with their sequence numbers."""
    for number, (kind, told) in enumerate(events):
        body = {"type": kind, "sequence_number": number, **told}
        yield b"event: " + kind.encode() + b"\ndata: " + sendable(body) + b"\n\n"


def response_failure(problem: Problem) -> bytes:
    """Return the error event for a Responses stream that has begun."""
    error = problem.error()
    return next(_numbered([("error", {name: error[name] for name in ("message", "code", "param")})]))


def response_events(reply: Mapping[str, object]) -> Iterator[bytes]:
    """Yield a finished Responses reply as stream events: created, its items one by one, completed."""
    return _numbered(_events(reply))


def _events(reply: Mapping[str, object]) -> Iterator[_Told]:
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
