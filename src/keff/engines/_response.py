"""Read chat responses of OpenAI-compatible servers into completions; pure.

How tokens are counted. One path in a request: the server's ``usage``. Several paths: the entries of each
path's log-probabilities, because some servers' usage counts the first path only; what a usage sum holds
beyond that (hidden thinking) is divided by the length of the hidden text. Several paths without
log-probabilities: the usage sum divided by the length of text. Neither: one token for four characters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from keff.errors import EngineError
from keff.records import Completion, FinishReason, Logprobs

FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "abort": "cancelled",
    "cancelled": "cancelled",
}

Choice = Mapping[str, Any]


class RepeatedError(EngineError):
    """A server sent two paths under one index; with fewer paths in a request it may not."""


def finish_reason(reason: Any) -> FinishReason:
    """Return our name of a server's finish reason; one that is unknown counts as a plain stop."""
    return FINISH.get(reason, "stop") if isinstance(reason, str) else "stop"


def summarize(logprobs: Iterable[float]) -> Logprobs | None:
    """Summarise the token log-probabilities of one path; None when there are none.

    ``bottom`` is the mean of the lowest tenth, of at least one token. Values that are not finite are left
    out.
    """
    known = sorted(filter(math.isfinite, logprobs))
    if not known:
        return None
    tenth = known[: math.ceil(len(known) / 10)]
    total = math.fsum(known)
    return Logprobs(total / len(known), math.fsum(tenth) / len(tenth), total)


def fields(value: Any) -> dict[str, Any]:
    """Return ``value`` when it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: Any) -> list[dict[str, Any]]:
    """Return the objects in ``value`` when it is a JSON array, else nothing."""
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    return [part if isinstance(part, dict) else {} for part in parts]


def choices_of(response: Any) -> list[Choice]:
    """Return the choices of a response in the order of their indices.

    Raises EngineError for a body that is no chat response: an error in disguise, or no choices; and
    RepeatedError when an index is repeated.
    """
    body = fields(response)
    if body.get("error"):
        raise body_error(body["error"])
    choices = entries(body.get("choices"))
    if not choices:
        raise EngineError("the server's answer is not a chat completion: it has no choices")
    found: dict[int, Choice] = {}
    for position, choice in enumerate(choices):
        index = choice.get("index", position)
        if not isinstance(index, int) or not fields(choice.get("message")):
            raise EngineError("the server's answer has a malformed choice")
        if index in found:
            raise RepeatedError(f"the server's answer has choice {index} twice")
        found[index] = choice
    return [found[index] for index in sorted(found)]


def body_error(error: Any) -> EngineError:
    """Return the EngineError for an error object in a body.

    Transient unless it names a fault of ours (4xx).
    """
    detail = fields(error)
    code = detail.get("code")
    ours = isinstance(code, int) and 400 <= code < 500 and code not in (408, 409, 429)
    return EngineError(
        f"the server answered with an error: {detail.get('message', error)}", transient=not ours
    )


def completions(response: Mapping[str, Any], choices: Sequence[Choice], seconds: float) -> list[Completion]:
    """Return one completion a choice; tokens are counted as the module says."""
    usage = fields(response.get("usage"))
    details = fields(usage.get("prompt_tokens_details"))
    counts = token_counts(choices, usage.get("completion_tokens"))
    prompt, cached = int(usage.get("prompt_tokens") or 0), int(details.get("cached_tokens") or 0)
    return [
        _completion(choice, count, prompt, cached, seconds)
        for choice, count in zip(choices, counts, strict=True)
    ]


def _completion(choice: Choice, tokens: int, prompt: int, cached: int, seconds: float) -> Completion:
    message = fields(choice["message"])
    finish = finish_reason(choice.get("finish_reason"))
    filtered = "stopped by a content filter" if finish == "content_filter" else None
    return Completion(
        text_of(message.get("content")),
        finish,
        tokens,
        prompt,
        cached,
        reasoning=_reasoning(message) or None,
        refusal=message.get("refusal") or filtered,
        logprobs=summarize(token_logprobs(choice)),
        seconds=seconds,
    )


def text_of(content: Any) -> str:
    """Return a message's content as text: it is a string, nothing, or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in entries(content))


def _reasoning(message: Mapping[str, Any]) -> str:
    return text_of(message.get("reasoning_content") or message.get("reasoning"))


def token_logprobs(choice: Choice) -> list[float]:
    """Return the log-probability of each generated token, as far as the server gives them."""
    content = fields(choice.get("logprobs")).get("content")
    try:
        # By far the most of a long answer is this list: no checks where it is as it should be.
        found: list[Any] = [entry["logprob"] for entry in cast("list[Any]", content)]
    except (TypeError, KeyError):
        found = [entry.get("logprob") for entry in entries(content)]
    if set(map(type, found)) == {float}:
        return found
    return [float(value) for value in found if isinstance(value, (int, float))]


def token_counts(choices: Sequence[Choice], usage: int | None) -> list[int]:
    """Return how many tokens each choice took; see the module for the rule."""
    if len(choices) == 1 and usage is not None:
        return [usage]
    counts = [len(token_logprobs(choice)) for choice in choices]
    hidden = [len(_reasoning(choice["message"])) for choice in choices]
    if all(counts):
        extra = max(0, (usage or 0) - sum(counts))
        return [count + more for count, more in zip(counts, apportion(extra, hidden), strict=True)]
    lengths = [
        len(text_of(choice["message"].get("content"))) + more
        for choice, more in zip(choices, hidden, strict=True)
    ]
    return apportion(usage, lengths) if usage is not None else [math.ceil(length / 4) for length in lengths]


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide ``total`` into whole parts in proportion to ``weights`` (equally when they are all zero)."""
    shares = weights if any(weights) else [1] * len(weights)
    bounds = [0]
    for share in shares:
        bounds.append(bounds[-1] + share)
    cuts = [total * bound // bounds[-1] for bound in bounds]
    return [after - before for before, after in pairwise(cuts)]


class Assembler:
    """Puts the chunks of a streamed response together, into what comes without streaming."""

    def __init__(self) -> None:
        self._choices: dict[int, dict[str, Any]] = {}
        self._ends: Counter[int] = Counter()
        self._usage: dict[str, Any] | None = None
        self._error: Any = None

    def take(self, chunk: Mapping[str, Any]) -> None:
        """Add one chunk."""
        self._error = chunk.get("error") or self._error
        self._usage = chunk.get("usage") or self._usage
        for part in entries(chunk.get("choices")):
            index = part.get("index", 0)
            choice = self._choices.setdefault(
                index,
                {
                    "index": index,
                    "message": {"content": ""},
                    "logprobs": {"content": []},
                    "finish_reason": None,
                },
            )
            self._ends[index] += part.get("finish_reason") is not None
            _add_delta(choice, part)

    def response(self) -> dict[str, Any]:
        """Return the whole response; raises EngineError when it broke off before a path's end.

        A choice that ends twice is two paths mixed into one: RepeatedError.
        """
        if self._error is None and not all(self._ends[index] for index in self._choices):
            raise EngineError("the server closed the connection in the middle of a path")
        if max(self._ends.values(), default=0) > 1:
            raise RepeatedError("the server's stream ends a choice twice")
        return {"choices": list(self._choices.values()), "usage": self._usage, "error": self._error}


def _add_delta(choice: dict[str, Any], part: Mapping[str, Any]) -> None:
    delta = fields(part.get("delta"))
    message = fields(choice["message"])
    for name, value in (
        ("content", text_of(delta.get("content"))),
        ("reasoning_content", _reasoning(delta)),
        ("refusal", delta.get("refusal")),
    ):
        if value:
            message[name] = message.get(name, "") + value
    choice["logprobs"]["content"] += entries(fields(part.get("logprobs")).get("content"))
    choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]
