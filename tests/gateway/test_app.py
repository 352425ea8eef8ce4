"""The gateway as clients meet it: the official client, bad input, faults upstream, and clients that leave."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fault_server import Script
from gateway_rig import QUESTION, SAMPLING, Rig, gateway, make_plan
from how_many import examples
from keff.gateway import protocol
from keff.gateway.options import Options
from keff.gateway.outcome import REASONS
from keff.gateway.vote import Vote
from keff.plan import Profile
from keff.reading.open import Opening, open_record
from keff.sampling.cost import Price
from keff.stats.correlation import agreement

Serve = Callable[..., Rig]


def says(*answers: str) -> Callable[[list[dict[str, Any]], int], str]:
    """Return a script's answers by seed: path i of a request with seed 0 says answers[i]."""
    return lambda _, seed: f"Thus the answer is {answers[seed % len(answers)]}." + "." * (seed % 3)


def ask(rig: Rig, **more: Any) -> Any:
    return rig.client().chat.completions.create(model="stub", messages=QUESTION, seed=0, **more)  # type: ignore[call-overload]


def test_the_official_client_gets_a_voted_answer_with_its_cost(serve: Serve) -> None:
    script = Script(answer=says("8", "7", "7", "7", "7"))
    rig = serve(script, options=Options(price=Price(prompt=1, output=2)))
    reply = ask(rig)
    told = reply.model_extra["keff"]
    assert "answer is 7" in reply.choices[0].message.content
    assert (told["answer"], told["votes"], told["paths"]) == ("7", {"7": 4, "8": 1}, 5)
    assert told["stop"] == "policy"
    assert len(script.requests) == 5
    assert reply.usage.prompt_tokens == 7 * 5
    words = sum(len(says("8", "7", "7", "7", "7")([], seed).split()) for seed in range(5))
    assert reply.usage.completion_tokens == words
    assert told["cost"]["dollars"] == pytest.approx((35 + 2 * words) / 1e6)


def test_the_plan_fills_in_and_the_client_s_fields_pass_through(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    ask(rig, extra_body={"min_p": 0, "custom": {"x": [1]}}, user="me")
    for number, body in enumerate(sorted(script.requests, key=lambda body: body["seed"])):
        assert body.pop("seed") == number
        assert body == {
            "model": "stub",
            "messages": QUESTION,
            "user": "me",
            "min_p": 0,
            "custom": {"x": [1]},
            "temperature": 0.7,
            "top_p": 0.95,
            "max_tokens": SAMPLING["max_tokens"],
        }


def test_without_a_seed_none_is_sent(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    rig.post()
    assert all("seed" not in body for body in script.requests)


def test_the_official_client_streams_the_winner(serve: Serve) -> None:
    rig = serve(Script(answer=says("8", "7", "7", "7", "7")))
    whole = ask(rig)
    events = list(ask(rig, stream=True, stream_options={"include_usage": True}))
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert text == whole.choices[0].message.content
    assert events[-1].choices == []
    assert events[-1].usage == whole.usage
    assert [event.choices[0].finish_reason for event in events if event.choices][-1] == "stop"
    told = [event.model_extra["keff"] for event in events if "keff" in (event.model_extra or {})]
    assert told == [whole.model_extra["keff"]]


def test_a_slow_vote_keeps_its_stream_open_with_comments(serve: Serve) -> None:
    options = Options(quiet_seconds=0.02, comment_seconds=0.02)
    rig = serve(Script(answer=says("7"), latency=0.15), options=options)
    reply = rig.post({"messages": QUESTION, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.text.count(": 0 paths drawn\n\n") >= 2
    assert reply.text.endswith("data: [DONE]\n\n")
    assert "answer is 7" in "".join(
        event.choices[0].delta.content or "" for event in ask(rig, stream=True) if event.choices
    )


def test_an_error_before_the_stream_has_its_status_and_one_in_it_is_raised(serve: Serve) -> None:
    rig = serve(Script(fault=lambda *_: "404"))
    with pytest.raises(openai.NotFoundError):
        ask(rig, stream=True)
    slow = serve(
        Script(fault=lambda *_: "error_200", latency=0.1), options=Options(quiet_seconds=0.01, replacements=0)
    )
    with pytest.raises(openai.APIError, match="overloaded"):
        list(ask(slow, stream=True))


def test_off_relays_the_stream_as_it_comes(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    events = list(
        ask(rig, stream=True, stream_options={"include_usage": True}, extra_body={"keff": {"k": 1}})
    )
    assert "".join(e.choices[0].delta.content or "" for e in events if e.choices).startswith(
        "Thus the answer"
    )
    assert events[-1].usage.prompt_tokens == 7
    (body,) = script.requests
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["temperature"] == 0.7
    flaky = Script(answer=says("7"), fault=lambda number, _: "500" if number < 2 else None)
    assert "data: [DONE]" in serve(flaky).post({"messages": QUESTION, "stream": True, "keff": {"k": 1}}).text
    garbage = Script(fault=lambda *_: "error_200")
    reply = serve(garbage).post({"messages": QUESTION, "stream": True, "keff": {"k": 1}})
    assert (reply.status_code, len(garbage.requests)) == (502, 3)
    assert "overloaded" in reply.json()["error"]["message"]
    whole = ask(rig, extra_body={"keff": {"policy": "off"}})
    assert whole.model_extra["keff"]["paths"] == 1


def test_a_relayed_stream_that_breaks_ends_in_an_error(serve: Serve) -> None:
    cut = serve(Script(answer=says("7"), fault=lambda *_: "truncated"), plan=make_plan("fixed:1"))
    text = cut.post({"messages": QUESTION, "stream": True}).text
    assert "[DONE]" not in text


def test_requests_choose_their_policy(serve: Serve) -> None:
    script = Script(answer=says("1", "2", "3", "4", "5", "6"))
    rig = serve(script)
    assert ask(rig, extra_body={"keff": {"policy": "fixed:5"}}).model_extra["keff"]["paths"] == 5
    by_header = rig.client(default_headers={"x-keff-policy": "lead_k:3", "x-keff-cap": "4"})
    reply = by_header.chat.completions.create(model="stub", messages=QUESTION, seed=0)  # type: ignore[arg-type]
    assert reply.model_extra["keff"]["policy"] == "lead_k:3,cap=4"
    with pytest.raises(openai.BadRequestError, match="more than the 64"):
        ask(rig, extra_body={"keff": {"k": 65}})
    with pytest.raises(openai.BadRequestError, match="n must be 1"):
        ask(rig, n=2)


def test_a_deadline_is_kept_and_told(serve: Serve) -> None:
    script = Script(answer=says("7"), fault=lambda number, _: "hang" if number >= 2 else None)
    rig = serve(script, plan=make_plan("fixed:4"))
    told = ask(rig, extra_body={"keff": {"deadline_s": 0.4}}).model_extra["keff"]
    assert (told["stop"], told["paths"], told["cancelled"]) == ("deadline", 2, 2)
    assert told["stop_reason"] == REASONS["deadline"]
    nothing = serve(Script(fault=lambda *_: "hang"), options=Options(deadline=0.1))
    reply = nothing.post()
    assert reply.status_code == 504
    assert reply.json()["error"]["type"] == "timeout_error"


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
    rig = serve(script)
    client = rig.client()
    assert [model.id for model in client.models.list()] == ["stub", "org/other"]
    assert client.models.retrieve("org/other").id == "org/other"
    with pytest.raises(openai.NotFoundError, match="GET /v1/models") as caught:
        client.models.retrieve("third")
    assert caught.value.code == "model_not_found"


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


def test_a_mismatch_is_named_and_kept_out_of_the_drift_alarm(serve: Serve) -> None:
    rig = serve(Script(answer=says("7")))
    reply = rig.post({"messages": QUESTION, "temperature": 0.1, "max_tokens": 9})
    assert reply.status_code == 200
    assert reply.headers["x-keff-stale-plan"] == "max_tokens, temperature"
    assert reply.json()["keff"]["stale_plan"] == ["max_tokens", "temperature"]
    assert rig.monitor is not None
    assert rig.monitor.seen == 0
    assert "x-keff-stale-plan" not in rig.post().headers
    assert rig.monitor.seen == 1
    strict = serve(Script(answer=says("7")), options=Options(strict=True))
    assert strict.post({"messages": QUESTION, "temperature": 0.1}).status_code == 400
    assert strict.post({"messages": QUESTION, "model": "other"}).status_code == 404
    assert strict.post().status_code == 200


def test_structured_outputs_and_tool_calls_vote_as_json(serve: Serve) -> None:
    forms = ['{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 3}', "no json"]
    rig = serve(Script(answer=lambda _, seed: forms[seed]), plan=make_plan("fixed:4"))
    told = ask(rig, response_format={"type": "json_object"}).model_extra["keff"]
    assert told["votes"] == {'{"a":1,"b":2}': 2, '{"a":3}': 1}
    assert told["abstentions"] == 1


@pytest.mark.parametrize(("mode", "status"), [("pass", 200), ("refuse", 422)])
def test_free_text_is_passed_or_refused(serve: Serve, mode: Any, status: int) -> None:
    rig = serve(Script(answer=lambda *_: "Once upon a time."), options=Options(free_text=mode))
    reply = rig.post()
    assert reply.status_code == status
    if status == 200:
        assert reply.json()["choices"][0]["message"]["content"] == "Once upon a time."
        assert (reply.json()["keff"]["answer"], reply.json()["keff"]["paths"]) == (None, 3)


def test_the_answer_contract_is_appended_only_when_asked(serve: Serve) -> None:
    script = Script(answer=says("7"))
    rig = serve(script, options=Options(append_answer_format=True))
    rig.post()
    rig.post({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})
    contract = rig.service.reader.space.contract
    assert script.requests[0]["messages"][-1]["content"] == f"{QUESTION[0]['content']}\n\n{contract}"
    assert script.requests[-1]["messages"][-1]["content"][-1] == {"type": "text", "text": contract}


def test_a_policy_on_confidence_asks_for_log_probabilities(serve: Serve) -> None:
    script = Script(answer=says("7", "8"))
    rig = serve(script, plan=make_plan("fixed:4,weight=confidence,temperature=0.5"))
    reply = rig.post()
    assert reply.status_code == 200
    assert all(body["logprobs"] is True for body in script.requests)
    assert "logprobs" not in reply.json()["choices"][0]
    assert reply.json()["keff"]["weight"]["kind"] == "weighted_share"


def test_several_paths_share_one_call_where_the_upstream_allows_it(serve: Serve) -> None:
    script = Script(answer=says("7", "8", "9"), max_n=2)
    rig = serve(script, plan=make_plan("fixed:6"), upstream_n=6)
    told = ask(rig).model_extra["keff"]
    assert told["votes"] == {"7": 2, "8": 2, "9": 2}
    script.requests.clear()
    ask(rig)
    assert max(body.get("n", 1) for body in script.requests) <= 2
    assert len(script.requests) == 3


def test_a_client_that_leaves_takes_its_calls_with_it(serve: Serve) -> None:
    script = Script(fault=lambda *_: "hang")
    rig = serve(script, plan=make_plan("fixed:6"))
    for paths, more in ((6, {}), (6, {"stream": True}), (1, {"stream": True, "keff": {"k": 1}})):
        script.gone = 0
        with socket.create_connection(("127.0.0.1", _port(rig))) as client:
            client.sendall(_raw(json.dumps({"messages": QUESTION, **more}).encode()))
            _until(lambda paths=paths: script.open == paths)
            client.shutdown(socket.SHUT_RDWR)
        _until(lambda paths=paths: script.gone == paths)
        _until(lambda: rig.service.in_flight == 0)
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
        _until(lambda: rig.service.in_flight == 0)
        # type() and not isinstance(): some libraries hold objects that warn when they are asked for a class.
        assert not [one for one in gc.get_objects() if type(one) is Vote]
    finally:
        gc.enable()


def _port(rig: Rig) -> int:
    return int(rig.url.rsplit(":", 1)[1].partition("/")[0])


def _raw(body: bytes, length: int | None = None) -> bytes:
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % (length or len(body)) + body


def _until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def test_large_and_slow_bodies_are_refused(serve: Serve) -> None:
    rig = serve(Script(), options=Options(max_body=1000, body_seconds=0.2))
    big = rig.post({"messages": [{"role": "user", "content": "x" * 5000}]})
    assert (big.status_code, big.json()["error"]["code"]) == (413, "request_too_large")
    with socket.create_connection(("127.0.0.1", _port(rig))) as client:
        client.sendall(_raw(b'{"mess', 100))
        assert client.recv(100).startswith(b"HTTP/1.1 408")
    assert not rig.service.upstream.client.closed


def test_a_head_that_does_not_come_closes_the_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    rig = serve(Script(answer=says("7")))
    for start in (b"", b"POST /v1/chat/comp"):
        with socket.create_connection(("127.0.0.1", _port(rig))) as client:
            client.settimeout(30)
            client.sendall(start)
            while client.recv(65536):
                pass


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
        with socket.create_connection(("127.0.0.1", _port(rig))) as client:
            client.sendall(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 404"), path


def test_more_requests_than_allowed_are_told_to_wait(serve: Serve) -> None:
    rig = serve(Script(answer=says("7"), latency=0.3), options=Options(max_requests=1))
    first = threading.Thread(target=rig.post)
    first.start()
    _until(lambda: rig.service.in_flight == 1)
    busy = rig.post()
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
    first.join()
    assert rig.post().status_code == 200


@pytest.mark.slow
def test_a_thousand_connections_at_once_are_all_answered(serve: Serve) -> None:
    rig = serve(Script(answer=says("7"), latency=0.05), plan=make_plan("fixed:1"))
    wanted, body = 1000, _raw(json.dumps({"messages": QUESTION}).encode())

    async def one(gate: asyncio.Event) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", _port(rig))
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


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
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


def test_shadows_are_drawn_on_after_the_reply_and_logged(serve: Serve, tmp_path: Path) -> None:
    script = Script(answer=says("7", "7", "7", "8"))
    log = tmp_path / "votes.jsonl"
    # Half of 6 paths is what a reply costs: a budget of one draws every request on, once the mean is known.
    rig = serve(script, options=Options(shadow_budget=1.0, shadow_paths=6), vote_log=log)
    for _ in range(2):
        assert ask(rig).model_extra["keff"]["paths"] == 3
    _until(lambda: len(log.read_text().splitlines()) == 2)
    *_, row = (row for row in map(json.loads, log.read_text().splitlines()) if row["shadow"])
    assert row["all_answers"] == ["1", "1", "1", "2", "1", "1"]
    assert (row["paths"], row["shadow"]) == (3, True)
    assert rig.metric('keff_paths_total{became="shadow"}') in (3, 6)


@pytest.mark.slow
def test_the_shadow_budget_is_the_share_of_the_paths_that_are_drawn_for_nobody(serve: Serve) -> None:
    rig = serve(
        Script(answer=says("7")),
        plan=make_plan("lead_k:2"),
        options=Options(shadow_budget=0.25, shadow_paths=6),
    )
    for _ in range(300):
        rig.post()
    _until(lambda: not rig.service.shadows.running)
    voted = rig.metric('keff_paths_total{became="voted"}')
    shadow = rig.metric('keff_paths_total{became="shadow"}')
    assert voted == 600
    # 300 times 4 further paths with probability 1/8: 150 on average, with a standard deviation of 23.
    assert 150 - 4 * 23 < shadow < 150 + 4 * 23


def test_where_one_path_may_do_the_shadows_feed_the_drift_alarm(serve: Serve) -> None:
    rig = serve(
        Script(answer=says("7")),
        plan=make_plan("fixed:1", profile=Profile(paths=8, table=(90, 10) + (0,) * 20)),
        options=Options(shadow_budget=1.0, shadow_paths=4),
    )
    monitor = rig.monitor
    assert monitor is not None
    assert (monitor.m, monitor.shadow_only) == (4, True)

    def seen() -> bool:
        rig.post()
        return monitor.seen > 0

    _until(seen)


def test_the_vote_log_is_redacted_and_read_by_analyze(serve: Serve, tmp_path: Path) -> None:
    script = Script(
        answer=lambda messages, seed: f"The answer is {(seed * len(messages[0]['content'])) % 3}."
    )
    for name, answers in (("redacted", False), ("open", True)):
        log = tmp_path / f"{name}.jsonl"
        rig = serve(script, plan=make_plan("fixed:4"), vote_log=log, log_answers=answers)
        for length in range(1, 7):
            rig.post({"messages": [{"role": "user", "content": "x" * length}], "seed": 0})
        text = log.read_text()
        assert "xxx" not in text
        assert ('"0"' in text) == answers
        # Questions whose length is a multiple of 3 agree fully; the others give 0 1 2 0 or 0 2 1 0.
        votes = open_record(log, Opening()).ballot.votes
        assert (votes.n, votes.k, votes.correct) == (6, 4, None)
        assert agreement(votes) == pytest.approx((2 * 1 + 4 / 6) / 6)


def test_a_full_disk_does_not_fail_the_request(serve: Serve) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    rig = serve(Script(answer=says("7")), vote_log=full)
    assert rig.post().status_code == 200
    assert rig.metric("keff_vote_log_errors_total") == 1


def test_the_metrics_add_up(serve: Serve) -> None:
    rig = serve(Script(answer=says("7")))
    for _ in range(3):
        rig.post()
    rig.post({"messages": []})
    assert rig.metric('keff_requests_total{status="200"}') == 3
    assert rig.metric('keff_requests_total{status="400"}') == 1
    assert rig.metric('keff_paths_total{became="voted"}') == 9
    assert rig.metric('keff_tokens_total{kind="prompt"}') == 63
    assert rig.metric('keff_request_paths_bucket{le="3.0"}') == 3
    assert rig.metric('keff_request_paths_bucket{le="2.0"}') == 0
    assert rig.metric("keff_drift_requests_total") == 3
    assert rig.metric("keff_requests_in_flight") == 0
    text = httpx2.get(rig.url.removesuffix("/v1") + "/metrics").text
    for line in text.splitlines():
        assert line.startswith("# ") or len(line.rsplit(" ", 1)) == 2
    named = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("path", ["chat/completions/", "chat/completions//"])
def test_a_slash_too_many_is_voted_all_the_same(serve: Serve, path: str) -> None:
    script = Script(answer=says("7"))
    rig = serve(script)
    reply = httpx2.post(f"{rig.url}/{path}", json={"model": "stub", "messages": QUESTION}, timeout=60)
    assert reply.json()["keff"]["paths"] == len(script.requests) > 1
