"""Health of servers, and a fallback: asked where the first fails, with no key but its own."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from fault_server import Script, running
from gateway_rig import QUESTION, Rig, gateway
from keff.gateway.upstream import Address, UpstreamError
from keff.gateway.upstreams import FAILURES, LONGEST_REST, REST, TRIAL, Health, Watched
from keff.protocol.refusals import Refusal

UNREACHABLE = "http://127.0.0.1:9/v1"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def error(status: int) -> UpstreamError:
    return UpstreamError("no", Refusal(status, "no"))


def test_a_server_is_down_after_failures_in_a_row_and_tried_by_single_calls() -> None:
    clock = Clock()
    health = Health(clock)
    for _ in range(FAILURES - 1):
        health.failed(error(500))
    health.answered()
    for _ in range(FAILURES):
        assert health.admits()
        health.failed(error(0))
    assert health.down and not health.admits()
    clock.now = REST
    assert health.admits() and not health.admits()
    health.failed(error(503))
    clock.now += REST + TRIAL
    assert not health.admits()
    clock.now += REST
    assert health.admits()
    health.answered()
    assert not health.down and health.admits() and health.why == ""


def test_rests_grow_to_a_limit() -> None:
    clock = Clock()
    health = Health(clock)
    for _ in range(20):
        health.failed(error(500))
    clock.now = LONGEST_REST
    assert health.admits()


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429])
def test_no_request_of_a_client_takes_a_server_down(status: int) -> None:
    """Refused prompts, models, keys and rates say nothing of other requests; the gateway's own key does."""
    server, keyed = Watched(Address(url=UNREACHABLE)), Watched(Address(url=UNREACHABLE, key="own"))
    for _ in range(2 * FAILURES):
        for each in (server, keyed):
            each._noted(each.refusal(status, b"{}", {}, {}))
    assert server.serves and server.health.admits()
    assert keyed.serves == (status != 401)


def test_the_fallback_is_asked_where_the_first_fails_and_gets_its_own_key_only() -> None:
    def stumbles(number: int, _: object) -> str | None:
        return "500" if number < FAILURES else None

    first, second = Script(fault=stumbles, key="first-key"), Script(key="second-key")
    with ExitStack() as stack:
        url, spare = (stack.enter_context(running(script)) for script in (first, second))
        rig: Rig = stack.enter_context(
            gateway(url, key="first-key", fallback=Address(url=spare, key="second-key"))
        )
        replies = [rig.post({"messages": QUESTION, "seed": seed}) for seed in range(3)]
        events = list(
            rig.client().chat.completions.create(
                model="keff", messages=QUESTION, stream=True, extra_body={"keff": {"policy": "off"}}
            )
        )
    assert [reply.status_code for reply in replies] == [200] * 3 and events
    assert {headers["authorization"] for headers in second.headers} == {"Bearer second-key"}
    assert {headers["authorization"] for headers in first.headers} == {"Bearer first-key"}
    # Down, the first server rests: what comes later goes to the fallback without asking it.
    assert len(first.requests) == FAILURES and len(second.requests) >= 7


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
