"""Several servers of the same models: who draws, what keeps together, and replicas that fail."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest

from app_rig import until
from fault_server import Script, running
from gateway_rig import QUESTION, Options, Rig, gateway
from keff.gateway.upstream.answer import Address, UpstreamCall
from keff.gateway.upstream.fleet import TOGETHER, Fleet
from keff.gateway.upstream.server import FAILURES

UNREACHABLE = "http://127.0.0.1:9/v1"


def url(number: int) -> str:
    return f"http://127.0.0.1:{number}/v1"


class Busy:
    """A fleet of servers with so many calls each, of which some are down."""

    def __init__(self, *calls: int, down: tuple[int, ...] = (), fallback: bool = False) -> None:
        spare = Address(url=url(99)) if fallback else None
        self.fleet = Fleet(Address(url=url(0), more=tuple(map(url, range(1, len(calls))))), spare)
        for place, (server, number) in enumerate(zip(self.fleet.servers, calls, strict=True)):
            server.client.running = number
            if place in down:
                server.health.tried("no")

    async def ways(self, home: int | None = None) -> list[int]:
        all_ = [*self.fleet.servers, self.fleet.fallback]
        found = await self.fleet._server_and_alternative(
            UpstreamCall(b"", {}), None if home is None else self.fleet.servers[home]
        )
        return [all_.index(server) for server in found]


@pytest.mark.anyio
async def test_the_least_busy_is_asked_and_then_the_next_one_or_the_fallback() -> None:
    assert await Busy(3, 1, 2).ways() == [1, 2]
    assert await Busy(3, 1, 2, down=(1,)).ways() == [2, 0]
    assert await Busy(3, 1, down=(1,), fallback=True).ways() == [0, 2]
    assert await Busy(3, 1, down=(0, 1), fallback=True).ways() == [2]


@pytest.mark.anyio
async def test_paths_of_a_request_stay_together_while_their_server_is_not_much_busier() -> None:
    assert await Busy(TOGETHER, 0).ways(0) == [0, 1]
    assert await Busy(TOGETHER + 1, 0).ways(0) == [1, 0]
    assert await Busy(1, 0, down=(0,)).ways(0) == [1]


def test_equally_busy_servers_take_requests_in_turn() -> None:
    fleet = Busy(0, 0, 0).fleet
    assert Counter(fleet.home().address.url for _ in range(9)) == {url(place): 3 for place in range(3)}
    assert Busy(2, 1, 0, down=(2,)).fleet.home().address.url == url(1)


@contextmanager
def fleet(*scripts: Script | str, **options: Any) -> Iterator[Rig]:
    """Run a gateway before a server for each script (or at an address)."""
    with ExitStack() as stack:
        urls = [each if isinstance(each, str) else stack.enter_context(running(each)) for each in scripts]
        yield stack.enter_context(gateway(urls[0], more=tuple(urls[1:]), **options))


def ask(rig: Rig, number: int, **more: Any) -> httpx2.Response:
    return rig.post({"messages": [{"role": "user", "content": f"{number}. How many?"}], **more})


def test_requests_are_shared_out_and_their_paths_stay_together() -> None:
    scripts = [Script(latency=0.02) for _ in range(3)]
    with fleet(*scripts) as rig:
        for number in range(9):
            assert ask(rig, number, keff={"k": 4}).status_code == 200
        state = (
            rig.client()
            ._client.get(rig.url.removesuffix("/v1") + "/keff", headers={"accept": "application/json"})
            .json()
        )
        assert set(state["servers"].values()) == {"up"} and len(state["servers"]) == 3
        assert rig.metric("keff_server_up") == 3
    for script in scripts:
        asked = Counter(str(body["messages"]) for body in script.requests)
        assert list(asked.values()) == [4] * 3, "three requests each, all four paths of each"


@pytest.mark.slow
def test_replicas_that_are_dead_or_choke_on_one_prompt_or_are_slow_lose_no_request() -> None:
    def poisoned(_: int, body: dict[str, Any]) -> str | None:
        return "500" if "poison" in str(body["messages"]) else None

    slow, sound = Script(latency=0.5, fault=poisoned), Script(fault=poisoned)
    with fleet(UNREACHABLE, slow, sound, options=Options(replacements=2)) as rig:
        with ThreadPoolExecutor(4) as pool:
            codes = list(pool.map(lambda n: ask(rig, n, keff={"k": 2}).status_code, range(24)))
            bad = [{"role": "user", "content": "poison"}]
            refused = [rig.post({"messages": bad, "keff": {"k": 1}}).status_code for _ in range(4)]
            codes += list(pool.map(lambda n: ask(rig, n, keff={"k": 2}).status_code, range(24, 36)))
        states = rig.service.servers[0].states()
    assert set(codes) == {200} and set(refused) == {502}
    assert states.pop(UNREACHABLE).startswith("down: ") and set(states.values()) == {"up"}
    assert len(sound.requests) > 2 * len(slow.requests), "the slow one has fewer calls in its time"


def test_a_trial_shows_the_key_of_the_client_where_the_gateway_has_none() -> None:
    """A trial without it would be refused with 401, which a server that fails everybody answers quickly."""
    script = Script(fault=lambda *_: "500", key="client")
    with fleet(script, options=Options(replacements=0)) as rig:
        for number in range(FAILURES):
            body = {"messages": [{"role": "user", "content": str(number)}], "keff": {"k": 1}}
            assert rig.post(body, headers={"authorization": "Bearer client"}).status_code == 502
        only = rig.service.servers[0].servers[0]
        until(lambda: only.health.down)
        assert {headers["authorization"] for headers in script.headers} == {"Bearer client"}
        for _ in range(3):
            assert rig.post({"messages": QUESTION, "keff": {"k": 1}}).status_code == 502
            time.sleep(0.02)
        assert only.health.down, "that it refuses a caller without a key does not say that it is back"


def test_a_server_that_comes_back_is_asked_again() -> None:
    broken = threading.Event()
    script = Script(fault=lambda *_: "500" if broken.is_set() else None)
    broken.set()
    with fleet(script, Script(), options=Options(replacements=0)) as rig:
        until(lambda: ask(rig, len(script.requests)).status_code == 200 and _first(rig).health.down)
        broken.clear()
        _first(rig).health.clock = lambda: 1e12
        until(lambda: ask(rig, 0).status_code == 200 and not _first(rig).health.down)


def _first(rig: Rig) -> Any:
    return rig.service.servers[0].servers[0]
