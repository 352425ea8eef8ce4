"""Accounts that hold: what a request may draw is reserved before it draws, and what it drew is charged."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st

from app_rig import port, until
from fault_server import Script
from gateway_rig import QUESTION, Options, Rig, gateway
from how_many import examples
from keff.gateway.accounts.accounts import Account, AccountLedger, Balance, Reservation
from keff.gateway.accounts.billing import (
    UNSTATED,
    AnswerLengths,
    Billing,
    PriceList,
    ceiling,
    paths_asked,
)
from keff.gateway.http.errors import Problem
from keff.gateway.http.pass_through import Meter
from keff.sampling.cost import Price
from raw_server import answer, http, raw_server

Serve = Callable[..., Rig]
DEAR = {"dear": Price(prompt=1e6, output=1e6), "cheap": Price(prompt=1, output=1)}


def account(name: str = "carol", **limits: Any) -> Account:
    return Account(name, hashlib.sha256(name.encode()).digest(), **limits)


def bearer(name: str = "carol") -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


def balance(folder: Path, requests: int = 0) -> Balance:
    """Look from a connection of its own, as another process would, once so many requests are settled."""
    with closing(AccountLedger(folder / "s")) as ledger:
        until(lambda: ledger.today("carol").requests >= requests)
        return ledger.today("carol")


async def flood(url: str, n: int, body: dict[str, Any], path: str = "chat/completions") -> list[int]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(timeout=60, limits=limits, headers=bearer()) as client:
        replies = await asyncio.gather(*(client.post(f"{url}/{path}", json=body) for _ in range(n)))
    return [reply.status_code for reply in replies]


@pytest.mark.slow
def test_parallel_requests_go_past_a_limit_by_one_reservation_at_most(serve: Serve, tmp_path: Path) -> None:
    script = Script(answer=lambda *_: "The answer is 7.", latency=0.2)
    options = Options(accounts=(account(paths=13),))
    rig = serve(script, options=options, spend=tmp_path / "s")
    codes = asyncio.run(flood(rig.url, 90, {"messages": QUESTION, "keff": {"k": 6}}))
    assert codes.count(200) == 3 and codes.count(429) == 87
    assert len(script.requests) == 18 < 13 + 6
    assert balance(tmp_path, 3) == Balance(3, 18, 0.0)


@pytest.mark.slow
def test_many_processes_reserve_at_one_limit(tmp_path: Path) -> None:
    """Threads with a loop and a connection each, as workers have: one transaction decides."""
    who = account(paths=100, dollars=50.0)

    async def work() -> int:
        billing, admitted = Billing(ledger=AccountLedger(tmp_path / "s")), 0
        for _ in range(5):
            asked = (billing.hold(who, 7, 0.5) for _ in range(4))
            for held in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(held, Reservation) or getattr(held, "code", "") == "key_limit_reserved"
                admitted += isinstance(held, Reservation)
        await billing.close()
        return admitted

    with ThreadPoolExecutor(8) as threads:
        admitted = sum(threads.map(lambda _: asyncio.run(work()), range(8)))
    assert admitted == 15, "14 reservations of 7 paths are below 100, and one more passes it"
    assert balance(tmp_path).held_paths == 105


def test_what_ended_is_entered_before_anybody_is_refused_for_it_and_soon_in_any_case(tmp_path: Path) -> None:
    said: list[str] = []

    async def work() -> None:
        ledger, who = AccountLedger(tmp_path / "s"), account(paths=10)
        billing = Billing(ledger=ledger)
        held = await billing.hold(who, 9, 0.0)
        assert held is not None
        ledger._db.set_trace_callback(lambda statement: said.append(statement[0]))
        billing.settle(held, 1, 0.0)
        gone = asyncio.ensure_future(billing.hold(who, 2, 0.0))
        asked = [asyncio.ensure_future(billing.hold(who, 4, 0.0)) for _ in range(4)]
        gone.cancel()
        told = await asyncio.gather(*asked, return_exceptions=True)
        reserved = [isinstance(each, Reservation) for each in told]
        assert reserved == [True, True, True, False], "1 + 4 + 4 is below 10, and 4 more pass it"
        assert isinstance(told[0], Reservation)
        said.append("-")
        billing.settle(told[0], 4, 0.0)
        await billing.close()

    asyncio.run(work())
    # First letters of BEGIN, INSERT, SELECT and COMMIT.
    assert "".join(said) == "I" + ("IS" + "BIC" + "I") + "I" + "IS" + "-" + "BIC"
    assert balance(tmp_path) == Balance(2, 5, 0.0, 8, 0.0), "who left before it asked holds nothing"


def test_what_cannot_be_committed_admits_nobody(tmp_path: Path) -> None:
    async def work() -> None:
        billing, who = Billing(ledger=AccountLedger(tmp_path / "s")), account(paths=10)
        held = await billing.hold(who, 3, 0.0)
        with closing(sqlite3.connect(tmp_path / "s", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            billing.settle(held, 1, 0.0)  # type: ignore[arg-type]
            refused = await asyncio.gather(*(billing.hold(who, 1, 0.0) for _ in "ab"), return_exceptions=True)
        assert [getattr(each, "code", "") for each in refused] == ["account_unavailable"] * 2
        assert (await billing.hold(who, 4, 0.0)).paths == 4  # type: ignore[union-attr]
        await billing.close()

    asyncio.run(work())
    assert balance(tmp_path) == Balance(0, 0, 0.0, 7, 0.0), "what was not entered stays reserved"


def test_what_was_not_drawn_is_given_back(serve: Serve, tmp_path: Path) -> None:
    rig = serve(
        Script(answer=lambda *_: "The answer is 7."),
        options=Options(accounts=(account(paths=20),)),
        spend=tmp_path / "s",
    )
    for request in (1, 2, 3):
        assert rig.post(headers=bearer()).status_code == 200, "32 may be drawn, and 3 are"
        assert balance(tmp_path, request) == Balance(request, 3 * request, 0.0)


def test_the_rest_in_flight_is_no_limit_reached(tmp_path: Path) -> None:
    who = account(paths=10)
    with closing(AccountLedger(tmp_path / "s")) as ledger:
        held, refused = ledger.reserve(who, 32, 0.0), ledger.reserve(who, 1, 0.0)
        assert isinstance(held, Reservation) and isinstance(refused, Problem)
        assert "reserved what is left" in str(refused) and refused.headers == {"retry-after": "1"}
        ledger.settle(held, 2, 0.0)
        assert isinstance(ledger.reserve(who, 1, 0.0), Reservation)


COMPLETION = {
    "model": "dear",
    "choices": [{"text": "a"}] * 5,
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


def test_passed_bodies_are_charged_by_their_answers_and_the_model_that_answered(tmp_path: Path) -> None:
    options = Options(accounts=(account(paths=9, dollars=1e9),), prices=DEAR)
    reply = json.dumps(COMPLETION).encode()
    with (
        raw_server(lambda *_: http(reply)) as url,
        gateway(url, planless=True, options=options, spend=tmp_path / "s") as rig,
    ):
        body = {"model": "cheap", "prompt": ["x", "y"], "n": 7, "max_tokens": 4}
        for _ in range(2):
            assert httpx2.post(f"{rig.url}/completions", json=body, headers=bearer()).status_code == 200
        assert balance(tmp_path, 2) == Balance(2, 10, 10.0), "5 choices, 5 tokens at its price"
        over_limit = httpx2.post(f"{rig.url}/completions", json=body, headers=bearer())
        assert (over_limit.status_code, over_limit.json()["error"]["code"]) == (429, "key_limit_reached")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("responses", {"model": "cheap", "input": "x", "background": True}),
        ("responses", {"model": "cheap", "input": "x", "conversation": "conv_1"}),
        ("audio/speech", {"model": "cheap", "input": "x"}),
    ],
)
def test_an_answer_that_states_no_cost_is_charged_at_the_most_it_may(
    path: str, body: dict[str, Any], tmp_path: Path
) -> None:
    queued = b'{"id": "resp_1", "status": "queued", "output": []}'
    options = Options(accounts=(account(dollars=0.001),), prices=DEAR)
    with (
        raw_server(lambda *_: http(queued)) as url,
        gateway(url, planless=True, options=options, spend=tmp_path / "s") as rig,
    ):
        assert httpx2.post(f"{rig.url}/{path}", json=body, headers=bearer()).status_code == 200
        assert balance(tmp_path, 1).dollars >= 16_384 / 1e6
        assert httpx2.post(f"{rig.url}/{path}", json=body, headers=bearer()).status_code == 429


def test_a_vote_whose_server_states_no_usage_is_charged_at_the_most_it_may(
    serve: Serve, tmp_path: Path
) -> None:
    """A server that counts nothing would make every limit in dollars endless."""
    options = Options(accounts=(account(dollars=0.001),), prices={"": Price(prompt=1, output=1)})
    rig = serve(Script(fault=lambda *_: "no_usage"), options=options, spend=tmp_path / "s")
    assert rig.post(headers=bearer()).status_code == 200
    told = balance(tmp_path, 1)
    assert told.paths == 3 and told.dollars >= 3 * 64 / 1e6
    service = rig.service.billing
    assert service.lengths.usual(("carol", "stub")) == UNSTATED, "nothing was told of how long answers are"


def test_a_key_limited_in_dollars_is_refused_what_has_no_price(tmp_path: Path) -> None:
    options = Options(accounts=(account(dollars=5.0), account("dave", paths=50)), prices=DEAR)
    with (
        raw_server(lambda *_: http(json.dumps(answer()).encode())) as url,
        gateway(url, planless=True, options=options, spend=tmp_path / "s") as rig,
    ):
        for path, body in (
            ("chat/completions", {"model": "other", "messages": QUESTION}),
            ("embeddings", {"model": "other", "input": "x"}),
            ("batches", {"input_file_id": "file-1"}),
        ):
            refused = httpx2.post(f"{rig.url}/{path}", json=body, headers=bearer())
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_price"), path
            assert httpx2.post(f"{rig.url}/{path}", json=body, headers=bearer("dave")).status_code == 200
        priced = {"model": "cheap-2026-01-01", "messages": QUESTION, "max_tokens": 99}
        assert rig.post(priced, headers=bearer()).status_code == 200
        assert httpx2.get(f"{rig.url}/files", headers=bearer()).status_code == 200, "a look costs nothing"


def send(rig: Rig, path: str, body: dict[str, Any]) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port(rig)))
    raw = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n"
    head += "authorization: Bearer carol\r\n"
    client.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(raw) + raw)
    return client


def test_a_vote_that_is_left_counts_every_path_that_was_launched(serve: Serve, tmp_path: Path) -> None:
    script = Script(fault=lambda *_: "hang")
    options = Options(accounts=(account(paths=100, dollars=1e9),), prices={"": Price(prompt=0, output=1e6)})
    rig = serve(script, options=options, spend=tmp_path / "s")
    for left in range(1, 4):
        with send(rig, "chat/completions", {"messages": QUESTION, "max_tokens": 11, "keff": {"k": 5}}):
            until(lambda n=5 * left: len(script.requests) == n)  # type: ignore[misc]
        assert balance(tmp_path, left) == Balance(left, 5 * left, 5 * left * 11.0)


@pytest.mark.parametrize("path", ["completions", "Chat/Completions"])
def test_a_body_that_is_read_and_hung_up_on_counts(path: str, tmp_path: Path) -> None:
    options, body = Options(accounts=(account(paths=3),)), {"model": "x", "messages": QUESTION}
    whole = http(json.dumps(answer()).encode(), **({} if "C" in path else {"content_length": "9999"}))
    with (
        raw_server(lambda *_: whole) as url,
        gateway(url, planless=True, options=options, spend=tmp_path / "s") as rig,
    ):
        for left in range(3):
            with send(rig, path, body | {"keff": {"k": 1}}) as client:
                client.recv(99)
            assert balance(tmp_path, left + 1).paths == left + 1
        assert httpx2.get(f"{rig.url}/files", headers=bearer()).status_code == 429


def test_a_stream_that_is_left_is_charged_for_its_prompt_and_its_events(tmp_path: Path) -> None:
    def give(*_: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        for word in range(400):
            yield b'data: {"choices": [{"delta": {"content": "%d"}}]}\n\n' % word
            time.sleep(0.02)

    options = Options(accounts=(account(dollars=1e9),), prices={"": Price(prompt=1e6, output=1e6)})
    prompt = [{"role": "user", "content": "z" * 3000}]
    with raw_server(give) as url, gateway(url, planless=True, options=options, spend=tmp_path / "s") as rig:
        for path in ("chat/completions", "completions"):
            before = balance(tmp_path)
            body = {"messages": prompt, "stream": True, "max_tokens": 500}
            with send(rig, path, body | {"keff": {"k": 1}} if path != "completions" else body) as client:
                while b"data" not in client.recv(999):
                    pass
            after = balance(tmp_path, before.requests + 1)
            assert 3000 < after.dollars - before.dollars < 3000 + 600
            assert after.held_dollars == 0


@settings(max_examples=examples(60), deadline=None)
@over(
    st.lists(
        st.tuples(st.integers(1, 40), st.floats(0, 1), st.floats(0, 1), st.integers(0, 3)),
        max_size=40,
    ),
    st.integers(1, 60),
)
def test_any_order_of_reserving_and_settling_keeps_the_limit(
    steps: list[tuple[int, float, float, int]], limit: int
) -> None:
    """Against a model in Python: held and spent paths, and never more than one reservation past the limit."""
    ledger, who = AccountLedger(Path(":memory:")), account(paths=limit)
    flying: list[Any] = []
    spent = 0
    for paths, share, dollars, finish in steps:
        held = sum(each.paths for each in flying)
        told = ledger.reserve(who, paths, dollars)
        assert isinstance(told, Reservation) == (spent + held < limit)
        flying += [told] if isinstance(told, Reservation) else []
        for _ in range(min(finish, len(flying))):
            done = flying.pop(0)
            drawn = int(done.paths * share)
            ledger.settle(done, drawn, done.dollars * share)
            spent += drawn
        now = ledger.today("carol")
        assert (now.paths, now.held_paths) == (spent, sum(each.paths for each in flying))
        assert now.held_dollars == pytest.approx(sum(each.dollars for each in flying), abs=1e-9)
        assert spent < limit + 40
    ledger.close()


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, 1),
        ({"n": 100}, 100),
        ({"n": "64"}, 64),
        ({"n": 2, "best_of": 9, "prompt": ["a", "b", "c"]}, 27),
        ({"prompt": [1, 2, 3], "n": 4.0}, 4),
        ({"prompt": [[1], [2]]}, 2),
        ({"n": -5}, 1),
        ({"n": 10**40}, 1),
        ({"n": 10**12}, 10**6),
        ({"n": True}, 1),
    ],
)
def test_how_many_answers_a_body_asks_for(body: dict[str, Any], paths: int) -> None:
    assert paths_asked(body) == paths


def tokens_of(body: dict[str, Any], raw: bytes, *usual: int) -> tuple[float, float]:
    """Return the tokens of prompt and answer that a path has at the most: at a dollar each."""
    most = ceiling(body, raw, Price(prompt=1e6, output=1e6), 0.0, *usual)
    return most.prompt, most.path - most.prompt


def test_a_ceiling_holds_whatever_a_body_states() -> None:
    assert tokens_of({"max_tokens": 9, "max_completion_tokens": 70}, b"12345") == (5, 70)
    assert tokens_of({"max_tokens": -1}, b"12345") == (5, UNSTATED)
    named = b'{"messages": [{"content": [{"type": "input_file", "file_id" : "f"}]}]}'
    assert tokens_of({}, named)[0] > 100_000
    assert tokens_of({}, b'{"content": "what is a file_id?"}')[0] < 100
    price = Price(prompt=1e6, output=2e6, path=0.5, second=0.25)
    assert ceiling({"max_tokens": 3}, b"12", price, 4.0).path == 2 + 6 + 0.5 + 1


def test_prices_are_those_of_the_model_that_answered() -> None:
    prices = PriceList({"a": Price(prompt=1), "a-big": Price(prompt=2)})
    assert prices.of("a-big-2026", "a") == Price(prompt=2)
    assert prices.of("/models/x.gguf", "a") == Price(prompt=1)
    assert prices.of("b", None, 3) is None and not PriceList({})


MESSAGE = [
    b'event: message_start\ndata: {"type": "message_start", "message": {"model": "m", "usage": '
    b'{"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 1}}}\n\n',
    b'event: content_block_delta\ndata: {"delta": {"text": "hi"}}\n\n',
    b'event: message_delta\ndata: {"usage": {"output_tokens": 9}}\n\n',
]


def test_usage_is_found_in_streams_of_other_protocols() -> None:
    meter = Meter("text/event-stream")
    for part in MESSAGE:
        meter.feed(part)
    assert (meter.usage, meter.model) == (
        {"prompt_tokens": 25, "cache_read_input_tokens": 20, "completion_tokens": 9},
        "m",
    )
    left = Meter("text/event-stream")
    left.feed(MESSAGE[1])
    assert (left.usage, left.deltas) == ({}, 1)


def test_without_a_stated_length_what_is_usual_for_the_key_and_model_is_reserved() -> None:
    lengths, who = AnswerLengths(), ("carol", "stub")
    for _ in range(99):
        lengths.note(who, 100, 1)
    assert lengths.usual(who) == UNSTATED, "99 answers do not tell what 99% of them take"
    lengths.note(who, 9000, 1)
    assert lengths.usual(who) == 256, "twice the power of two above 100: one answer in 100 is longer"
    lengths.note(who, 18_000, 2)
    assert lengths.usual(who) == UNSTATED, "by now more than 1% are"
    assert lengths.usual(("dave", "stub")) == UNSTATED
    body = {"messages": QUESTION}
    assert tokens_of(body, b"x", 256) == (1, 256)
    assert tokens_of({**body, "max_tokens": 7}, b"x", 256) == (1, 7)


@pytest.mark.slow
def test_a_key_in_dollars_serves_requests_side_by_side_once_their_lengths_are_known(
    serve: Serve, tmp_path: Path
) -> None:
    """A limit of a hundredth of what 32 answers of 16,384 tokens cost, and answers of some 10 tokens."""
    price = {"": Price(prompt=0, output=1)}
    options = Options(accounts=(account(dollars=0.005),), prices=price)
    rig = serve(
        Script(answer=lambda *_: "The answer is 7.", latency=0.05),
        planless=True,
        options=options,
        spend=tmp_path / "s",
    )
    body = {"model": "stub", "messages": QUESTION}
    codes = asyncio.run(flood(rig.url, 6, body))
    assert codes.count(200) == 1, "the first reserves more than the whole limit"
    assert sum(map(sum, rig.service.billing.lengths._seen.values())) == 3, "its three answers are noted"
    rig.service.billing.lengths.note(("carol", "stub"), 10 * 97, 97)
    assert set(asyncio.run(flood(rig.url, 4, body))) == {200}
    assert balance(tmp_path, 5).held_dollars == pytest.approx(0)
