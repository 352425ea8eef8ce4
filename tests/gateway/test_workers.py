"""Several processes on one port: one keeps the ledger for all, and all drain when they are told to."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app_rig import until
from fault_server import Script, running
from gateway_rig import PROFILE, QUESTION
from keff.gateway.traffic.ledger import DrawnOn, LedgerEntry, OwnLedger, RemoteLedger, Voted
from keff.gateway.traffic.metrics import Metrics
from keff.gateway.traffic.monitor import Monitor, StateFile
from keff.gateway.traffic.savings import Baseline, GatewayChange, Spent
from keff.gateway.traffic.traffic import Traffic
from keff.gateway.vote.request_policy import policy_of_plan
from keff.plan import Plan


def profiled() -> OwnLedger:
    policy = policy_of_plan("lead_k:3")
    monitor = Monitor(Plan(policy="lead_k:3", estimates={}, profile=PROFILE), policy)
    return OwnLedger(
        policy=policy, monitor=monitor, traffic=Traffic(change=GatewayChange(Baseline("fixed:32", 32)))
    )


def test_notes_mean_the_same_after_the_journey() -> None:
    rng = random.Random(3)
    here, there = profiled(), profiled()
    notes: list[LedgerEntry] = []
    for at in range(200):
        keys = tuple(rng.choice(("a", "b", "c", None)) for _ in range(rng.choice((3, 3, 5))))
        notes += [
            Voted(keys, "numeric", rng.choice(("policy", "free_text", "deadline")), at % 3, at % 5 > 0, at),
            Spent(
                0.1 * at,
                None if at % 2 else 0.01,
                at,
                at_once=None if at % 3 else 0.2,
                stop="policy",
                at=at + 0.5,
            ),
            DrawnOn(keys * 3, at + 0.7),
        ]
    for note in notes:
        here.take(note)
    for note in pickle.loads(pickle.dumps(notes)):
        there.take(note)
    mine, theirs = here.traffic.summary(), there.traffic.summary()
    assert {**mine, "since": 0} == {**theirs, "since": 0}
    assert here.traffic.others() == there.traffic.others()
    assert here.monitor is not None
    assert there.monitor is not None
    assert here.monitor.gauges() == there.monitor.gauges()


def test_no_answer_is_in_what_a_worker_sends() -> None:
    ledger = RemoteLedger()
    ledger.take(Voted(("a secret", None, "b", "a secret"), "text", "policy", 0, True))
    ledger.take(DrawnOn(("a secret",)))
    assert b"secret" not in pickle.dumps(ledger.notes)
    assert isinstance(voted := ledger.notes[0], Voted) and voted.keys == ("1", None, "2", "1")


def test_the_numbers_of_two_processes_add_up() -> None:
    one, two, both = Metrics(), Metrics(), Metrics()
    for metrics, times in ((one, 3), (two, 4)):
        for _ in range(times):
            metrics.count("keff_requests_total", status="200")
            metrics.observe("keff_request_paths", times)
            both.count("keff_requests_total", status="200")
            both.observe("keff_request_paths", times)
    total = Metrics()
    for metrics in (one, two):
        total.add(pickle.loads(pickle.dumps(metrics)))
    assert vars(total) == vars(both)


@dataclass
class Crew:
    """A running gateway of several processes."""

    process: subprocess.Popen[str]
    url: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    reading: threading.Thread | None = None

    def ask(self) -> httpx2.Response:
        """Ask on a connection of its own."""
        return httpx2.post(
            f"{self.url}/chat/completions", json={"model": "stub", "messages": QUESTION}, timeout=90
        )

    def page(self, path: str) -> httpx2.Response:
        return httpx2.get(
            self.url.removesuffix("/v1") + path, headers={"accept": "application/json"}, timeout=90
        )

    def numbers(self, name: str) -> float:
        text = httpx2.get(self.url.removesuffix("/v1") + "/metrics").text
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def workers(self) -> list[int]:
        """Return the processes that serve."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = [child for task in tasks for child in task.read_text().split()]
        found: list[int] = []
        for pid in children:
            with suppress(OSError):  # it may end while it is looked at
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
        return found


@contextmanager
def crew(*arguments: object) -> Iterator[Crew]:
    command = [sys.executable, "-m", "keff", "serve", "--port", "0", "--workers", "2"]
    process = subprocess.Popen([*command, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    made = Crew(process, json.loads(process.stderr.readline())["url"])

    def read() -> None:
        assert process.stderr is not None
        made.lines.extend(json.loads(line) for line in process.stderr)

    made.reading = threading.Thread(target=read)
    made.reading.start()
    try:
        yield made
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        made.reading.join(10)
        process.stderr.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
def test_two_workers_share_a_port_and_their_books(tmp_path: Path) -> None:
    state = tmp_path / "drift.sqlite"
    script = Script(answer=lambda *_: "The answer is 7.")
    with running(script) as url, crew("--upstream", url, "--state", state) as gateway:
        pids = gateway.workers()
        assert len(pids) == 2
        for _ in range(24):
            assert gateway.ask().json()["keff"]["answer"] == "7"
        until(lambda: gateway.numbers('keff_requests_total{status="200"}') == 24)
        assert gateway.numbers("keff_workers") == 2
        assert gateway.page("/keff").json()["requests"] == 24
        assert gateway.page("/keff/plan").status_code == 409
        taken = gateway.url.removesuffix("/v1").rpartition(":")[2]
        for more in (["--port", taken, "--workers", "2"], ["--port", "0", "--state", str(state)]):
            second = subprocess.run(
                [sys.executable, "-m", "keff", "serve", "--upstream", url, *more],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert second.returncode != 0
            assert len(second.stderr.strip().splitlines()) == 1
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: bool(set(gateway.workers()) - set(pids)))
        (successor,) = set(gateway.workers()) - set(pids)
        os.kill(successor, signal.SIGSTOP)
        # However long the next one takes to start: nothing waits for it.
        assert [gateway.ask().status_code for _ in range(8)] == [200] * 8
        os.kill(successor, signal.SIGCONT)
        until(lambda: gateway.numbers("keff_workers") == 2)
        assert [gateway.ask().status_code for _ in range(8)] == [200] * 8
        until(lambda: gateway.numbers('keff_requests_total{status="200"}') == 40)
        script.latency = 1.5
        script.open = 0
        replies: list[int] = []
        asking = [
            threading.Thread(target=lambda: replies.append(gateway.ask().status_code)) for _ in range(6)
        ]
        for thread in asking:
            thread.start()
        until(lambda: script.open >= 6)
        gateway.process.send_signal(signal.SIGTERM)
        for thread in asking:
            thread.join(20)
        assert replies == [200] * 6
        assert gateway.process.wait(60) == 0
    assert gateway.reading is not None
    assert [line["code"] for line in gateway.lines if line["event"] == "worker ended"] == [-9]
    assert sum(line["event"] == "request" for line in gateway.lines) == 46
    StateFile(state).close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
def test_workers_that_are_left_alone_end() -> None:
    with crew("--upstream", "http://127.0.0.1:9") as gateway:
        pids = gateway.workers()
        gateway.process.kill()
        gateway.process.wait(60)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_port_is_shared_only_with_its_own(tmp_path: Path) -> None:
    from keff.errors import RunError
    from keff.gateway.server import listeners

    del tmp_path
    with listeners("127.0.0.1", 0, 3) as sockets:
        ports = {listener.getsockname()[1] for listener in sockets}
        assert len(ports) == 1
        for n in (1, 2):
            with pytest.raises(RunError, match="cannot listen"), listeners("127.0.0.1", *ports, n):
                pass
        with socket.create_connection(("127.0.0.1", *ports)):
            pass
