"""Bodies of upstream answers, taken within bounds, and what goes wrong on the way."""

from __future__ import annotations

import ssl

from keff.gateway.upstream.call import BrokenError, Call
from keff.gateway.upstream.client import UnreachableError
from keff.protocol.unpack import Body, BodyError

# What goes wrong on the wire: TimeoutError and those of TLS are OSErrors, BodyError is a ValueError.
BROKEN = (OSError, ValueError)


async def limited(call: Call) -> bytes:
    """Return the body of an answer, unpacked; raises BodyError for one that is too large."""
    encoding = call.headers.get("content-encoding")
    if encoding is None:
        return await call.read()
    body = Body(encoding)
    parts = [body.take(part) async for part in call.parts()]
    body.end()
    return b"".join(parts)


def plain(error: Exception) -> str:
    """Return in a few words what went wrong on the wire."""
    if isinstance(error, BodyError):
        return f"its answer cannot be taken: {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate cannot be trusted"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as it should"
    if isinstance(error, UnreachableError):
        return str(error) or "it cannot be reached"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"the connection broke ({error if isinstance(error, BrokenError) else type(error).__name__})"
