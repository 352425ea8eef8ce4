"""What the gateway asks of a tracer; ``tracing`` holds the one there is, of the extra ``otel``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Fact = str | bool | int | float


class TraceSpan(Protocol):
    """One timed piece of work."""

    @property
    def trace(self) -> str:
        """The trace that it belongs to, in hexadecimal."""
        ...

    def child(self, name: str) -> TraceSpan:
        """Begin a part of this work."""
        ...

    def headers(self) -> Mapping[str, str]:
        """Return ``traceparent`` and ``tracestate`` of calls that are part of this work."""
        ...

    def end(self, facts: Mapping[str, Fact], error: str | None = None) -> None:
        """End it with what is known about it; ``error`` says why it failed."""
        ...


class Tracer(Protocol):
    """Begins spans of requests, and sends them to a collector when they have ended."""

    def begin(self, name: str, headers: Mapping[bytes, bytes]) -> TraceSpan:
        """Begin the span of a request, below that of the client's ``traceparent``."""
        ...

    def close(self) -> None:
        """Send what has ended, and stop."""
        ...
