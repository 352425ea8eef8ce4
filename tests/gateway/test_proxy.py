"""An upstream that is reached through a proxy only, as in many companies."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway_rig import QUESTION, Options, gateway
from keff.errors import UsageError
from keff.protocol.client import proxy_for
from raw_server import given, raw_server

NAMES = [f"{kind}_proxy" for kind in ("http", "https", "all", "no")]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, *map(str.upper, NAMES)):
        monkeypatch.delenv(name, raising=False)
    # The client of these tests reads the environment too.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def pumped(source: socket.socket, sink: socket.socket) -> None:
    try:
        while part := source.recv(65536):
            sink.sendall(part)
    except OSError:
        pass
    finally:
        sink.close()


@contextmanager
def proxying(seen: list[bytes], reply: bytes = b"") -> Iterator[int]:
    """Run a forward proxy that takes every name for this machine; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            head = b""
            while b"\r\n\r\n" not in head and (part := client.recv(4096)):
                head += part
            seen.append(head)
            if reply:
                client.sendall(reply)
                client.close()
                continue
            port = urlsplit(head.split()[1].decode()).port
            upstream = socket.create_connection(("127.0.0.1", port))
            upstream.sendall(head)
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=pumped, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # else who waits in accept() would wait on
        listener.close()


def asked(url: str) -> Any:
    with gateway(
        url.replace("127.0.0.1", "models.example"), planless=True, options=Options(replacements=0)
    ) as rig:
        return rig.post({"model": "stub", "messages": QUESTION})


def test_calls_go_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    with raw_server(lambda *_: given(text="The answer is 7.")) as url, proxying(seen) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:p%40ss@127.0.0.1:{port}")
        assert asked(url).json()["keff"]["answer"] == "7"
    known = base64.b64encode(b"me:p@ss")
    assert len(seen) == 3, "three paths, and each closed its connection"
    for head in seen:
        assert head.startswith(b"POST http://models.example:") and b"Basic " + known in head


@pytest.mark.parametrize("status", [403, 407, 502])
def test_a_proxy_that_refuses_is_told(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    reply = f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
    with raw_server(lambda *_: given()) as url, proxying([], reply) as port:
        monkeypatch.setenv("ALL_PROXY", f"127.0.0.1:{port}")
        refused = asked(url)
    assert refused.status_code >= 400 and str(status) in refused.text + str(refused.status_code)


def test_a_proxy_that_is_not_there_is_a_502_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(lambda *_: given()) as url:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        refused = asked(url)
    assert refused.status_code == 502 and "its proxy cannot be reached" in refused.json()["error"]["message"]


def test_an_upstream_behind_tls_is_reached_by_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    reply = b"HTTP/1.1 407 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    with proxying(seen, reply) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        refused = asked("https://127.0.0.1:8443/v1")
    assert seen[0].startswith(b"CONNECT models.example:8443 ")
    assert refused.status_code == 502 and "its proxy refused to connect (407)" in refused.text


@pytest.mark.parametrize(
    ("exempt", "host", "port", "through"),
    [
        ("inner.example,.corp", "inner.example", 443, False),
        ("inner.example,.corp", "a.inner.example", 443, False),
        ("inner.example,.corp", "a.corp", 443, False),
        ("inner.example,.corp", "acorp", 443, True),
        ("*.corp other", "b.a.corp", 443, False),
        ("*", "api.example", 443, False),
        ("api.example:8443", "api.example", 8443, False),
        ("api.example:8443", "api.example", 443, True),
        ("10.0.0.0/8", "10.1.2.3", 80, False),
        ("10.0.0.0/8", "11.1.2.3", 80, True),
        ("10.0.0.0/8", "ten.example", 80, True),
        ("fd00::/8", "fd12::1", 80, False),
        ("[fd12::1]:8000", "fd12::1", 8000, False),
        ("[fd12::1]:8000", "fd12::1", 80, True),
        ("192.168.0.7:80", "192.168.0.7", 80, False),
        ("", "127.0.0.1", 80, False),
        ("", "localhost", 80, False),
        ("Inner.Example", "INNER.example", 80, False),
    ],
)
def test_which_upstreams_go_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, exempt: str, host: str, port: int, through: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://[::1]:3128")
    monkeypatch.setenv("NO_PROXY", exempt)
    assert proxy_for("https", host, port) == ("http://[::1]:3128" if through else None)
    assert proxy_for("http", host, port) is None


@pytest.mark.parametrize("wrong", ["socks5://x:1", "http://", "http://x:99999", "ftp://x"])
def test_a_proxy_must_be_an_http_address(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", wrong)
    with pytest.raises(UsageError, match="HTTPS_PROXY"):
        proxy_for("https", "api.example", 443)
