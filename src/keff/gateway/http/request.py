"""Chat requests: parsed and checked, with the gateway's own fields taken out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NoReturn, TypeVar, cast

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked

from keff.gateway.http.errors import Problem
from keff.gateway.upstream.answer import CHAT, RESPONSES, Api
from keff.narrow import Fields, entries, fields, is_array, items
from keff.protocol import responses
from keff.protocol.server import SEEDS, Parameters, taken_by
from keff.protocol.values import Object, decoded, encoded

# Seconds; more is a mistake of units.
LONGEST_DEADLINE = 1_000_000

OWN = "keff"
SYSTEM_ROLES = ("system", "developer")
HEADERS = {
    b"x-keff-policy": "policy",
    b"x-keff-cap": "cap",
    b"x-keff-k": "k",
    b"x-keff-deadline": "deadline_s",
}

Headers = Mapping[bytes, bytes]
T = TypeVar("T")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


DECODER = json.JSONDecoder(parse_constant=_no_constant)


Positive = Annotated[int, Field(ge=1)]


@checked(frozen=True, slots=True, config=ConfigDict(strict=True))
class Wish:
    """The gateway's own fields of one request; None leaves the choice to plan and options."""

    policy: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    cap: Positive | None = None
    k: Positive | None = None
    deadline_s: Annotated[float, Field(gt=0, le=LONGEST_DEADLINE)] | None = None
    return_paths: bool = False
    answer_space: str | None = None
    fields: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
            Field(min_length=1, max_length=64, strict=False),
        ]
        | None
    ) = None


NO_WISH = Wish()


@dataclass(slots=True)
class ParsedRequest:
    """A parsed request.

    ``body`` is the client's object without what the gateway decides (``n``, ``stream``, ``stream_options``,
    seeds, ``keff``); everything else in it is unchanged. ``view`` is the chat request that asks the same:
    of chat, the body itself. ``n`` choices are wanted in the reply. ``asked`` is the request of
    Responses that a chat request stands for, and in whose form the reply is.
    """

    body: Object
    wish: Wish
    seeds: dict[str, int] = field(default_factory=dict[str, int])
    n: int = 1
    stream: bool = False
    stream_options: Object | None = None
    api: Api = CHAT
    view: Object = field(default_factory=Object)
    asked: Object | None = None

    def __post_init__(self) -> None:
        if self.api is CHAT:
            self.view = self.body

    @property
    def in_chat(self) -> bool:
        """Whether the reply uses the chat format."""
        return self.api is CHAT and self.asked is None

    def as_chat(self) -> ParsedRequest:
        """Return the chat request equivalent to a Responses request; raises Problem (400)."""
        if (name := responses.needs_responses(self.body)) is not None:
            line = f"keff asks the upstream through chat completions, which have no {name}"
            raise Problem(400, line, param=name, code="unsupported_value")
        body = responses.chat_request(self.body)
        return replace(self, body=body, api=CHAT, asked=self.body)

    def end_with(self, contract: str) -> None:
        """Append the answer contract to the last user message."""
        template = f"{{question}}\n\n{contract}"
        self.body["messages"] = with_prompt(entries(self.body["messages"]), None, template)

    def head(self, with_logprobs: bool, parameters: Parameters) -> bytes:
        """Return an upstream body without its closing brace, for fields to be added; Problem (400).

        In the fields that the server takes, by its ``parameters``.
        """
        body = taken_by(parameters, self.body)
        if with_logprobs and self.api is CHAT:
            body = body | {"logprobs": True}
        elif with_logprobs:
            body = body | {"include": [*items(body.get("include")), responses.LOGPROBS]}
        return head_of(body)

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        return bool((self.stream_options or {}).get("include_usage"))

    @property
    def logprobs(self) -> bool:
        """Whether the client asked for log-probabilities."""
        return bool(self.body.get("logprobs"))


def read_ask(raw: bytes, headers: Headers) -> ParsedRequest:
    """Return a parsed chat request; raises Problem (400) that names the field."""
    body = _json_object(raw)
    _check_messages(body.get("messages"))
    n = _take(body, "n", int)
    n = 1 if n is None else n
    if n < 1:
        raise Problem(400, "n must be at least 1", param="n")
    ask = _common_fields(body, headers)
    if n > 1:
        if ask.wish.k or ask.wish.policy or ask.wish.cap:
            raise Problem(
                400, "n cannot be combined with keff.k, keff.policy or keff.cap: leave these out", param="n"
            )
        ask.n, ask.wish = n, replace(ask.wish, k=n)
    return ask


def read_response_ask(raw: bytes, headers: Headers) -> ParsedRequest | str:
    """Return a parsed Responses request, or a string that says why it cannot be voted on.

    Raises Problem (400) that names the field.
    """
    body = _json_object(raw)
    given = body.get("input")
    if not isinstance(given, str | list):
        raise Problem(400, "input must be a string or a list", param="input")
    if (reason := responses.not_voted(body)) is not None:
        return reason
    ask = _common_fields(body, headers, RESPONSES)
    ask.view = responses.chat_view(body)
    return ask


def _common_fields(body: Object, headers: Headers, api: Api = CHAT) -> ParsedRequest:
    """Return the fields common to chat and Responses requests."""
    model = body.get("model")
    if model is not None and (not isinstance(model, str) or len(model) > 500):
        raise Problem(400, "model must be a string", param="model")
    wish, stream = _wish(body.pop(OWN, None), headers), bool(_take(body, "stream", bool))
    options = cast("Object | None", _take(body, "stream_options", dict))
    return ParsedRequest(body, wish, _seeds(body), stream=stream, stream_options=options, api=api)


def _seeds(body: Object) -> dict[str, int]:
    """Take the seeds out of a body: each path gets its own."""
    seeds = {name: _take(body, name, int) for name in SEEDS}
    for name, seed in seeds.items():
        if seed is not None and not -(2**63) <= seed < 2**63:
            raise Problem(400, f"{name} must be an integer of at most 64 bits", param=name)
    return {name: seed for name, seed in seeds.items() if seed is not None}


def head_of(body: Fields) -> bytes:
    """Return a JSON body without its closing brace; raises Problem (400) for values JSON cannot hold."""
    try:
        return encoded(body)[:-1]
    except ValueError:
        line = "the request holds a number beyond what a float can hold, or is nested too deeply"
        raise Problem(400, line) from None


def with_prompt(messages: Sequence[Fields], system: str | None, template: str | None) -> list[Fields]:
    """Return messages with a system message, and with a template around the last user message.

    A template that holds ``{question}`` replaces the message, with the question in its place; any other
    stands before it, after a blank line. Content in parts gets parts around it.
    """
    told = list(messages)
    if system is not None:
        told = [message for message in told if message.get("role") not in SYSTEM_ROLES]
        told.insert(0, {"role": "system", "content": system})
    if template is None:
        return told
    for place in range(len(told) - 1, -1, -1):
        if told[place].get("role") == "user":
            told[place] = {**told[place], "content": _in_template(told[place].get("content"), template)}
            break
    return told


def _in_template(content: object, template: str) -> object:
    if is_array(content):
        before, _, after = template.partition("{question}")
        first, last = ([{"type": "text", "text": text}] if text.strip() else [] for text in (before, after))
        return [*first, *content, *last]
    if "{question}" in template:
        return template.replace("{question}", str(content or ""))
    return f"{template}\n\n{content}"


def _json_object(raw: bytes) -> Object:
    try:
        body = decoded(raw, DECODER)
    except ValueError as error:
        raise Problem(400, f"the request body is not JSON: {error}"[:300]) from None
    if not isinstance(body, dict):
        raise Problem(400, "the request body must be a JSON object")
    return cast("Object", body)


def _check_messages(messages: object) -> None:
    if not isinstance(messages, list) or not messages:
        raise Problem(400, "messages must be a list of at least one message", param="messages")
    for place, message in enumerate(entries(cast("object", messages))):
        if not isinstance(message.get("role"), str):
            line = 'a message has the form {"role": ..., "content": ...}'
            raise Problem(400, line, param=f"messages[{place}]")


def _take(body: Object, name: str, kind: type[T]) -> T | None:
    value = body.pop(name, None)
    if value is None:
        return None
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise Problem(400, f"{name} must be of type {kind.__name__}", param=name)


def _wish(given: object, headers: Headers) -> Wish:
    wish: Object = {}
    for header, name in HEADERS.items():
        if header in headers:
            wish[name] = headers[header].decode("latin-1")
            if name != "policy":
                with contextlib.suppress(ValueError):
                    wish[name] = decoded(headers[header], DECODER)
    if given is not None and not isinstance(given, dict):
        raise Problem(400, 'keff must be an object, such as {"policy": "lead_k:3"}', param=OWN)
    wish |= fields(cast("object", given))
    if not wish:
        return NO_WISH
    known = Wish.__dataclass_fields__
    for name in wish.keys() - known:
        raise Problem(400, f"keff takes {', '.join(known)}, not {name!r:.50}", param=OWN)
    try:
        made = Wish(**cast("Mapping[str, Any]", wish))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = f"keff.{first['loc'][0]}"
        raise Problem(400, f"{name}: {first['msg']}", param=name) from None
    if made.k and (made.policy or made.cap):
        raise Problem(
            400, "keff.k cannot be combined with keff.policy or keff.cap: leave these out", param="keff.k"
        )
    return made
