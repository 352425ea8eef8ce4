"""What a worker and the process that keeps the books say to each other: one JSON object per line."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, cast

from keff.gateway.traffic.ledger import Voted, VoteLedger
from keff.gateway.traffic.savings import Spent
from keff.narrow import fields, items
from keff.protocol.values import Object, decoded

LONGEST_LINE = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Answered:
    """How long a reply took and what it cost."""

    stop: str
    spent: Spent
    at: float


@dataclass(frozen=True, slots=True)
class DrawnOn:
    """All votes of a regular request that was drawn on after its reply."""

    keys: tuple[str | None, ...]
    at: float


Note = Voted | Answered | DrawnOn


class Link:
    """One end of the line between two processes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, end: socket.socket) -> Link:
        """Return the link over one end of a socket pair."""
        return cls(*await asyncio.open_unix_connection(sock=end, limit=LONGEST_LINE))

    def send(self, message: Object) -> None:
        """Send one message; what the other end no longer takes is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def messages(self) -> AsyncIterator[Object]:
        """Yield what comes until the other end closes."""
        while True:
            try:
                line = await self._reader.readline()
            except (OSError, ValueError):
                return
            if not line.endswith(b"\n"):
                return
            yield fields(decoded(line))

    async def close(self) -> None:
        """Send what is left, and close."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return


def packed(notes: Iterable[Note]) -> list[object]:
    """Return notes as JSON holds them: answers as 0, 1, ... within a request, for only equality counts."""
    rows: list[object] = []
    for note in notes:
        if isinstance(note, Voted):
            rows.append(["v", note.at, _codes(note.keys), note.kind, note.cause, note.failed, note.regular])
        elif isinstance(note, Answered):
            rows.append(["a", note.at, note.stop, *astuple(note.spent)])
        else:
            rows.append(["d", note.at, _codes(note.keys)])
    return rows


def unpacked(rows: object) -> list[Note]:
    """Return the notes of ``packed``."""
    return [_note(items(row)) for row in items(rows)]


def _note(row: Sequence[object]) -> Note:
    at = float(str(row[1]))
    if row[0] == "a":
        # Written by ``packed``, in the order of its fields.
        return Answered(str(row[2]), Spent(*cast("Sequence[Any]", row[3:])), at)
    keys = tuple(None if code is None else str(code) for code in items(row[2]))
    if row[0] == "d":
        return DrawnOn(keys, at)
    kind = None if row[3] is None else str(row[3])
    return Voted(keys, kind, str(row[4]), int(str(row[5])), bool(row[6]), at)


def _codes(keys: Sequence[str | None]) -> list[int | None]:
    names: dict[str, int] = {}
    return [None if key is None else names.setdefault(key, len(names)) for key in keys]


def enter(note: Note, books: VoteLedger) -> None:
    """Write a note down."""
    if isinstance(note, Voted):
        books.voted(note)
    elif isinstance(note, Answered):
        books.answered(note.stop, note.spent)
    else:
        books.drawn_on(note.keys)
