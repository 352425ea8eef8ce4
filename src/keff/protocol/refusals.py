"""What a server says when it does not answer: one line without keys, and whether asking again may help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from keff.narrow import fields
from keff.protocol.address import Mask
from keff.protocol.patience import asked_wait
from keff.protocol.values import decoded, storable, words

# Characters of a server's own words that are passed on.
LONGEST = 500
UNKNOWN = "no reason given"
# Timeout, conflict, too early, too many requests: the same request may succeed later (RFC 9110).
PASSING = frozenset({408, 409, 425, 429})
# Key, permission, address: no other request would fare better.
FATAL = frozenset({401, 403, 404})
SPENT = "insufficient_quota"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP answer that is not 200.

    ``message`` is one line, keys masked; ``code``, ``kind`` and ``param`` are the server's own, where it
    gives them; ``wait`` the seconds that it asks to wait; ``filtered``: a content filter stopped the
    request.
    """

    status: int
    message: str = UNKNOWN
    code: str | None = None
    kind: str | None = None
    param: str | None = None
    wait: float | None = None
    filtered: bool = False

    @property
    def transient(self) -> bool:
        """Whether the same request may work later."""
        return (self.status in PASSING or not 400 <= self.status < 500) and self.code != SPENT

    @property
    def fatal(self) -> bool:
        """Whether no other request can work either: a wrong key, or no such model or address."""
        return self.status in FATAL or self.code == SPENT


def refusal_of(status: int, raw: bytes, headers: Mapping[str, str], mask: Mask) -> Refusal:
    """Read an error response, whatever it holds: OpenAI's form, ``detail`` or ``message``, or plain text."""
    try:
        body: object = decoded(raw)
    except ValueError:
        return Refusal(status, _plain(raw, mask), wait=asked_wait(headers))
    if isinstance(body, list) and body:
        body = cast("list[object]", body)[0]
    said_of = cast("object", body)
    parts = fields(said_of)
    error = parts.get("error") or parts.get("detail") or said_of
    detail = fields(error)
    said = words(detail.get("message")) or (words(error) if not detail else None)
    return Refusal(
        status,
        mask(said, LONGEST) if said else UNKNOWN,
        _named(detail.get("code"), mask),
        _named(detail.get("type"), mask),
        _named(detail.get("param"), mask),
        asked_wait(headers),
        status == 400 and re.search(rb"content_filter|content_policy", raw) is not None,
    )


def _named(value: object, mask: Mask) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return mask(storable(str(value)), 100) if not isinstance(value, int) or abs(value) < 10**9 else None


def _plain(raw: bytes, mask: Mask) -> str:
    text = raw[: 16 * LONGEST].decode("utf-8", "replace")
    # The page that a proxy shows to people says nothing to a program.
    return UNKNOWN if text.lstrip().startswith("<") or not text.strip() else mask(text, LONGEST)
