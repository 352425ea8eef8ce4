"""What an answer means does not depend on load: it is read as offline, or it is said that it was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import keff
from fault_server import Script
from gateway_rig import Options, Rig, make_plan
from keff.answers import space
from keff.answers.parts import workers
from keff.gateway.vote import threads

Serve = Callable[..., Rig]
HARD = (r"\int \frac{{1}}{{x^{{7}}+x+{}}} dx", r"((x+{})^{{50}}+1)^{{50}}", r"9^{{9^{{9^{{{}}}}}}}")
needs_parser = pytest.mark.skipif(
    not workers.available(), reason="reads with the extra: pip install 'keff[math]'"
)


def says(messages: list[dict[str, str]], seed: int) -> str:
    """Answer ``hard N`` with expressions that take seconds, ``new N`` with (x+N)^2 in three spellings.

    Of five answers three are right, and two are one wrong number, which is read at once.
    """
    kind, number = messages[-1]["content"].split()
    n = int(number)
    if kind == "hard":
        answer = HARD[seed % len(HARD)].format(n * 10 + seed)
    else:
        right = (f"(x+{n})^2", f"x^2+{2 * n}x+{n * n}", f"{n * n}+{2 * n}x+x^2")
        answer = (*right, "7", "7")[seed % 5]
    return rf"The final answer is $\boxed{{{answer}}}$."


def plan(policy: str) -> object:
    return make_plan(policy, space="math", task={"name": "math500", "options": {"name": "math500"}})


def ask(rig: Rig, kind: str, number: int) -> Any:
    return rig.post({"messages": [{"role": "user", "content": f"{kind} {number}"}], "seed": 0})


def is_wrong(told: Any, n: int) -> bool:
    """Return whether a vote looks sure of another answer than (x+n)^2."""
    return told["answer"] != f"x^2+{2 * n}x+{n * n}" and told["undecided_by"] is None


@pytest.fixture
def strangers() -> Iterator[Callable[[Callable[[int], object]], None]]:
    """Starts threads that ask until the test is over."""
    done, asking = threading.Event(), list[threading.Thread]()

    def start(one: Callable[[int], object]) -> None:
        def on() -> None:
            number = len(asking) * 1000
            while not done.is_set():
                number += 1
                one(number)

        asking.append(threading.Thread(target=on))
        asking[-1].start()

    yield start
    done.set()
    for asker in asking:
        asker.join()


@needs_parser
@pytest.mark.slow
def test_a_heavy_neighbour_turns_no_vote(
    serve: Serve, strangers: Callable[[Callable[[int], object]], None]
) -> None:
    space("math").key("x+1")  # the first process has started: that is not what is tested
    rig = serve(Script(answer=says), plan=plan("fixed:5"), options=Options(reading_seconds=20))
    assert ask(rig, "new", 1).json()["keff"]["votes"] == {"x^2+2x+1": 3, "7": 2}
    for _ in range(3):
        strangers(lambda number: ask(rig, "hard", number))
    time.sleep(0.5)
    for n in range(2, 8):
        told = ask(rig, "new", n).json()["keff"]
        assert not is_wrong(told, n), told
        assert told["unread"] + told["abstentions"] + sum(told["votes"].values()) == told["paths"]


@needs_parser
@pytest.mark.slow
def test_without_time_to_read_a_vote_says_so(serve: Serve) -> None:
    rig = serve(Script(answer=says), plan=plan("fixed:5"), options=Options(reading_seconds=1e-6))
    reply = ask(rig, "new", 321)
    told = reply.json()["keff"]
    assert (told["votes"], told["unread"], told["abstentions"]) == ({"7": 2}, 3, 0)
    assert told["undecided_by"] == "unread"
    assert reply.headers["x-keff-unread"] == "3"
    assert reply.headers["x-keff-undecided-by"] == "unread"
    assert rig.metric('keff_paths_total{became="unread"}') == 3
    assert rig.metric("keff_undecided_votes_total") == 1


@needs_parser
@pytest.mark.parametrize("policy", ["lead_k:2,cap=7", "lead_k:2,cap=7,in_flight=2,order=launch"])
def test_a_rule_goes_on_past_a_lead_that_unread_answers_could_turn(serve: Serve, policy: str) -> None:
    """One unread answer could turn the first lead: paths are drawn until it cannot."""

    def answers(_: object, seed: int) -> str:
        # Of its own for each rule: what was given up may be read a moment later, and is known from then on.
        return rf"\boxed{{{(f'(x+{500 + len(policy)})^2', '7', '7', '7', '7')[min(seed, 4)]}}}"

    rig = serve(Script(answer=answers), plan=plan(policy), options=Options(reading_seconds=1e-6))
    told = ask(rig, "new", 1).json()["keff"]
    assert told["answer"] == "7"
    assert (told["unread"], told["undecided_by"]) == (1, None)
    assert told["votes"]["7"] >= 2


@needs_parser
def test_strict_fails_a_vote_that_unread_answers_could_turn(serve: Serve) -> None:
    options = Options(reading_seconds=1e-6, strict=True)
    rig = serve(Script(answer=says), plan=plan("fixed:5"), options=options)
    reply = rig.post({"model": "stub", "messages": [{"role": "user", "content": "new 654"}], "seed": 0})
    assert reply.status_code == 503, reply.text
    assert reply.json()["error"]["code"] == "undecided"
    assert int(reply.headers["retry-after"]) >= 1


def children(pid: int) -> list[int]:
    said = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in said.stdout.split()]


@needs_parser
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")
def test_workers_killed_in_the_middle_turn_no_vote(serve: Serve) -> None:
    """The processes that read are killed again and again: what they read is read anew, or unread."""
    rig = serve(Script(answer=says), plan=plan("fixed:5"), options=Options(reading_seconds=20))
    ask(rig, "new", 1)
    done = threading.Event()

    def kill() -> None:
        while not done.wait(0.1):
            for worker in list(workers.POOL._idle):
                for pid in (*children(worker._process.pid), worker._process.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            for pid in children(os.getpid()):
                # One may have ended since it was listed.
                with suppress(ProcessLookupError, FileNotFoundError):
                    if b"symbolic_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(pid, signal.SIGKILL)
                        break

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for n in range(700, 703):
            told = ask(rig, "new", n).json()["keff"]
            assert not is_wrong(told, n), told
    finally:
        done.set()
        killer.join()
    told = ask(rig, "new", 710).json()["keff"]
    assert not is_wrong(told, 710), told


def test_without_the_parser_answers_vote_as_offline(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "available", lambda: False)
    monkeypatch.setattr(threads, "warm", lambda: None)
    rig = serve(Script(answer=says), plan=plan("fixed:5"), options=Options(reading_seconds=20))
    told = ask(rig, "new", 9001).json()["keff"]
    assert told["unread"] == 0
    assert told["undecided_by"] is None
    texts = [says([{"role": "user", "content": "new 9001"}], seed) for seed in range(5)]
    read = [space("math").extract(text) for text in texts]
    offline = keff.vote([None if each is None else each.answer for each in read], "math")
    assert told["answer"] == offline.answer


SLOW = {
    "sql": ("SELECT a FROM t WHERE x = {0} AND y = 2", "SELECT a FROM t WHERE y = 2 AND x = {0}"),
    "quantity": ("{0} km", "{0}000 m"),
}


@pytest.mark.parametrize("name", SLOW)
def test_every_slow_space_is_read_in_a_thread_and_within_the_requests_time(serve: Serve, name: str) -> None:
    """With time all three vote together; without, each is unread and the vote says so."""
    one, other = SLOW[name]

    def answers(messages: list[dict[str, str]], seed: int) -> str:
        n = int(messages[-1]["content"].split()[1])
        said = (one, other)[seed % 2].format(n)
        return f"```sql\n{said}\n```" if name == "sql" else f"The answer is {said}."

    served = make_plan("fixed:3", space=name, task={"name": "own", "options": {}})
    for seconds, unread in ((20.0, 0), (1e-6, 3)):
        rig = serve(Script(answer=answers), plan=served, options=Options(reading_seconds=seconds))
        told = ask(rig, "new", 5 + unread).json()["keff"]
        assert (told["unread"], sum(told["votes"].values())) == (unread, 3 - unread), told
        assert told["undecided_by"] == ("unread" if unread else None)


@needs_parser
def test_numbers_and_known_forms_wait_for_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    space("math").key("x+1")  # the first process has started: that is not what is tested
    rig = serve(Script(answer=says), plan=plan("fixed:5"), options=Options(reading_seconds=60))
    assert ask(rig, "new", 77).json()["keff"]["unread"] == 0
    monkeypatch.setattr(threads.ReadingThreads, "run", lambda *_: pytest.fail("it went to a thread"))
    assert ask(rig, "new", 77).json()["keff"]["votes"] == {"x^2+154x+5929": 3, "7": 2}
