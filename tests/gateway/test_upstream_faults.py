"""Upstreams as they really fail: down at the start, with a wrong certificate, or streaming garbage."""

from __future__ import annotations

import json
import socket
import sqlite3
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app_rig import Serve, until
from fault_server import Script, running
from gateway_rig import QUESTION, Options, gateway
from keff.cli._serving import certificates_in
from keff.errors import UsageError
from keff.gateway.traffic.monitor import StateFile
from raw_server import answer, http, raw_server

SEVEN = Script(answer=lambda *_: "The answer is 7.")


def test_a_gateway_starts_before_its_upstream_and_serves_when_that_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with gateway(f"http://127.0.0.1:{port}/v1", planless=True, options=Options(replacements=1)) as rig:
        base = rig.url.removesuffix("/v1")
        assert httpx2.get(f"{base}/healthz").status_code == 200
        assert httpx2.get(f"{base}/readyz").status_code == 503
        refused = rig.post({"model": "m", "messages": QUESTION, "keff": {"k": 1}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_failed")
        with raw_server(lambda *_: http(json.dumps(answer()).encode()), port=port):
            # A request right after a trial that failed is refused: the next trial follows in milliseconds.
            until(lambda: rig.post().status_code == 200)


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    named = ["-keyout", str(key), "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
    subprocess.run(
        [
            *["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-out"],
            str(cert),
            *named,
        ],
        check=True,
        capture_output=True,
    )
    return key, cert


@contextmanager
def secure(folder: Path) -> Iterator[str]:
    """Serve TLS with a certificate that nobody signed."""
    key, cert = certificate(folder, "example.org")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            try:
                connection.settimeout(2)
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        stopping.set()
        thread.join(5)
        listener.close()


@pytest.mark.slow
def test_a_certificate_of_the_operator_s_own_is_trusted(tmp_path: Path) -> None:
    key, cert = certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    (tmp_path / "none.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="holds no certificates in PEM form"):
        certificates_in(tmp_path / "none.pem")
    with raw_server(lambda *_: http(json.dumps(answer()).encode()), context=context) as url:
        secure = url.replace("http://127.0.0.1", "https://localhost")
        with gateway(secure, ca_file=certificates_in(cert)) as rig:
            assert rig.post().status_code == 200
        with gateway(secure) as rig:
            assert rig.post().status_code == 502


@pytest.mark.slow
def test_a_certificate_that_cannot_be_trusted_is_never_talked_to(tmp_path: Path) -> None:
    with secure(tmp_path) as url, gateway(url, planless=True, key="secret") as rig:
        for more in ({}, {"stream": True, "keff": {"k": 1}}):
            refused = rig.post({"model": "m", "messages": QUESTION, **more})
            assert refused.status_code == 502
            assert "certificate" in refused.json()["error"]["message"]
        passed = httpx2.post(f"{rig.url}/embeddings", json={})
        assert passed.status_code == 502
        assert "secret" not in passed.text


@pytest.mark.slow
def test_http_where_tls_is_spoken_and_the_other_way_round_are_502(tmp_path: Path) -> None:
    once = Options(replacements=1)
    with secure(tmp_path) as url, gateway(url.replace("https", "http"), planless=True, options=once) as rig:
        assert rig.post({"messages": QUESTION, "keff": {"k": 1}}).status_code == 502
    with running(SEVEN) as url, gateway(url.replace("http", "https"), planless=True, options=once) as rig:
        assert rig.post({"messages": QUESTION, "keff": {"k": 1}}).status_code == 502


GARBAGE = [
    b"\x00\xff\xfe garbage without an end",
    b"data: {not json}\n\ndata: [DONE]\n\n",
    b"event: response.completed\ndata: 3\n\n",
    b'data: {"choices": 7, "usage": "many"}\n\n' * 3,
    b'data: {"response": [], "usage": {"completion_tokens": -1}}\n\n',
    b"data: " + b"[" * 5000 + b"\n\n",
    b"\n\n" * 1000,
    b"",
]


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
def test_garbage_in_a_stream_is_relayed_or_refused_and_the_gateway_lives(garbage: bytes, path: str) -> None:
    body: dict[str, Any] = {"model": "m", "stream": True, "keff": {"k": 1}}
    body |= {"messages": QUESTION} if path.startswith("chat") else {"input": "How many?"}
    with (
        raw_server(lambda *_: http(garbage, content_type="text/event-stream")) as url,
        gateway(url, planless=True) as rig,
    ):
        relayed = httpx2.post(f"{rig.url}/{path}", json=body, timeout=60)
        assert relayed.status_code == 200
        # What is no whole event is left out before the error that says so.
        assert relayed.content.startswith(garbage.rpartition(b"\n\n")[0].rstrip()[:20])
        assert relayed.content.count(b"upstream_failed") == (
            b"[DONE]" not in garbage and b"completed" not in garbage
        )
        assert rig.metric('keff_requests_total{status="500"}') == 0
        assert 0 <= rig.metric('keff_tokens_total{kind="completion"}') < 100


@pytest.mark.parametrize("garbage", GARBAGE[:6])
def test_garbage_instead_of_an_answer_is_502(garbage: bytes) -> None:
    once = Options(replacements=1)
    with raw_server(lambda *_: http(garbage)) as url, gateway(url, planless=True, options=once) as rig:
        for path, asked in (
            ("chat/completions", {"messages": QUESTION}),
            ("responses", {"input": "How many?"}),
        ):
            refused = httpx2.post(
                f"{rig.url}/{path}", json={"model": "m", "keff": {"k": 1}, **asked}, timeout=30
            )
            assert refused.status_code == 502


@pytest.mark.parametrize("state", ["{}", '{"looks": 3}', "no json", '{"seen": 1, "last": {}, "looks": {}}'])
def test_a_state_file_of_another_version_is_refused_with_one_line(tmp_path: Path, state: str) -> None:
    file = tmp_path / "drift.sqlite"
    with running(SEVEN) as url:
        with gateway(url, state=file) as rig:
            rig.post()
        with closing(sqlite3.connect(file)) as db, db:
            assert db.execute("UPDATE drift SET state = ?", (state,)).rowcount == 1
        db.close()
        with pytest.raises(UsageError, match="another version") as caught, gateway(url, state=file):
            pass
    assert "\n" not in str(caught.value)


def test_a_profile_of_another_version_is_refused_too(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "s")
    file.save("traffic lead_k:3", {"profile": {"paths": "many"}})
    file.close()
    with (
        pytest.raises(UsageError, match="another version"),
        gateway("http://127.0.0.1:9", planless=True, state=tmp_path / "s"),
    ):
        pass


def test_an_upstream_that_hangs_is_asked_once_by_a_relay_and_bounded_by_default(serve: Serve) -> None:
    script = Script(fault=lambda *_: "hang")
    rig = serve(script, path_seconds=0.4, options=Options(replacements=0))
    relayed = rig.post({"messages": QUESTION, "stream": True, "keff": {"k": 1}})
    assert (relayed.status_code, len(script.requests)) == (504, 1)
    voted = rig.post({"messages": QUESTION})
    assert voted.status_code in (502, 504) and len(script.requests) == 4
