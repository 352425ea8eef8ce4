"""A gateway before a scripted server of the Responses API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from gateway_rig import Rig, gateway
from keff.gateway.http.stream import response_events
from raw_server import REPLIES, http, raw_server

Give = Callable[[int, dict[str, Any]], dict[str, Any]]
USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 12,
}


def text(said: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "f",
        "call_id": "c",
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{next(REPLIES)}",
        "object": "response",
        "created_at": 1,
        "model": "stub",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
    } | more


def says(*texts: str) -> Give:
    return lambda number, _: response(text(texts[number % len(texts)]))


@contextmanager
def served(give: Give, **options: Any) -> Iterator[tuple[Rig, list[dict[str, Any]], list[str]]]:
    bodies: list[dict[str, Any]] = []
    paths: list[str] = []

    def answer(number: int, body: dict[str, Any]) -> list[bytes]:
        bodies.append(body)
        made = give(number, body)
        if body.get("stream"):
            events = b"".join(response_events(made))
            return http(events, content_type="text/event-stream")
        return http(json.dumps(made).encode())

    with raw_server(answer, paths) as url, gateway(url, **options) as rig:
        yield rig, bodies, paths


def post(rig: Rig, **body: Any) -> httpx2.Response:
    return httpx2.post(f"{rig.url}/responses", json={"model": "stub", **body}, timeout=60)
