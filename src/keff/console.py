"""Words of others (a server's error, a path, a model's name) as they may be shown on terminals and pages."""

from __future__ import annotations

# Control characters, which a terminal obeys, marks of direction, which turn around what is beside them, and
# what no text holds: halves of characters, and two that XML forbids.
_RANGES = (
    (0x00, 0x08),
    (0x0B, 0x1F),
    (0x7F, 0x9F),
    (0x61C, 0x61C),
    (0x200E, 0x200F),
    (0x2028, 0x2029),
    (0x202A, 0x202E),
    (0x2066, 0x2069),
    (0xD800, 0xDFFF),
    (0xFEFF, 0xFEFF),
    (0xFFFE, 0xFFFF),
)
_HARMFUL = [code for first, last in _RANGES for code in range(first, last + 1)]
_GONE = dict.fromkeys(_HARMFUL)
_ESCAPED = {code: f"\\u{code:04x}" for code in _HARMFUL}


def harmless(text: str) -> str:
    """Return a text without control characters and marks of direction; line ends and tabs stay."""
    return text.translate(_GONE)


def harmless_json(text: str) -> str:
    """Return JSON of the same meaning with these characters escaped."""
    return text.translate(_ESCAPED)
