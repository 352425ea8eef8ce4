"""Server-sent events as chat servers write them.

One ``data`` line per event, events divided by an empty line.
"""

from __future__ import annotations

import re

DONE = b"[DONE]"
_GAP = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class Events:
    """Cuts bytes into events, as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, part: bytes) -> list[bytes]:
        """Return the events that are whole now, as they were written, with the empty line that ends each."""
        self._rest += part
        events: list[bytes] = []
        start = 0
        for gap in _GAP.finditer(self._rest):
            events.append(self._rest[start : gap.end()])
            start = gap.end()
        self._rest = self._rest[start:]
        return events

    @property
    def rest(self) -> bytes:
        """The bytes of an event that has not ended."""
        return self._rest


def data_of(event: bytes) -> bytes:
    """Return the data of an event; empty for a comment."""
    lines = (line for line in event.splitlines() if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)
