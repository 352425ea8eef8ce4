"""Errors of one request, as the error object of the OpenAI API."""

from __future__ import annotations

import json
from collections.abc import Mapping

from keff.protocol.values import Object

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    502: "upstream_error",
    503: "overloaded_error",
    504: "timeout_error",
}

HEADERS: dict[int, Mapping[str, str]] = {
    401: {"www-authenticate": "Bearer"},
    503: {"retry-after": "1"},
}


class Problem(Exception):
    """An HTTP error that ends a request; its text is one line with a remedy."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self._kind = status, code, param, kind
        self.headers = headers or HEADERS.get(status, {})

    def error(self) -> Object:
        """Return the OpenAI error object: message, type, parameter and code."""
        kind = self._kind or KINDS.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        return {"message": str(self), "type": kind, "param": self.param, "code": self.code}

    def body(self) -> bytes:
        """Return the whole error body."""
        return json.dumps({"error": self.error()}).encode()


class ClientDisconnected(Exception):
    """Raised when the client has closed the connection."""
