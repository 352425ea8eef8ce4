"""A request of Responses as the chat request that asks the same, and its answer back; pure.

For servers that know chat only. ``responses.chat_view`` is what a plan and the vote need to see of a request;
here nothing is left out that chat can say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from keff.narrow import entries, fields, is_array
from keff.protocol.responses import LENGTH
from keff.protocol.tokens import reasoning_of
from keff.protocol.values import Object, text_of

# What chat has no word for, or says in other words below; all else is handed on as it is.
OWN_WORDS = frozenset(
    {
        "background",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "store",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    }
)

# Of a turn that needs what a server keeps there is no chat request.
KEPT_BY_SERVERS = ("previous_response_id", "prompt")

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def needs_responses(body: Mapping[str, object]) -> str | None:
    """Return the field for which a request cannot be asked as chat, or None."""
    named = next((name for name in KEPT_BY_SERVERS if body.get(name) is not None), None)
    stored = any(item.get("type") == "item_reference" for item in entries(body.get("input")))
    return named or ("input" if stored else None)


def chat_request(body: Mapping[str, object]) -> Object:
    """Return the chat request that asks the same as a request of Responses."""
    chat = {name: value for name, value in body.items() if name not in OWN_WORDS}
    chat["messages"] = _messages(body)
    if body.get(LENGTH) is not None:
        chat["max_tokens"] = body[LENGTH]
    if tools := entries(body.get("tools")):
        chat["tools"] = [_below(tool, str(tool.get("type"))) for tool in tools]
    if (choice := body.get("tool_choice")) is not None:
        named = fields(choice)
        chat["tool_choice"] = _below(named, str(named.get("type"))) if "name" in named else choice
    said = fields(body.get("text"))
    form = fields(said.get("format"))
    if form and form.get("type") != "text":
        chat["response_format"] = _below(form, "json_schema") if "schema" in form else form
    more = {
        "verbosity": said.get("verbosity"),
        "reasoning_effort": fields(body.get("reasoning")).get("effort"),
    }
    return chat | {name: value for name, value in more.items() if value is not None}


def _below(given: Mapping[str, object], kind: str) -> Object:
    """Return what Responses writes flat as chat does: below the name of its kind."""
    return {"type": kind, kind: {name: value for name, value in given.items() if name != "type"}}


def _messages(body: Mapping[str, object]) -> list[Object]:
    messages: list[Object] = []
    if body.get("instructions") is not None:
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in entries(given):
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            call = _call(item)
            if messages and messages[-1].get("tool_calls"):
                messages[-1]["tool_calls"] = [*entries(messages[-1]["tool_calls"]), call]
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            told = {"tool_call_id": item.get("call_id"), "content": _content(item.get("output"))}
            messages.append({"role": "tool", **told})
        elif isinstance(item.get("role"), str):
            # Templates of open models know no developer.
            role = "system" if item["role"] == "developer" else item["role"]
            messages.append({"role": role, "content": _content(item.get("content"))})
    return messages


def _call(item: Mapping[str, object]) -> Object:
    if item.get("type") == "custom_tool_call":
        kind, said = "custom", {"name": item.get("name"), "input": item.get("input")}
    else:
        kind, said = "function", {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": kind, kind: said}


def _content(content: object) -> object:
    """Return content as chat has it: texts as one string, with pictures or files as parts."""
    if not is_array(content):
        return content
    parts = entries(content)
    if not any(part.get("type") in ("input_image", "input_file") for part in parts):
        return "".join(text_of([part]) or str(part.get("refusal") or "") for part in parts)
    return [_part(part) for part in parts]


def _part(part: Mapping[str, object]) -> Object:
    kind = part.get("type")
    if kind == "input_image":
        shown = {"url": part.get("image_url"), "detail": part.get("detail")}
        return {
            "type": "image_url",
            "image_url": {name: value for name, value in shown.items() if value is not None},
        }
    if kind == "input_file":
        return _below(part, "file")
    return {"type": "text", "text": text_of([part])}


def response_of(
    name: str, choice: Mapping[str, object], model: object, asked: Mapping[str, object]
) -> Object:
    """Return the response that says what a chat choice says; ``asked`` is the request that it answers."""
    message, finish = fields(choice.get("message")), str(choice.get("finish_reason"))
    status = "incomplete" if finish in INCOMPLETE else "completed"
    output: list[Object] = []
    if thought := reasoning_of(message):
        said = [{"type": "reasoning_text", "text": thought}]
        output.append({"type": "reasoning", "id": f"rs_{name}", "summary": [], "content": said})
    calls = entries(message.get("tool_calls"))
    if (text := text_of(message.get("content"))) or not calls:
        part: Object = {"type": "output_text", "text": text, "annotations": []}
        if message.get("refusal"):
            part = {"type": "refusal", "refusal": message["refusal"]}
        shown = {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": status}
        output.append({**shown, "content": [part]})
    output += [_called(call, f"fc_{place}_{name}") for place, call in enumerate(calls)]
    reason = {"reason": INCOMPLETE[finish]} if finish in INCOMPLETE else None
    return {
        "id": f"resp_{name}",
        "model": model,
        "status": status,
        "error": None,
        "incomplete_details": reason,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "output": output,
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "temperature": asked.get("temperature"),
        "top_p": asked.get("top_p"),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools") or [],
    }


def _called(call: Mapping[str, object], name: str) -> Object:
    custom = call.get("type") == "custom"
    said, field = fields(call.get(str(call.get("type") or "function"))), "input" if custom else "arguments"
    return {
        "type": "custom_tool_call" if custom else "function_call",
        "id": name,
        "call_id": call.get("id") or name,
        "name": said.get("name"),
        field: said.get(field) if isinstance(said.get(field), str) else json.dumps(said.get(field)),
        "status": "completed",
    }
