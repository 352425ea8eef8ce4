"""The vote key of a message's tool calls."""

from __future__ import annotations

import json
from typing import cast

from keff.answers import canonical_json
from keff.narrow import Fields, fields, items


def tool_key(calls: object, ignored: frozenset[str] = frozenset()) -> str | None:
    """Return tool names and arguments as canonical JSON, independent of their order.

    Calls of one message are made side by side, so their order says nothing; nor do ids. Arguments that are
    ``ignored`` (timestamps, made-up ids), at any depth, do not count.
    """
    try:
        functions = [
            fields(fields(call)["function"] if "function" in fields(call) else fields(call)["custom"])
            for call in items(calls)
        ]
        named = [
            (json.dumps(each["name"]), canonical_json(_without_ignored(_arguments(each), ignored)))
            for each in functions
        ]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    written = [f"[{name},{given}]" for name, given in named if given is not None]
    if len(written) < len(named):
        return None
    return canonical_json('{"tool_calls":[' + ",".join(sorted(written)) + "]}")


def _arguments(function: Fields) -> str:
    """Return the arguments of a call as JSON: some servers give an object, and a custom tool takes a text."""
    if "input" in function:
        return json.dumps(function["input"])
    given = function.get("arguments")
    return given.strip() or "{}" if isinstance(given, str) else json.dumps(given or {})


def _without_ignored(arguments: str, ignored: frozenset[str]) -> str:
    return json.dumps(_without(json.loads(arguments), ignored)) if ignored else arguments


def _without(value: object, ignored: frozenset[str]) -> object:
    if isinstance(value, dict):
        inner = fields(cast("object", value)).items()
        return {name: _without(each, ignored) for name, each in inner if name not in ignored}
    if isinstance(value, list):
        return [_without(each, ignored) for each in items(cast("object", value))]
    return value
