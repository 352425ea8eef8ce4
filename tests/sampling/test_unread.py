"""An answer that could not be read is no vote and no abstention: votes, pilots and analyses say how many.

Workers that read mathematics are really lost: each ends as if the system had no memory for it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import keff
from command_line import keff as command
from keff.answers.parts import workers
from keff.policy import Stop, View, decided, parse_policy, tally, undecided
from raw_server import http, raw_server

needs_parser = pytest.mark.skipif(
    not workers.available(), reason="reads with the extra: pip install 'keff[math]'"
)


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process can be started: there is no memory for one."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    for pool in (workers.POOL, workers.SLOW_POOL):
        pool.close()
    monkeypatch.setattr(subprocess, "Popen", refuse)
    yield
    workers.sought.cache_clear()


def replies(*answers: str) -> Any:
    def reply(number: int, _: Any) -> list[bytes]:
        message = {"role": "assistant", "content": rf"\boxed{{{answers[number % len(answers)]}}}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return http(json.dumps({"id": f"c{number}", "choices": [choice]}).encode())

    return reply


@needs_parser
@pytest.mark.usefixtures("no_worker")
@pytest.mark.parametrize(("sure", "lost"), [(2, 3), (3, 2), (5, 1)])
def test_self_consistency_counts_what_it_could_not_read(sure: int, lost: int) -> None:
    answers = ["7"] * sure + [f"(x+{900 + sure})^2"] * lost

    async def work(url: str) -> Any:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            policy = f"fixed:{sure + lost}"
            return await keff.self_consistency(client, "?", policy=policy, space="math", model="m")

    with raw_server(replies(*answers)) as url:
        found = asyncio.run(work(url)).verdict
    assert (found.answer, found.unread, found.abstentions) == ("7", lost, 0)
    assert found.undecided == (lost >= sure)


@needs_parser
@pytest.mark.usefixtures("no_worker")
def test_a_pilot_and_its_analysis_say_what_could_not_be_read(tmp_path: Path) -> None:
    """Every other answer is unread: a warning says how many, and scoring again reads them."""
    rows = [{"id": f"q{i}", "question": f"{i}?", "answer": "7"} for i in range(12)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with raw_server(replies("7", "(x+31)^2")) as url:
        done = command(
            *("sample", tmp_path / "own.jsonl", "--run", tmp_path / "run", "--k", 4, "--model", "m"),
            *("--base-url", url, "--answer-space", "math", "--yes", "--keep-going"),
        )
    assert done.returncode == 0, done.stderr
    said = command("analyze", tmp_path / "run")
    assert "reading 24 of the answers" in said.stdout + said.stderr
    with sqlite3.connect(tmp_path / "run" / "paths.sqlite") as database:
        (unread,) = database.execute("select count(*) from scores where rule = 'unread'").fetchone()
    assert unread == 24


RULES = ("lead_k:3,cap=9", "fixed:5", "lead_k:2,cap=9,wave=3", "esc:3,cap=9", "lead_k:2,cap=8,wave=3+2")


@pytest.mark.parametrize("spec", RULES)
@pytest.mark.parametrize("seed", range(40))
def test_no_vote_looks_sure_that_unread_answers_could_turn(spec: str, seed: int) -> None:
    """By enumeration: whatever one answer the unread paths hold, it would not have changed a sure vote."""
    rng, policy = random.Random(seed), parse_policy(spec)
    stream = rng.choices(["1", "2", "3", None, "?"], [4, 3, 1, 1, 2], k=policy.cap)
    n = 0
    while True:
        seen = stream[:n]
        keys = [None if key == "?" else key for key in seen]
        decision = decided(policy, View(keys, unread=seen.count("?")))
        if isinstance(decision, Stop):
            break
        n = min(n + decision.m, policy.cap)
    unread, counted = seen.count("?"), tally(keys)
    # A rule in waves that drew on past its stop answers by all that was read.
    assert not unread or counted.v1 == counted.counts[decision.answer or ""]
    if not unread or undecided(keys, unread, decision.answer):
        return
    for other in ("1", "2", "3", "new"):
        held = tally([other if key == "?" else key for key in seen])
        assert held.leader == decision.answer
        assert held.v1 > held.v2


@pytest.mark.parametrize("spec", ["lead_k:2,cap=6,weight=confidence", "fixed:4,weight=confidence"])
def test_of_a_weighted_vote_one_unread_answer_may_turn_it(spec: str) -> None:
    policy = parse_policy(spec)
    keys = ["1", "1", "1", None, "1", "1"][: policy.cap]
    decision = decided(policy, View(keys, [0.5] * len(keys), unread=1))
    assert isinstance(decision, Stop)
    assert undecided(keys, 1, decision.answer, weighted=True)
    early = decided(policy, View([*keys[:3], None], [0.5] * 4, unread=1))
    assert policy.cap == 4 or not isinstance(early, Stop)


def test_a_rule_in_waves_answers_by_what_was_drawn_past_its_stop() -> None:
    """Three to one after two waves, with two unread: the next wave turns it."""
    policy = parse_policy("lead_k:2,cap=9,wave=3")
    keys = ["1", "1", "2", "1", None, None, "2", "2", "2"]
    assert not isinstance(decided(policy, View(keys[:6], unread=2)), Stop)
    last = decided(policy, View(keys, unread=2))
    assert isinstance(last, Stop)
    assert (last.answer, last.weight) == ("2", 4 / 7)
