"""A gateway before a scripted server, asked by the official client and over raw connections."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from gateway_rig import QUESTION, Rig

Serve = Callable[..., Rig]
SEVEN = "Thus the answer is 7."


def says(*answers: str) -> Callable[[list[dict[str, Any]], int], str]:
    """Return a script's answers by seed: path i of a request with seed 0 says answers[i]."""
    return lambda _, seed: f"Thus the answer is {answers[seed % len(answers)]}." + "." * (seed % 3)


def ask(rig: Rig, **more: Any) -> Any:
    return rig.client().chat.completions.create(model="stub", messages=QUESTION, seed=0, **more)  # type: ignore[call-overload]


def port(rig: Rig) -> int:
    return int(rig.url.rsplit(":", 1)[1].partition("/")[0])


def raw_request(body: bytes, length: int | None = None) -> bytes:
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % (length or len(body)) + body


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def connect(
    rig: Rig, body: dict[str, Any], receive: int | None = None, path: str = "chat/completions"
) -> socket.socket:
    """Send a request and do not wait for its answer; ``receive`` bounds what the system takes for it."""
    client = socket.socket()
    if receive is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    client.connect(("127.0.0.1", port(rig)))
    raw = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    client.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(raw) + raw)
    return client
