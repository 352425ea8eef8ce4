"""Answers that take long to read hold up neither their request nor any other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from fault_server import Script
from gateway_rig import Rig, make_plan
from keff.answers.parts import workers
from keff.gateway.vote import threads
from keff.gateway.vote.extraction import Reader, reader_of
from keff.gateway.vote.threads import AnswerReading, ReadingThreads

Serve = Callable[..., Rig]
HARD = [r"((x+i)^{50}+1)^{50}", r"9^{9^{9^{9}}}", r"\prod_{n=1}^{9^9} (x+n)", r"((a+b+c+d)^{40}+1)^{30}"]


@pytest.fixture(autouse=True)
def two_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has a process that reads mathematics: two of them are as easily all busy as four."""
    monkeypatch.setattr(threads, "THREADS", 2)
    if not workers.available():
        pytest.skip("mathematics is read with the extra: pip install 'keff[math]'")


def math_plan(policy: str = "fixed:4") -> object:
    return make_plan(policy, space="math", task={"name": "math500", "options": {"name": "math500"}})


def choice(answer: str) -> dict[str, object]:
    return {"message": {"content": rf"The final answer is $\boxed{{{answer}}}$."}, "finish_reason": "stop"}


@pytest.mark.slow
def test_hard_expressions_of_one_client_stall_no_other(serve: Serve) -> None:
    def says(messages: list[dict[str, str]], seed: int) -> str:
        hard = "hard" in messages[-1]["content"]
        answer = HARD[seed % len(HARD)] + str(seed) if hard else r"\frac{2x}{4}"
        return rf"The final answer is $\boxed{{{answer}}}$."

    rig = serve(Script(answer=says), plan=math_plan())
    easy = {"messages": [{"role": "user", "content": "easy"}], "seed": 0}
    assert rig.post(easy).json()["keff"]["votes"] == {r"\frac{x}{2}": 4}

    def ask_hard(seed: int) -> None:
        reply = rig.post({"messages": [{"role": "user", "content": "hard"}], "seed": seed})
        assert reply.status_code == 200
        assert reply.json()["keff"]["paths"] == 4

    asking = [threading.Thread(target=ask_hard, args=(seed,)) for seed in (0, 100)]
    for asker in asking:
        asker.start()
    between = 0
    while all(asker.is_alive() for asker in asking):
        assert rig.post(easy).json()["keff"]["votes"] == {r"\frac{x}{2}": 4}
        between += 1
        time.sleep(0.02)
    for asker in asking:
        asker.join()
    assert between > 5, "answered before the first of the hard ones: none waited for one"


@pytest.mark.slow
def test_what_cannot_be_read_in_time_votes_as_it_is_written_and_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "ANSWER_SECONDS", 0.3)
    reader, pool = reader_of(math_plan()), ReadingThreads()  # type: ignore[arg-type]
    pool.warm(reader)

    async def read() -> str | None:
        return (await AnswerReading(reader, pool).read(choice(HARD[0]))).key

    assert asyncio.run(read()) == HARD[0]
    pool._threads.shutdown(wait=True)
    assert asyncio.run(read()) == HARD[0], "known by now: no thread is needed, and this one is closed"


@pytest.mark.slow
def test_numbers_and_known_forms_need_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine the first form may take longer than a request waits, and would not be known then.
    monkeypatch.setattr(threads, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(threads, "REQUEST_SECONDS", 60.0)
    reader, pool = reader_of(math_plan()), ReadingThreads()  # type: ignore[arg-type]
    pool.warm(reader)

    async def keys() -> None:
        known = await AnswerReading(reader, pool).read(choice("x+x"))
        monkeypatch.setattr(ReadingThreads, "run", lambda *_: pytest.fail("it went to a thread"))
        for answer, key in (("x+x", known.key), (r"\frac{1}{2}", "0.5"), ("0.50", "0.5")):
            assert (await AnswerReading(reader, pool).read(choice(answer))).key == key

    asyncio.run(keys())
    pool.close()


def test_a_request_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is slow; the request ends when its time is up, and the rest votes as it is written."""
    monkeypatch.setattr(threads, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(workers.POOL, "ask", lambda text, _: time.sleep(0.2) or [f"form {text}", 0.2])
    reader: Reader = reader_of(math_plan())  # type: ignore[arg-type]
    pool = ReadingThreads()

    async def read() -> list[str | None]:
        at = AnswerReading(reader, pool)
        seen = await asyncio.gather(*(at.read(choice(f"y^{{{n}}}+z_{{99}}")) for n in range(30)))
        return [one.key for one in seen]

    keys = asyncio.run(read())
    assert 1 <= sum(str(key).startswith("form") for key in keys) < 30
    assert None not in keys
    pool.close()
    workers.sought.cache_clear()
