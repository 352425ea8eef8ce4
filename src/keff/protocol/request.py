"""The fields of a chat request in the OpenAI form, and how many paths one request may ask for."""

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


# Answers in a row with too few paths, or with one twice, after which a server is taken to share no requests:
# one may be a passing fault, and the paths that it lacks are asked for again either way.
ODD = 3


class Sharing:
    """The most paths per request.

    Lowered when the server refuses ``n``, or ignores it several times in a row.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._odd_in_row = 0

    def refused(self, n: int) -> None:
        """Note that the server refused n paths and gave one to the same request."""
        self.most = min(self.most, (n + 1) // 2 if n > 2 else 1)

    def came(self, n: int, paths: int) -> None:
        """Note that so many of n paths came; a path that came twice counts as none."""
        if n == 1:
            return
        self._odd_in_row = self._odd_in_row + 1 if paths < n else 0
        if self._odd_in_row >= ODD:
            self.most = 1
