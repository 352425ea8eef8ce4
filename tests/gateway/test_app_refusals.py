"""What the gateway says of faults upstream, keys, models and bad addresses."""

from __future__ import annotations

import json
import socket
import threading

import httpx2
import openai
import pytest

from app_rig import Serve, ask, port, raw_request, says, until
from fault_server import Script
from gateway_rig import QUESTION, Options, gateway, make_plan


@pytest.mark.slow
def test_half_of_the_calls_failing_loses_no_request(serve: Serve) -> None:
    kinds = ["500", None, "reset", None, "error_200", None, "truncated", None]
    script = Script(answer=says("7"), fault=lambda number, _: kinds[number % 8])
    rig = serve(script, plan=make_plan("fixed:4"), options=Options(replacements=64))
    for _ in range(2):
        told = ask(rig).model_extra["keff"]
        assert (told["paths"], told["stop"]) == (4, "policy")
    assert rig.metric("keff_upstream_failures_total") > 2


FAULTS = {"500": 502, "reset": 502, "truncated": 502, "error_200": 502, "400": 400, "422": 422, "404": 404}


def test_faults_upstream_become_clear_errors(serve: Serve) -> None:
    script = Script()
    rig = serve(script, options=Options(replacements=2))
    for fault, status in FAULTS.items():
        script.fault = lambda *_, fault=fault: fault
        reply = rig.post()
        assert reply.status_code == status
        error = reply.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] in ("upstream_failed", "upstream_refused")


def test_an_upstream_that_is_down_is_a_502_and_not_ready() -> None:
    with gateway("http://127.0.0.1:9/v1") as rig:
        assert rig.post().status_code == 502
        base = rig.url.removesuffix("/v1")
        assert httpx2.get(base + "/healthz").status_code == 200
        assert httpx2.get(base + "/readyz").status_code == 503
        assert httpx2.get(rig.url + "/models").status_code == 502
        assert httpx2.get(rig.url + "/models/stub").status_code == 502


def test_models_are_those_of_the_upstream(serve: Serve) -> None:
    script = Script(answer=says("7"), models=("stub", "org/other"))
    client = serve(script).client()
    assert [model.id for model in client.models.list()] == ["stub", "org/other"]
    # One of them alone, as servers of open models mostly do, it does not give.
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/other")


def test_keys_go_where_they_belong_and_nowhere_else(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    script = Script(answer=says("7"), key="upstream-secret")
    rig = serve(script, key="upstream-secret", options=Options(token="gate-secret"))
    assert rig.client(api_key="gate-secret").models.list().data[0].id == "stub"
    reply = rig.post(headers={"authorization": "Bearer gate-secret"})
    assert reply.status_code == 200
    assert {headers["authorization"] for headers in script.headers} == {"Bearer upstream-secret"}
    for wrong in ({}, {"authorization": "Bearer gate-secre"}, {"authorization": "Basic gate-secret"}):
        refused = rig.post(headers=wrong)
        assert refused.status_code == 401
        assert refused.json()["error"]["code"] == "invalid_api_key"
        assert refused.headers["www-authenticate"] == "Bearer"
    bad = serve(script, key="wrong-secret").post()
    assert bad.status_code == 502
    assert "secret" not in bad.text
    forwarded = serve(script).post(headers={"authorization": "Bearer upstream-secret"})
    assert forwarded.status_code == 200
    assert serve(script).post(headers={"authorization": "Bearer client-secret"}).status_code == 401
    assert "secret" not in caplog.text


def test_without_a_token_only_this_machine_is_served(serve: Serve) -> None:
    rig = serve(Script(answer=says("7")))
    assert rig.post(headers={"host": "evil.example"}).status_code == 403
    assert (
        rig.post(
            content=json.dumps({"messages": QUESTION}), headers={"content-type": "text/plain"}
        ).status_code
        == 415
    )


def test_large_and_slow_bodies_are_refused(serve: Serve) -> None:
    rig = serve(Script(), options=Options(max_body=1000, body_seconds=0.2))
    big = rig.post({"messages": [{"role": "user", "content": "x" * 5000}]})
    assert (big.status_code, big.json()["error"]["code"]) == (413, "request_too_large")
    with socket.create_connection(("127.0.0.1", port(rig))) as client:
        client.sendall(raw_request(b'{"mess', 100))
        assert client.recv(100).startswith(b"HTTP/1.1 408")
    assert rig.post({"messages": QUESTION}).status_code == 200


def test_addresses_and_methods_that_are_not_there(serve: Serve) -> None:
    rig = serve()
    assert httpx2.get(rig.url + "/chat/completions").status_code == 405
    for path in (
        "/none",
        "/v1",
        "/v1//embeddings",
        "/v1/../secret",
        "/v1/%2e%2e/secret",
        "/v1/./x",
        "/v2/embeddings",
    ):
        with socket.create_connection(("127.0.0.1", port(rig))) as client:
            client.sendall(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 404"), path


def test_more_requests_than_allowed_are_told_to_wait(serve: Serve) -> None:
    rig = serve(Script(answer=says("7"), latency=0.3), options=Options(max_requests=1))
    first = threading.Thread(target=rig.post)
    first.start()
    until(lambda: rig.service.in_flight == 1)
    busy = rig.post()
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
    first.join()
    assert rig.post().status_code == 200


@pytest.mark.parametrize("path", ["chat/completions/", "chat/completions//"])
def test_a_slash_too_many_is_voted_all_the_same(serve: Serve, path: str) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    reply = httpx2.post(f"{rig.url}/{path}", json={"model": "stub", "messages": QUESTION}, timeout=60)
    assert reply.json()["keff"]["paths"] == len(script.requests) > 1
