"""Clients' keys: who asks, the fuse of each key, and what the operator sees of it."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from app_rig import port, until
from fault_server import Script
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.errors import UsageError
from keff.gateway import keys as module
from keff.gateway.keys import ClientKey, read_keys
from keff.sampling.cost import Price
from raw_server import answer, http, raw_server

Serve = Callable[..., Rig]
SEVEN = Script(answer=lambda *_: "The answer is 7.")
OPERATOR = {"authorization": "Bearer op"}
PER_TOKEN = {"": Price(prompt=1e6, output=1e6)}


def key(name: str = "alice", **limits: Any) -> ClientKey:
    return ClientKey(name, hashlib.sha256(f"key-of-{name}".encode()).digest(), **limits)


def shown(name: str = "alice") -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{name}"}


def count(rig: Rig, what: str, name: str = "alice") -> float:
    """Return one of the figures of a key that the operator sees."""
    text = httpx2.get(rig.url.removesuffix("/v1") + "/metrics", headers=OPERATOR).text
    line = f'keff_key_{what}_total{{key="{name}"}}'
    return sum(float(each.split()[-1]) for each in text.splitlines() if each.startswith(line))


def charged(rig: Rig, requests: int) -> float:
    """Return the dollars charged once so many requests have ended."""
    until(lambda: count(rig, "requests") == requests)
    return count(rig, "dollars")


def options(**limits: Any) -> Any:
    return Options(client_keys=(key(**limits),), prices=PER_TOKEN, admin_token="op")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the gateway's keys a clock that stands at the noon of some day (UTC)."""
    now = [20_000 * 86_400 + 43_200.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    return now


def test_requests_of_a_minute_are_limited_by_key_and_the_next_minute_is_another(
    serve: Serve, clock: list[float]
) -> None:
    rig = serve(SEVEN, options=Options(client_keys=(key(requests_per_minute=2), key("bob"))))
    assert rig.post().status_code == 401
    assert rig.post(headers={"authorization": "Bearer key-of-carol"}).status_code == 401
    clock[0] += 13
    assert [rig.post(headers=shown()).status_code for _ in range(3)] == [200, 200, 429]
    refused = rig.post(headers={"x-api-key": "key-of-alice"})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "47")
    assert refused.json()["error"]["code"] == "key_limit_reached"
    assert rig.post(headers=shown("bob")).status_code == 200
    clock[0] += 47
    assert rig.post(headers={"api-key": "key-of-alice"}).status_code == 200


def test_dollars_of_a_day_are_limited_and_are_told_as_final(serve: Serve, clock: list[float]) -> None:
    rig = serve(SEVEN, options=options(dollars_per_day=50.0))
    cost = 3 * (7 + 4)
    assert rig.post(headers=shown()).status_code == 200
    assert charged(rig, 1) == cost < 50
    assert rig.post(headers=shown()).status_code == 200, "a fuse: the request that passes the limit is served"
    until(lambda: count(rig, "requests") == 2)
    with pytest.raises(openai.RateLimitError) as refused:
        rig.client(api_key="key-of-alice", max_retries=5).chat.completions.create(
            model="stub",
            messages=QUESTION,  # type: ignore[arg-type]
        )
    told = refused.value.response
    assert (told.headers["retry-after"], told.headers["x-should-retry"]) == ("43200", "false")
    assert f"{2 * cost:.4g} of 50 dollars" in str(refused.value)
    assert count(rig, "limited") == 1, "the official client does not try again"
    clock[0] += 43_200
    assert rig.post(headers=shown()).status_code == 200


def test_who_asked_is_in_metrics_and_not_every_key_may_see_them(serve: Serve) -> None:
    rig = serve(SEVEN, options=Options(client_keys=(key(),), admin_token="op"))
    assert httpx2.get(f"{rig.url}/files", headers=shown()).status_code == 404
    assert httpx2.get(f"{rig.url}/models", headers=shown()).status_code == 200
    rig.post(headers=shown())
    metrics = rig.url.removesuffix("/v1") + "/metrics"
    assert httpx2.get(metrics, headers=shown()).status_code == 403
    assert httpx2.get(metrics).status_code == 401
    until(lambda: count(rig, "requests") == 3)
    assert count(rig, "paths") == 3


COMPLETION = {
    "model": "dear",
    "choices": [{"text": "a"}] * 5,
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


def passing(reply: object, **fields: Any) -> AbstractContextManager[str]:
    return raw_server(lambda *_: http(json.dumps(reply).encode(), **fields))


def test_what_is_passed_through_is_charged_by_its_answer_and_the_model_that_answered() -> None:
    prices = {"dear": Price(prompt=1e6, output=1e6), "cheap": Price(prompt=1, output=1)}
    given = Options(client_keys=(key(dollars_per_day=8.0),), prices=prices, admin_token="op")
    body = {"model": "cheap", "prompt": ["x", "y"], "n": 7, "max_tokens": 4}
    with passing(COMPLETION) as url, gateway(url, planless=True, options=given) as rig:
        for request in (1, 2):
            assert httpx2.post(f"{rig.url}/completions", json=body, headers=shown()).status_code == 200
            assert charged(rig, request) == 5 * request
        assert count(rig, "paths") == 10, "its choices"
        assert httpx2.post(f"{rig.url}/completions", json=body, headers=shown()).status_code == 429


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("responses", {"input": "x", "background": True}),
        ("responses", {"input": "x", "conversation": "conv_1"}),
        ("audio/speech", {"input": "x"}),
    ],
)
def test_an_answer_that_states_no_cost_is_charged_by_an_estimate(path: str, body: dict[str, Any]) -> None:
    reply = {"id": "resp_1", "status": "queued", "output": []}
    with passing(reply) as url, gateway(url, planless=True, options=options(dollars_per_day=1e3)) as rig:
        assert httpx2.post(f"{rig.url}/{path}", json=body, headers=shown()).status_code == 200
        assert 4096 <= charged(rig, 1) < 4096 + 100
        assert httpx2.post(f"{rig.url}/{path}", json=body, headers=shown()).status_code == 429


def test_routes_that_only_read_are_charged_what_they_read_and_uploads_nothing() -> None:
    body = {"model": "m", "input": "x" * 400}
    with passing({"results": []}) as url, gateway(url, planless=True, options=options()) as rig:
        spent = 0.0
        reading = ("embeddings", "rerank", "score", "classify", "pooling")
        free = ("files", "uploads/u1/parts", "responses/r1/cancel", "tokenize")
        for requests, path in enumerate((*reading, *free), 1):
            least, most = (100, 120) if path in reading else (0, 0)
            assert httpx2.post(f"{rig.url}/{path}", json=body, headers=shown()).status_code == 200
            total = charged(rig, requests)
            assert least <= total - spent <= most, path
            spent = total


def test_a_total_alone_is_charged_as_what_was_read() -> None:
    reply = {"results": [], "usage": {"total_tokens": 17}}
    with passing(reply) as url, gateway(url, planless=True, options=options()) as rig:
        asked = {"model": "m", "query": "x", "documents": ["y"]}
        assert httpx2.post(f"{rig.url}/rerank", json=asked, headers=shown()).status_code == 200
        assert charged(rig, 1) == 17


def test_a_vote_whose_server_states_no_usage_is_charged_by_an_estimate(serve: Serve) -> None:
    """A server that counts nothing would make every limit in dollars endless."""
    rig = serve(Script(fault=lambda *_: "no_usage"), options=options(dollars_per_day=1.0))
    assert rig.post(headers=shown()).status_code == 200
    assert 3 * 64 <= charged(rig, 1) <= 3 * (64 + 100), "max_tokens is 64 in the plan"


def test_a_key_limited_in_dollars_is_refused_what_has_no_price() -> None:
    given = Options(
        client_keys=(key(dollars_per_day=5.0), key("bob")), prices={"cheap": Price(prompt=1, output=1)}
    )
    with passing(answer()) as url, gateway(url, planless=True, options=given) as rig:
        for path, body in (
            ("chat/completions", {"model": "other", "messages": QUESTION}),
            ("embeddings", {"model": "other", "input": "x"}),
            ("batches", {"input_file_id": "file-1"}),
        ):
            refused = httpx2.post(f"{rig.url}/{path}", json=body, headers=shown())
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_price"), path
            assert httpx2.post(f"{rig.url}/{path}", json=body, headers=shown("bob")).status_code == 200
        priced = {"model": "cheap-2026-01-01", "messages": QUESTION}
        assert rig.post(priced, headers=shown()).status_code == 200
        assert httpx2.get(f"{rig.url}/files", headers=shown()).status_code == 200, "a look costs nothing"


def send(rig: Rig, path: str, body: dict[str, Any]) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port(rig)))
    raw = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n"
    head += "authorization: Bearer key-of-alice\r\n"
    client.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(raw) + raw)
    return client


def test_a_vote_that_is_left_is_charged_for_every_path_that_was_launched(serve: Serve) -> None:
    script = Script(fault=lambda *_: "hang")
    given = Options(client_keys=(key(),), prices={"": Price(prompt=0, output=1e6)}, admin_token="op")
    rig = serve(script, options=given)
    for left in range(1, 4):
        with send(rig, "chat/completions", {"messages": QUESTION, "max_tokens": 11, "keff": {"k": 5}}):
            until(lambda n=5 * left: len(script.requests) == n)  # type: ignore[misc]
        assert charged(rig, left) == 5 * left * 11
    assert count(rig, "paths") == 15


@pytest.mark.parametrize("path", ["completions", "Chat/Completions"])
def test_a_body_that_is_read_and_hung_up_on_counts(path: str) -> None:
    body = {"model": "x", "messages": QUESTION, "max_tokens": 9, "keff": {"k": 1}}
    short = {} if "C" in path else {"content_length": "9999"}
    with (
        passing(answer(), **short) as url,
        gateway(url, planless=True, options=options(dollars_per_day=1e9)) as rig,
    ):
        for left in range(3):
            before = charged(rig, left)
            with send(rig, path, body) as client:
                client.recv(99)
            assert charged(rig, left + 1) > before


def test_a_stream_that_is_left_is_charged_for_its_prompt_and_its_events() -> None:
    def give(*_: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        for word in range(400):
            yield b'data: {"choices": [{"delta": {"content": "%d"}}]}\n\n' % word
            time.sleep(0.02)

    prompt = [{"role": "user", "content": "z" * 4000}]
    with raw_server(give) as url, gateway(url, planless=True, options=options()) as rig:
        for left, path in enumerate(("chat/completions", "completions")):
            before = charged(rig, left)
            body = {"messages": prompt, "stream": True, "max_tokens": 500}
            with send(rig, path, body | {"keff": {"k": 1}} if path != "completions" else body) as client:
                while b"data" not in client.recv(999):
                    pass
            assert 1000 < charged(rig, left + 1) - before < 1000 + 500, "four bytes of a prompt are a token"


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, 1),
        ({"n": 100}, 100),
        ({"n": "64"}, 64),
        ({"n": 2, "best_of": 9, "prompt": ["a", "b", "c"]}, 27),
        ({"prompt": [1, 2, 3], "n": 4.0}, 4),
        ({"prompt": [[1], [2]]}, 2),
        ({"n": -5}, 1),
        ({"n": 10**40}, 1),
        ({"n": 10**12}, 10**6),
        ({"n": True}, 1),
    ],
)
def test_what_states_no_choices_counts_as_many_paths_as_were_asked_for(
    body: dict[str, Any], paths: int
) -> None:
    with passing({}) as url, gateway(url, planless=True, options=options()) as rig:
        httpx2.post(f"{rig.url}/completions", json=body, headers=shown())
        charged(rig, 1)
        assert count(rig, "paths") == paths


MESSAGE = [
    b'event: message_start\ndata: {"type": "message_start", "message": {"model": "m", "usage": '
    b'{"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 1}}}\n\n',
    b'event: content_block_delta\ndata: {"delta": {"text": "hi"}}\n\n',
    b'event: message_delta\ndata: {"usage": {"output_tokens": 9}}\n\n',
]


def test_usage_is_found_in_streams_of_other_protocols() -> None:
    def give(*_: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        yield from MESSAGE

    with raw_server(give) as url, gateway(url, planless=True, options=options()) as rig:
        body = {"model": "m", "messages": QUESTION, "stream": True}
        assert b"".join(MESSAGE) == httpx2.post(f"{rig.url}/messages", json=body, headers=shown()).content
        assert charged(rig, 1) == 5 + 20 + 9


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("keys = 3", "keys"),
        ("[keys]", "keys"),
        ("[keys.a]", "sha256 or env"),
        ('[keys.a]\nsha256 = "12"', "sha256"),
        ('[keys.a]\nenv = "KEFF_NO_SUCH"', "keys.a: env KEFF_NO_SUCH: the environment has no such variable"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\npaths_per_day = 9', "LiteLLM in front"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\nrequests_per_minute = 0', "requests_per_minute"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\ndollars_per_day = inf', "dollars_per_day"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\npaths = 3', "keys.a.paths"),
        (f'[keys.a]\nsha256 = "{"0" * 64}"\n[keys.b]\nsha256 = "{"0" * 64}"', "same key"),
        (f'[keys.a]\nsha256 = "{hashlib.sha256(b"").hexdigest()}"', "empty key"),
        (f'[keys."a b"]\nsha256 = "{"0" * 64}"', "is not a name"),
        ("[keys", "TOML"),
    ],
)
def test_a_wrong_key_file_is_refused_with_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "keys.toml").write_text(text)
    with pytest.raises(UsageError, match=line) as caught:
        read_keys(tmp_path / "keys.toml")
    assert "\n" not in str(caught.value)


def test_a_key_file_need_not_hold_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOBS_KEY", "key-of-bob\n")
    digest = hashlib.sha256(b"key-of-alice").hexdigest()
    limits = "requests_per_minute = 10\ndollars_per_day = 2"
    text = f'[keys.alice]\nsha256 = "{digest}"\n{limits}\n[keys.bob]\nenv = "BOBS_KEY"\n'
    (tmp_path / "keys.toml").write_text(text)
    limited = key(requests_per_minute=10, dollars_per_day=2.0)
    assert read_keys(tmp_path / "keys.toml") == (limited, key("bob"))
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        read_keys(tmp_path / "none.toml")


def test_limits_in_dollars_need_prices() -> None:
    limited = Options(client_keys=(key(dollars_per_day=1.0),))
    with pytest.raises(UsageError, match="--prices"), gateway("http://127.0.0.1:9", options=limited):
        pass
