"""Upstreams that answer otherwise than they were asked: whole for a stream, or compressed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gateway_rig import QUESTION, gateway
from raw_server import given, http, raw_server
from responses_rig import USAGE, response, text

ONE = {"keff": {"k": 1}}
TOOL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize("with_usage", [False, True])
def test_one_path_that_came_whole_is_streamed_to_the_client(with_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    asked: list[dict[str, Any]] = []
    with (
        raw_server(lambda _, body: asked.append(body) or given(text="the answer is 7")) as url,  # type: ignore[func-returns-value]
        gateway(url, planless=True) as rig,
    ):
        stream = rig.client().chat.completions.create(
            model="m",
            messages=QUESTION,  # type: ignore[arg-type]
            stream=True,
            extra_body=ONE,
            **options,
        )
        events = list(stream)
        assert rig.metric("keff_tokens_total") == 7 + 5
        assert rig.metric("keff_paths_total") == 1
    choices = [event.choices[0] for event in events if event.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "the answer is 7"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert {event.model for event in events} == {"stub"}
    usage = [event.usage.completion_tokens for event in events if event.usage]
    assert usage == ([5] if with_usage else [])
    assert len(asked) == 1 and asked[0]["stream"], "it is paid for once"


def test_a_tool_call_that_came_whole_is_streamed_with_its_arguments() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [TOOL]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    with raw_server(lambda *_: given(choices=[choice])) as url, gateway(url, planless=True) as rig:
        stream = rig.client().chat.completions.create(
            model="m",
            messages=QUESTION,  # type: ignore[arg-type]
            stream=True,
            extra_body=ONE,
        )
        deltas = [event.choices[0].delta for event in stream if event.choices]
    (called,) = (call for delta in deltas for call in delta.tool_calls or ())
    assert called.function is not None
    assert (called.index, called.function.name, called.function.arguments) == (0, "add", '{"a": 1}')


def test_a_response_that_came_whole_is_streamed_to_the_client() -> None:
    body = json.dumps(response(text("the answer is 7"))).encode()
    with raw_server(lambda *_: http(body)) as url, gateway(url, planless=True) as rig:
        stream = rig.client().responses.create(model="m", input="6 x 7?", stream=True, extra_body=ONE)
        events = list(stream)
        assert rig.metric("keff_tokens_total") == USAGE["total_tokens"]
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "the answer is 7"


def test_an_answer_for_a_stream_that_is_none_is_an_error_with_its_reason() -> None:
    said: list[bytes] = []
    with raw_server(lambda *_: http(said[-1])) as url, gateway(url, planless=True) as rig:
        for raw, reason in (
            (b'{"error": {"message": "the engine is overloaded"}}', "the engine is overloaded"),
            (b"<html>sign in</html>", "not JSON"),
            (b'{"choices": []}', "no choices"),
        ):
            said.append(raw)
            refused = rig.post({"model": "m", "messages": QUESTION, "stream": True, **ONE})
            assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_failed")
            assert reason in refused.json()["error"]["message"]


def test_votes_in_flight_take_a_path_that_came_whole_as_it_is() -> None:
    """Not asked for again: it was paid for."""
    asked: list[dict[str, Any]] = []
    with (
        raw_server(lambda _, body: asked.append(body) or given()) as url,  # type: ignore[func-returns-value]
        gateway(url, planless=True, policy="fixed:3,in_flight=3") as rig,
    ):
        told = rig.post({"model": "m", "messages": QUESTION}).json()
    assert (told["keff"]["answer"], told["keff"]["paths"]) == ("7", 3)
    assert told["usage"]["completion_tokens"] == 15
    assert len(asked) == 3 and all(body["stream"] for body in asked)


def packed_stream(*_: Any) -> Iterator[bytes]:
    """Stream a chat completion in gzip, which nobody asked for."""
    events = [
        {"id": "x", "model": "stub", "choices": [{"index": 0, "delta": {"content": word}}]}
        for word in ("the ", "answer ", "is ", "7")
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 4}})
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    yield from http(
        gzip.compress(raw + b"data: [DONE]\n\n"), content_type="text/event-stream", content_encoding="gzip"
    )


@pytest.mark.parametrize("policy", ["fixed:1", "fixed:3,in_flight=3"])
def test_a_stream_in_gzip_that_nobody_asked_for_is_unpacked(policy: str) -> None:
    with raw_server(packed_stream) as url, gateway(url, planless=True) as rig:
        body = {"model": "m", "messages": QUESTION, "stream": True, "keff": {"policy": policy}}
        # As a client that never looks at the encoding.
        with httpx2.stream("POST", f"{rig.url}/chat/completions", json=body, timeout=60) as reply:
            assert "content-encoding" not in reply.headers
            raw = b"".join(reply.iter_raw())
        assert rig.metric("keff_tokens_total") == (7 + 4) * (1 if policy == "fixed:1" else 3)
    events = [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: {")]
    said = [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]
    assert "".join(said) == "the answer is 7"


def test_a_stream_in_gzip_that_breaks_off_ends_in_an_error() -> None:
    def cut(*_: Any) -> Iterator[bytes]:
        body = list(packed_stream())[1]
        yield from http(body[:-20], content_type="text/event-stream", content_encoding="gzip")

    with raw_server(cut) as url, gateway(url, planless=True) as rig:
        reply = rig.post({"model": "m", "messages": QUESTION, "stream": True, **ONE})
    assert "upstream_failed" in reply.text.splitlines()[-2]


def test_gzip_of_what_is_passed_on_keeps_its_header_and_clients_read_it() -> None:
    body = json.dumps({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]})
    packed = gzip.compress(body.encode())
    with raw_server(lambda *_: http(packed, content_encoding="gzip")) as url, gateway(url) as rig:
        made = rig.client().embeddings.create(model="m", input="x", encoding_format="float")
        assert made.data[0].embedding == [0.5]
        with httpx2.stream("POST", f"{rig.url}/embeddings", json={"model": "m"}) as reply:
            assert reply.headers["content-encoding"] == "gzip"
            assert b"".join(reply.iter_raw()) == packed
