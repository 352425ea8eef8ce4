"""Words of others (a server's error, a path, a model's name) as they may be shown on terminals and pages."""

from __future__ import annotations

import re

# Control characters, which a terminal obeys, and marks of direction, which turn around what is beside them.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff]"
)


def harmless(text: str) -> str:
    """Return a text without control characters and marks of direction; line ends and tabs stay."""
    return _HARMFUL.sub("", text)


def harmless_json(text: str) -> str:
    """Return JSON of the same meaning with these characters escaped."""
    return _HARMFUL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
