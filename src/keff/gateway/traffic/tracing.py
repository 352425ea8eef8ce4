"""OpenTelemetry tracing (extra ``otel``): spans of requests and paths, exported by OTLP over HTTP.

Neither questions nor answers nor keys are in a span. Names follow the conventions for generative AI where
there are any. The environment variables of OpenTelemetry hold (``OTEL_SERVICE_NAME``,
``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_TRACES_SAMPLER``, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from keff.gateway.traffic.metrics import Fact
from keff.protocol.values import picked

PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(slots=True)
class TraceSpan:
    """One span of a trace."""

    _tracer: trace.Tracer
    _span: trace.Span

    @property
    def trace(self) -> str:
        """The trace id, in hexadecimal."""
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def child(self, name: str) -> TraceSpan:
        """Start a child span."""
        within = trace.set_span_in_context(self._span)
        return TraceSpan(self._tracer, self._tracer.start_span(name, within, SpanKind.CLIENT))

    def headers(self) -> Mapping[str, str]:
        """Return the headers ``traceparent`` and ``tracestate`` that propagate this span."""
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier, trace.set_span_in_context(self._span))
        return carrier

    def end(self, facts: Mapping[str, Fact], error: str | None = None) -> None:
        """End the span with its attributes; ``error`` says why it failed."""
        self._span.set_attributes(facts)
        if error is not None:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class Tracer:
    """Starts spans of requests, and exports ended ones to a collector.

    ``url`` is the base address of the collector, such as http://127.0.0.1:4318.
    """

    def __init__(self, url: str) -> None:
        named = {SERVICE_NAME: "keff", SERVICE_VERSION: version("keff")}
        resource = Resource.create(named).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource)
        exporter = OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("keff.gateway", version("keff"))

    def begin(self, name: str, headers: Mapping[bytes, bytes]) -> TraceSpan:
        """Start the span of a request, as a child of the client's ``traceparent``."""
        carrier = picked(headers, (b"traceparent", b"tracestate"))
        span = self._tracer.start_span(name, PROPAGATOR.extract(carrier), SpanKind.SERVER)
        return TraceSpan(self._tracer, span)

    def close(self) -> None:
        """Export all ended spans, and shut down."""
        self._provider.shutdown()
