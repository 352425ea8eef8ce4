"""Gateways on several hosts: limits, spend, drift and profile in one Redis, and while it is away."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app_rig import until
from fault_server import Script, running
from gateway_rig import QUESTION, Options, Rig, gateway, make_plan
from keff.gateway.accounts.accounts import Account
from keff.gateway.traffic import traffic

pytest.importorskip("redis")
from keff.gateway.shared import LedgerError, RedisLedger, RedisStore, SharedLedger

SERVER = shutil.which("redis-server")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SERVER is None, reason="no redis-server: apt-get install redis-server"),
]
CAROL = Account("carol", hashlib.sha256(b"carol").digest(), paths=60)
BEARER = {"authorization": "Bearer carol"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def redis(port: int) -> Iterator[str]:
    """Run a Redis that keeps nothing on a disk."""
    command = [str(SERVER), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: not _fails(port))
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


def _fails(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False


@pytest.fixture
def url() -> Iterator[str]:
    with redis(free_port()) as found:
        yield found


@contextmanager
def hosts(url: str, script: Script, n: int = 2, **more: Any) -> Iterator[list[Rig]]:
    """Run gateways that have nothing in common but Redis and the upstream."""
    with ExitStack() as stack:
        upstream = stack.enter_context(running(script))
        yield [stack.enter_context(gateway(upstream, redis=url, **more)) for _ in range(n)]


@contextmanager
def processes(folder: Path, redis_url: str, upstream: str) -> Iterator[list[str]]:
    """Run two gateways as two hosts do: a process each, in a folder of its own, which hold no common file."""
    command = [sys.executable, "-m", "keff", "serve", "--port", "0", "--upstream", upstream]
    with ExitStack() as stack:
        urls: list[str] = []
        started: list[subprocess.Popen[str]] = []
        for name in ("one", "two"):
            disk = folder / name
            disk.mkdir()
            (disk / "keys.toml").write_text(
                f'[keys.carol]\nsha256 = "{CAROL.digest.hex()}"\npaths_per_day = {CAROL.paths}\n'
            )
            own = ["--keys", "keys.toml", "--set", f"redis={redis_url}"]
            environment = {**os.environ, "HOME": str(disk), "XDG_STATE_HOME": str(disk)}
            process = subprocess.Popen(
                [*command, *own], cwd=disk, env=environment, stderr=subprocess.PIPE, text=True
            )
            started.append(stack.enter_context(process))
            stack.callback(process.terminate)
        for process in started:
            assert process.stderr is not None
            urls.append(json.loads(process.stderr.readline())["url"])
            threading.Thread(target=process.stderr.read, daemon=True).start()
        yield urls


async def flood(urls: list[str], n: int, body: dict[str, Any]) -> list[int]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(timeout=60, limits=limits, headers=BEARER) as client:
        asked = (client.post(f"{urls[at % len(urls)]}/chat/completions", json=body) for at in range(n))
        return [reply.status_code for reply in await asyncio.gather(*asked)]


def test_two_hosts_go_past_one_limit_by_one_reservation_at_most(url: str, tmp_path: Path) -> None:
    script = Script(answer=lambda *_: "The answer is 7.", latency=0.5)
    with running(script) as upstream, processes(tmp_path, url, upstream) as urls:
        codes = asyncio.run(flood(urls, 200, {"model": "m", "messages": QUESTION, "keff": {"k": 7}}))
        with closing(RedisLedger(RedisStore(url))) as ledger:
            until(lambda: ledger.today("carol").held_paths == 0)
            told = ledger.today("carol")
    assert codes.count(200) == 9 and codes.count(429) == 191, "eight times 7 is below 60; one more passes it"
    assert (told.requests, told.paths, len(script.requests)) == (9, 63, 63)


def test_while_redis_is_away_keys_with_limits_are_refused_and_all_others_served() -> None:
    port = free_port()
    free = Account("dave", hashlib.sha256(b"dave").digest())
    script = Script(answer=lambda *_: "The answer is 7.")
    options = Options(accounts=(CAROL, free))
    with ExitStack() as stack:
        upstream = stack.enter_context(running(script))
        rig = stack.enter_context(gateway(upstream, redis=f"redis://127.0.0.1:{port}/0", options=options))
        refused = rig.post(headers=BEARER)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "account_unavailable")
        assert not script.requests, "nothing is drawn for a key whose limit is not known"
        assert rig.post(headers={"authorization": "Bearer dave"}).status_code == 200
        ledger = rig.service.ledger
        assert isinstance(ledger, SharedLedger)
        until(lambda: bool(ledger.away))
        with redis(port) as url:
            until(lambda: rig.post(headers=BEARER).status_code == 200)
            until(lambda: not ledger.away and not ledger._waiting)
            with closing(RedisLedger(RedisStore(url))) as kept:
                assert kept.today("carol").requests >= 1
            assert ledger.monitor is not None and ledger.monitor.seen >= 2, "nothing that was seen is lost"


def test_hosts_learn_one_profile_and_watch_one_alarm(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "ENOUGH", 10)
    script = Script(answer=lambda _, seed: f"The answer is {seed % 3 // 2}.")
    with hosts(url, script, planless=True) as rigs:
        for number in range(14):
            body = {"model": "m", "messages": QUESTION, "seed": 3 * number}
            assert rigs[number % 2].post(body).status_code == 200
        until(lambda: all(rig.monitor is not None for rig in rigs))
        assert rigs[0].post({"model": "m", "messages": QUESTION, "seed": 0}).status_code == 200
        until(lambda: {rig.monitor and rig.monitor.seen for rig in rigs} == {5}, 20)
    with hosts(url, script, n=1, planless=True) as (later,):
        until(lambda: later.monitor is not None and later.monitor.seen == 5, 20)


def test_a_plan_s_alarm_counts_the_requests_of_all_hosts_once(url: str) -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    with hosts(url, script, n=3, plan=make_plan()) as rigs:
        for number in range(9):
            assert rigs[number % 3].post().status_code == 200
        until(lambda: {rig.monitor and rig.monitor.seen for rig in rigs} == {9}, 20)


def test_an_answer_of_redis_that_never_comes_is_waited_for_once() -> None:
    asked = 0

    def hang(_: object) -> None:
        nonlocal asked
        asked += 1
        raise TimeoutError

    store = RedisStore("redis://127.0.0.1:9/0")
    for _ in range(20):
        with pytest.raises(LedgerError, match="cannot be reached"):
            store.ask("transaction", hang)
    assert asked == 1, "the others do not wait for it"
