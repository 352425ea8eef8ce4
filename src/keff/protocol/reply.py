"""Parsing of OpenAI-compatible chat responses into completions, whole or in chunks; pure.

How many tokens an answer took: one path in a request, the server's ``usage``. Several paths: the entries of
each path's log-probabilities, because some servers' usage counts the first path only; what a usage sum holds
beyond that (hidden thinking)
is divided by the length of the hidden text. Several paths without log-probabilities: the usage sum divided
by the length of text. Neither: one token per four characters. A count that cannot be right (negative, a text,
10^30) is taken as missing, and the completion says that its tokens are an estimate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Annotated, NamedTuple, TypedDict, cast

import msgspec

from keff.errors import EngineError
from keff.narrow import Fields, entries, fields, is_array
from keff.protocol.server import FATAL, PASSING
from keff.protocol.values import (
    HIGHEST_LOGPROB,
    LOWEST_LOGPROB,
    Object,
    count,
    decoded,
    index_of,
    is_logprob,
    sendable,
    storable,
    text_of,
    words,
)
from keff.records import Completion, FinishReason, Logprobs

ChoiceObject = Fields


class Token(msgspec.Struct, gc=False):
    """Log-probability entry of one generated token, with the fields that are used."""

    token: str
    logprob: Annotated[float, msgspec.Meta(ge=LOWEST_LOGPROB, le=HIGHEST_LOGPROB)]


class _Choice(TypedDict, total=False):
    index: object
    message: object
    finish_reason: object
    logprobs: dict[str, list[Token] | None] | None


class _Reply(TypedDict, total=False):
    id: object
    choices: list[_Choice]
    usage: object
    error: object
    data: object  # of a list of models
    object: object  # "error" of some servers, with the two below
    message: object
    code: object


_REPLY = msgspec.json.Decoder(_Reply)


def reply_of(raw: bytes) -> Object:
    """Return a parsed chat response or model list; unusual ones with all their fields.

    Most of its bytes are of tokens: their bytes, and those that might have come instead. To skip these takes
    a quarter of the time. Raises ValueError for what is not JSON.
    """
    try:
        return cast("Object", _REPLY.decode(raw))
    except (ValueError, RecursionError):
        return fields(decoded(raw))


class Counts(NamedTuple):
    """Token counts of one response; ``output`` is None without a credible number.

    ``odd`` says that it gave something else than a number of tokens.
    """

    prompt: int = 0
    cached: int = 0
    output: int | None = None
    odd: bool = False


NOTHING = Counts()


# Where servers state the tokens of a prompt that came from a cache, beside the details that OpenAI has.
# Anthropic counts those that it read, and those that it wrote, beside the prompt.
CACHED, READ, WRITTEN = (
    ("cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens"),
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


# Where the parts of a prompt and of a completion are told: in chat, in Responses, and by Mistral.
DETAILS = (
    ("prompt_tokens_details", "input_tokens_details", "prompt_token_details"),
    ("completion_tokens_details", "output_tokens_details"),
)


def counts_of(usage: object) -> Counts:
    """Return the counts of a response's ``usage``, under chat's field names or those of Responses.

    Of servers that count hidden reasoning apart, it is output: what the total holds beyond prompt and
    completion, or reasoning of more tokens than the completion has.
    """
    if usage is None:
        return NOTHING
    stated = fields(usage)
    asked, gave = (
        stated.get(own) if not stated.get(chat) and own in stated else stated.get(chat)
        for chat, own in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    )
    prompt, output, total = count(asked), count(gave), count(stated.get("total_tokens"))
    details, spent = (
        next((told for name in names if (told := fields(stated.get(name)))), Object()) for names in DETAILS
    )
    reuse = [details.get("cached_tokens"), *(stated.get(name) for name in (*CACHED, READ))]
    known = [value for value in reuse if value is not None]
    cached = max((number for value in known if (number := count(value)) is not None), default=None)
    odd = (
        not isinstance(usage, dict)
        or (prompt is None and asked is not None)
        or (cached is None and bool(known))
        or (output is None and gave is not None)
    )
    written = count(stated.get(WRITTEN)) or 0
    if prompt is not None and _is_beside(stated, prompt, (cached or 0) + written, output, total):
        prompt += (cached or 0) + written
    if asked is None and gave is None and total is not None:
        # Of a total alone it is not known what was written: some routes write nothing.
        return Counts(total, min(cached or 0, total), None, odd)
    if prompt is None and asked is None and total is not None and output is not None:
        prompt = max(0, total - output)
    if total is not None and prompt is not None and gave is not None and output is not None:
        output = max(output, total - prompt)
    elif total is not None and prompt is not None and gave is None:
        output = max(0, total - prompt)
    thought = count(spent.get("reasoning_tokens", stated.get("reasoning_tokens"))) or 0
    if output is not None and thought > output:
        output += thought
    return Counts(prompt or 0, min(cached or 0, prompt or 0), output, odd)


def _is_beside(stated: Fields, prompt: int, reused: int, output: int | None, total: int | None) -> bool:
    """Return whether a usage counts the tokens of its cache beside those of the prompt."""
    if not reused or reused > prompt:
        return reused > 0
    if total is not None and output is not None:
        # What lies beyond prompt and completion may be reasoning as well: only the very sum tells.
        return prompt + reused + output == total
    return (READ in stated or WRITTEN in stated) and "prompt_tokens" not in stated


# What of an answer, or an event of a stream, may hold its usage beside the whole.
_HOLDERS = ("response", "message", "x_groq")


def note_usage(usage: Object, said: Fields) -> None:
    """Add what an answer or an event of a stream states to the usage so far.

    The last count holds, but none is taken back by a 0: some servers state the prompt first and the rest
    last, some the usage so far with every event, and some end by zeros.
    """
    for holder in (said, *(fields(said.get(name)) for name in _HOLDERS), *entries(said.get("choices"))):
        _add_counts(usage, fields(holder.get("usage")))


def _add_counts(usage: Object, more: Fields) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            usage[name] = inner = dict(fields(usage.get(name)))
            _add_counts(inner, cast("Object", value))
        elif value or usage.get(name) is None:
            usage[name] = value


def summarize(logprobs: Sequence[float], texts: Sequence[str] = ()) -> Logprobs | None:
    """Summarise the token log-probabilities of one path; None when there are none.

    ``bottom`` is the mean of the lowest tenth, of at least one token. Values that are not finite are left
    out. ``texts`` are those of the tokens, where the server gives them.
    """
    known = sorted(logprobs if math.isfinite(sum(logprobs)) else filter(math.isfinite, logprobs))
    if not known:
        return None
    tenth = known[: math.ceil(len(known) / 10)]
    total = math.fsum(known)
    # A value or text that could not be read would shift the others.
    whole = len(texts) == len(known) == len(logprobs)
    return Logprobs(
        total / len(known),
        math.fsum(tenth) / len(tenth),
        total,
        tokens=(texts, logprobs) if whole else None,
    )


# Characters that are compared for one answer before its last place is taken, within a word or not.
MOST_COMPARED = 10**6


def with_answer(summary: Logprobs | None, answer: str | None) -> Logprobs | None:
    """Return the summary with the answer's log-probability, and without the tokens."""
    return None if summary is None else replace(summary, answer=answer_logprob(summary, answer), tokens=None)


def answer_logprob(summary: Logprobs | None, answer: str | None) -> float | None:
    """Return the mean log-probability of an answer's tokens; None where unknown.

    They are those that overlap the last place where the text says the answer as it was read: a text that
    goes on repeats it. Not within a word or a number, unless it stands nowhere else.
    """
    if summary is None or summary.tokens is None or not answer:
        return None
    texts, values = summary.tokens
    behind = _length_after("".join(texts), answer)
    if behind is None:
        return None
    # From the end: there most answers stand.
    passed, said = 0, list[float]()
    for text, value in zip(reversed(texts), reversed(values), strict=True):
        if passed >= behind + len(answer):
            break
        passed += len(text)
        if passed > behind:
            said.append(value)
    return fmean(said)


def _length_after(text: str, answer: str) -> int | None:
    """Return the length of text after an answer's last occurrence, whole words preferred; None without.

    Searched backwards by str.find, which takes linear time (str.rfind does not). A long answer that overlaps
    itself is looked for at few places.
    """
    mirrored, sought, size = text[::-1], answer[::-1], len(answer)
    last = at = mirrored.find(sought)
    for _ in range(MOST_COMPARED // size):
        if at < 0:
            break
        around = mirrored[at - 1 : at] + mirrored[at + size : at + size + 1]
        if not any(character.isalnum() or character == "_" for character in around):
            return at
        at = mirrored.find(sought, at + 1)
    return None if last < 0 else last


def tokens_of(choice: ChoiceObject) -> tuple[list[float], list[str]]:
    """Return log-probability and text of each generated token, where the server gives them."""
    content = fields(choice.get("logprobs")).get("content")
    read = is_array(content) and content and isinstance(content[0], Token)
    try:
        tokens = cast("list[Token]", content) if read else msgspec.convert(content, list[Token])
    except msgspec.ValidationError:
        told = entries(content)
        values = [float(value) for entry in told if is_logprob(value := entry.get("logprob"))]
        return values, [text_of(entry.get("token")) for entry in told]
    return [token.logprob for token in tokens], [token.token for token in tokens]


def token_counts(choices: Sequence[ChoiceObject], told: Sequence[int], usage: int | None) -> list[int]:
    """Return the tokens of each choice, of ``told`` in all; the module states the rule."""
    if len(choices) == 1 and usage is not None:
        return [usage]
    hidden = [len(reasoning_of(fields(choice["message"]))) for choice in choices]
    if all(told):
        extra = max(0, (usage or 0) - sum(told))
        return [number + more for number, more in zip(told, apportion(extra, hidden), strict=True)]
    lengths = [
        len(text_of(fields(choice["message"]).get("content"))) + more
        for choice, more in zip(choices, hidden, strict=True)
    ]
    return apportion(usage, lengths) if usage is not None else [math.ceil(length / 4) for length in lengths]


def reasoning_of(message: Fields) -> str:
    """Return the hidden reasoning that a server returns apart from the text."""
    return text_of(message.get("reasoning_content") or message.get("reasoning") or "")


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide ``total`` into integers in proportion to ``weights`` (equally when all are zero)."""
    shares = weights if any(weights) else [1] * len(weights)
    bounds = [0, *accumulate(shares)]
    cuts = [total * bound // bounds[-1] for bound in bounds]
    return [after - before for before, after in pairwise(cuts)]


# Servers' words for a path that has not said why it ended, and for why one ended: in lower case, joined by _.
NO_REASON = frozenset({"", "null", "none"})
ENDED = (
    *("stop", "stop_sequence", "stop_token", "stop_str", "stop_string", "stop_word", "end", "end_turn"),
    *("end_of_turn", "end_of_text", "end_of_sequence", "endoftext", "eos", "eos_token", "eos_token_id"),
    *("complete", "completed", "done", "finish", "finished", "success"),
)
FINISH: dict[str, FinishReason] = {
    **dict.fromkeys((*NO_REASON, *ENDED), "stop"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
}
# A reason with one of these words is of a path that a filter stopped, or that a fault of the server ended.
FILTERS = frozenset(
    {"filter", "filtered", "safety", "refusal", "refused", "recitation", "sensitive", "prohibited"}
    | {"blocked", "blocklist", "spii", "guardrail", "guardrails", "moderation", "moderated"}
)
FAULTS = frozenset(
    {"error", "errored", "fault", "failed", "failure", "unavailable", "timeout", "timed", "exception"}
    | {"insufficient", "overload", "overloaded", "crash", "crashed", "dead", "lost", "oom", "preempted"}
    | {"abort", "aborted", "cancel", "cancelled", "canceled", "interrupted", "disconnected", "rate"}
    | {"deadline", "internal", "killed", "shutdown"}
)
# Words of a reason: its letters, whether snake_case, kebab-case, CamelCase or a sentence.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# What some servers write before every reason.
_PREFIX = ["finish", "reason"]


class RepeatedError(EngineError):
    """A server returned two paths with the same index; fewer paths per request may work."""


def finish_reason(reason: object) -> FinishReason:
    """Return keff's name of a server's finish reason, in any style; unknown ones count as cut off."""
    told = _words(reason)
    if not FAULTS.isdisjoint(told):
        return "cancelled"
    if not FILTERS.isdisjoint(told):
        return "content_filter"
    return FINISH.get("_".join(told), "length")


def is_cut(reason: object) -> bool:
    """Return whether a path broke off before its end, by a server's finish reason."""
    return finish_reason(reason) in ("length", "cancelled")


def is_end(reason: object) -> bool:
    """Return whether a server's finish reason says that a path ended."""
    return "_".join(_words(reason)) not in NO_REASON


def is_fault(choice: Fields) -> bool:
    """Return whether a choice ended by a fault of its server, so that it is no path."""
    return bool(choice.get("error")) or not FAULTS.isdisjoint(_words(choice.get("finish_reason")))


def fault_in(choices: Iterable[Fields]) -> object:
    """Return the fault by which one of some choices ended, as its server tells it; None without."""
    for choice in filter(is_fault, choices):
        return choice.get("error") or {"message": f"finish_reason {choice.get('finish_reason')!r}"}
    return None


def _words(reason: object) -> list[str]:
    """Return the words of a finish reason in lower case; of an object, those of its type."""
    told = fields(reason).get("type", reason)
    if not isinstance(told, str):
        return [] if told is None else [str(told)]
    found = [word.lower() for word in _WORD.findall(told)]
    found = found[2:] if found[:2] == _PREFIX else found
    return found or [told.strip()] if told.strip() else []


def choices_of(response: object) -> list[ChoiceObject]:
    """Return a response's choices in order of index, but for those that a fault of the server ended.

    Raises EngineError for a body that is no chat response: an error in disguise, or no choices (of several,
    all by faults); and RepeatedError for a duplicate index.
    """
    body = fields(response)
    if (error := error_in(body)) is not None:
        raise body_error(error)
    choices = entries(body.get("choices"))
    if not choices:
        raise EngineError("the server's answer is not a chat completion: it has no choices")
    by_index: dict[int, ChoiceObject] = {}
    for position, choice in enumerate(choices):
        index = index_of(choice.get("index"), position)
        if index is None or not (_is_message(choice.get("message")) or is_fault(choice)):
            raise EngineError("the server's answer has a malformed choice")
        if index in by_index:
            raise RepeatedError("the server's answer has two choices with one index")
        by_index[index] = choice
    whole = [choice for _, choice in sorted(by_index.items()) if not is_fault(choice)]
    if not whole:
        raise body_error(fault_in(choices))
    return whole


# By what servers say, under a success, that they failed: words, and the number or name of the fault.
_SAID = ("message", "msg", "error_msg", "error_message")
_CODES, _FINE = ("code", "status_code", "error_code"), frozenset({"0", "200", "ok", "success"})


def error_in(body: Fields) -> object:
    """Return the error that a body, or an event of a stream, tells instead of an answer; None without.

    An event of Responses holds the response that failed, with or without an error.
    """
    response = fields(body.get("response"))
    if error := body.get("error") or response.get("error"):
        return error
    if response.get("status") == "failed":
        return {"message": "the response failed"}
    if "error" in (body.get("object"), body.get("type")):
        return body
    if "choices" in body or "usage" in body:
        return None
    codes = [value for name in _CODES if (value := body.get(name))]
    status = body.get("status")
    coded = any(str(value).lower() not in _FINE for value in codes) or is_fault({"finish_reason": status})
    failed = coded or (isinstance(status, int) and status >= 400)
    worded = any(isinstance(body.get(name), str) for name in _SAID)
    return body if (failed and worded) or body.get("detail") else None


class PathSource(NamedTuple):
    """Where a path came from: the id of its completion and its reply; and its message."""

    id: str
    reply: int
    message: object


def source_of(response: Fields, choice: Fields, branch: str = "") -> PathSource:
    """Return the source of a choice of a response, in chat or, under ``response``, in Responses.

    What different branches were asked differs: one id there names different completions.
    """
    name = words(fields(response.get("response", response)).get("id"))
    return PathSource(f"{branch} {name}" if name else "", id(response), choice.get("message"))


def repeats(sources: Sequence[PathSource]) -> list[bool]:
    """Return of each path whether it repeats an earlier one: a cache gave one completion again.

    Then a later reply has the id of an earlier one and says nothing else. The choices of one reply are
    different paths, and where replies of one id say different things, ids name nothing on that server.
    """
    replies: dict[str, dict[int, set[bytes]]] = {}
    for source in sources:
        if source.id:
            replies.setdefault(source.id, {}).setdefault(source.reply, set())
    several = {name for name, each in replies.items() if len(each) > 1}
    for source in sources:
        if source.id in several:
            replies[source.id][source.reply].add(sendable(source.message))
    repeated = set[int]()
    for name in several:
        first, *others = replies[name].values()
        if all(said <= first for said in others):
            repeated.update(list(replies[name])[1:])
    return [bool(source.id) and source.reply in repeated for source in sources]


# Completions that are remembered, to notice that a server gives one again.
REMEMBERED = 100_000


class CompletionIds:
    """Completions that a server has given, until two of one id show that its ids name nothing."""

    def __init__(self) -> None:
        self._seen: dict[str, int] | None = {}

    def repeats(self, response: Fields, asked: object) -> bool:
        """Return whether a response to what was ``asked`` is one that came before; remember it."""
        name = words(response.get("id"))
        if self._seen is None or not name:
            return False
        said = hash(
            (sendable(asked), sendable([each.get("message") for each in entries(response.get("choices"))]))
        )
        if name not in self._seen:
            if len(self._seen) >= REMEMBERED:
                self._seen.pop(next(iter(self._seen)))
            self._seen[name] = said
            return False
        if self._seen[name] != said:
            self._seen = None
            return False
        return True


def _is_message(message: object) -> bool:
    """Return whether a message's content has a type that can be read."""
    body = fields(message)
    return bool(body) and isinstance(body.get("content"), str | list | None)


def body_error(error: object) -> EngineError:
    """Return the EngineError of an error object in a body.

    Transient unless it names a fault of ours (4xx).
    """
    detail = fields(error)
    code = detail.get("code")
    # Some servers send an error in a stream that began with status 200: its code says whose fault it is.
    ours = isinstance(code, int) and 400 <= code < 500 and code not in PASSING
    said = next((said for name in _SAID if (said := words(detail.get(name)))), None) or words(error)
    return EngineError(
        f"the server answered with an error: {said}", transient=not ours, refused=ours and code not in FATAL
    )


def completions(response: Fields, choices: Sequence[ChoiceObject], seconds: float) -> list[Completion]:
    """Return one completion per choice, with token counts by the module's rule."""
    given = counts_of(response.get("usage"))
    told = [tokens_of(choice) for choice in choices]
    lengths = [len(values) for values, _ in told]
    counts = token_counts(choices, lengths, given.output)
    estimated = given.odd or (given.output is None and not all(lengths))
    drawn: list[Completion] = []
    for choice, (values, texts), tokens in zip(choices, told, counts, strict=True):
        message, finish = fields(choice["message"]), finish_reason(choice.get("finish_reason"))
        drawn.append(
            Completion(
                text=storable(text_of(message.get("content"))),
                finish=finish,
                tokens=tokens,
                prompt_tokens=given.prompt,
                cached_tokens=given.cached,
                reasoning=storable(reasoning_of(message)) or None,
                refusal=words(message.get("refusal")) or FILTERED.get(finish),
                logprobs=summarize(values, texts),
                seconds=seconds,
                estimated=estimated,
            )
        )
    return drawn


FILTERED: dict[FinishReason, str] = {"content_filter": "stopped by a content filter"}


def filtered_response(said: str, n: int) -> Object:
    """Return the response for n paths of a request stopped by a content filter."""
    choice = {"message": {"content": "", "refusal": said}, "finish_reason": "content_filter"}
    return {"choices": [{"index": index, **choice} for index in range(n)], "usage": {"completion_tokens": 0}}
