"""Streams that drip or break, clients that do not read, bodies that do not come, and a second signal."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app_rig import SEVEN, Serve, connect, until
from fault_server import Script, running
from gateway_rig import QUESTION, Options, gateway, make_plan, served
from keff.gateway.http import protocol
from keff.gateway.http.exchange import Receive, Scope, Send
from keff.gateway.server import _Server, http_config, listening_socket
from keff.gateway.traffic.monitor import StateFile
from raw_server import http, raw_server


@pytest.mark.parametrize("asked", [False, True])
def test_a_relayed_stream_is_counted_and_shows_its_usage_only_where_asked(serve: Serve, asked: bool) -> None:
    script = Script(answer=lambda *_: SEVEN)
    rig = serve(script, plan=make_plan("fixed:1"))
    more = {"stream_options": {"include_usage": True}} if asked else {}
    text = rig.post({"messages": QUESTION, "stream": True, **more}).text
    assert text.endswith("data: [DONE]\n\n")
    assert ('"usage"' in text) == asked
    assert rig.metric('keff_tokens_total{kind="prompt"}') == 7
    assert rig.metric('keff_tokens_total{kind="completion"}') == len(SEVEN.split())


def events(count: int | None, pause: float = 0.0, word: bytes = b"word ") -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    for _ in range(count) if count is not None else itertools.count():
        yield b'data: {"choices": [{"index": 0, "delta": {"content": "' + word + b'"}}]}\n\n'
        time.sleep(pause)


def test_a_relayed_stream_without_usage_is_counted_by_its_events() -> None:
    def give(_: int, body: dict[str, Any]) -> Iterable[bytes]:
        return http(b'{"error": "what are stream_options?"}', 400) if "stream_options" in body else events(12)

    with raw_server(give) as url, gateway(url, plan=make_plan("fixed:1")) as rig:
        assert rig.post({"messages": QUESTION, "stream": True}).text.count("word") == 12
        assert rig.metric('keff_tokens_total{kind="completion"}') == 12
    with raw_server(lambda *_: events(None, 0.005)) as url, gateway(url, plan=make_plan("fixed:1")) as rig:
        with connect(rig, {"messages": QUESTION, "stream": True}) as client:
            assert client.recv(10)
            time.sleep(0.1)
        until(lambda: rig.service.in_flight == 0)
        assert rig.metric('keff_tokens_total{kind="completion"}') > 3


def test_a_stream_that_drips_for_ever_ends_at_the_deadline() -> None:
    with (
        raw_server(lambda *_: events(None, 0.02)) as url,
        gateway(url, plan=make_plan("fixed:1"), path_seconds=0.5) as rig,
    ):
        text = rig.post({"messages": QUESTION, "stream": True}).text
        assert "it did not answer in time" in text


def test_a_client_that_never_reads_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold what was written for it, and a stop would wait for it."""
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.3)
    large = {
        "a stream": (lambda *_: events(None, 0.001, bytes(2**17)), "chat/completions"),
        "a body": (lambda *_: http(bytes(50_000_000)), "embeddings"),
    }
    for give, path in large.values():
        with ExitStack() as stack:
            url = stack.enter_context(raw_server(give))
            rig = stack.enter_context(gateway(url, plan=make_plan("fixed:1")))
            body = {"messages": QUESTION, "stream": True}
            stack.enter_context(connect(rig, body, receive=4096, path=path))
            until(lambda rig=rig: rig.service.in_flight == 1)
            until(lambda rig=rig: rig.service.in_flight == 0)


def test_a_client_that_reads_slowly_is_not(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.3)
    rig = serve(Script(answer=lambda *_: SEVEN + "x " * 300_000), plan=make_plan("fixed:1"))
    with connect(rig, {"messages": QUESTION}, receive=8192) as client:
        size, begun = 0, time.monotonic()
        while size < 600_000 and (part := client.recv(30_000)):
            size += len(part)
            time.sleep(0.03)
    assert size >= 600_000
    assert time.monotonic() - begun > 0.5


@pytest.mark.parametrize("drips", [False, True])
def test_a_slow_body_is_answered_and_closed_in_its_time(serve: Serve, drips: bool) -> None:
    rig = serve(Script(), options=Options(body_seconds=0.3))
    with connect(rig, {}) as client:
        client.recv(1000)
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n")
        client.sendall(b"content-type: application/json\r\ncontent-length: 9000\r\n\r\n{")
        client.settimeout(0.1)
        said = b""
        # It ends: a server that waits for the whole body would let this go on for the 9,000 bytes.
        for _ in range(600):
            try:
                part = client.recv(1000)
                if not part:
                    break
                said += part
            except TimeoutError:
                if drips:
                    client.sendall(b" ")
            except OSError:
                break
        else:
            pytest.fail("the connection is still open")
    assert b"HTTP/1.1 408" in said


def test_a_gateway_that_stops_closes_what_is_still_open() -> None:
    """Of who reads nothing, and of who sends on after the answer: neither ends by itself."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            return
        body = bytes(30_000_000 * (scope["path"] == "/large"))
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def work() -> None:
        server = _Server(http_config(app, drain=0))
        with ExitStack() as stack:
            listener = stack.enter_context(contextlib.closing(listening_socket("127.0.0.1", 0)))
            serving = asyncio.create_task(server.serve([listener]))
            for path in ("large", "sends"):
                client = stack.enter_context(socket.create_connection(listener.getsockname()))
                client.sendall(f"POST /{path} HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n{{".encode())
            while len(server.server_state.connections) < 2:  # noqa: ASYNC110 (uvicorn tells nobody)
                await asyncio.sleep(0.01)
            server.should_exit = True
            await serving
            await asyncio.sleep(0)
            assert not server.server_state.connections

    asyncio.run(work())


@pytest.mark.slow
def test_a_second_signal_ends_the_drain_with_503_and_keeps_the_state(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    make_plan().write(plan)
    answered: list[int] = []
    script = Script(answer=lambda *_: SEVEN, fault=lambda *_: "hang" if answered else None)
    with ExitStack() as stack:
        url = stack.enter_context(running(script))
        process, listening = stack.enter_context(served("--plan", plan, "--upstream", url))
        assert process.stderr is not None
        chat = listening["url"] + "/chat/completions"
        answered.append(httpx2.post(chat, json={"messages": QUESTION}).status_code)
        assert answered == [200]
        replies: list[httpx2.Response] = []
        asking = threading.Thread(
            target=lambda: replies.append(httpx2.post(chat, json={"messages": QUESTION}, timeout=60))
        )
        asking.start()
        until(lambda: script.open > 0)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        asking.join(10)
        assert process.wait(60) == 0
        said = process.stderr.read()
    assert (replies[0].status_code, replies[0].json()["error"]["code"]) == (503, "stopping")
    assert "Traceback" not in said
    file = StateFile(plan.with_suffix(".drift.sqlite"))
    (row,) = file._db.execute("SELECT state FROM drift").fetchall()
    assert json.loads(row[0])["looks"]["seen"] == 1
    file.close()
