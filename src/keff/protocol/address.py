"""Where a server is and which key it takes: checked at the start, and never shown."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, urlsplit, urlunsplit

from keff.errors import UsageError

SHOWN = "***"

# Only so many times what is shown is searched for secrets: hostile bodies may be long.
SEARCHED = 100

# Characters of a key: fewer are no secret and may be any part of a word ("x" stands in "context"). So many
# are no word that anybody writes: such a key is masked wherever it stands, and so is a beginning of it of
# the first length, for servers quote keys that they have cut.
SHORTEST, LONG = 8, 20


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether a host names this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def base_url(url: str, option: str, key_option: str) -> str:
    """Return a base URL with ``/v1`` where it has no path; raises UsageError for what is not http(s)."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError(f"{option}: this is not an http address") from None
    if parts.username or parts.password:
        raise UsageError(f"{option}: put the key into the environment ({key_option}), not into the address")
    if not usable:
        raise UsageError(f"{option}: {url!r} is not an http address")
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/v1", query="", fragment=""))


def checked_key(value: str, variable: str) -> str:
    """Return a key without the whitespace around it.

    Raises UsageError, without the key, for one that cannot be.

    A file or a clipboard often leaves a line end behind. Inside a key nothing may stand that a header
    cannot carry.
    """
    key = value.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"${variable} holds whitespace or a character that no HTTP header can carry: set it again"
        )
    return key


class Mask:
    """Hides keys in text of others. A text is masked first and cut afterwards: half a key is a key."""

    def __init__(self, keys: Iterable[str]) -> None:
        kept = {form for key in keys if key for form in (key, quote(key, safe=""))}
        self._keys = sorted(kept, key=len, reverse=True)

    def __call__(self, text: str, most: int | None = None) -> str:
        """Return the text on one line, keys and long beginnings of keys hidden, then cut to ``most``."""
        if most is not None:
            # Enough to fill the line whatever is hidden; a body of many megabytes is not searched.
            text = text[: SEARCHED * most + SEARCHED]
        for key in self._keys:
            text = hidden(text, key)
        line = " ".join(text.split())
        return line if most is None else line[:most]


def hidden(text: str, key: str) -> str:
    """Return a text without a key: a long one and its beginnings anywhere, a shorter one as a whole word."""
    if len(key) >= LONG:
        return _without_beginnings(text.replace(key, SHOWN), key)
    if len(key) < SHORTEST or key not in text:
        return text
    return re.sub(rf"(?<![\w-]){re.escape(key)}(?![\w-])", SHOWN, text)


def _without_beginnings(text: str, key: str) -> str:
    start = text.find(key[:SHORTEST])
    while start >= 0:
        end = start + SHORTEST
        while end < len(text) and end - start < len(key) and text[end] == key[end - start]:
            end += 1
        text = text[:start] + SHOWN + text[end:]
        start = text.find(key[:SHORTEST], start + len(SHOWN))
    return text
