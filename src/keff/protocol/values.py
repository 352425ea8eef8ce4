"""Untrusted bytes made safe: JSON, server-sent events, compressed bodies.

Server-sent events are read as chat servers write them: one ``data`` line per event, events divided by an
empty line. Compressed bodies are unpacked within bounds: 64 KiB of gzip can hold 64 MiB of zeros.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Mapping
from typing import TypeGuard, cast

import jiter
from pydantic_core import to_json

from keff.narrow import Fields, Object, entries, fields, is_number, items

# More tokens than this in one answer are an error of the server, not a count.
MOST_TOKENS = 10**9

# Servers write -9999 for a token that cannot come; what lies far below is no logarithm of a probability.
LOWEST_LOGPROB = -1e6

# A rounding error above 0 is allowed.
HIGHEST_LOGPROB = 1e-3

# Deeper nesting is refused before the parser's own stack is at risk.
DEEPEST = 64


def _no_number(_: str) -> None:
    """Return null for NaN and infinities, which are not JSON but are sent."""


# Made once: json.loads with a hook makes one for every reply.
_DECODER = json.JSONDecoder(parse_constant=_no_number)
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def decoded(raw: bytes, decoder: json.JSONDecoder = _DECODER) -> object:
    """Return the value of JSON bytes; invalid JSON is left to ``decoder``.

    Raises ValueError for what it refuses, and for what is nested too deeply.
    """
    try:
        # A fifth of the time; on what it refuses (NaN, half a surrogate) Python's own has the last word.
        return jiter.from_json(raw, allow_inf_nan=False, cache_mode="keys")
    except ValueError:
        try:
            return decoder.decode(raw.decode("utf-8-sig"))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def encoded(value: object) -> bytes:
    """Return a value as JSON bytes.

    Raises ValueError for a number that JSON cannot hold, and for what is nested too deeply.
    """
    try:
        fast = to_json(value)
    except ValueError:
        fast = b"NaN"
    # A quarter of the time. Some clients split lines at more than ASCII; the constants are no JSON.
    if fast.isascii() and b"NaN" not in fast and b"Infinity" not in fast:
        return fast
    try:
        return _ENCODER.encode(value).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def sendable(value: object) -> bytes:
    """Return JSON bytes of a server's value, repaired where it cannot be encoded.

    What JSON cannot hold (an infinite number, say) becomes null.
    """
    try:
        return encoded(value)
    except ValueError:
        return encoded(_finite(value, DEEPEST))


def _finite(value: object, depth: int) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        # What SQLite can hold, and most readers of JSON.
        return value if abs(value) < 2**63 else None
    if isinstance(value, dict):
        inner = cast("Object", value)
        return {name: _finite(part, depth - 1) for name, part in inner.items()} if depth else None
    if isinstance(value, list):
        return [_finite(part, depth - 1) for part in cast("list[object]", value)] if depth else None
    return value


# Types of parts of a message in which a model thinks.
_THOUGHT = re.compile("thought|think|reason", re.IGNORECASE)


def storable(text: str) -> str:
    """Return text without lone surrogates, which UTF-8 cannot encode.

    Half a surrogate pair, which JSON can carry, becomes a question mark.
    """
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def words(value: object) -> str | None:
    """Return a JSON value as storable text: strings as they are, null as None, others as JSON."""
    if isinstance(value, str):
        return storable(value) or None
    return sendable(value).decode() if value else None


def text_of(content: object, *, thoughts: bool = False) -> str:
    """Return a message's content (string, nothing, or parts) as text; parts of thinking with ``thoughts``."""
    if isinstance(content, str):
        return content
    parts = [{"text": part} if isinstance(part, str) else fields(part) for part in items(content)]
    told = (part.get("text") for part in parts if thoughts or not _is_thought(part))
    return "".join(text for text in told if isinstance(text, str))


def _is_thought(part: Fields) -> bool:
    kind = part.get("type")
    return part.get("thought") is True or (isinstance(kind, str) and _THOUGHT.search(kind) is not None)


def question_of(messages: object) -> str:
    """Return the last user message's text; empty without one."""
    said = (
        text_of(each.get("content")) for each in reversed(entries(messages)) if each.get("role") == "user"
    )
    return next(said, "")


def count(value: object) -> int | None:
    """Return a token count as an integer.

    None for what cannot be one (negative, absurd, not a number).
    """
    if type(value) is int:  # By far the most, and a gateway counts several times for every request.
        return value if 0 <= value <= MOST_TOKENS else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return int(value) if value == int(value) else None


def index_of(value: object, default: int) -> int | None:
    """Return a stated index, also written as a text, or ``default`` where none is; None for anything else."""
    if value is None:
        return default
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return int(value) if is_number(value) and value == int(value) else None


def is_logprob(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite log-probability."""
    return is_number(value) and LOWEST_LOGPROB <= value <= HIGHEST_LOGPROB


# Ends a stream of chat events; it is no JSON.
DONE = b"[DONE]"
# Events end with an empty line, and the standard allows three ends of a line, mixed too.
_GAP = re.compile(rb"\r\r|\r?\n(?:\r?\n|\r(?!\n|\Z))")
_ERROR_EVENT = re.compile(rb"^event:\s*\w*error\s*$", re.MULTILINE | re.IGNORECASE)


# Bytes of one event: what is longer is given in pieces, which are no events.
LONGEST_EVENT = 4 * 2**20


class Events:
    """Splits a byte stream into server-sent events, in linear time and bounded memory."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0

    def feed(self, part: bytes) -> list[bytes]:
        """Return the events completed by these bytes, each with its empty line."""
        self._rest += part
        events: list[bytes] = []
        start = 0
        # An empty line may have begun in what was searched before.
        for gap in _GAP.finditer(self._rest, max(0, self._searched - 3)):
            events.append(bytes(self._rest[start : gap.end()]))
            start = gap.end()
        if len(self._rest) - start > LONGEST_EVENT:
            events.append(bytes(self._rest[start:]))
            start = len(self._rest)
        del self._rest[:start]
        self._searched = len(self._rest)
        return events

    @property
    def rest(self) -> bytes:
        """The bytes of an unfinished event."""
        return bytes(self._rest)


def data_of(event: bytes) -> bytes:
    """Return an event's data; empty for a comment. A stream may begin with a byte order mark."""
    lines = (line for line in event.removeprefix(BOM_UTF8).splitlines() if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def is_error_event(event: bytes) -> bool:
    """Return whether an event's own name says that it is an error."""
    return _ERROR_EVENT.search(event.replace(b"\r", b"\n")) is not None


# What is asked for in ``Accept-Encoding``.
ENCODINGS = "gzip, deflate"

# Bytes of one answer, unpacked or sent plain.
LARGEST = 64 * 2**20

# An answer may unpack to so many times its size; the first ``FREE`` bytes may come of anything. JSON with
# log-probabilities packs 10 to 20 times; a model that repeats one word for ever packs better, but is short.
RATIO, FREE = 200, 4 * 2**20


class BodyError(ValueError):
    """A body is too large, corrupt, or in an unsupported encoding."""


def picked(headers: Mapping[bytes, bytes], names: Collection[bytes]) -> dict[str, str]:
    """Return those of some headers that are there, as text."""
    return {name.decode(): headers[name].decode("latin-1") for name in names if name in headers}
