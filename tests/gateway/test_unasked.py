"""Upstreams that answer otherwise than they were asked: whole, compressed, or with another type or status."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gateway_rig import QUESTION, gateway
from keff.gateway.http.stream import response_events
from raw_server import REPLIES, answer, given, http, raw_server
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


def events() -> bytes:
    """Return the stream of a chat completion."""
    events: list[dict[str, Any]] = [
        {"id": f"x{next(REPLIES)}", "model": "stub", "choices": [{"index": 0, "delta": {"content": word}}]}
        for word in ("the ", "answer ", "is ", "7")
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 4}})
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return raw + b"data: [DONE]\n\n"


def packed(*_: Any) -> list[bytes]:
    """Give the stream in gzip, which nobody asked for."""
    return http(gzip.compress(events()), content_type="text/event-stream", content_encoding="gzip")


@pytest.mark.parametrize("policy", ["fixed:1", "fixed:3,in_flight=3"])
def test_a_stream_in_gzip_that_nobody_asked_for_is_unpacked(policy: str) -> None:
    with raw_server(packed) as url, gateway(url, planless=True) as rig:
        body = {"model": "m", "messages": QUESTION, "stream": True, "keff": {"policy": policy}}
        # As a client that never looks at the encoding.
        with httpx2.stream("POST", f"{rig.url}/chat/completions", json=body, timeout=60) as reply:
            assert "content-encoding" not in reply.headers
            raw = b"".join(reply.iter_raw())
        assert rig.metric("keff_tokens_total") == (7 + 4) * (1 if policy == "fixed:1" else 3)
    assert said_in(raw) == "the answer is 7"


@pytest.mark.parametrize("end", [b"", b"data: [DONE]", b'"stop"'])
def test_votes_read_a_stream_that_nobody_asked_for(end: bytes) -> None:
    """Where it breaks off within a path the vote says so, as of a stream that was asked for."""

    def give(*_: Any) -> list[bytes]:
        raw = events()
        return http(raw[: raw.index(end)] if end else raw, content_type="text/event-stream")

    with (
        raw_server(give) as url,
        gateway(url, planless=True, policy="fixed:3", path_seconds=1) as rig,
    ):
        reply = rig.post({"model": "m", "messages": QUESTION})
        assert rig.metric("keff_tokens_total") == (0 if end == b'"stop"' else 3 * (7 + 4))
    if end == b'"stop"':
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_failed")
    else:
        assert (reply.json()["keff"]["answer"], reply.json()["keff"]["paths"]) == ("7", 3)


def said_in(raw: bytes) -> str:
    told = [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in told if event["choices"])


def test_a_relayed_stream_is_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """With log-probabilities of many alternatives one is longer than what may be held of an answer."""
    monkeypatch.setattr("keff.protocol.values.LARGEST", 100)
    with (
        raw_server(lambda *_: http(events(), content_type="text/event-stream")) as url,
        gateway(url, planless=True) as rig,
    ):
        reply = rig.post({"model": "m", "messages": QUESTION, "stream": True, **ONE})
    assert said_in(reply.content) == "the answer is 7" and b"upstream_failed" not in reply.content


WHOLE = events()


@pytest.mark.parametrize(
    ("end", "whole"),
    [
        (len(WHOLE), True),
        (WHOLE.index(b"data: [DONE]"), True),
        (len(WHOLE) - 1, True),
        (WHOLE.index(b'"stop"'), False),
        (WHOLE.index(b"answer"), False),
        (0, False),
    ],
)
def test_a_stream_that_ends_before_its_answer_does_says_so(end: int, whole: bool) -> None:
    """The end of a connection may be that of a stream, or of a server that died: the events tell."""

    def give(*_: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 So\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        yield WHOLE[:end]

    body = {"model": "m", "messages": QUESTION, "stream": True, **ONE}
    with raw_server(give) as url, gateway(url, planless=True) as rig:
        reply = rig.post(body)
    assert reply.status_code == 200
    assert (b"upstream_failed" in reply.content) != whole
    if whole:
        assert said_in(reply.content) == "the answer is 7"


def test_a_relayed_response_that_is_long_is_whole() -> None:
    """Its last event repeats all of it, and names at its beginning that it is the last."""
    long = response(text("the answer is 7, " * 20_000))
    with (
        raw_server(lambda *_: http(b"".join(response_events(long)), content_type="text/event-stream")) as url,
        gateway(url, planless=True) as rig,
    ):
        stream = rig.client().responses.create(model="m", input="6 x 7?", stream=True, extra_body=ONE)
        assert [event.type for event in stream][-1] == "response.completed"


def test_a_stream_in_gzip_that_breaks_off_ends_in_an_error() -> None:
    def cut(*_: Any) -> Iterator[bytes]:
        yield from http(packed()[1][:-20], content_type="text/event-stream", content_encoding="gzip")

    with raw_server(cut) as url, gateway(url, planless=True) as rig:
        reply = rig.post({"model": "m", "messages": QUESTION, "stream": True, **ONE})
    assert "upstream_failed" in reply.text.splitlines()[-2]


def test_gzip_of_what_is_passed_on_comes_unpacked_and_clients_read_it() -> None:
    body = json.dumps({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]})
    raw = gzip.compress(body.encode())
    with raw_server(lambda *_: http(raw, content_encoding="gzip")) as url, gateway(url) as rig:
        made = rig.client().embeddings.create(model="m", input="x", encoding_format="float")
        assert made.data[0].embedding == [0.5]
        with httpx2.stream("POST", f"{rig.url}/embeddings", json={"model": "m"}) as reply:
            assert "content-encoding" not in reply.headers
            assert b"".join(reply.iter_raw()) == body.encode()


@pytest.mark.parametrize("kind", ["text/plain", "application/json", ""])
def test_a_stream_of_another_type_or_of_none_is_a_stream_from_its_first_event_on(kind: str) -> None:
    go_on = threading.Event()
    head, body = http(events(), content_type=kind)
    cut = body.index(b"answer")

    def give(*_: Any) -> Iterator[bytes]:
        yield head if kind else head.replace(b"content-type: \r\n", b"")
        yield body[:cut]
        assert go_on.wait(10)
        yield body[cut:]

    asked = {"model": "m", "messages": QUESTION, "stream": True, **ONE}
    with raw_server(give) as url, gateway(url, planless=True) as rig:
        with httpx2.stream("POST", f"{rig.url}/chat/completions", json=asked, timeout=60) as reply:
            assert reply.headers["content-type"] == "text/event-stream"
            parts = reply.iter_raw()
            raw = next(parts)
            assert b"the " in raw
            go_on.set()
            assert said_in(raw + b"".join(parts)) == "the answer is 7"
        assert rig.metric("keff_tokens_total") == 7 + 4
        flying = rig.post({"model": "m", "messages": QUESTION, "keff": {"policy": "fixed:2,in_flight=2"}})
        assert (flying.json()["keff"]["answer"], flying.json()["keff"]["failed"]) == ("7", 0)


def test_another_status_of_success_and_a_byte_order_mark_are_no_failure() -> None:
    """As the frameworks of some servers send them."""
    said = [http(json.dumps(answer()).encode(), 201), http(b"\xef\xbb\xbf" + json.dumps(answer()).encode())]
    with raw_server(lambda number, _: said[number]) as url, gateway(url, planless=True) as rig:
        for _ in said:
            told = rig.post({"model": "m", "messages": QUESTION, **ONE}).json()["keff"]
            assert (told["answer"], told["failed"]) == ("7", 0)
    created = http(events(), 201, content_type="text/event-stream")
    with raw_server(lambda *_: created) as url, gateway(url, planless=True) as rig:
        reply = rig.post({"model": "m", "messages": QUESTION, "stream": True, **ONE})
        assert (reply.status_code, said_in(reply.content)) == (200, "the answer is 7")


def test_a_key_in_the_error_of_a_voted_stream_is_masked() -> None:
    key = "sk-0123456789abcdefghij"
    raw = b'data: {"error": {"message": "no credit is left on %s"}}\n\n' % key.encode()
    with (
        raw_server(lambda *_: http(raw, content_type="text/event-stream")) as url,
        gateway(url, planless=True, key=key, policy="fixed:2,in_flight=2", replacements=0) as rig,
    ):
        refused = rig.post({"model": "m", "messages": QUESTION})
    assert refused.status_code == 502 and "no credit is left on ***" in refused.json()["error"]["message"]
