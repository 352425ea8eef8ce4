"""Conversion between OpenAI's Responses API and chat completions; pure.

A request becomes the chat request that asks the same (``chat_view``), so that the kind of its answer is found
as in chat. A response becomes the chat choice that says the same (``choice_of``), so that it is read and
voted as in chat.

Where the upstream is asked by chat, a request becomes the whole chat request that asks the same, with nothing
left out that chat can say (``chat_request``), and its answer goes back (``response_of``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from keff.errors import EngineError
from keff.narrow import Fields, entries, fields, is_array
from keff.protocol.reply import body_error, finish_reason, is_fault, reasoning_of
from keff.protocol.values import Object, text_of

# What the model and the kind of an answer are found from.
VIEWED = frozenset({"model", "messages", "max_tokens", "tools", "response_format"})

# What a request for responses names in ``include`` to get log-probabilities; chat has a field of its own for
# it.
LOGPROBS = "message.output_text.logprobs"
# The name of the limit on length here.
LENGTH = "max_output_tokens"


def not_voted(body: Fields) -> str | None:
    """Return why a Responses request cannot be answered by a vote, or None."""
    if body.get("background"):
        return "background"
    if body.get("conversation") is not None:
        return "conversation"
    kinds = {str(tool.get("type")) for tool in entries(body.get("tools"))}
    # Functions are run by the client; most other tools by the server, once for each path.
    return "tools other than functions" if kinds - {"function"} else None


def chat_view(body: Fields) -> Object:
    """Return a Responses request as chat, without fields that chat lacks."""
    return {name: value for name, value in chat_request(body).items() if name in VIEWED and value is not None}


def choice_of(response: Fields) -> Object:
    """Return a response as a chat choice.

    Raises EngineError for a body that is no response, or one that failed.
    """
    if response.get("error"):
        raise body_error(response["error"])
    status = str(response.get("status") or "completed").lower()
    if not isinstance(response.get("output"), list) or status == "failed":
        raise EngineError("the server's answer is not a response: it has no output")
    items = entries(response["output"])
    message, logprobs = _message(items)
    choice: Object = {"index": 0, "message": message, "finish_reason": "stop"}
    if status == "completed" and any(item.get("status") == "incomplete" for item in items):
        status = "incomplete"
    if status != "completed":
        choice["finish_reason"] = fields(response.get("incomplete_details")).get("reason") or status
        if is_fault(choice):
            raise body_error({"message": f"the response is {status}: {choice['finish_reason']}"})
    return choice | {"logprobs": {"content": logprobs}} if logprobs else choice


def _message(items: Sequence[Fields]) -> tuple[Object, list[Object]]:
    """Return the items of a response as one message of chat, and its log-probabilities."""
    message: Object = {"role": "assistant", "content": ""}
    texts, thoughts, logprobs = list[str](), list[str](), list[Object]()
    for item in items:
        kind = item.get("type")
        if kind == "reasoning" or item.get("phase") == "commentary":
            thoughts.append(text_of(item.get("content"), thoughts=True) or text_of(item.get("summary")))
        elif kind == "message":
            texts.append(_text(item, message, logprobs))
    # What one message ends with is no word with what the next begins with.
    message["content"] = "\n".join(filter(None, texts))
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls := [_call(item) for item in items if item.get("type") == "function_call"]:
        message["tool_calls"] = calls
    return message, logprobs


def _text(item: Fields, message: Object, logprobs: list[Object]) -> str:
    """Return the text of a message; adds its refusal to ``message``, and its log-probabilities."""
    said = item.get("content")
    parts: list[Object] = []
    for part in entries(said):
        if part.get("type") == "refusal":
            message["refusal"] = part.get("refusal") or "refused"
        else:
            parts.append(part)
            logprobs += entries(part.get("logprobs"))
    return said if isinstance(said, str) else text_of(parts)


def _call(item: Fields) -> Object:
    """Return a function call in chat's form."""
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}


# Counts of tokens have other names in the two interfaces: what is billed is the same.
USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}


def chat_usage(usage: object) -> object:
    """Return a response's usage under chat's field names; non-objects unchanged."""
    if not isinstance(usage, dict):
        return usage
    return {USAGE.get(name, name): value for name, value in fields(cast("object", usage)).items()}


def response_usage(usage: Fields) -> Object:
    """Return a chat usage under the Responses API's field names."""
    names = {chat: own for own, chat in USAGE.items()}
    told: Object = {names.get(name, name): value for name, value in usage.items()}
    told.setdefault("input_tokens_details", {"cached_tokens": 0})
    told.setdefault("output_tokens_details", {"reasoning_tokens": 0})
    return told


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

# Of a turn that needs what a server keeps there is no chat request, nor of calls of what is no function.
KEPT_BY_SERVERS = ("previous_response_id", "prompt")
NOT_IN_CHAT = ("item_reference", "custom_tool_call")

# Back again: why a chat reply broke off, as a response says it.
REASON = {"length": "max_output_tokens", "content_filter": "content_filter"}


def needs_responses(body: Fields) -> str | None:
    """Return the field that prevents a request from being sent as chat, or None."""
    named = next((name for name in KEPT_BY_SERVERS if body.get(name) is not None), None)
    unknown = any(item.get("type") in NOT_IN_CHAT for item in entries(body.get("input")))
    return named or ("input" if unknown else None)


def chat_request(body: Fields) -> Object:
    """Return the complete chat request equivalent to a Responses request."""
    chat = {name: value for name, value in body.items() if name not in OWN_WORDS}
    chat["messages"] = _chat_messages(body)
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


def _below(given: Fields, kind: str) -> Object:
    """Return a flat field of Responses nested as in chat, under the name of its type."""
    return {"type": kind, kind: {name: value for name, value in given.items() if name != "type"}}


def _chat_messages(body: Fields) -> list[Object]:
    messages: list[Object] = []
    if body.get("instructions") is not None:
        messages.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in entries(given):
        kind = item.get("type")
        if kind == "function_call":
            call = _call(item)
            if messages and messages[-1].get("tool_calls"):
                messages[-1]["tool_calls"] = [*entries(messages[-1]["tool_calls"]), call]
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            told = {"tool_call_id": item.get("call_id"), "content": _content(item.get("output"))}
            messages.append({"role": "tool", **told})
        elif isinstance(item.get("role"), str):
            # Templates of open models know no developer.
            role = "system" if item["role"] == "developer" else item["role"]
            messages.append({"role": role, "content": _content(item.get("content"))})
    return messages


def _content(content: object) -> object:
    """Return content in chat's form: texts joined, or parts with pictures or files."""
    if not is_array(content):
        return content
    parts = entries(content)
    if not any(part.get("type") in ("input_image", "input_file") for part in parts):
        return "".join(text_of([part]) or str(part.get("refusal") or "") for part in parts)
    return [_part(part) for part in parts]


def _part(part: Fields) -> Object:
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


def response_of(name: str, choice: Fields, model: object, asked: Fields) -> Object:
    """Return a chat choice as a response to the request ``asked``."""
    message, finish = fields(choice.get("message")), finish_reason(choice.get("finish_reason"))
    status = "incomplete" if finish in REASON else "completed"
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
    output += [_call_item(call, f"fc_{place}_{name}") for place, call in enumerate(calls)]
    reason = {"reason": REASON[finish]} if finish in REASON else None
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


def _call_item(call: Fields, name: str) -> Object:
    said = fields(call.get("function"))
    given = said.get("arguments")
    return {
        "type": "function_call",
        "id": name,
        "call_id": call.get("id") or name,
        "name": said.get("name"),
        "arguments": given if isinstance(given, str) else json.dumps(given),
        "status": "completed",
    }
