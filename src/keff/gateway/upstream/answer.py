"""Where an upstream is, what it is told of a client, and what comes of a call: an answer or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import NamedTuple

from keff.gateway.http.errors import Problem
from keff.narrow import entries, fields
from keff.protocol.assembler import Assembler
from keff.protocol.reply import choices_of
from keff.protocol.responses import chat_usage, choice_of
from keff.protocol.server import Refusal
from keff.protocol.values import ENCODINGS, Object
from keff.records import frozen

KNOWN_STATUSES = frozenset(HTTPStatus)
Headers = Mapping[str, str]
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the upstream is: its base URL (with ``/v1``), the gateway's own key there, limits and times.

    ``more`` are other servers of the same models and key. ``path_seconds`` bound one call from its start to
    its last byte. ``ca_file`` holds certificates that are trusted beside the system's.
    """

    url: str
    more: tuple[str, ...] = ()
    key: str = field(default="", repr=False)
    connections: int = 512
    path_seconds: float = 600.0
    connect_seconds: float = 5.0
    ca_file: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of all servers."""
        return (self.url, *self.more)

    def headers(self, caller: ClientHeaders) -> dict[str, str]:
        """Return the headers of a call: the gateway's own key, or what the client sent if there is none."""
        kind = {"content-type": JSON_TYPE, "accept": JSON_TYPE, "accept-encoding": ENCODINGS}
        return {**kind, **caller.headers, **self.keys(caller)}

    def keys(self, caller: ClientHeaders) -> Headers:
        """Return the headers by which a call shows who makes it."""
        return {"authorization": f"Bearer {self.key}"} if self.key else caller.keys


@frozen
class ClientHeaders:
    """What a client sent that the upstream gets too.

    Its key (where the gateway has none), and some headers.
    """

    keys: Headers = field(default_factory=dict[str, str], repr=False)
    headers: Headers = field(default_factory=dict[str, str])
    query: str = ""

    def at(self, *, trusted: bool) -> ClientHeaders:
        """Return the caller as a server gets to know it: without its key where that may not go there."""
        return self if trusted else replace(self, keys={})


NOBODY = ClientHeaders()


class UpstreamError(Exception):
    """One upstream call failed.

    ``refusal`` is what it answered (status 0: nothing over HTTP). ``transient`` says whether the same call
    may work later, ``repeated`` that it gave one path twice, ``unreachable`` that no connection could be
    made; ``usage`` is what a useless answer was billed at.
    """

    def __init__(
        self,
        message: str,
        refusal: Refusal | None = None,
        *,
        transient: bool = True,
        repeated: bool = False,
        unreachable: bool = False,
        usage: object = None,
    ) -> None:
        super().__init__(message)
        self.refusal = refusal or Refusal(0, message)
        self.transient, self.repeated, self.usage = transient, repeated, usage
        self.unreachable = unreachable

    @property
    def status(self) -> int:
        """The HTTP status, or 0."""
        return self.refusal.status

    @property
    def lacks_path(self) -> bool:
        """Whether the server knows no such path, rather than no such model."""
        unknown = self.status in (404, 405, 501)
        return unknown and "model" not in f"{self.refusal.code} {self.refusal.message}".lower()

    def problem(self) -> Problem:
        """Return what the client is told: its own faults as the upstream said them, all else as 502."""
        said = self.refusal
        if said.status == 429:
            wait = None if said.wait is None else {"retry-after": f"{max(1, round(said.wait))}"}
            return Problem(
                429, said.message, code=said.code or "upstream_rate_limit", kind=said.kind, headers=wait
            )
        if self.transient or not 400 <= said.status < 500:
            return Problem(502, f"the upstream failed: {self}", code="upstream_failed")
        status = said.status if said.status in KNOWN_STATUSES else 400
        return Problem(
            status, said.message, code=said.code or "upstream_refused", kind=said.kind, param=said.param
        )


class Api(NamedTuple):
    """One of the two ways to ask for a path: its address below the base, and how its answers are read.

    ``read`` gives the choices in the words of chat, and what else the answer says (``usage`` in the words of
    chat too); it raises EngineError.
    """

    path: str
    read: Callable[[Object], tuple[list[Object], Object]]


def _chat(body: Object) -> tuple[list[Object], Object]:
    return [dict(choice) for choice in choices_of(body)], body


def _response(body: Object) -> tuple[list[Object], Object]:
    usage = chat_usage(body.get("usage"))
    return [choice_of(body)], {"usage": usage, "model": body.get("model"), "response": body}


CHAT, RESPONSES = Api("/chat/completions", _chat), Api("/responses", _response)


class UpstreamCall(NamedTuple):
    """One call as it is sent: its body and headers, the client's query, and the way to ask."""

    body: bytes
    headers: Headers
    query: str = ""
    api: Api = CHAT


@frozen
class Answer:
    """One upstream response: the choices, in order of their indices, the whole body, and its rate limits."""

    choices: list[Object]
    body: Object
    limits: Headers = field(default_factory=dict[str, str])


class StreamedPath:
    """A streamed answer as it comes: ``began`` with its first bytes, and some ``tokens`` so far.

    A token is an event with words, or an entry of log-probabilities where an event has several.
    """

    def __init__(self) -> None:
        self._parts = Assembler()
        self.began, self.tokens = False, 0

    def feed(self, part: bytes) -> None:
        """Take some bytes; raises ValueError and EngineError for what is no stream of a path."""
        self.began = True
        for chunk in self._parts.feed(part):
            for choice in entries(chunk.get("choices")):
                spoke = any(value for name, value in fields(choice.get("delta")).items() if name != "role")
                self.tokens += max(int(spoke), len(entries(fields(choice.get("logprobs")).get("content"))))

    def response(self) -> Object:
        """Return the whole answer; raises EngineError where it broke off."""
        return self._parts.response()
