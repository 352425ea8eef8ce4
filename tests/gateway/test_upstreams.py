"""Health of servers, and a fallback: asked where the first fails, with no key but its own."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from app_rig import until
from fault_server import Script, running
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.gateway.upstream.answer import Address, UpstreamCall, UpstreamError
from keff.gateway.upstream.server import FAILURES, REST, CircuitBreaker, Upstream
from keff.protocol.server import Refusal

UNREACHABLE = "http://127.0.0.1:9/v1"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def error(status: int) -> UpstreamError:
    return UpstreamError("no", Refusal(status, "no"))


def test_requests_that_differ_make_a_trial_due_and_the_trial_decides() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(5 * FAILURES):
        breaker.failed(error(500), request=1)
    assert not breaker.due, "one request, however often it is asked, says nothing of others"
    breaker.answered()
    for request in range(FAILURES):
        assert not breaker.due
        breaker.failed(error(500), request)
    assert breaker.due and not breaker.down
    breaker.tried(None)
    assert not breaker.down and not breaker.due
    for request in range(FAILURES):
        breaker.failed(error(503), request)
    assert not breaker.due, "a server that just passed its trial is left alone for a while"
    clock.now = REST
    assert breaker.due
    breaker.tried("it answers with HTTP 500")
    assert breaker.down and breaker.why and not breaker.due
    breaker.answered()
    assert breaker.down, "only a trial brings it back"
    clock.now += REST
    assert breaker.due
    breaker.tried(None)
    assert not breaker.down and breaker.why == ""


def test_a_server_that_is_long_down_is_tried_as_often() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(20):
        breaker.tried("no")
    assert not breaker.due
    clock.now += REST
    assert breaker.due


def test_what_cannot_be_reached_is_no_request_s_fault() -> None:
    breaker = CircuitBreaker()
    for _ in range(FAILURES):
        breaker.failed(UpstreamError("it cannot be reached", unreachable=True), request=1)
    assert breaker.due


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429])
def test_a_refusal_says_nothing_of_other_requests(status: int) -> None:
    """Refused prompts, models, keys and rates say nothing of other requests; the gateway's own key does."""
    server, keyed = Upstream(Address(url=UNREACHABLE)), Upstream(Address(url=UNREACHABLE, key="own"))
    for each in (server, keyed):
        each.health.tried(None)
        for request in range(2 * FAILURES):
            asked = UpstreamCall(b'{"messages":"%d","seed":7}' % request, {})
            refused: Any = SimpleNamespace(status=status, headers={})
            each._noted(each._refusal(refused, b"{}", asked), asked)
        each.health.clock = lambda: 1e12
    assert not server.health.down and not server.health.due
    assert keyed.health.due == (status == 401)


def test_paths_of_one_request_are_one_request() -> None:
    server = Upstream(Address(url=UNREACHABLE))
    server.health.tried(None)
    for seed in range(9):
        server._noted(error(500), UpstreamCall(b'{"messages":["x"],"n":2,"seed":%d}' % seed, {}))
    server.health.clock = lambda: 1e12
    assert not server.health.due


@pytest.mark.slow
def test_one_client_s_poisoned_prompt_takes_no_server_down_for_others() -> None:
    """Both servers answer whatever holds the poison with 500, however it is varied; all else they serve."""

    def poisoned(_: int, body: dict[str, Any]) -> str | None:
        return "500" if "poison" in str(body["messages"]) else None

    scripts = [Script(fault=poisoned), Script(fault=poisoned)]
    with ExitStack() as stack:
        url, spare = (stack.enter_context(running(script)) for script in scripts)
        rig = stack.enter_context(gateway(url, fallback=Address(url=spare), options=Options(replacements=0)))
        for number in range(8):
            for k in (1, 3):
                bad = [{"role": "user", "content": f"poison {number}"}]
                stream = {"stream": True} if k == 1 and number < 2 else {}
                assert rig.post({"messages": bad, "keff": {"k": k}, **stream}).status_code == 502
            assert rig.post({"messages": QUESTION}).status_code == 200
        assert set(rig.service.servers[0].states().values()) == {"up"}
        ready = httpx2.get(rig.url.removesuffix("/v1") + "/readyz")
        assert ready.status_code == 200


def test_a_model_that_fails_takes_no_other_model_s_server_away() -> None:
    """A router answers for several models, of which one is broken."""
    script = Script(fault=lambda _, body: "500" if body["model"] == "broken" else None)
    with running(script) as url, gateway(url, planless=True, options=Options(replacements=0)) as rig:
        assert rig.post({"model": "stub", "messages": QUESTION}).status_code == 200
        for number in range(3 * FAILURES):
            asked = [{"role": "user", "content": f"What is {number}?"}]
            assert rig.post({"model": "broken", "messages": asked, "keff": {"k": 1}}).status_code == 502
        until(
            lambda: (
                [body["model"] for body in script.requests if body.get("max_tokens") == 1][:2]
                == ["broken", "stub"]
            )
        )
        assert set(rig.service.servers[0].states().values()) == {"up"}


def test_of_what_was_answered_only_the_model_is_kept() -> None:
    with running(Script()) as url, gateway(url) as rig:
        (server,) = rig.service.upstream.servers
        for stream in (False, True):
            long = [{"role": "user", "content": "x" * 10**6}]
            assert rig.post({"messages": long, "stream": stream, "keff": {"k": 1}}).status_code == 200
            assert server._answered == ("stub",)
        kept = gc.get_referents(vars(server)) + gc.get_referents(server.health)
        assert not any(isinstance(each, bytes) for each in kept)


def test_a_server_that_was_taken_for_down_serves_a_model_that_it_has() -> None:
    """Nothing was answered before the broken model: the next request's own model is tried."""
    script = Script(fault=lambda _, body: "500" if body["model"] == "broken" else None)
    with running(script) as url, gateway(url, planless=True, options=Options(replacements=0)) as rig:
        for number in range(FAILURES):
            asked = [{"role": "user", "content": f"What is {number}?"}]
            assert rig.post({"model": "broken", "messages": asked, "keff": {"k": 1}}).status_code == 502
        server = rig.service.servers[0].servers[0]
        until(lambda: server.health.down)
        until(lambda: rig.post({"model": "stub", "messages": QUESTION}).status_code == 200, 5)
        assert not server.health.down


def test_a_server_that_fails_every_chat_is_not_ready_though_it_lists_its_models() -> None:
    broken = Script(fault=lambda *_: "500")
    with ExitStack() as stack:
        urls = [stack.enter_context(running(broken)) for _ in range(2)]
        rig = stack.enter_context(
            gateway(urls[0], fallback=Address(url=urls[1]), options=Options(replacements=0))
        )
        base = rig.url.removesuffix("/v1")
        fleet = rig.service.servers[0]
        for number in range(2 * FAILURES):
            asked = [{"role": "user", "content": str(number)}]
            assert rig.post({"messages": asked, "keff": {"k": 1}}).status_code == 502
        until(lambda: "up" not in fleet.states().values())
        until(lambda: httpx2.get(base + "/readyz").status_code == 503)


def test_the_fallback_is_asked_where_the_first_fails_and_gets_its_own_key_only() -> None:
    first, second = Script(fault=lambda *_: "500", key="first-key"), Script(key="second-key")
    with ExitStack() as stack:
        url, spare = (stack.enter_context(running(script)) for script in (first, second))
        rig: Rig = stack.enter_context(
            gateway(url, key="first-key", fallback=Address(url=spare, key="second-key"))
        )
        replies = [
            rig.post({"messages": [{"role": "user", "content": f"How many of {number}?"}]})
            for number in range(FAILURES)
        ]
        until(lambda: rig.service.servers[0].servers[0].health.down)
        before = len(first.requests)
        events = list(
            rig.client().chat.completions.create(
                model="keff", messages=QUESTION, stream=True, extra_body={"keff": {"policy": "off"}}
            )
        )
    assert [reply.status_code for reply in replies] == [200] * FAILURES and events
    assert {headers["authorization"] for headers in second.headers} == {"Bearer second-key"}
    assert {headers["authorization"] for headers in first.headers} == {"Bearer first-key"}
    # Down, the first server rests: what comes later goes to the fallback without asking it.
    assert len(first.requests) == before and len(second.requests) >= 7
    assert {body["max_tokens"] for body in first.requests} == {64, 1}, "the trial asks for one token"


def test_a_client_s_key_never_reaches_the_fallback() -> None:
    second = Script()
    with ExitStack() as stack:
        spare = stack.enter_context(running(second))
        rig = stack.enter_context(gateway(UNREACHABLE, fallback=Address(url=spare)))
        reply = rig.post({"messages": QUESTION}, headers={"authorization": "Bearer client"})
        models = rig.client(api_key="client").models.list()
    assert reply.status_code == 200 and [model.id for model in models] == ["stub"]
    assert all("authorization" not in headers for headers in second.headers)


def test_without_a_fallback_that_serves_the_error_stays() -> None:
    with gateway(UNREACHABLE, fallback=Address(url=UNREACHABLE)) as rig:
        reply = rig.post({"messages": QUESTION})
    assert reply.status_code == 502 and "the upstream failed" in reply.json()["error"]["message"]


def test_a_prompt_that_is_refused_is_not_taken_elsewhere() -> None:
    first, second = Script(fault=lambda *_: "400"), Script()
    with ExitStack() as stack:
        url, spare = (stack.enter_context(running(script)) for script in (first, second))
        rig = stack.enter_context(gateway(url, fallback=Address(url=spare)))
        reply = rig.post({"messages": QUESTION})
    assert reply.status_code == 400 and not second.requests
