"""Web pages and odd callers: nothing that a browser sends without leave spends the operator's key."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from app_rig import port
from fault_server import Script
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.gateway.http.security import _hostname
from keff.protocol.server import is_loopback
from raw_server import answer, http, raw_server

Serve = Callable[..., Rig]
PAGE = {"origin": "https://attacker.example"}
ROUTES = ("chat/completions", "responses", "completions", "embeddings", "batches", "files")


@pytest.fixture
def counted() -> Any:
    paths: list[str] = []
    with raw_server(lambda *_: http(b'{"data": []}'), paths) as url, gateway(url, planless=True) as rig:
        yield rig, paths


@pytest.mark.parametrize("path", ROUTES)
def test_a_page_of_another_origin_spends_nothing(counted: tuple[Rig, list[str]], path: str) -> None:
    rig, asked = counted
    url, raw = f"{rig.url}/{path}", b'{"model": "m", "input": "x", "messages": []}'
    for origin in ("https://attacker.example", "null", "http://localhost:3000", "http://127.0.0.1:1", ""):
        reply = httpx2.post(url, content=raw, headers={"origin": origin, "content-type": "application/json"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "foreign_origin"), origin
    for site in ("cross-site", "same-site"):
        assert httpx2.get(url, headers={"sec-fetch-site": site}).status_code == 403
    upload = {"file": ("x", b"y")}
    assert httpx2.post(url, files=upload, headers=PAGE).status_code == 403
    for kind in ("text/plain", "Text/Plain; charset=utf-8", "application/x-www-form-urlencoded"):
        assert httpx2.post(url, content=raw, headers={"content-type": kind}).status_code == 415
    assert httpx2.post(url, content=raw).status_code == 415
    assert asked == []


def test_programs_and_listed_pages_ask_as_before(counted: tuple[Rig, list[str]]) -> None:
    rig, asked = counted
    own = {"origin": rig.url.removesuffix("/v1"), "sec-fetch-site": "same-origin"}
    assert httpx2.post(f"{rig.url}/embeddings", json={"input": "x"}, headers=own).status_code == 200
    assert httpx2.post(f"{rig.url}/embeddings", json={"input": "x"}).status_code == 200
    assert len(asked) == 2
    options = Options(cors_origin=("https://app.example",))
    with (
        raw_server(lambda *_: http(b"{}")) as url,
        gateway(url, planless=True, options=options) as listed,
    ):
        page = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
        assert httpx2.post(f"{listed.url}/embeddings", json={}, headers=page).status_code == 200
        assert httpx2.post(f"{listed.url}/embeddings", json={}, headers=PAGE).status_code == 403
        uploaded = httpx2.post(f"{listed.url}/moderations", data={"a": "b"}, headers=page)
        assert uploaded.status_code == 415


def test_a_token_is_what_a_page_does_not_have(serve: Serve) -> None:
    rig = serve(Script(answer=lambda *_: "The answer is 7."), options=Options(token="gate"))
    assert rig.post(headers=PAGE).status_code == 401
    assert rig.post(headers=PAGE | {"authorization": "Bearer gate"}).status_code == 200
    form = {"authorization": "Bearer gate", "content-type": "text/plain"}
    assert httpx2.post(f"{rig.url}/completions", content=b"{}", headers=form).status_code == 415


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("localhost", True),
        ("LocalHost:80", True),
        ("127.0.0.9:8080", True),
        ("[::1]:1", True),
        ("[::1]x", False),
        ("[::1].attacker", False),
        ("me:pw@localhost", False),
        ("attacker@127.0.0.1", False),
        ("localhost.attacker", False),
        ("localhost:80:80", False),
        ("localhost/", False),
        ("localhost#", False),
        ("127.0.0.1\\@x", False),
        ("", False),
        ("0.0.0.0", False),
    ],
)
def test_which_hosts_are_this_machine(host: str, is_here: bool) -> None:
    assert is_loopback(_hostname(host.encode())) == is_here


def test_an_empty_key_is_nobody_s(serve: Serve) -> None:
    rig = serve(Script(), options=Options(token="gate"))
    for name in ("authorization", "api-key", "x-api-key"):
        for value in ("", "Bearer"):
            assert rig.post(headers={name: value}).status_code == 401


def talk(rig: Rig, data: bytes, seconds: float = 10) -> bytes:
    with socket.create_connection(("127.0.0.1", port(rig)), timeout=seconds) as client:
        client.sendall(data)
        got = bytearray()
        while part := client.recv(65536):
            got += part
    return bytes(got)


@pytest.mark.slow
def test_thousands_of_pipelined_offers_of_another_protocol_are_answered_or_refused(serve: Serve) -> None:
    rig = serve(Script(), options=Options(token="gate"))
    one = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    got = talk(rig, one * 3000 + last, 60)
    assert got.count(b"HTTP/1.1 200") == 3001
    assert httpx2.get(rig.url.removesuffix("/v1") + "/healthz").status_code == 200


def test_what_comes_after_a_body_is_no_header(serve: Serve) -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    rig = serve(script)
    body = b'{"model": "stub", "messages": [{"role": "user", "content": "How many?"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    trailers = b"x-keff-policy: fixed:7\r\nauthorization: Bearer x\r\nx-keff-cap: 1\r\n"
    chunked = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers)
    got = talk(rig, head + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n" + chunked)
    assert b"200 OK" in got and b"x-keff-paths: 3" in got
    assert len(script.requests) == 3 and "authorization" not in script.headers[0]


@pytest.mark.parametrize("name", ["x-keff-k", "x-keff-cap", "x-keff-deadline"])
@pytest.mark.parametrize("value", ["1_1", "\u0663".encode().decode("latin-1"), "0x2", "1 2", "inf", "--1"])
def test_numbers_in_headers_are_plain_digits(serve: Serve, name: str, value: str) -> None:
    raw = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    raw += f"{name}: {value}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}".encode("latin-1")
    script = Script()
    assert b" 400 " in talk(serve(script), raw)[:20] and not script.requests


@pytest.mark.parametrize("spec", ["fixed:\u0668", "fixed:1_6", "lead_k:\uff12", "fixed:8,cap=1_0"])
def test_numbers_in_a_policy_are_plain_digits(serve: Serve, spec: str) -> None:
    script = Script()
    reply = serve(script).post({"messages": QUESTION, "keff": {"policy": spec}})
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_policy")


CONTROLS = [b"a\x0bb", b"a\x07b", b"a\x7fb", b"\x1b[31m"]


@pytest.mark.parametrize("control", CONTROLS)
def test_a_vote_is_not_lost_to_a_header_of_the_upstream(control: bytes) -> None:

    body = json.dumps(answer()).encode()
    head, _ = http(body)
    limits = b"x-ratelimit-reset-tokens: %s\r\nx-ratelimit-remaining-tokens: 5\r\n" % control
    parts = [head[:-2] + limits + b"\r\n", body]
    with raw_server(lambda *_: parts) as url, gateway(url, planless=True) as rig:
        for path in ("chat/completions", "embeddings"):
            reply = httpx2.post(f"{rig.url}/{path}", json={"model": "stub", "messages": QUESTION})
            assert reply.status_code == 200
            assert reply.headers["x-ratelimit-remaining-tokens"] == "5"
            assert "x-ratelimit-reset-tokens" not in reply.headers


@pytest.mark.slow
def test_an_answer_with_a_nul_in_its_head_is_no_http_and_said_so() -> None:
    body = json.dumps(answer()).encode()
    parts = [http(body)[0][:-2] + b"x-a: a\x00b\r\n\r\n", body]
    with raw_server(lambda *_: parts) as url, gateway(url, planless=True) as rig:
        asked = {"model": "stub", "messages": QUESTION}
        reply = httpx2.post(f"{rig.url}/chat/completions", json=asked, timeout=60)
    assert reply.status_code == 502
    assert "its answer is not HTTP/1.1" in reply.json()["error"]["message"]


@pytest.mark.parametrize("status", [600, 999, 777])
@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_a_status_that_is_none_is_a_502(status: int, path: str) -> None:
    with (
        raw_server(lambda *_: http(b"{}", status)) as url,
        gateway(url, planless=True, options=Options(replacements=0)) as rig,
    ):
        reply = httpx2.post(f"{rig.url}/{path}", json={"model": "stub", "messages": QUESTION}, timeout=30)
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_failed")
