"""What passes a gateway unchanged: the upstream's errors, tracing headers, the query, and all other paths."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from fault_server import Script
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.cli._serve_options import read_settings
from keff.errors import UsageError
from raw_server import answer, http, raw_server

Serve = Callable[..., Rig]

ERRORS: list[tuple[int, dict[str, Any]]] = [
    (
        400,
        {
            "message": "too long",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    ),
    (400, {"message": "flagged", "type": "invalid_request_error", "param": None, "code": "content_filter"}),
    (
        404,
        {
            "message": "no such model",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        },
    ),
    (460, {"message": "of its own", "type": "own", "param": None, "code": "no_known_status"}),
    (422, {"message": "bad field", "type": "validation", "param": "top_k", "code": "unknown_field"}),
    (
        429,
        {
            "message": "You exceeded your quota",
            "type": "insufficient_quota",
            "param": None,
            "code": "insufficient_quota",
        },
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "error"), ERRORS)
def test_the_upstream_s_own_error_reaches_the_client(
    status: int, error: dict[str, Any], stream: bool
) -> None:
    raw = json.dumps({"error": error}).encode()
    with raw_server(lambda *_: http(raw, status)) as url, gateway(url) as rig:
        for policy in ({}, {"k": 1}):
            reply = rig.post({"messages": QUESTION, "stream": stream, "keff": policy})
            assert (reply.status_code, reply.json()["error"]) == (status, error)


def test_a_rate_limit_says_when_to_come_back_and_limits_are_handed_on() -> None:
    busy = json.dumps({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}).encode()
    with (
        raw_server(lambda *_: http(busy, 429, retry_after="1")) as url,
        gateway(url, options=Options(replacements=0)) as rig,
    ):
        reply = rig.post()
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    # A minute is the client's to wait: no path is asked for again.
    asked: list[int] = []
    with (
        raw_server(lambda number, _: asked.append(number) or http(busy, 429, retry_after="60")) as url,
        gateway(url) as rig,
    ):
        reply = rig.post()
    assert (reply.status_code, reply.headers["retry-after"], len(asked)) == (429, "60", 3)
    told = http(json.dumps(answer()).encode(), x_ratelimit_remaining_requests="41", x_other="secret")
    with raw_server(lambda *_: told) as url, gateway(url) as rig:
        headers = rig.post().headers
        assert headers["x-ratelimit-remaining-requests"] == "41"
        assert "x-other" not in headers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("member", ["code", "type"])
def test_a_quota_that_is_spent_says_when_to_come_back_only_if_the_upstream_does(
    stream: bool, member: str
) -> None:
    spent = json.dumps({"error": {"message": "you exceeded your quota", member: "insufficient_quota"}})
    said: list[dict[str, str]] = [{}, {"retry_after": "86400"}]
    with (
        raw_server(lambda number, _: http(spent.encode(), 429, **said[number])) as url,
        gateway(url, planless=True) as rig,
    ):
        # Each is asked once: a quota is not waited for.
        for more in said:
            reply = rig.post({"model": "m", "messages": QUESTION, "stream": stream, "keff": {"k": 1}})
            assert (reply.status_code, reply.json()["error"][member]) == (429, "insufficient_quota")
            assert reply.headers.get("retry-after") == more.get("retry_after")


def test_tracing_and_named_headers_and_the_query_go_up(serve: Serve) -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    rig = serve(script, options=Options(forward_header=("x-tenant",)))
    sent = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
        "OpenAI-Organization": "org",
        "OpenAI-Project": "proj",
        "X-Tenant": "blue",
    }
    hidden = {"x-other": "no", "cookie": "no", "x-keff-k": "1", "forwarded": "no"}
    reply = httpx2.post(
        f"{rig.url}/chat/completions?api-version=2026-10-01",
        json={"messages": QUESTION},
        headers={**sent, **hidden},
    )
    assert reply.status_code == 200
    (got,) = script.headers
    assert {name: got.get(name.lower()) for name in sent} == sent
    assert not set(hidden) & set(got)


def test_the_query_goes_up_unchanged() -> None:
    paths: list[str] = []
    with raw_server(lambda *_: http(json.dumps(answer()).encode()), paths) as url, gateway(url) as rig:
        for path in ("/chat/completions", "/embeddings"):
            httpx2.post(
                f"{rig.url}{path}?api-version=2026-10-01&x=a%2Fb",
                json={"messages": QUESTION, "keff": {"k": 1}},
            )
    assert paths == [
        f"/v1/{path}?api-version=2026-10-01&x=a%2Fb" for path in ("chat/completions", "embeddings")
    ]


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "x-keff-policy", "cookie"])
def test_headers_that_are_not_for_handing_on(name: str) -> None:
    with pytest.raises(UsageError, match="forward_header"):
        read_settings([f"forward_header={name}"], None)


@pytest.mark.parametrize("header", ["api-key", "x-api-key"])
def test_keys_in_the_headers_of_other_clients(serve: Serve, header: str) -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    guarded = serve(script, key="upstream", options=Options(token="gate"))
    assert guarded.post(headers={header: "gate"}).status_code == 200
    assert guarded.post(headers={header: "gat"}).status_code == 401
    assert guarded.post(headers={header: "", "authorization": ""}).status_code == 401
    assert all(header not in got for got in script.headers)
    assert {got["authorization"] for got in script.headers} == {"Bearer upstream"}
    open_ = serve(script)
    script.headers.clear()
    assert open_.post(headers={header: "mine"}).status_code == 200
    assert {got[header] for got in script.headers} == {"mine"}


@pytest.mark.parametrize(
    "path", ["/health", "/health/liveliness", "/health/liveness", "/healthz", "/health/readiness"]
)
def test_health_needs_no_token_and_no_vote(serve: Serve, path: str) -> None:
    script = Script()
    rig = serve(script, options=Options(token="gate"))
    assert httpx2.get(rig.url.removesuffix("/v1") + path).status_code == 200
    assert not script.requests


def test_other_paths_of_the_api_pass_unchanged() -> None:
    vector = {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.5]}],
        "model": "e",
    }
    bodies: list[dict[str, Any]] = []

    def give(_: int, body: dict[str, Any]) -> list[bytes]:
        bodies.append(body)
        return http(json.dumps(vector | {"usage": {"prompt_tokens": 1, "total_tokens": 1}}).encode())

    with raw_server(give) as url, gateway(url) as rig:
        reply = rig.client().embeddings.create(model="e", input="word", encoding_format="float")
        assert reply.data[0].embedding == [0.5, -1.5]
        assert bodies == [{"model": "e", "input": "word", "encoding_format": "float"}]
        assert rig.metric('keff_passed_total{status="200"}') == 1
        assert rig.metric("keff_requests_total") == 0
    refusal = json.dumps({"error": {"message": "no", "code": "nope", "param": "input", "type": "x"}}).encode()
    with raw_server(lambda *_: http(refusal, 418)) as url, gateway(url) as rig:
        reply = httpx2.post(rig.url + "/embeddings", json={})
        assert (reply.status_code, reply.content) == (418, refusal)
    with gateway("http://127.0.0.1:9/v1") as rig:
        assert httpx2.post(rig.url + "/embeddings", json={}).status_code == 502
    with raw_server(lambda *_: http(b"{}")) as url, gateway(url, options=Options(token="gate")) as rig:
        assert httpx2.post(rig.url + "/embeddings", json={}).status_code == 401
        with pytest.raises(openai.AuthenticationError):
            rig.client().embeddings.create(model="e", input="word")


@pytest.mark.parametrize("path", ["completions", "messages"])
def test_other_ways_to_ask_for_answers_pass_and_say_that_they_are_not_voted(path: str) -> None:
    with raw_server(lambda *_: http(b'{"content": []}')) as url, gateway(url) as rig:
        reply = httpx2.post(f"{rig.url}/{path}", json={"model": "m"})
        assert reply.status_code == 200 and "only chat and responses" in reply.headers["x-keff-not-voted"]
        assert "x-keff-not-voted" not in httpx2.post(f"{rig.url}/embeddings", json={}).headers


def test_a_stream_of_another_path_comes_as_it_is_made() -> None:
    def give(*_: Any) -> Any:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        for word in (b"one", b"two"):
            yield b"data: " + word + b"\n\n"
            time.sleep(0.3)

    with raw_server(give) as url, gateway(url) as rig:
        begun = time.monotonic()
        with httpx2.stream("POST", rig.url + "/completions", json={"stream": True}) as reply:
            came = [(part, time.monotonic() - begun) for part in reply.iter_bytes()]
    assert b"".join(part for part, _ in came) == b"data: one\n\ndata: two\n\n"
    assert came[-1][1] - came[0][1] > 0.2
