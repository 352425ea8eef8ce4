"""Requests byte by byte: heads that are too large, offers of HTTP/2, and several requests at once."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import BinaryIO

import pytest

from fault_server import Script
from gateway_rig import QUESTION, Rig
from keff.gateway.http import protocol
from keff.gateway.http.bounds import LARGEST_HEAD

Serve = Callable[..., Rig]
BODY = json.dumps({"messages": QUESTION}).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
SEVEN = Script(answer=lambda *_: "The answer is 7.")


def whole(more: bytes = b"") -> bytes:
    return HEAD + more + b"content-length: %d\r\n\r\n" % len(BODY) + BODY


def connected(rig: Rig) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", int(rig.url.rsplit(":", 1)[1].partition("/")[0])))
    client.settimeout(30)
    return client


def reply(client: BinaryIO) -> tuple[int, bytes]:
    """Return status and body of the next response."""
    status, size = client.readline(), 0
    while (line := client.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            size = int(line.partition(b":")[2])
    assert status, "the connection closed"
    return int(status.split()[1]), client.read(size)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 2 * LARGEST_HEAD,
        HEAD + b"x: " + b"a" * 2 * LARGEST_HEAD,
        HEAD + b"x: y\r\n" * LARGEST_HEAD,
        HEAD + b"x: " + b"a" * LARGEST_HEAD + b"\r\ncontent-length: 0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * LARGEST_HEAD,
    ],
    ids=["address", "one header", "many headers", "whole", "trailers"],
)
def test_a_head_that_is_too_large_is_refused_and_its_connection_closed(
    serve: Serve, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)  # a head that never ends waits so long
    rig = serve(SEVEN)
    with connected(rig) as client:
        try:
            client.sendall(head)
            answer = client.recv(65536)
        except OSError:
            answer = b""  # Closed while it was still being sent.
        assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431", b"")
        try:
            while client.recv(65536):
                pass
        except OSError:
            pass
    assert rig.post().status_code == 200


def test_an_offer_of_http_2_is_not_taken_and_the_request_is_answered(serve: Serve) -> None:
    rig = serve(SEVEN)
    offer = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQ\r\n"
    with connected(rig) as client, client.makefile("rb") as replies:
        for more in (offer, b"", offer):
            client.sendall(whole(more))
            status, body = reply(replies)
            assert (status, json.loads(body)["keff"]["answer"]) == (200, "7")


def test_requests_sent_at_once_are_answered_in_order(serve: Serve) -> None:
    rig = serve(SEVEN)
    with connected(rig) as client, client.makefile("rb") as replies:
        client.sendall(whole() + b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" + whole())
        answers = [json.loads(body) for _, body in (reply(replies) for _ in range(3))]
    assert ["keff" in answer for answer in answers] == [True, False, True]
    assert answers[1] == {"status": "ok"}


@pytest.mark.parametrize("size", [1, 7])
def test_a_request_that_comes_in_pieces(serve: Serve, size: int) -> None:
    rig = serve(SEVEN)
    data = whole()
    with connected(rig) as client, client.makefile("rb") as replies:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(data), size):
            client.sendall(data[place : place + size])
        assert reply(replies)[0] == 200


@pytest.mark.parametrize("line", [b"OPTIONS /v1/chat/completions", b"POST /nowhere", b"GET nonsense"])
def test_a_reply_before_the_end_of_the_body_is_not_lost(serve: Serve, line: bytes) -> None:
    """The client is still sending when the connection is closed: more than the system would hold for it."""
    rig = serve(SEVEN)
    size = 600_000
    with connected(rig) as client:
        client.sendall(line + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n")
        client.sendall(b"content-length: %d\r\n\r\n" % size)
        time.sleep(0.05)
        for _ in range(size // 10_000):
            client.sendall(bytes(10_000))
        said = b""
        while part := client.recv(65536):
            said += part
    assert said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 2"))
