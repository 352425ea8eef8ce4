"""The operator is told of every failure: on the page, in the metrics and in the log line alike."""

from __future__ import annotations

import json
import logging
import random
from typing import Any

import httpx2
import pytest

from app_rig import until
from gateway_rig import QUESTION, gateway, make_plan
from keff.gateway.server import log_to_stderr
from raw_server import answer, http, raw_server

FAULTS: dict[str, Any] = {
    "busy": lambda: http(b'{"error": {"message": "slow down, please"}}', 429, retry_after_ms="1"),
    "broken": lambda: http(b'{"error": {"message": "the engine died"}}', 500),
    "refused": lambda: http(b'{"error": {"message": "no such tool"}}', 400),
    "html": lambda: http(b"<html>oops</html>", content_type="text/html"),
    "cut": lambda: [b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"],
}


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    told = [record.message for record in caplog.records if record.name == "keff.gateway"]
    return [line for line in (json.loads(text) for text in told if text.startswith("{")) if "status" in line]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", ["fixed:3", "fixed:2,in_flight=2"])
def test_failed_requests_come_first_and_with_their_reason(
    seed: int, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Some of eight requests meet a fault that lasts, by their seed; all three places count them alike."""
    rng = random.Random(seed)
    kinds = [rng.choice((None, *FAULTS)) for _ in range(8)]

    def reply(_: int, body: dict[str, Any]) -> list[bytes]:
        kind = kinds[body["seed"] // 100]
        return http(json.dumps(answer()).encode()) if kind is None else FAULTS[kind]()

    with (
        caplog.at_level(logging.INFO, "keff.gateway"),
        raw_server(reply) as url,
        gateway(url, planless=True, replacements=1) as rig,
    ):
        for number in range(8):
            body = {"model": "m", "messages": QUESTION, "seed": 100 * number, "keff": {"policy": policy}}
            reply_to = rig.post(body)
            assert (reply_to.status_code == 200) == (kinds[number] is None)
        page = httpx2.get(
            rig.url.removesuffix("/v1") + "/keff", headers={"accept": "application/json"}
        ).json()
        html = httpx2.get(rig.url.removesuffix("/v1") + "/keff", headers={"accept": "text/html"}).text
        counted = rig.metric("keff_failed_requests_total")
        calls = rig.metric("keff_upstream_failures_total")
    failed = sum(kind is not None for kind in kinds)
    assert (page["failed_requests"], page["requests"], counted) == (failed, 8 - failed, failed)
    assert page["failed_calls"] == calls
    assert (calls > 0) == (failed > 0)
    told = [line for line in lines(caplog) if line["status"] != 200]
    assert len(told) == failed
    assert all(line["reason"] and line["upstream"] == url for line in told)
    words = {"busy": "slow down, please", "broken": "the engine died", "refused": "no such tool"}
    for kind, line in zip([kind for kind in kinds if kind], told, strict=True):
        assert words.get(kind, "") in line["reason"]
    if failed:
        assert f"{failed} requests failed" in html
        assert page["last_failure"]["reason"] == told[-1]["reason"]


@pytest.mark.parametrize("policy", ["fixed:1", "fixed:3"])
def test_a_stream_that_fails_after_its_head_is_a_failed_request(policy: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    piece = b'data: {"choices": [{"index": 0, "delta": {"content": "So"}}]}\n\n'
    with (
        raw_server(lambda *_: [head, piece]) as url,
        gateway(url, planless=True, replacements=0, quiet_seconds=0.0001) as rig,
    ):
        body = {"model": "m", "messages": QUESTION, "stream": True, "keff": {"policy": policy}}
        told = rig.post(body)
        assert "error" in told.text
        assert rig.metric("keff_failed_requests_total") == 1


def test_what_a_client_asks_wrongly_is_no_failure_of_the_upstream() -> None:
    with raw_server(lambda *_: http(b"{}")) as url, gateway(url, planless=True) as rig:
        assert rig.post({"model": "m", "messages": []}).status_code == 400
        assert rig.metric("keff_failed_requests_total") == 0


STREAM_ERRORS = {
    "/chat/completions": [
        b'data: {"error": {"message": "the engine died", "code": 500}}\n\n',
        b'event: error\ndata: {"message": "the engine died"}\n\n',
        b'data: {"object": "error", "message": "the engine died"}\n\n',
        b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "the engine died: error"}]}\n\n',
        b'data: {"choices": [{"index": 0, "delta": {}, "error": {"message": "the engine died"}}]}\n\n',
    ],
    "/responses": [
        b'event: error\ndata: {"type": "error", "message": "the engine died"}\n\n',
        b'event: response.failed\ndata: {"type": "response.failed", "response": {"status": "failed", '
        b'"error": {"code": "server_error", "message": "the engine died"}}}\n\n',
        b'data: {"type": "response.failed", "response": {"error": {"message": "the engine died"}}}\n\n',
    ],
    "/messages": [
        b'event: error\ndata: {"type": "error", "error": {"message": "the engine died"}}\n\n',
    ],
}
BEGUN = b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": "It \\"error\\""}}]}\n\n'
WHOLE = {
    "/chat/completions": b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n',
    "/responses": b'event: response.completed\ndata: {"response": {"error": null}}\n\n',
    "/messages": b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
}


@pytest.mark.parametrize("route", STREAM_ERRORS)
def test_an_error_in_a_stream_that_is_passed_on_is_a_failed_request(
    route: str, caplog: pytest.LogCaptureFixture
) -> None:
    streams = [BEGUN + last + b"data: [DONE]\n\n" for last in (*STREAM_ERRORS[route], WHOLE[route])]
    with (
        caplog.at_level(logging.INFO, "keff.gateway"),
        raw_server(lambda number, _: http(streams[number], content_type="text/event-stream")) as url,
        gateway(url, planless=True) as rig,
    ):
        body = {"model": "m", "messages": QUESTION, "input": "What is 3+4?", "stream": True, "keff": {"k": 1}}
        assert [httpx2.post(rig.url + route, json=body).content for _ in streams] == streams
        failed = len(STREAM_ERRORS[route])
        until(lambda: rig.metric("keff_failed_requests_total") == failed)
    told = [line["reason"] for line in lines(caplog) if "reason" in line]
    assert len(told) == failed
    assert all("the engine died" in reason for reason in told)


@pytest.mark.parametrize("stream", [False, True])
def test_another_model_than_the_plans_is_logged_once(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    names = ["stub", "org/stub", "stub-2026-01-01", "other", "third", None]
    with (
        caplog.at_level(logging.INFO, "keff.gateway"),
        raw_server(lambda number, _: http(json.dumps(answer(model=names[number])).encode())) as url,
        gateway(url, make_plan("fixed:1")) as rig,
    ):
        for _ in names:
            assert rig.post({"messages": QUESTION, "stream": stream}).status_code == 200
    told = [json.loads(text) for text in caplog.messages if "another model" in text]
    assert [(line["asked"], line["answered"]) for line in told] == [("stub", "other")]


def test_a_second_gateway_of_one_process_writes_each_line_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("keff", "keff.gateway", "uvicorn.error"):
        logger = logging.getLogger(name)
        monkeypatch.setattr(logger, "handlers", [*logger.handlers])
        monkeypatch.setattr(logger, "propagate", logger.propagate)
        monkeypatch.setattr(logger, "level", logger.level)
    for quiet in (True, False):
        log_to_stderr(quiet)
    logging.getLogger("keff.gateway").info('{"event": "request"}')
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "request"
