"""JSON of others, read so that whatever comes can be counted, stored and sent on."""

from __future__ import annotations

import json
import math
from typing import TypeAlias, cast

from keff.narrow import entries

# More tokens than this in one answer are an error of the server, not a count.
MOST_TOKENS = 10**9

# Servers write -9999 for a token that cannot come; what lies far below is no logarithm of a probability.
LOWEST_LOGPROB = -1e6

# Deeper nesting is refused before the parser's own stack is at risk.
DEEPEST = 64

# A JSON object of others: what its members hold is not known before they are looked at.
Object: TypeAlias = dict[str, object]


def _no_number(_: str) -> None:
    """Read NaN and the infinities, which are not JSON but are sent, as null."""


_DECODER = json.JSONDecoder(parse_constant=_no_number)
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def decoded(raw: bytes) -> object:
    """Return the value of JSON bytes.

    Raises ValueError for anything else, and for what is nested too deeply.
    """
    try:
        return _DECODER.decode(raw.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def encoded(value: object) -> bytes:
    """Return JSON bytes.

    Raises ValueError for a number that JSON cannot hold, and for what is nested too deeply.
    """
    try:
        return _ENCODER.encode(value).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def sendable(value: object) -> bytes:
    """Return JSON bytes of what a server sent.

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
        return value if abs(value) < 2**63 else None
    if isinstance(value, dict):
        inner = cast("Object", value)
        return {name: _finite(part, depth - 1) for name, part in inner.items()} if depth else None
    if isinstance(value, list):
        return [_finite(part, depth - 1) for part in cast("list[object]", value)] if depth else None
    return value


def storable(text: str) -> str:
    """Return text that UTF-8 can hold.

    Half a surrogate pair, which JSON can carry, becomes a question mark.
    """
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def words(value: object) -> str | None:
    """Return a JSON value as storable text: a string as it is, null and nothing as None, all else as JSON."""
    if isinstance(value, str):
        return storable(value) or None
    return sendable(value).decode() if value else None


def text_of(content: object) -> str:
    """Return a message's content as text: it is a string, nothing, or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(text for part in entries(content) if isinstance(text := part.get("text"), str))


def count(value: object) -> int | None:
    """Return a number of tokens as an integer.

    None for what cannot be one (negative, absurd, not a number).
    """
    if type(value) is int:  # By far the most, and a gateway counts several times for every request.
        return value if 0 <= value <= MOST_TOKENS else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return int(value) if value == int(value) else None


def is_logprob(value: object) -> bool:
    """Return whether a value is a finite log-probability (a rounding error above 0 is allowed)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and LOWEST_LOGPROB <= value <= 1e-3
