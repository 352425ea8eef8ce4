"""Bodies of upstream answers, taken within bounds, and what goes wrong on the way."""

from __future__ import annotations

import aiohttp

from keff.protocol.unpack import LARGEST, Body, BodyError

BROKEN = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""What goes wrong on the wire; BodyError is a ValueError."""


async def limited(response: aiohttp.ClientResponse) -> bytes:
    """Return a response's body, unpacked; raises BodyError for one that is too large."""
    encoding = response.headers.get("content-encoding")
    if encoding is None and response.content_length is not None and response.content_length <= LARGEST:
        return await response.read()
    body = Body(encoding)
    parts = [body.take(part) async for part in response.content.iter_any()]
    body.end()
    return b"".join(parts)


def plain(error: Exception) -> str:
    """Return in a few words what went wrong on the wire."""
    if isinstance(error, BodyError):
        return f"its answer cannot be taken: {error}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate cannot be trusted"
    if isinstance(error, aiohttp.ClientSSLError):
        return "it does not speak TLS as it should"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "it cannot be reached"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"the connection broke ({type(error).__name__})"
