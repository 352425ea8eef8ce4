"""An upstream that is reached through a proxy only, as in many companies."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
def proxying(seen: list[bytes], reply: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Iterator[int]:
    """Run a proxy that takes every name for this machine; gives its port."""
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
            client.sendall(reply)
            if not reply.startswith(b"HTTP/1.1 200"):
                client.close()
                continue
            port = int(head.split()[1].rpartition(b":")[2])
            upstream = socket.create_connection(("127.0.0.1", port))
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
        assert head.startswith(b"CONNECT models.example:") and b"Basic " + known in head


REFUSALS = [b"HTTP/1.1 407 No\r\n\r\n", b"HTTP/1.0 403 No\r\n\r\n", b"what?\r\n\r\n", b""]


@pytest.mark.parametrize("reply", REFUSALS)
def test_a_proxy_that_refuses_is_a_502_that_says_so(monkeypatch: pytest.MonkeyPatch, reply: bytes) -> None:
    with raw_server(lambda *_: given()) as url, proxying([], reply) as port:
        monkeypatch.setenv("ALL_PROXY", f"127.0.0.1:{port}")
        refused = asked(url)
    assert refused.status_code == 502 and "its proxy" in refused.json()["error"]["message"]


def test_which_upstreams_go_through_which_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://[::1]:3128")
    monkeypatch.setenv("NO_PROXY", "inner.example,.corp")
    through = proxy_for("https", "api.example")
    assert through is not None and (through.host, through.port) == ("::1", 3128)
    for scheme, host in (
        ("http", "api.example"),
        ("https", "inner.example"),
        ("https", "a.corp"),
        ("https", "127.0.0.1"),
        ("https", "localhost"),
    ):
        assert proxy_for(scheme, host) is None
    for wrong in ("socks5://x:1", "http://", "http://x:99999", "ftp://x"):
        monkeypatch.setenv("HTTPS_PROXY", wrong)
        with pytest.raises(UsageError, match="HTTPS_PROXY"):
            proxy_for("https", "api.example")
