"""OpenAI's Responses in the words of chat, and back; pure.

A request becomes the chat request that asks the same (``chat_view``), so that a plan's terms and the kind of
its answer are found as in chat; what a plan fills in goes back into the request (``filled``). A response
becomes the chat choice that says the same (``choice_of``), so that it is read and voted as in chat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from keff.errors import EngineError
from keff.narrow import entries, fields, items
from keff.protocol.reply import body_error
from keff.protocol.values import Object, text_of

# Fields that are the same in both.
ALIKE = ("model", "temperature", "top_p")

# Tools that the client runs; all others are run by the server, once for each path.
OWN_TOOLS = frozenset({"function", "custom"})

LOGPROBS = "message.output_text.logprobs"
LENGTH, INCOMPLETE = "max_output_tokens", {"max_output_tokens": "length", "content_filter": "content_filter"}


# Of each kind of call: the field with what it is called with, and the name of its events.
CALLS = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}


def not_voted(body: Mapping[str, object]) -> str | None:
    """Return why a request cannot be answered by a vote, or None."""
    if body.get("background"):
        return "background"
    if body.get("conversation") is not None:
        return "conversation"
    kinds = {str(tool.get("type")) for tool in entries(body.get("tools"))}
    return "tools of the server" if kinds - OWN_TOOLS else None


def chat_view(body: Mapping[str, object]) -> Object:
    """Return the chat request that asks the same; what chat does not know is left out."""
    view = {name: body[name] for name in ALIKE if body.get(name) is not None}
    view["messages"] = _messages(body)
    if body.get(LENGTH) is not None:
        view["max_tokens"] = body[LENGTH]
    if body.get("tools"):
        view["tools"] = body["tools"]
    form = fields(fields(body.get("text")).get("format"))
    if form and form.get("type") != "text":
        view["response_format"] = form
    effort = fields(body.get("reasoning")).get("effort")
    if effort is not None:
        view["reasoning_effort"] = effort
    return view


def _messages(body: Mapping[str, object]) -> list[Object]:
    given, told = body.get("input"), body.get("instructions")
    messages: list[Object] = [{"role": "system", "content": told}] if told is not None else []
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in entries(given):
        kind = item.get("type")
        if isinstance(item.get("role"), str):
            messages.append({"role": item["role"], "content": item.get("content")})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "content": item.get("output")})
    return messages


def filled(body: Mapping[str, object], view: Mapping[str, object]) -> tuple[Object, list[str]]:
    """Return a request with what a plan put into its view, and the fields that it has no place for."""
    before, full = chat_view(body), dict(body)
    full.update({name: view[name] for name in ALIKE if name in view})
    rest: list[str] = []
    for name, value in view.items():
        if name in before or name in ALIKE:
            continue
        if name in ("max_tokens", "max_completion_tokens"):
            full[LENGTH] = value
        elif name == "reasoning_effort":
            full["reasoning"] = {**fields(body.get("reasoning")), "effort": value}
        else:
            rest.append(name)
    first, mine = entries(view["messages"])[:1], entries(before["messages"])
    if len(entries(view["messages"])) > len(mine) and first:
        full["instructions"] = first[0].get("content")
    return full, rest


def with_contract(body: Mapping[str, object], contract: str) -> Object:
    """Return a request whose last user message ends in the answer contract."""
    given = body.get("input")
    if isinstance(given, str):
        return {**body, "input": f"{given}\n\n{contract}"}
    parts = list(items(given))
    for place in range(len(parts) - 1, -1, -1):
        item = fields(parts[place])
        if item.get("role") == "user":
            content = item.get("content")
            if isinstance(content, str):
                more: object = f"{content}\n\n{contract}"
            else:
                more = [*items(content), {"type": "input_text", "text": contract}]
            parts[place] = {**item, "content": more}
            break
    return {**body, "input": parts}


def choice_of(response: Mapping[str, object]) -> Object:
    """Return the chat choice that says what a response says.

    Raises EngineError for a body that is no response, or one that failed.
    """
    if response.get("error"):
        raise body_error(response["error"])
    if not isinstance(response.get("output"), list) or response.get("status") == "failed":
        raise EngineError("the server's answer is not a response: it has no output")
    message: Object = {"role": "assistant", "content": ""}
    calls: list[Object] = []
    logprobs: list[Object] = []
    for item in entries(response["output"]):
        kind = item.get("type")
        if kind == "message":
            _add_message(message, logprobs, item)
        elif kind == "function_call":
            calls.append(_call(item, item.get("arguments")))
        elif kind == "custom_tool_call":
            calls.append(_call(item, json.dumps(item.get("input"))))
        elif kind == "reasoning":
            thought = text_of(item.get("content")) or text_of(item.get("summary"))
            message["reasoning_content"] = text_of(message.get("reasoning_content")) + thought
    if calls:
        message["tool_calls"] = calls
    reason = fields(response.get("incomplete_details")).get("reason")
    finish = INCOMPLETE.get(str(reason), "length") if response.get("status") == "incomplete" else "stop"
    choice: Object = {"index": 0, "message": message, "finish_reason": finish}
    return choice | {"logprobs": {"content": logprobs}} if logprobs else choice


def _add_message(message: Object, logprobs: list[Object], item: Mapping[str, object]) -> None:
    for part in entries(item.get("content")):
        if part.get("type") == "refusal":
            message["refusal"] = part.get("refusal") or "refused"
        else:
            message["content"] = text_of(message["content"]) + text_of([part])
            logprobs += entries(part.get("logprobs"))


def _call(item: Mapping[str, object], arguments: object) -> Object:
    function = {"name": item.get("name"), "arguments": arguments}
    return {"id": item.get("call_id"), "type": "function", "function": function}


USAGE = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
DETAILS = {
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}


def chat_usage(usage: object) -> object:
    """Return a response's usage under the names of chat; what is no object stays what it is."""
    if not isinstance(usage, dict):
        return usage
    names = {**USAGE, **DETAILS}
    return {names.get(name, name): value for name, value in fields(cast("object", usage)).items()}


def response_usage(usage: Mapping[str, object]) -> Object:
    """Return a usage of chat under the names of responses."""
    names = {chat: own for own, chat in {**USAGE, **DETAILS}.items()}
    told: Object = {names.get(name, name): value for name, value in usage.items()}
    told.setdefault("input_tokens_details", {"cached_tokens": 0})
    told.setdefault("output_tokens_details", {"reasoning_tokens": 0})
    return told
