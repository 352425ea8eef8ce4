"""Compressed bodies, unpacked within bounds: 64 KiB of gzip can hold 64 MiB of zeros."""

from __future__ import annotations

import zlib

# What is asked for in ``Accept-Encoding``.
ENCODINGS = "gzip, deflate"

# Bytes of one answer, unpacked or sent plain.
LARGEST = 64 * 2**20

# An answer may unpack to so many times its size; the first ``FREE`` bytes may come of anything. JSON with
# log-probabilities packs 10 to 20 times; a model that repeats one word for ever packs better, but is short.
RATIO, FREE = 200, 4 * 2**20


class BodyError(ValueError):
    """A body is too large, not what its encoding says, or in an encoding that was not asked for."""


class Body:
    """Gathers the parts of one body, unpacked. Raises BodyError as soon as it is too large."""

    def __init__(self, encoding: str | None, largest: int = LARGEST) -> None:
        kind = (encoding or "identity").strip().lower()
        if kind not in ("identity", "gzip", "x-gzip", "deflate"):
            raise BodyError("it is compressed in a way that was not asked for")
        self._largest, self._came, self._gave = largest, 0, 0
        # 32 added to the window size finds out whether a header is gzip's or zlib's.
        self._inflate = None if kind == "identity" else zlib.decompressobj(zlib.MAX_WBITS + 32)

    def take(self, part: bytes) -> bytes:
        """Return what a part holds."""
        self._came += len(part)
        if self._inflate is None:
            self._gave += len(part)
            if self._gave > self._largest:
                raise BodyError(f"it is larger than {self._largest} bytes")
            return part
        room = min(self._largest, max(FREE, RATIO * self._came)) - self._gave
        try:
            plain = self._inflate.decompress(part, room + 1)
        except zlib.error:
            raise BodyError("it is not compressed as it says") from None
        self._gave += len(plain)
        if len(plain) > room:
            raise BodyError("it unpacks to more than an answer can hold")
        return plain

    def end(self) -> None:
        """Check that nothing is missing."""
        if self._inflate is not None and self._came and not self._inflate.eof:
            raise BodyError("it was cut short")
