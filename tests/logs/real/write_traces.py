"""Write traces with the real MLflow and the real OpenTelemetry SDK, and beside each what was said.

    python write_traces.py OUT

The model is a fixed draw, so what every path said is known.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
from google.protobuf.json_format import MessageToDict
from mlflow.entities import AssessmentSource, AssessmentSourceType
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

NUMBERS, REPEATS = (3, 4, 5), 3
CHAT = "gen_ai"


def draw(*parts: object) -> float:
    """Return a number in [0, 1) that is the same on every machine."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big") / 2**48


def asked() -> Iterator[tuple[str, str, bool]]:
    """Yield question, what is said to it, and whether that is right."""
    for number in NUMBERS:
        question = f"What is {number} + {number}?"
        for repeat in range(REPEATS):
            right = draw(question, repeat) < 0.6
            yield question, f"The answer is {2 * number + (not right)}", right


def write_mlflow(out: Path) -> None:
    mlflow.set_tracking_uri((out / "mlruns").resolve().as_uri())
    mlflow.set_experiment("keff")
    code = AssessmentSource(source_type=AssessmentSourceType.CODE, source_id="rule")
    for question, said, right in asked():

        def agent(question: str) -> str:
            with mlflow.start_span("model", span_type="CHAT_MODEL") as span:
                span.set_inputs({"question": question})
                span.set_outputs(said)  # noqa: B023 (called at once)
            return said  # noqa: B023

        mlflow.trace(agent)(question)
        trace = mlflow.get_last_active_trace_id()
        gold = str(2 * int(question.split()[2]))
        mlflow.log_feedback(trace_id=trace, name="correctness", value=right, source=code)
        mlflow.log_expectation(trace_id=trace, name="expected_response", value=gold, source=code)
    traces: list[Any] = mlflow.search_traces(return_type="list", max_results=100)
    (out / "mlflow_traces.jsonl").write_text("".join(f"{trace.to_json()}\n" for trace in traces))


def write_opentelemetry(out: Path) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    for question, said, right in asked():
        with provider.get_tracer("toy").start_as_current_span("chat toy-1") as span:
            ends = {"input": [("user", question)], "output": [("assistant", said)]}
            for end, messages in ends.items():
                parts = [
                    {"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages
                ]
                span.set_attribute(f"{CHAT}.{end}.messages", json.dumps(parts))
            span.set_attributes({f"{CHAT}.operation.name": "chat", f"{CHAT}.request.model": "toy-1"})
            span.set_attributes({f"{CHAT}.usage.input_tokens": 9, f"{CHAT}.usage.output_tokens": 4})
            told = {
                f"{CHAT}.evaluation.name": "exact",
                f"{CHAT}.evaluation.score.value": float(right),
                f"{CHAT}.evaluation.score.label": "pass" if right else "fail",
            }
            span.add_event(f"{CHAT}.evaluation.result", told)
    spans = kept.get_finished_spans()
    single = "".join(json.dumps(json.loads(span.to_json())) + "\n" for span in spans)
    (out / "otel_spans.jsonl").write_text(single)
    lines = "".join(json.dumps(MessageToDict(encode_spans([span]))) + "\n" for span in spans)
    (out / "otel_otlp.jsonl").write_text(lines)


def main(out: Path) -> None:
    truth = [[question, said, int(right)] for question, said, right in asked()]
    for name, write in (("mlflow", write_mlflow), ("otel", write_opentelemetry)):
        write(out)
        (out / f"{name}.truth").write_text(json.dumps(truth))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
