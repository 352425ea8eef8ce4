"""The fields of a chat request in the OpenAI form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from keff.errors import UsageError
from keff.protocol.values import Object
from keff.records import Message, Sampling


def json_object(given: str | Mapping[str, object] | None, option: str) -> Object:
    """Return an option that is a JSON object, given as text or as a mapping; raises UsageError otherwise."""
    try:
        read: object = json.loads(given) if isinstance(given, str) else dict(given or {})
    except ValueError as error:
        raise UsageError(f"{option} is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise UsageError(f"{option} must be a JSON object")
    return cast("Object", read)


def chat_body(messages: Sequence[Message], sampling: Sampling, n: int) -> Object:
    """Return the fields of a chat request that every OpenAI-compatible server knows."""
    body: Object = {
        "messages": [dict(message) for message in messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }
    if n > 1:
        body["n"] = n
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    return body


def template_thinking(budget: int | None) -> Object:
    """Return the field by which open servers switch thinking on or off in the chat template.

    It takes no number: ``max_tokens`` bounds thinking and answer together.
    """
    return {} if budget is None else {"chat_template_kwargs": {"enable_thinking": budget > 0}}


def effort_thinking(budget: int | None) -> Object:
    """Return the hosted servers' ``reasoning_effort`` for a token budget.

    0 is none, up to 2,048 low, up to 8,192 medium, beyond that high.
    """
    if budget is None:
        return {}
    levels = ((0, "none"), (2048, "low"), (8192, "medium"))
    return {"reasoning_effort": next((level for most, level in levels if budget <= most), "high")}
