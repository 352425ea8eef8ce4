"""Clients that leave, that come by the thousand, and that send anything at all."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app_rig import Serve, ask, port, raw_request, says, until
from drawn import jsons
from fault_server import Script
from gateway_rig import QUESTION, gateway, make_plan
from how_many import examples
from keff.gateway.http import protocol
from keff.gateway.vote.vote import Vote


def test_a_client_that_leaves_takes_its_calls_with_it(serve: Serve) -> None:
    script = Script(fault=lambda *_: "hang")
    rig = serve(script, plan=make_plan("fixed:6"))
    for paths, more in ((6, {}), (6, {"stream": True}), (1, {"stream": True, "keff": {"k": 1}})):
        script.gone = 0
        with socket.create_connection(("127.0.0.1", port(rig))) as client:
            client.sendall(raw_request(json.dumps({"messages": QUESTION, **more}).encode()))
            until(lambda paths=paths: script.open == paths)
            client.shutdown(socket.SHUT_RDWR)
        until(lambda paths=paths: script.gone == paths)
        until(lambda: rig.service.in_flight == 0)
    assert rig.metric('keff_requests_total{status="499"}') == 3


def test_a_vote_is_freed_with_its_request_not_by_the_garbage_collector(serve: Serve) -> None:
    """It holds every upstream response, so cycles through it would be most of the memory in use."""
    kinds = ["500", None, "truncated", None, "reset", None]
    rig = serve(Script(answer=says("7"), fault=lambda number, _: kinds[number % 6]))
    gc.collect()
    gc.disable()
    try:
        ask(rig)
        list(ask(rig, stream=True))
        rig.post({"messages": QUESTION, "keff": {"deadline_s": 1e-9}})
        until(lambda: rig.service.in_flight == 0)
        # type() and not isinstance(): some libraries hold objects that warn when they are asked for a class.
        assert not [one for one in gc.get_objects() if type(one) is Vote]
    finally:
        gc.enable()


def test_a_head_that_does_not_come_closes_the_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    rig = serve(Script(answer=says("7")))
    for start in (b"", b"POST /v1/chat/comp"):
        with socket.create_connection(("127.0.0.1", port(rig))) as client:
            client.settimeout(30)
            client.sendall(start)
            while client.recv(65536):
                pass


@pytest.mark.slow
def test_a_thousand_connections_at_once_are_all_answered(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer than that to open them all, and then to answer.
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 300.0)
    rig = serve(Script(answer=says("7"), latency=0.05), plan=make_plan("fixed:1"), path_seconds=300.0)
    wanted, body = 1000, raw_request(json.dumps({"messages": QUESTION}).encode())

    async def one(gate: asyncio.Event) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port(rig))
        await gate.wait()
        writer.write(body)
        head = await reader.readline()
        writer.close()
        return head

    async def all_of_them() -> list[bytes]:
        gate = asyncio.Event()
        tasks = [asyncio.create_task(one(gate)) for _ in range(wanted)]
        await asyncio.sleep(0.3)
        gate.set()
        return await asyncio.gather(*tasks)

    heads = asyncio.run(all_of_them())
    assert heads == [b"HTTP/1.1 200 OK\r\n"] * wanted


VALUES = jsons()
FIELDS = st.sampled_from(
    [
        "model",
        "temperature",
        "stop",
        "tools",
        "response_format",
        "seed",
        "stream",
        "stream_options",
        "n",
        "keff",
        "max_tokens",
        "logprobs",
        "reasoning_effort",
    ]
)


@pytest.fixture(scope="module")
def fuzzed() -> Any:
    from fault_server import running

    answer = lambda _, seed: [says("7")(_, seed), "", '{"a": 1}', "\ud83d \x00"][seed % 4]  # noqa: E731
    with running(Script(answer=answer)) as url, gateway(url) as rig, httpx2.Client() as client:
        yield rig, client


@given(
    body=st.dictionaries(FIELDS, VALUES, max_size=5), messages=st.just(QUESTION) | st.just(QUESTION) | VALUES
)
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_request_makes_it_stumble(fuzzed: Any, body: dict[str, Any], messages: Any) -> None:
    rig, client = fuzzed
    reply = client.post(f"{rig.url}/chat/completions", json={**body, "messages": messages})
    assert reply.status_code in (200, 400, 502), reply.text
    if reply.status_code != 200:
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


@given(raw=st.binary(max_size=60), kind=st.sampled_from(["application/json", "text/plain", ""]))
@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_bytes_make_it_fail(fuzzed: Any, raw: bytes, kind: str) -> None:
    rig, client = fuzzed
    reply = client.post(f"{rig.url}/chat/completions", content=raw, headers={"content-type": kind})
    assert reply.status_code in (400, 415)
