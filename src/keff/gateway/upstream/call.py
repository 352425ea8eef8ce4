"""One HTTP/1.1 call to an upstream: what comes back, as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from keff.protocol.unpack import LARGEST, BodyError

# So much of a body is held for who reads it part by part; then the upstream waits.
HELD = 256 * 1024

GIVEN_UP = "it was given up"


class BrokenError(ConnectionError):
    """A connection ended in the middle of an answer, or what came over it is not HTTP."""


class Carrier(Protocol):
    """What brings the answer of a call."""

    def abort(self) -> None:
        """Close at once."""
        ...

    def pause(self) -> None:
        """Read no more for now."""
        ...

    def go_on(self) -> None:
        """Read on."""
        ...


class Call:
    """One call: its status and headers (names in lower case) once they came, and its body as it comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, method: str, ended: Callable[[Call], None]) -> None:
        self.status, self.headers = 0, dict[str, str]()
        self.method, self._loop, self._ended = method, loop, ended
        self._parts: list[bytes] = []
        self._size, self._most = 0, HELD
        self._connection: Carrier | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._over = self._whole = False

    @property
    def kind(self) -> str:
        """The content type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def length(self) -> int | None:
        """The stated length of the body, if it is one."""
        stated = self.headers.get("content-length", "")
        return int(stated) if stated.isascii() and stated.isdigit() else None

    async def head(self) -> None:
        """Wait for status and headers; raises what broke the call."""
        while not self.status:
            self._check()
            await self._wait()

    async def read(self, most: int = LARGEST) -> bytes:
        """Return the whole body as it is sent; raises BodyError for a larger one, or what broke the call."""
        self._most = most
        self._go_on()
        while not self._whole and self._size <= most:
            self._check()
            await self._wait()
        if self._size > most:
            raise BodyError(f"it is larger than {most} bytes")
        return self._taken()

    async def parts(self) -> AsyncGenerator[bytes]:
        """Yield the body as it comes; raises what broke the call."""
        while True:
            if self._parts:
                yield self._taken()
                self._go_on()
            elif self._whole:
                return
            else:
                self._check()
                await self._wait()

    def close(self) -> None:
        """End the call: a connection in the middle of an answer is closed."""
        if not self._over:
            self.fail(BrokenError(GIVEN_UP))

    def carried(self, connection: Carrier) -> None:
        """Take the connection whose next answer is this call's."""
        self._connection = connection
        if self._over:
            connection.abort()

    def began(self, status: int) -> None:
        """Take the status: all headers are there."""
        self.status = status
        self._wake()

    def take(self, part: bytes) -> None:
        """Take a part of the body; beyond what may be held, the connection waits."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most and self._connection is not None:
            self._connection.pause()
        self._wake()

    def end(self) -> None:
        """The answer is whole."""
        self._whole = True
        self._finish()

    def fail(self, error: Exception) -> None:
        """End a call that is not over yet."""
        if self._over:
            return
        self._error = error
        if self._connection is not None:
            self._connection.abort()
        self._finish()

    def _finish(self) -> None:
        self._over, self._connection = True, None
        self._ended(self)
        self._wake()

    def _taken(self) -> bytes:
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts, self._size = [], 0
        return body

    def _go_on(self) -> None:
        if self._connection is not None:
            self._connection.go_on()

    def _check(self) -> None:
        if self._error is not None:
            # Kept, it would hold by its traceback the frames that hold this call.
            error, self._error = self._error, BrokenError(GIVEN_UP)
            raise error

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
