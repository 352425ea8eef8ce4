"""Calls to an upstream: its address, forwarded headers, and the result, an answer or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import NamedTuple

from keff.gateway.http.errors import Problem
from keff.narrow import entries, fields
from keff.protocol.assembler import Assembler, StreamEnds
from keff.protocol.reply import choices_of
from keff.protocol.responses import chat_usage, choice_of
from keff.protocol.server import Refusal
from keff.protocol.values import ENCODINGS, Object
from keff.records import frozen

Headers = Mapping[str, str]
JSON_TYPE = "application/json"

# Seconds that a server may ask to wait; who asks for more is waited for by the client.
LONGEST_ASKED = 10.0


@frozen
class Address:
    """Address of an upstream: base URL (with ``/v1``), the gateway's own key, limits and timeouts.

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
        """Return the headers of a call, with the gateway's own key or else the client's."""
        kind = {"content-type": JSON_TYPE, "accept": JSON_TYPE, "accept-encoding": ENCODINGS}
        return {**kind, **caller.headers, **self.keys(caller)}

    def keys(self, caller: ClientHeaders) -> Headers:
        """Return the authentication headers of a call."""
        return {"authorization": f"Bearer {self.key}"} if self.key else caller.keys


@frozen
class ClientHeaders:
    """Headers and query of a client that are forwarded upstream.

    Its key (where the gateway has none), and some headers.
    """

    keys: Headers = field(default_factory=dict[str, str], repr=False)
    headers: Headers = field(default_factory=dict[str, str])
    query: str = ""

    def at(self, *, trusted: bool) -> ClientHeaders:
        """Return these headers for one server, without the client's key unless it is trusted."""
        return self if trusted else replace(self, keys={})


NOBODY = ClientHeaders()


class UpstreamError(Exception):
    """A failed upstream call.

    ``refusal`` is what it answered (status 0: nothing over HTTP). ``transient`` says whether the same call
    may work later, ``repeated`` that it gave one path twice, ``unreachable`` that no connection could be
    made; ``usage`` is what a useless answer was billed at; ``server`` is the address of who failed.
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
        self.unreachable, self.server = unreachable, ""

    @property
    def status(self) -> int:
        """The HTTP status; 0 without a response."""
        return self.refusal.status

    @property
    def lacks_path(self) -> bool:
        """Whether the server lacks the route, rather than the model."""
        unknown = self.status in (404, 405, 501)
        return unknown and "model" not in f"{self.refusal.code} {self.refusal.message}".lower()

    def problem(self) -> Problem:
        """Return the client's error: a fault of the request as the upstream reported it, else 502."""
        said = self.refusal
        # With a time to wait an overload is the client's to know, as in front of the upstream.
        busy = said.status == 429 or (said.status in (503, 529) and said.wait is not None)
        if not busy and (self.transient or not 400 <= said.status < 500):
            return Problem(502, f"the upstream failed: {self}", code="upstream_failed")
        code = said.code or ("upstream_rate_limit" if busy else "upstream_refused")
        # Where it names no time there is none to name: a quota that is spent does not come back.
        wait = None if said.wait is None else {"retry-after": f"{max(1, round(said.wait))}"}
        return Problem(said.status, said.message, code=code, kind=said.kind, param=said.param, headers=wait)


class Api(NamedTuple):
    """One upstream API, chat or Responses: its route, and the parser of its answers.

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
    """One upstream call: body, headers, query, API, and the model that the body names."""

    body: bytes
    headers: Headers
    query: str = ""
    api: Api = CHAT
    model: object = None


@frozen
class Answer:
    """One upstream response: choices by index, whole body, rate limits, and whether a cache gave it."""

    choices: list[Object]
    body: Object
    limits: Headers = field(default_factory=dict[str, str])
    cached: bool = False


class StreamedPath:
    """A path that is being streamed: whether it ``began``, and its ``tokens`` so far.

    A token is an event with words, or an entry of log-probabilities where an event has several.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self, ends: StreamEnds | None = None) -> None:
        """Forget what came: another server, whose streams end as ``ends`` knows, begins anew."""
        self._parts = Assembler(ends=ends)
        self.began, self.tokens = False, 0

    def feed(self, part: bytes) -> None:
        """Parse some bytes; raises ValueError and EngineError for a malformed stream."""
        self.began = True
        for chunk in self._parts.feed(part):
            for choice in entries(chunk.get("choices")):
                spoke = any(value for name, value in fields(choice.get("delta")).items() if name != "role")
                self.tokens += max(int(spoke), len(entries(fields(choice.get("logprobs")).get("content"))))

    def response(self, headers: Headers) -> Object:
        """Return the complete answer; raises EngineError for a stream cut off."""
        return self._parts.response(headers)
