"""Runs against servers whose answers are odd, dripping, huge or refused: no session ends for one of them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fault_server import Script, running
from keff import plugins
from keff.cli._sampling import report
from keff.errors import EngineError, UsageError
from keff.reading.open import open_record
from keff.records import Sampling
from keff.sampling.job import Job, execute
from keff.sampling.sampler import REFUSED_QUESTIONS, Order, Progress
from keff.sampling.store import DATABASE, Run
from raw_server import answer, given, http, raw_server

pytestmark = pytest.mark.filterwarnings("ignore:the server gives no log-probabilities")


def job(folder: Path, url: str, n: int = 4, k: int = 2, **options: Any) -> Job:
    file = folder / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(n))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = plugins.load("task", "jsonl", data=str(file), answer_space="numeric")
    given_options = {"n_per_request": 1, "max_retries": 0, "model": "stub"} | options
    engine = plugins.load("engine", "openai", base_url=url, **given_options)
    return Job(task, engine, folder / "run", Order(Sampling(max_tokens=16), k, backoff=0.001))


def draw(one: Job) -> Progress:
    return asyncio.run(execute(one))


def rows(folder: Path, columns: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "run" / DATABASE)) as database:
        return database.execute(f"select {columns} from paths order by item, path, attempt").fetchall()


def first_then(odd: Callable[[], Any]) -> Callable[[int, dict[str, Any]], Any]:
    """Answer the first request oddly and all others well."""
    return lambda number, _: odd() if number == 0 else given()


MESSAGE = {"role": "assistant", "content": "The final answer is 7"}
DEEP = b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def choice(**more: Any) -> dict[str, Any]:
    return {"index": 0, "message": MESSAGE, "finish_reason": "stop"} | more


def logprobs(*values: Any) -> dict[str, Any]:
    return {"content": [{"token": "x", "logprob": value} for value in values]}


READ_ALL_THE_SAME = {
    "usage a text": {"usage": "many"},
    "usage a list": {"usage": [1, 2]},
    "counts as texts": {"usage": {"prompt_tokens": "7", "completion_tokens": "5"}},
    "counts with a fraction": {"usage": {"prompt_tokens": 7.5, "completion_tokens": 5.5}},
    "counts without end": {"usage": {"prompt_tokens": 10**30, "completion_tokens": 10**30}},
    "negative counts": {"usage": {"prompt_tokens": -7, "completion_tokens": -5}},
    "counts NaN": {"usage": {"prompt_tokens": float("nan"), "completion_tokens": float("inf")}},
    "details a list": {"usage": {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": [1]}},
    "a refusal that is an object": {"choices": [choice(message=MESSAGE | {"refusal": {"why": "\ud83d"}})]},
    "half a surrogate pair": {"choices": [choice(message=MESSAGE | {"content": "It is \ud83d 7"})]},
    "content of parts": {"choices": [choice(message={"content": [{"text": 7}, {"text": "It is 7"}, 3]})]},
    "log-probabilities of -1e308": {"choices": [choice(logprobs=logprobs(-1e308, -1e308, -0.1))]},
    "a log-probability of 10^400": {"choices": [choice(logprobs=logprobs(10**400, -0.5, True, None, "x"))]},
    "a finish reason that is an object": {"choices": [choice(finish_reason={"x": 1})]},
}


@pytest.mark.parametrize("logprob", [False, True])
def test_odd_answers_are_read_and_stored_and_absurd_counts_are_not_summed(
    tmp_path: Path, logprob: bool
) -> None:
    cases = list(READ_ALL_THE_SAME.values())
    with raw_server(lambda number, _: given(**cases[number])) as url:
        progress = draw(job(tmp_path, url, len(cases), 1, logprobs=logprob))
    assert (progress.done, progress.failed) == (len(cases), 0)
    assert all(0 <= tokens <= 10 for (tokens,) in rows(tmp_path, "tokens"))
    assert {prompt for (prompt,) in rows(tmp_path, "prompt_tokens")} == {0, 7}
    assert progress.estimated == 7
    with Run.open(tmp_path / "run") as run:
        assert run.count()["paths"] == len(cases)
        assert all(path.completion.text is not None for item in run.items() for path in run.kept(item.id))


def test_the_log_probability_of_the_answer_is_kept_where_the_server_gives_tokens(tmp_path: Path) -> None:
    def entries(*tokens: Any) -> dict[str, Any]:
        return {"content": [{"token": each, "logprob": -at} for at, each in enumerate(tokens)]}

    whole, bare = entries("The final", " answer", " is", " 7"), entries("The final", " answer", 5, " 7")
    with raw_server(lambda number, _: given(choices=[choice(logprobs=bare if number else whole)])) as url:
        draw(job(tmp_path, url, 1, 2, logprobs=True))
    kept = open_record(tmp_path / "run").ballot.votes
    assert kept.confidences is not None
    np.testing.assert_array_equal(kept.named["logprob_answer"], [[-3.0, -3.0]])
    with closing(sqlite3.connect(tmp_path / "run" / DATABASE)) as database:
        assert database.execute("select version from confidences").fetchall() == [("logprob_answer",)] * 2


UNREADABLE: dict[str, Callable[[], Any]] = {
    "deep JSON": lambda: http(DEEP),
    "deep JSON in an error": lambda: http(DEEP, 500),
    "half a surrogate pair in an error": lambda: http(b'{"error": {"message": "no \\ud83d luck"}}', 500),
    "an error in disguise": lambda: http(b'{"error": {"message": {"x": "\\ud83d"}, "code": []}}'),
    "no object": lambda: http(b"[]"),
    "choices that are numbers": lambda: given(choices=[1, 2]),
    "an index that is a list": lambda: given(choices=[choice(index=[0])]),
    "a number of 5,000 digits": lambda: http(b'{"choices": ' + b"9" * 5000 + b"}"),
    "no UTF-8": lambda: http(b'"\xff\xfe"'),
    "an unknown encoding": lambda: http(b"{}", content_encoding="br"),
    "gzip that is none": lambda: http(b"{}", content_encoding="gzip"),
    "gzip that is cut": lambda: http(
        gzip.compress(json.dumps(answer()).encode())[:-9], content_encoding="gzip"
    ),
    "a wrong length": lambda: http(b"{}", content_length="9000"),
    "an answer that is no HTTP": lambda: [b"what?\r\n\r\n"],
}


def test_an_answer_that_cannot_be_read_is_a_failed_attempt_with_its_row(tmp_path: Path) -> None:
    """Each question's first answer is of one kind, its second as it should be."""
    left, seen = list(UNREADABLE.values()), set[str]()
    lock = threading.Lock()

    def give(_: int, body: dict[str, Any]) -> Any:
        with lock:
            question = body["messages"][-1]["content"]
            odd = None if question in seen else left.pop()
            seen.add(question)
        return odd() if odd else given()

    with raw_server(give) as url:
        progress = draw(job(tmp_path, url, len(UNREADABLE), 1))
    assert (progress.done, progress.failed) == (len(UNREADABLE),) * 2
    lines = [error for (error,) in rows(tmp_path, "error") if error is not None]
    assert all(line.startswith("http://127.0.0.1") and "\n" not in line for line in lines)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(
    ("kind", "encoding"),
    [("text/plain", "identity"), ("text/event-stream", "identity"), ("text/event-stream", "gzip")],
)
def test_a_stream_is_known_by_its_type_or_its_first_bytes(
    tmp_path: Path, kind: str, encoding: str, asked: bool
) -> None:
    delta = {"index": 0, "delta": {"content": "The final answer is 7"}, "finish_reason": "stop"}
    raw = b"data: " + json.dumps({"id": "x", "choices": [delta]}).encode() + b"\n\ndata: [DONE]\n\n"
    body = gzip.compress(raw) if encoding == "gzip" else raw
    with raw_server(lambda *_: http(body, content_type=kind, content_encoding=encoding)) as url:
        progress = draw(job(tmp_path, url, 2, 1, stream=asked))
    assert (progress.done, progress.failed, progress.abstained) == (2, 0, 0)


def test_the_reason_of_the_last_failure_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with raw_server(lambda *_: http(b"<html>sign in</html>")) as url:
        one = job(tmp_path, url, 1, 1)
        report(one, draw(one))
    said = " ".join(capsys.readouterr().err.split())
    assert f"6 attempts failed, the last with: {url}: the answer is not JSON, or was cut short; run" in said


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_a_gzip_bomb_is_refused_while_it_is_unpacked(tmp_path: Path, stream: bool) -> None:
    """150 MB of blanks before an answer, in 150 kB."""
    bomb = gzip.compress(b" " * 150_000_000 + json.dumps(answer()).encode(), 1)
    kind = "text/event-stream" if stream else "application/json"
    with raw_server(first_then(lambda: http(bomb, content_encoding="gzip", content_type=kind))) as url:
        progress = draw(job(tmp_path, url, stream=stream))
    assert (progress.done, progress.failed) == (8, 1)
    assert any("unpacks to more" in str(error) for (error,) in rows(tmp_path, "error"))


def test_honest_gzip_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(answer()).encode())
    with raw_server(lambda *_: http(packed, content_encoding="gzip")) as url:
        assert draw(job(tmp_path, url)).done == 8


def drip(head: list[bytes]) -> Iterator[bytes]:
    yield head[0].replace(b"content-length", b"x-was")
    for _ in itertools.count():
        time.sleep(0.02)
        yield b" "


@pytest.mark.parametrize("stream", [False, True])
def test_a_body_that_drips_for_ever_ends_at_the_deadline(tmp_path: Path, stream: bool) -> None:
    kind = "text/event-stream" if stream else "application/json"
    with raw_server(first_then(lambda: drip(http(b"", content_type=kind)))) as url:
        progress = draw(job(tmp_path, url, timeout=1.5, stream=stream))
    assert (progress.done, progress.failed) == (8, 1)
    assert any("no answer within 1.5 s" in str(error) for (error,) in rows(tmp_path, "error"))


def refuses(which: Callable[[str], bool], status: int = 400) -> Script:
    """Return a server that refuses the questions that ``which`` names."""
    return Script(fault=lambda _, body: str(status) if which(body["messages"][-1]["content"]) else None)


@pytest.mark.parametrize("status", [400, 422])
def test_a_first_question_that_is_refused_is_named_and_the_others_are_drawn(
    tmp_path: Path, status: int
) -> None:
    script = refuses(lambda text: "What is 2 +" in text, status)
    with running(script) as url:
        one = job(tmp_path, url, 6, 3)
        items = [item.id for item in one.items()]
        first = replace(one, order=replace(one.order, concurrency=1))
        script.fault = refuses(lambda text: f"What is {items[0][1:]} +" in text, status).fault
        progress = draw(first)
        assert list(progress.refused) == [items[0]]
        assert f"HTTP {status}" in progress.refused[items[0]]
        assert (progress.done, progress.failed) == (15, 1), "a refused question is asked once in a session"
        again = draw(job(tmp_path, url, 6, 3))
        assert (again.done, list(again.refused)) == (0, [items[0]])
        script.fault = lambda *_: None
        assert draw(job(tmp_path, url, 6, 3)).done == 3


def test_a_server_that_refuses_every_question_is_given_up_soon(tmp_path: Path) -> None:
    script = refuses(lambda _: True)
    with running(script) as url:
        one = job(tmp_path, url, 60, 1)
        with pytest.raises(EngineError, match=r"refused 5 different questions and answered none.*HTTP 400"):
            draw(replace(one, order=replace(one.order, concurrency=1)))
        assert len(script.requests) <= REFUSED_QUESTIONS + 1
    other = tmp_path / "other"
    other.mkdir()
    with running(refuses(lambda _: True)) as url, pytest.raises(EngineError, match="answered none"):
        draw(job(other, url, 2, 1))


@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_key_or_model_ends_the_run_at_once(tmp_path: Path, status: int) -> None:
    script = refuses(lambda _: True, status)
    with running(script) as url:
        one = job(tmp_path, url, 60, 1)
        with pytest.raises(EngineError, match=f"HTTP {status}"):
            draw(replace(one, order=replace(one.order, concurrency=1)))
    assert len(script.requests) <= 2


ELSEWHERE = http(b"", 302, location="https://elsewhere.example/v1")


def test_an_address_that_redirects_ends_the_run_at_once(tmp_path: Path) -> None:
    with (
        raw_server(lambda *_: ELSEWHERE) as url,
        pytest.raises(EngineError, match="redirects to https://else"),
    ):
        draw(job(tmp_path, url, 4, 1))


def test_one_redirect_is_a_failed_attempt_of_a_question_that_is_still_owed(tmp_path: Path) -> None:
    with raw_server(lambda number, _: ELSEWHERE if number == 2 else given()) as url:
        one = job(tmp_path, url, 4, 1)
        progress = draw(replace(one, order=replace(one.order, concurrency=1)))
        assert (progress.done, progress.failed, dict(progress.refused)) == (3, 1, {})
        again = draw(one)
    assert (again.kept, again.done) == (3, 1)


@pytest.mark.parametrize(("concurrency", "max_n"), [(2, 1), (2, 3), (5, 1)])
def test_no_more_requests_are_in_flight_than_wished_when_n_is_refused(
    tmp_path: Path, concurrency: int, max_n: int
) -> None:
    """And every answered request's prompt is counted, so that a limit on cost holds."""
    script = Script(max_n=max_n, latency=0.01)
    with running(script) as url:
        one = job(tmp_path, url, 8, 8, n_per_request="auto")
        billed = pytest.warns(UserWarning, match="bills the prompt with every path")
        with billed if max_n == 1 else contextlib.nullcontext():
            progress = draw(replace(one, order=replace(one.order, concurrency=concurrency)))
    assert progress.done == 64
    assert script.most <= concurrency
    answered = [body for body in script.requests if body.get("n", 1) <= max_n]
    assert progress.prompt_tokens == 7 * len(answered)
    assert sum(prompt for (prompt,) in rows(tmp_path, "prompt_tokens")) == 7 * len(answered)


KEY = "sk-very-secret-0123456789-abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("padding", [285, 495])
def test_a_key_is_masked_before_a_message_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, padding: int
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    said = json.dumps({"error": {"message": "x" * padding + KEY}}).encode()
    with raw_server(first_then(lambda: http(said, 500))) as url:
        draw(job(tmp_path, url, api_key_env="MY_KEY"))
    (line,) = [error for (error,) in rows(tmp_path, "error") if error is not None]
    assert KEY[:9] not in line


@pytest.mark.parametrize("end", ["\r\n", " ", "\n"])
def test_whitespace_around_a_key_is_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY + end)
    script = Script(key=KEY)
    with running(script) as url:
        assert draw(job(tmp_path, url, api_key_env="MY_KEY")).done == 8


@pytest.mark.parametrize("wrong", [f"{KEY}\r{KEY}", f"{KEY} {KEY}", f"{KEY}é", f"{KEY}\x07"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("MY_KEY", wrong)
    with pytest.raises(UsageError, match=r"\$MY_KEY") as caught:
        draw(job(tmp_path, "http://127.0.0.1:9/v1", api_key_env="MY_KEY"))
    assert "secret" not in str(caught.value)
