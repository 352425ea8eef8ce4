"""What paths that are cancelled cost: streamed by rules that may cancel, and counted until then."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from app_rig import until
from fault_server import Script, never, running
from gateway_rig import QUESTION, Options, gateway
from keff.protocol.assembler import Assembler
from keff.sampling.cost import Price
from raw_server import answer, http, raw_server

RULE = "curtailed:cap=4,in_flight=4,order=arrival"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
WORDS = ["So", " the", " final", " answer", " is", " 7", "."]


def event(**more: Any) -> bytes:
    chunk = {"id": "x", "created": 1, "model": "stub", "object": "chat.completion.chunk", "choices": []}
    return b"data: " + json.dumps(chunk | more).encode() + b"\n\n"


def word(text: str, finish: str | None = None, reply: str = "x") -> bytes:
    return event(id=reply, choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish}])


def streams(cut_after: int, go_on: threading.Event) -> Any:
    """Return a server whose fourth path says so many words and then waits; then the others are said whole."""
    begun = threading.Event()

    def give(number: int, body: dict[str, Any]) -> Iterator[bytes]:
        assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
        yield HEAD
        if number == 3:
            yield from (word("so ") for _ in range(cut_after))
            begun.set()
            go_on.wait(30)
            return
        begun.wait(30)
        reply = f"x{number}"
        yield from (word(text, reply=reply) for text in WORDS)
        yield word("", "stop", reply)
        yield event(id=reply, usage={"prompt_tokens": 11, "completion_tokens": len(WORDS)})
        yield b"data: [DONE]\n\n"

    return give


@pytest.mark.parametrize(("billed", "cut_tokens"), [("stops", 11 + 5), ("whole", 11 + 7)])
def test_a_cancelled_path_costs_its_prompt_and_what_it_had_said(billed: Any, cut_tokens: int) -> None:
    price, go_on = Price(prompt=1e6, output=1e6, cancelled=billed), threading.Event()
    options = Options(prices={"": price}, now="4")
    with (
        raw_server(streams(5, go_on)) as url,
        gateway(url, planless=True, policy=RULE, options=options) as rig,
    ):
        reply = rig.post({"model": "m", "messages": QUESTION}).json()
        go_on.set()
        told = reply["keff"]
        assert (told["answer"], told["paths"], told["cancelled"]) == ("7", 3, 1)
        assert told["cost"]["cancelled"] == {"tokens": cut_tokens, "dollars": cut_tokens}
        assert told["cost"]["dollars"] == 3 * 18 + cut_tokens
        assert reply["choices"][0]["message"]["content"] == "".join(WORDS)
        assert (reply["id"][0], reply["model"], reply["object"]) == ("x", "stub", "chat.completion")
        assert rig.metric("keff_cancelled_tokens_total") == cut_tokens
        page = rig.url.removesuffix("/v1") + "/keff"
        told = httpx2.get(page, headers={"accept": "application/json"}).json()
        # The three that came are the short ones: what four cost today is not known from them.
        assert told["change"]["tokens"] is None and told["saved"] is None
        assert told["calls"] == {"started": 4, "finished": 3, "cancelled": 1, "after_replies": 0}
        assert told["tokens"]["billed"] == 3 * 18 + cut_tokens
        assert told["tokens"]["of_cancelled_calls"] == cut_tokens


@pytest.mark.parametrize("rule", ["lead_k:2,cap=4", "lead_k:2,cap=4,in_flight=4,order=arrival"])
def test_the_page_says_what_the_server_billed_with_requests_drawn_whole(rule: str) -> None:
    """Of 24 requests that stop at two paths nearly all are drawn on to the four of today."""
    lengths, lock = list[int](), threading.Lock()

    def give(number: int, body: dict[str, Any]) -> list[bytes]:
        with lock:
            lengths.append(5 + number * 7 % 11)
            usage = {"prompt_tokens": 9, "completion_tokens": lengths[-1]}
        if body.get("stream"):
            pieces = [word("The answer is 7.", reply=f"x{number}"), word("", "stop", f"x{number}")]
            return [HEAD, *pieces, event(id=f"x{number}", usage=usage), b"data: [DONE]\n\n"]
        return http(json.dumps(answer() | {"usage": usage}).encode())

    options = Options(now="4", shadow_budget=1.0, shadow_paths=4)
    with raw_server(give) as url, gateway(url, planless=True, policy=rule, options=options) as rig:
        for number in range(24):
            rig.post({"model": "m", "messages": [{"role": "user", "content": f"What is {number} + 1?"}]})
        page = rig.url.removesuffix("/v1") + "/keff"

        def shown() -> Any:
            return httpx2.get(page, headers={"accept": "application/json"}).json()

        until(lambda: not rig.service.shadows.running and shown()["calls"]["started"] == len(lengths))
        told = shown()
    bill = sum(lengths) + 9 * len(lengths)
    # What a call cost that was cancelled before its usage came, the server alone knows.
    unknown = told["calls"]["cancelled"] * (9 + max(lengths))
    assert bill - unknown <= told["tokens"]["billed"] <= bill
    assert told["calls"]["cancelled"] <= 3
    saved = 1 - bill / (24 * 4 * bill / len(lengths))
    assert told["saved"]["value"] == pytest.approx(saved, abs=0.01 + unknown / bill)
    assert "requests drawn whole" in told["saved"]["method"]


def test_a_stream_that_broke_is_no_part_of_the_one_from_another_server() -> None:
    text = "so the answer is 7."
    broken, whole = (Script(fault=fault, answer=lambda *_: text) for fault in (lambda *_: "truncated", never))
    with ExitStack() as stack:
        first, second = (stack.enter_context(running(script)) for script in (broken, whole))
        rig = stack.enter_context(gateway(first, planless=True, policy=RULE, more=(second,)))
        for _ in range(2):  # the servers take turns
            reply = rig.post({"model": "m", "messages": QUESTION}).json()
            assert reply["choices"][0]["message"]["content"] == text
            assert reply["usage"]["completion_tokens"] == 5 * (3 + reply["keff"]["unused"])
    assert broken.requests


def test_a_voted_stream_without_usage_is_counted_by_its_events() -> None:
    def give(*_: Any) -> Iterator[bytes]:
        yield HEAD
        yield from map(word, WORDS)
        yield word("", "stop")

    with raw_server(give) as url, gateway(url, planless=True, policy="fixed:2,in_flight=2") as rig:
        reply = rig.post({"model": "m", "messages": QUESTION}).json()
    assert reply["usage"]["completion_tokens"] == 2 * len(WORDS)


def test_a_server_that_does_not_stream_is_asked_as_by_other_rules() -> None:
    def give(_: int, body: dict[str, Any]) -> list[bytes]:
        if "stream_options" in body:
            return http(b'{"error": {"message": "stream_options is unknown"}}', status=400)
        return http(json.dumps(answer()).encode())

    with raw_server(give) as url, gateway(url, planless=True, policy=RULE) as rig:
        told = rig.post({"model": "m", "messages": QUESTION}).json()["keff"]
        assert told["answer"] == "7" and {*rig.service.upstream.whole} == {"m"}


def test_rules_that_cancel_nothing_do_not_stream() -> None:
    script = Script(answer=lambda *_: "The answer is 7.")
    with running(script) as url, gateway(url) as rig:
        assert rig.post().status_code == 200
    assert not any(body.get("stream") for body in script.requests)


def test_a_client_that_leaves_pays_for_what_was_said() -> None:
    go_on = threading.Event()
    with raw_server(streams(5, go_on)) as url, gateway(url, planless=True, policy=RULE) as rig:
        with pytest.raises(Exception, match="timed out"):
            rig.client(timeout=0.5, max_retries=0).chat.completions.create(
                model="m",
                messages=QUESTION,  # type: ignore[arg-type]
                extra_body={"keff": {"policy": "fixed:4,in_flight=4"}},
            )
        until(lambda: rig.service.in_flight == 0)
        assert rig.metric("keff_tokens_total") == 3 * 18 + 16
        go_on.set()


def test_tool_calls_are_put_together_from_their_pieces() -> None:
    parts = Assembler()
    for place, name, piece in ((0, "f", '{"a":'), (1, "g", "{}"), (0, "", " 1}")):
        named = {"id": name, "type": "function"} if name else {}
        call = {"index": place, **named, "function": {"name": name, "arguments": piece}}
        parts.take({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    parts.take({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    message: Any = parts.response()["choices"][0]["message"]  # type: ignore[index]
    calls = [(call["id"], *call["function"].values()) for call in message["tool_calls"]]
    assert calls == [("f", "f", '{"a": 1}'), ("g", "g", "{}")]
    assert message["role"] == "assistant" and message["content"] is None


def test_a_stream_says_what_the_whole_reply_would_have_said() -> None:
    """Typed clients want a role, and no log-probabilities or error where there are none."""
    parts = Assembler()
    for delta in ({"role": "assistant", "content": ""}, {"content": "4"}, {"role": None, "content": "2"}):
        parts.take({"id": "x", "choices": [{"index": 0, "delta": delta, "logprobs": None}]})
    ended: Any = {"index": 0, "delta": {"annotations": [{"type": "url"}]}, "finish_reason": "stop"}
    parts.take({"choices": [ended]})
    message = {"role": "assistant", "content": "42", "annotations": [{"type": "url"}]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    assert parts.response() == {"id": "x", "choices": [choice], "usage": None}
