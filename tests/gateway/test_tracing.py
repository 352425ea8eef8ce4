"""Traces, as a collector receives them: a span per request, one per path, and ``traceparent`` in and out."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fault_server import Script, running
from gateway_rig import QUESTION, Rig, gateway
from raw_server import answer as body_of
from raw_server import http, raw_server

pytest.importorskip("opentelemetry.sdk", reason="pip install 'keff[otel]'")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACED = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}


@contextmanager
def collector(spans: list[Any], resources: list[Any]) -> Iterator[str]:
    """Run the receiving end of OTLP over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            sent = ExportTraceServiceRequest.FromString(raw)
            assert self.path == "/v1/traces"
            for resource in sent.resource_spans:
                resources.append({pair.key: pair.value.string_value for pair in resource.resource.attributes})
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            body = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def facts(span: Any) -> dict[str, Any]:
    values = {pair.key: pair.value for pair in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}


def traced(script: Script, *posts: dict[str, Any], **fields: Any) -> tuple[list[Any], list[Any], list[int]]:
    """Return spans, resources and statuses of requests to a gateway that has been closed since."""
    spans: list[Any] = []
    resources: list[Any] = []
    with (
        collector(spans, resources) as url,
        running(script) as upstream,
        gateway(upstream, otlp=url, **fields) as rig,
    ):
        statuses = [rig.post(**post).status_code for post in posts]
    return spans, resources, statuses


def test_a_request_and_its_paths_are_one_trace_with_the_client_s() -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    spans, resources, _ = traced(script, {"headers": TRACED})
    (request,) = [span for span in spans if span.parent_span_id.hex() == PARENT]
    paths = [span for span in spans if span.parent_span_id == request.span_id]
    assert (len(spans), len(paths)) == (4, 3)
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert request.name == "POST /v1/chat/completions"
    told = facts(request)
    assert told["http.response.status_code"] == 200
    assert (told["keff.paths"], told["keff.stop"], told["keff.share"]) == (3, "policy", 1.0)
    assert facts(paths[0])["gen_ai.usage.input_tokens"] == 7
    sent = {headers["traceparent"] for headers in script.headers}
    assert sent == {f"00-{TRACE}-{path.span_id.hex()}-01" for path in paths}
    assert {headers["tracestate"] for headers in script.headers} == {"vendor=1"}
    assert resources[0]["service.name"] == "keff"
    assert "answer" not in str(spans)
    assert QUESTION[0]["content"] not in str(spans)


def test_failures_are_marked_and_what_starts_here_has_a_trace_of_its_own() -> None:
    script = Script(fault=lambda *_: "400", answer=lambda *_: "7")
    spans, _, statuses = traced(script, {}, planless=True)
    assert statuses == [400]
    (request,) = [span for span in spans if not span.parent_span_id]
    paths = [span for span in spans if span.parent_span_id == request.span_id]
    assert len(paths) == len(script.requests)
    assert all(path.status.code == 2 for path in paths)
    assert request.status.code == 0
    assert all(headers["traceparent"].split("-")[1] == request.trace_id.hex() for headers in script.headers)


def test_relayed_and_passed_requests_are_traced_too() -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    single = {"messages": QUESTION, "keff": {"k": 1}, "stream": True}
    spans, _, _ = traced(script, {"body": single, "headers": TRACED})
    (request,) = spans
    assert script.headers[0]["traceparent"] == f"00-{TRACE}-{request.span_id.hex()}-01"
    seen: list[Any] = []
    told: list[Any] = []
    with (
        raw_server(lambda *_: http(b"{}")) as upstream,
        collector(seen, told) as url,
        gateway(upstream, otlp=url) as rig,
    ):
        embed(rig)
    assert [span.name for span in seen] == ["POST /v1/embeddings"]


def embed(rig: Rig) -> None:
    import httpx2

    assert httpx2.post(f"{rig.url}/embeddings", json=body_of()).status_code == 200


def test_without_a_collector_headers_pass_as_they_are() -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    with running(script) as upstream, gateway(upstream) as rig:
        rig.post(headers=TRACED)
    assert {headers["traceparent"] for headers in script.headers} == {TRACED["traceparent"]}
