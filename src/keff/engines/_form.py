"""The OpenAI chat form: what engines send and how they read what comes back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from keff.records import FinishReason, Logprobs, Message, Sampling

FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "abort": "cancelled",
    "cancelled": "cancelled",
}


def finish_reason(reason: str | None) -> FinishReason:
    """Return our name of a server's finish reason; one that is unknown counts as a plain stop."""
    return FINISH.get(reason or "stop", "stop")


def summarize(logprobs: Iterable[float]) -> Logprobs | None:
    """Summarise the token log-probabilities of one path; None when there are none.

    ``bottom`` is the mean of the lowest tenth, of at least one token. Values that are not finite are left out.
    """
    known = sorted(value for value in logprobs if math.isfinite(value))
    if not known:
        return None
    tenth = known[: math.ceil(len(known) / 10)]
    total = math.fsum(known)
    return Logprobs(total / len(known), math.fsum(tenth) / len(tenth), total)


def chat_body(messages: Sequence[Message], sampling: Sampling, n: int) -> dict[str, Any]:
    """Return the fields of a chat request that every OpenAI-compatible server knows."""
    body: dict[str, Any] = {
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


def template_thinking(budget: int | None) -> dict[str, Any]:
    """Return the field by which open servers switch thinking on or off in the chat template.

    They take no budget here: ``max_tokens`` bounds thinking and answer together.
    """
    return {} if budget is None else {"chat_template_kwargs": {"enable_thinking": budget > 0}}
