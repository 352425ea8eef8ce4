"""Read chat responses of OpenAI-compatible servers into completions; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keff.errors import EngineError
from keff.narrow import entries, fields
from keff.protocol.refusals import FATAL, PASSING
from keff.protocol.tokens import Choice, counts_of, reasoning_of, summarize, token_counts, token_logprobs
from keff.protocol.values import Object, storable, text_of, words
from keff.records import Completion, FinishReason

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


class RepeatedError(EngineError):
    """A server sent two paths under one index; with fewer paths in a request it may not."""


def finish_reason(reason: object) -> FinishReason:
    """Return our name of a server's finish reason; one that is unknown counts as a plain stop."""
    return FINISH.get(reason, "stop") if isinstance(reason, str) else "stop"


def choices_of(response: object) -> list[Choice]:
    """Return the choices of a response in the order of their indices.

    Raises EngineError for a body that is no chat response: an error in disguise, or no choices; and
    RepeatedError for a duplicate index.
    """
    body = fields(response)
    if body.get("error"):
        raise body_error(body["error"])
    choices = entries(body.get("choices"))
    if not choices:
        raise EngineError("the server's answer is not a chat completion: it has no choices")
    by_index: dict[int, Choice] = {}
    for position, choice in enumerate(choices):
        index = choice.get("index", position)
        if not isinstance(index, int) or not _is_message(choice.get("message")):
            raise EngineError("the server's answer has a malformed choice")
        if index in by_index:
            raise RepeatedError("the server's answer has two choices with one index")
        by_index[index] = choice
    return [by_index[index] for index in sorted(by_index)]


def _is_message(message: object) -> bool:
    """Return whether a message can be read: one whose content has another type would be kept as empty."""
    body = fields(message)
    return bool(body) and isinstance(body.get("content"), str | list | None)


def body_error(error: object) -> EngineError:
    """Return the EngineError for an error object in a body.

    Transient unless it names a fault of ours (4xx).
    """
    detail = fields(error)
    code = detail.get("code")
    ours = isinstance(code, int) and 400 <= code < 500 and code not in PASSING
    said = words(detail.get("message")) or words(error)
    return EngineError(
        f"the server answered with an error: {said}", transient=not ours, refused=ours and code not in FATAL
    )


def completions(
    response: Mapping[str, object], choices: Sequence[Choice], seconds: float
) -> list[Completion]:
    """Return one completion per choice; tokens are counted as ``tokens`` says."""
    given = counts_of(response.get("usage"))
    counts = token_counts(choices, given.output)
    estimated = given.odd or (given.output is None and not all(map(token_logprobs, choices)))
    return [
        Completion(
            text=storable(text_of(fields(choice["message"]).get("content"))),
            finish=(finish := finish_reason(choice.get("finish_reason"))),
            tokens=tokens,
            prompt_tokens=given.prompt,
            cached_tokens=given.cached,
            reasoning=storable(reasoning_of(fields(choice["message"]))) or None,
            refusal=words(fields(choice["message"]).get("refusal")) or FILTERED.get(finish),
            logprobs=summarize(token_logprobs(choice)),
            seconds=seconds,
            estimated=estimated,
        )
        for choice, tokens in zip(choices, counts, strict=True)
    ]


FILTERED: dict[FinishReason, str] = {"content_filter": "stopped by a content filter"}


def filtered_response(said: str, n: int) -> Object:
    """Return the response that n paths stand for whose request a content filter stopped."""
    choice = {"message": {"content": "", "refusal": said}, "finish_reason": "content_filter"}
    return {"choices": [{"index": index, **choice} for index in range(n)], "usage": {"completion_tokens": 0}}
