"""Server-sent events as chat servers write them.

One ``data`` line per event, events divided by an empty line.
"""

from __future__ import annotations

import re

DONE = b"[DONE]"
_GAP = re.compile(rb"\r\n\r\n|\n\n|\r\r")


# Bytes of one event: what is longer is given in pieces, which are no events.
LONGEST_EVENT = 4 * 2**20


class Events:
    """Cuts bytes into events, as they come; takes time in proportion to the bytes, and bounded memory."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0

    def feed(self, part: bytes) -> list[bytes]:
        """Return the events that are whole now, as they were written, with the empty line that ends each."""
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
        """The bytes of an event that has not ended."""
        return bytes(self._rest)


def data_of(event: bytes) -> bytes:
    """Return the data of an event; empty for a comment."""
    lines = (line for line in event.splitlines() if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)
